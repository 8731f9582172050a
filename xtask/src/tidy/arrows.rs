//! Who may use whom: reads the manifests, never the build.

use super::house::{TESTKIT, TESTKIT_BINARIES_USE};
use super::{CRATES, Law, Member, Tree, Violation};

/// The crates that `core` may use at run time.
const CORE_MAY_USE: [&str; 7] = [
    "litemap",
    "serde",
    "serde_json",
    "serde_json_canonicalizer",
    "sha2",
    "thiserror",
    "unicode-security",
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, manifest) in tree.manifests() {
        if !manifest.contains_key("package") {
            continue;
        }
        match CRATES.iter().find(|member| member.manifest() == path) {
            Some(member) => check_member(tree, member, manifest, &mut found),
            None => found.push(Violation::new(
                Law::Arrows,
                path,
                1,
                "no such crate in the house: put the code into a crate of ARCHITECTURE.md, or \
                 add the crate there and in xtask/src/tidy/house.rs",
            )),
        }
    }
    for member in &CRATES {
        let path = member.manifest();
        if tree.manifest(&path).is_none() {
            found.push(Violation::new(
                Law::StaleList,
                &path,
                1,
                "the table in xtask/src/tidy/house.rs names this crate, and it does not exist",
            ));
        }
    }
    let only_binaries = TESTKIT_BINARIES_USE.replace('-', "_");
    for source in tree.sources_in("crates/testkit/src/") {
        if !source.path.starts_with("crates/testkit/src/bin/") {
            found.extend(source.lines_with(&only_binaries).map(|line| {
                let instead = "only testkit's binaries drive the runtime: runtime's own tests use \
                               this library";
                Violation::new(Law::Arrows, &source.path, line, instead)
            }));
        }
    }
    found
}

fn check_member(tree: &Tree, member: &Member, manifest: &toml::Table, found: &mut Vec<Violation>) {
    let path = member.manifest();
    for (kind, name) in dependencies(manifest) {
        let ours = name == "xtask" || CRATES.iter().any(|c| c.package == name);
        let allowed = member.may_use.contains(&name.as_str())
            || (kind == Kind::Dev && name == TESTKIT && member.package != "aion-core")
            || (member.package == TESTKIT && name == TESTKIT_BINARIES_USE);
        let line = tree.line_of(&path, &name);
        if ours && !allowed {
            let instead = if name == TESTKIT {
                "testkit is for tests: move it to [dev-dependencies]".to_owned()
            } else {
                format!(
                    "{} may not use {name}; it may use {}",
                    member.package,
                    if member.may_use.is_empty() {
                        "nothing of ours".to_owned()
                    } else {
                        member.may_use.join(", ")
                    }
                )
            };
            found.push(Violation::new(Law::Arrows, &path, line, instead));
        }
        let foreign = member.package == "aion-core" && kind != Kind::Dev && !ours;
        if foreign && !CORE_MAY_USE.contains(&name.as_str()) {
            found.push(Violation::new(
                Law::CoreManifest,
                &path,
                line,
                format!(
                    "core may use only {}; put {name} on a higher floor",
                    CORE_MAY_USE.join(", ")
                ),
            ));
        }
    }
}

/// What a dependency is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The product.
    Normal,
    /// Its tests.
    Dev,
    /// Its build script.
    Build,
}

/// All dependencies of a package by the name of their package, those for one platform included.
pub(super) fn dependencies(manifest: &toml::Table) -> Vec<(Kind, String)> {
    let mut all = Vec::new();
    let mut tables = vec![manifest];
    if let Some(targets) = manifest.get("target").and_then(toml::Value::as_table) {
        tables.extend(targets.values().filter_map(toml::Value::as_table));
    }
    for table in tables {
        for (key, kind) in [
            ("dependencies", Kind::Normal),
            ("dev-dependencies", Kind::Dev),
            ("build-dependencies", Kind::Build),
        ] {
            let Some(entries) = table.get(key).and_then(toml::Value::as_table) else {
                continue;
            };
            for (name, value) in entries {
                let package = value.get("package").and_then(toml::Value::as_str);
                all.push((kind, package.unwrap_or(name).to_owned()));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_no_circle() {
        for (index, member) in CRATES.iter().enumerate() {
            for used in member.may_use {
                let below = CRATES[..index].iter().any(|c| c.package == *used);
                assert!(below, "{} uses {used}, which does not stand below it", member.package);
            }
        }
    }
}
