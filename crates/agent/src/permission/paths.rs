//! Patterns of paths, and paths as a command names them; it opens nothing and follows no link.

use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder, escape};

use super::words::{HOME, Word};

/// Where relative paths and the home directory are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) root: PathBuf,
    pub(super) home: Option<PathBuf>,
}

impl Places {
    /// A path as a person or a command writes it, in full; `.`, `..` and doubled slashes are taken
    /// out, links are not followed.
    pub(super) fn full(&self, text: &str) -> Option<PathBuf> {
        let path = match text.strip_prefix(HOME) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                self.home.as_ref()?.join(rest.trim_start_matches('/'))
            }
            Some(_) | None => self.root.join(text),
        };
        Some(lexical(&path))
    }
}

/// A path without what changes nothing in it.
pub(super) fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

/// A pattern of paths: `src/**`, `./secrets`, `~/.ssh/**`, `/etc/passwd`, `*.pem`.
#[derive(Clone, Debug)]
pub(super) struct PathPattern {
    set: GlobSet,
    /// What stands before its first wildcard, in full, and after its last.
    begin: String,
    end: String,
}

impl PathPattern {
    /// Reads a pattern. One without a slash fits at any depth; one that names a directory fits all
    /// that is in it. With `fold` it fits whatever the case.
    pub(super) fn new(text: &str, places: &Places, fold: bool) -> Result<Self, String> {
        let root = escape(&places.root.to_string_lossy());
        let root = root.trim_end_matches('/');
        let text = text.trim();
        let bare = text.trim_end_matches('/');
        let full = if let Some(rest) = text.strip_prefix("~/").or((text == "~").then_some("")) {
            let home = places.home.as_ref().ok_or("there is no home directory")?;
            format!("{}/{rest}", escape(&home.to_string_lossy()))
        } else if text.starts_with('/') {
            format!("/{}", text.trim_start_matches('/'))
        } else if !bare.contains('/') && !bare.is_empty() && bare != "." && bare != "**" {
            format!("{root}/**/{bare}")
        } else {
            let rest = text.trim_start_matches("./").trim_start_matches('.');
            if rest.is_empty() {
                root.to_owned()
            } else {
                format!("{root}/{}", text.trim_start_matches("./"))
            }
        };
        let mut full = full.replace("//", "/");
        while full.len() > 1 && full.ends_with('/') {
            full.pop();
        }
        if full.split('/').any(|part| part == "..") {
            return Err("a pattern of paths does not go up by ..".to_owned());
        }
        let glob = |text: &str| {
            GlobBuilder::new(text)
                .literal_separator(true)
                .backslash_escape(true)
                .case_insensitive(fold)
                .build()
                .map_err(|error| error.kind().to_string())
        };
        let mut set = GlobSetBuilder::new();
        set.add(glob(&full)?);
        set.add(glob(&format!("{}/**", full.trim_end_matches('/')))?);
        if let Some(directory) = full.strip_suffix("/**").filter(|_| fold) {
            // Who may not have what is in a directory may not have the directory.
            set.add(glob(directory)?);
        }
        let set = set.build().map_err(|error| error.kind().to_string())?;
        let wild = |c: char| matches!(c, '*' | '?' | '[' | '{' | '\\');
        let begin = full.split(wild).next().unwrap_or_default().to_lowercase();
        let end = full.rsplit(wild).next().unwrap_or_default().to_lowercase();
        Ok(Self { set, begin, end })
    }

    /// Whether it fits a full path.
    pub(super) fn fits(&self, path: &Path) -> bool {
        self.set.is_match(path)
    }

    /// Whether it may fit a file that a word with wildcards stands for.
    fn may_fit(&self, wild: &str) -> bool {
        let split = |c: char| matches!(c, '*' | '?' | '[');
        let (wild, folded) = (wild.to_lowercase(), &self.begin);
        let begin = wild.split(split).next().unwrap_or_default();
        let end = wild.rsplit(split).next().unwrap_or_default().trim_start_matches(']');
        let begins = folded.starts_with(begin) || begin.starts_with(folded.as_str());
        let fixed_end = !self.end.is_empty() && self.end != *folded;
        let ends = !fixed_end || end.ends_with(&self.end) || self.end.ends_with(end);
        begins && ends
    }
}

/// Whether a pattern fits what a word of a command names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    No,
    /// It depends on what is computed.
    Maybe,
    Yes,
}

impl PathPattern {
    /// Whether it fits a file that a word names, or one of those that an option in it names.
    pub(super) fn fits_word(&self, word: &Word, places: &Places) -> Fit {
        let Some(text) = word.text() else { return Fit::No };
        let mut fit = Fit::No;
        for candidate in candidates(text) {
            let Some(full) = places.full(candidate) else { continue };
            if word.is_wild() {
                if self.may_fit(&full.to_string_lossy()) {
                    fit = fit.max(Fit::Maybe);
                }
            } else if self.fits(&full) {
                return Fit::Yes;
            }
        }
        fit
    }
}

/// The paths that a word may name: itself, the value of an option, a file after `@`.
pub(super) fn candidates(text: &str) -> Vec<&str> {
    let mut all = vec![text];
    if let Some((_, value)) = text.split_once('=') {
        all.push(value);
    }
    if let Some((_, value)) = text.split_once('@') {
        all.push(value);
    }
    if text.starts_with('-') && !text.starts_with("--") {
        all.extend(text.char_indices().nth(2).map(|(at, _)| &text[at..]));
    }
    all.retain(|text| !text.is_empty() && text.len() < 4_096);
    all
}
