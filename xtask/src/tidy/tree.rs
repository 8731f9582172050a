//! The repository as text: sources scanned once, manifests parsed once; never its git history.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::Source;

/// Directories that are no part of the product's text.
const SKIPPED: [&str; 4] = ["target", ".git", "node_modules", "dist"];
/// Endings of files that are read.
const READ: [&str; 9] = ["rs", "toml", "md", "lock", "yml", "yaml", "sh", "json", "txt"];
/// Larger files are data, not text that somebody wrote.
const LARGEST: u64 = 1 << 20;

/// The files of a repository.
#[derive(Debug, Default)]
pub struct Tree {
    names: BTreeSet<String>,
    texts: BTreeMap<String, String>,
    sources: Vec<Source>,
    manifests: BTreeMap<String, toml::Table>,
}

impl Tree {
    /// Reads everything below `root`.
    pub fn read(root: &Path) -> std::io::Result<Self> {
        let (mut names, mut texts) = (BTreeSet::new(), BTreeMap::new());
        read_directory(root, "", &mut names, &mut texts)?;
        Ok(Self { names, ..Self::of(texts) })
    }

    /// A tree of given files, by path.
    pub fn of(texts: BTreeMap<String, String>) -> Self {
        let with_ending =
            |ending: &'static str| texts.iter().filter(move |(path, _)| path.ends_with(ending));
        let sources = with_ending(".rs").map(|(path, text)| Source::scan(path, text)).collect();
        // A manifest that is not TOML stops cargo before it reaches this check.
        let manifests = with_ending("Cargo.toml")
            .filter_map(|(path, text)| Some((path.clone(), text.parse().ok()?)))
            .collect();
        let names = texts.keys().cloned().collect();
        Self { names, texts, sources, manifests }
    }

    /// Whether there is such a file, or a directory that holds one; also of those that are not read.
    pub fn holds(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let below = format!("{path}/");
        self.names.contains(path)
            || self.names.range(below.clone()..).next().is_some_and(|name| name.starts_with(&below))
    }

    /// A file's text.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// All files with their texts.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// All Rust files.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The Rust files below a directory.
    pub fn sources_in<'a>(&'a self, directory: &'a str) -> impl Iterator<Item = &'a Source> {
        self.sources.iter().filter(move |source| source.path.starts_with(directory))
    }

    /// A parsed `Cargo.toml`.
    pub fn manifest(&self, path: &str) -> Option<&toml::Table> {
        self.manifests.get(path)
    }

    /// All parsed `Cargo.toml` files.
    pub fn manifests(&self) -> impl Iterator<Item = (&str, &toml::Table)> {
        self.manifests.iter().map(|(path, table)| (path.as_str(), table))
    }

    /// The line of a file that holds `needle`, or 1.
    pub fn line_of(&self, path: &str, needle: &str) -> usize {
        self.text(path)
            .and_then(|text| text.lines().position(|line| line.contains(needle)))
            .map_or(1, |index| index + 1)
    }
}

fn read_directory(
    directory: &Path,
    prefix: &str,
    names: &mut BTreeSet<String>,
    texts: &mut BTreeMap<String, String>,
) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                read_directory(&entry.path(), &path, names, texts)?;
            }
        } else if kind.is_file() {
            if is_text(&path, &name)
                && entry.metadata()?.len() <= LARGEST
                // What is not UTF-8 is data.
                && let Ok(text) = fs::read_to_string(entry.path())
            {
                texts.insert(path.clone(), text);
            }
            names.insert(path);
        }
    }
    Ok(())
}

fn is_text(path: &str, name: &str) -> bool {
    name == ".gitignore"
        || path == ".ci/run"
        || name.rsplit_once('.').is_some_and(|(_, ending)| READ.contains(&ending))
}
