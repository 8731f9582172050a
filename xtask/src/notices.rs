//! The licences of everything that is linked into the program, as one text; judges none of them
//! (`cargo deny` does).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::dist::{PLATFORM, capture};

/// Beginnings of the names of files in which a package tells its terms.
const FILES: [&str; 6] = ["license", "licence", "copying", "copyright", "notice", "unlicense"];

/// What cargo tells about the workspace.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    repository: Option<String>,
    source: Option<String>,
    manifest_path: String,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Debug, Deserialize)]
struct DependencyKind {
    /// Absent for what is linked, `build` or `dev` for the rest.
    kind: Option<String>,
}

/// The text for the packages that `package` links on the platform of releases.
pub fn of(root: &Path, package: &str) -> Result<String> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root).args(["metadata", "--locked", "--format-version", "1"]);
    let told = capture(cargo.args(["--filter-platform", PLATFORM]))?;
    let metadata: Metadata =
        serde_json::from_slice(&told).context("what cargo tells about its packages")?;
    let linked = linked(&metadata, package);
    let mut packages: Vec<_> = metadata
        .packages
        .iter()
        .filter(|package| package.source.is_some() && linked.contains(package.id.as_str()))
        .collect();
    packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    let mut terms = Vec::new();
    for package in packages {
        terms.push((package, texts(Path::new(&package.manifest_path))?));
    }
    Ok(written(&terms))
}

/// The ids of all packages that are linked into one.
fn linked<'a>(metadata: &'a Metadata, package: &str) -> BTreeSet<&'a str> {
    let nodes: BTreeMap<_, _> =
        metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let start = metadata.packages.iter().filter(|p| p.source.is_none() && p.name == package);
    let mut open: Vec<&str> = start.map(|package| package.id.as_str()).collect();
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !found.insert(id) {
            continue;
        }
        let dependencies = nodes.get(id).into_iter().flat_map(|node| &node.deps);
        let linked = dependencies.filter(|d| d.dep_kinds.iter().any(|kind| kind.kind.is_none()));
        open.extend(linked.map(|dependency| dependency.pkg.as_str()));
    }
    found
}

/// The texts that lie beside a package's manifest, in the order of their names.
fn texts(manifest: &Path) -> Result<Vec<String>> {
    let folder = manifest.parent().unwrap_or(manifest);
    let listing = fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    let mut files = Vec::new();
    for entry in listing {
        let path = entry.with_context(|| format!("read {}", folder.display()))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if path.is_file() && FILES.iter().any(|begin| name.starts_with(begin)) {
            files.push(path);
        }
    }
    files.sort();
    let read = files.iter().map(|path| {
        let bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).replace("\r\n", "\n").trim_end().to_owned())
    });
    read.collect()
}

/// A list of the packages, then each text once with the packages that have it.
fn written(terms: &[(&Package, Vec<String>)]) -> String {
    let mut out = "aion is built with the Rust standard library (MIT OR Apache-2.0, \
                   https://github.com/rust-lang/rust) and these packages:\n\n"
        .to_owned();
    let mut owners: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (package, texts) in terms {
        let name = format!("{} {}", package.name, package.version);
        let license = package.license.as_deref().unwrap_or("see its text");
        let from = package.repository.as_deref().unwrap_or("crates.io");
        let none = if texts.is_empty() { "; its package holds no text" } else { "" };
        let _ = writeln!(out, "{name}: {license}, {from}{none}");
        for text in texts {
            owners.entry(text).or_default().push(name.clone());
        }
    }
    for (text, names) in owners {
        let line = "-".repeat(80);
        let _ = write!(out, "\n{line}\n{}\n{line}\n{text}\n", names.join(", "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, source: Option<&str>) -> Package {
        Package {
            id: name.to_owned(),
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            license: Some("MIT".to_owned()),
            repository: None,
            source: source.map(str::to_owned),
            manifest_path: String::new(),
        }
    }

    fn node(id: &str, deps: &[(&str, Option<&str>)]) -> Node {
        let deps = deps.iter().map(|(pkg, kind)| Dependency {
            pkg: (*pkg).to_owned(),
            dep_kinds: vec![DependencyKind { kind: kind.map(str::to_owned) }],
        });
        Node { id: id.to_owned(), deps: deps.collect() }
    }

    #[test]
    fn only_what_is_linked_is_named() {
        let metadata = Metadata {
            packages: vec![package("aion", None), package("a", Some("registry"))],
            resolve: Resolve {
                nodes: vec![
                    node("aion", &[("a", None), ("tests", Some("dev")), ("cc", Some("build"))]),
                    node("a", &[("b", None)]),
                    node("b", &[("a", None)]),
                ],
            },
        };
        assert_eq!(linked(&metadata, "aion").into_iter().collect::<Vec<_>>(), ["a", "aion", "b"]);
    }

    #[test]
    fn a_text_of_many_packages_is_written_once() {
        let (a, b, c) = (package("a", None), package("b", None), package("c", None));
        let terms =
            [(&a, vec!["Terms.".to_owned()]), (&b, vec!["Terms.".to_owned()]), (&c, Vec::new())];
        let line = "-".repeat(80);
        assert_eq!(
            written(&terms).split_once("packages:\n\n").unwrap().1,
            format!(
                "a 1.0.0: MIT, crates.io\nb 1.0.0: MIT, crates.io\n\
                 c 1.0.0: MIT, crates.io; its package holds no text\n\
                 \n{line}\na 1.0.0, b 1.0.0\n{line}\nTerms.\n"
            )
        );
    }
}
