//! Which directories the person trusts: bound to the path and to what stands there; it trusts
//! nothing by itself.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use aion_core::rule::{RuleScope, RuleWord};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::config::{Paths, Written, written};
use crate::exit::Failure;
use crate::git::Repository;
use crate::replace::replace;
use crate::servers::Project;

/// What was trusted of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trusted {
    /// A commit of the repository that stood there; none where none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) commit: Option<String>,
    /// The hash of the rules that its files allowed.
    pub(crate) rules: String,
    /// The hash of the file that named its MCP servers; none where it named none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) servers: Option<String>,
}

/// The directories that are trusted, kept in a file of the data directory.
#[derive(Debug)]
pub(crate) struct Trust {
    file: PathBuf,
    /// Repositories in which a commit was found: asking git takes longer than a tool call should.
    held: Mutex<BTreeMap<(PathBuf, String), u64>>,
}

impl Trust {
    /// Of a data directory.
    pub(crate) fn of(data_dir: &Path) -> Self {
        Self { file: data_dir.join("trust.json"), held: Mutex::default() }
    }

    /// All of them.
    pub(crate) fn all(&self) -> Result<BTreeMap<PathBuf, Trusted>, Failure> {
        let text = match fs::read_to_string(&self.file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => {
                return Err(Failure::io(format!("read {}", self.file.display()), &error));
            }
        };
        serde_json::from_str(&text).map_err(|error| {
            let error = std::io::Error::from(error);
            Failure::io(format!("read {}", self.file.display()), &error)
        })
    }

    /// Trusts what stands in a directory now.
    pub(crate) fn add(&self, workspace: &Path, rules: &[Written]) -> Result<PathBuf, Failure> {
        let place = place(workspace);
        let commit = Repository::around(&place).and_then(|repository| repository.head());
        let mut all = self.all()?;
        // Servers that cannot be read were not seen, and are not trusted.
        let servers = Project::of(workspace).ok().flatten().map(|project| project.hash);
        all.insert(place.clone(), Trusted { commit, rules: hash(rules), servers });
        self.write(&all)?;
        Ok(place)
    }

    /// Trusts a directory no more; answers whether it did.
    pub(crate) fn remove(&self, workspace: &Path) -> Result<bool, Failure> {
        let mut all = self.all()?;
        let was = all.remove(&place(workspace)).is_some();
        if was {
            self.write(&all)?;
        }
        Ok(was)
    }

    fn write(&self, all: &BTreeMap<PathBuf, Trusted>) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(all).map_err(std::io::Error::from)?;
        replace(&self.file, (text + "\n").as_bytes(), 0o600)
            .map_err(|error| Failure::io(format!("write {}", self.file.display()), &error))
    }

    /// What was trusted of a workspace, where the same repository still stands there.
    fn find(&self, workspace: &Path) -> Option<Trusted> {
        let place = place(workspace);
        let trusted = self.all().ok()?.remove(&place)?;
        match &trusted.commit {
            Some(commit) if !self.holds(&place, commit) => None,
            Some(_) | None => Some(trusted),
        }
    }

    /// Whether a repository holds a commit. It is asked again when another one stands there.
    fn holds(&self, place: &Path, commit: &str) -> bool {
        let Ok(now) = fs::metadata(place.join(".git")).map(|meta| meta.ino()) else { return false };
        let key = (place.to_owned(), commit.to_owned());
        let held = |held: &Mutex<BTreeMap<(PathBuf, String), u64>>| {
            held.lock().is_ok_and(|held| held.get(&key) == Some(&now))
        };
        if held(&self.held) {
            return true;
        }
        let found = Repository::around(place).is_some_and(|repository| repository.holds(commit));
        if found && let Ok(mut held) = self.held.lock() {
            held.insert(key.clone(), now);
        }
        found
    }

    /// Whether a workspace is trusted.
    pub(crate) fn trusts(&self, workspace: &Path) -> bool {
        self.find(workspace).is_some()
    }

    /// Whether a workspace is trusted with the file that names its MCP servers, by the file's hash.
    pub(crate) fn trusts_servers(&self, workspace: &Path, hash: &str) -> bool {
        self.find(workspace).is_some_and(|trusted| trusted.servers.as_deref() == Some(hash))
    }

    /// Whether a workspace is trusted with these rules: they are those that it was trusted with.
    pub(crate) fn trusts_with(&self, workspace: &Path, rules: &[Written]) -> bool {
        self.find(workspace).is_some_and(|trusted| trusted.rules == hash(rules))
    }
}

/// The rules of a workspace's own files.
pub(crate) fn rules_of_project(workspace: &Path) -> Result<Vec<Written>, Failure> {
    let mut rules = written(&Paths::of_workspace(workspace)?)?;
    let place = place(workspace);
    rules.retain(|rule| rule.scope == RuleScope::Project && rule.file.starts_with(&place));
    Ok(rules)
}

/// The directory that is meant when a workspace is trusted: its repository's root, else itself.
pub(crate) fn place(workspace: &Path) -> PathBuf {
    let full = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
    full.ancestors().find(|at| at.join(".git").exists()).unwrap_or(&full).to_owned()
}

/// Of the rules that need trust: those that allow.
fn hash(rules: &[Written]) -> String {
    let mut digest = Sha256::new();
    for rule in rules {
        if rule.scope == RuleScope::Project && rule.word == RuleWord::Allow {
            let text = rule.rule.to_string();
            digest.update((text.len() as u64).to_le_bytes());
            digest.update(text);
        }
    }
    digest.finalize().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn git(dir: &Path, args: &[&str]) {
        let status = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"])
            .args(args)
            .current_dir(dir)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .output()
            .unwrap();
        assert!(status.status.success(), "{args:?}");
    }

    #[test]
    fn trust_is_for_a_path_and_for_what_stood_there() {
        let dir = tempfile::tempdir().unwrap();
        let trust = Trust::of(dir.path());
        let work = dir.path().join("work");
        fs::create_dir_all(work.join("deep")).unwrap();
        git(&work, &["init", "-q"]);
        git(&work, &["commit", "-q", "--allow-empty", "-m", "one"]);
        assert!(!trust.trusts(&work));
        let rule = |text: &str| Written {
            word: RuleWord::Allow,
            rule: text.parse().unwrap(),
            scope: RuleScope::Project,
            file: work.join(".aion/config.toml"),
        };
        let rules = [rule("Bash(make:*)")];
        assert_eq!(trust.add(&work, &rules).unwrap(), work.canonicalize().unwrap());
        assert!(trust.trusts(&work) && trust.trusts(&work.join("deep")));
        assert!(!trust.trusts(dir.path()));
        assert!(trust.trusts_with(&work, &rules));
        assert!(!trust.trusts_with(&work, &[rule("Bash(rm:*)")]));
        git(&work, &["commit", "-q", "--allow-empty", "-m", "two"]);
        assert!(trust.trusts(&work));
        // Another repository at the same path is another one.
        fs::rename(work.join(".git"), dir.path().join("was")).unwrap();
        git(&work, &["init", "-q"]);
        git(&work, &["commit", "-q", "--allow-empty", "-m", "other"]);
        assert!(!trust.trusts(&work));
        fs::remove_dir_all(work.join(".git")).unwrap();
        fs::rename(dir.path().join("was"), work.join(".git")).unwrap();
        assert!(trust.trusts(&work));
        assert!(trust.remove(&work).unwrap() && !trust.remove(&work).unwrap());
        assert!(!trust.trusts(&work));
    }
}
