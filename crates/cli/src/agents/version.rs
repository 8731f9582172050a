//! The versions of programs: from files beside them, else from the programs themselves, each asked
//! once for as long as its file stays as it is; nobody waits for one who does not answer.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aion_agent::leash::{self, LeashConfig, LeashedCommand};
use serde::Deserialize;
use tokio::io::AsyncReadExt;

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most that is heard of it.
const HEARD: u64 = 4096;
/// The largest file that names a version.
const FILE_BYTES: u64 = 1024 * 1024;
/// How far above a program its package may lie.
const ABOVE: usize = 6;

/// What tells that a file is the one that was asked.
type Stamp = (u64, i64, i64, u64);

/// What programs said of themselves.
#[derive(Debug, Default)]
pub(super) struct Versions {
    said: Mutex<BTreeMap<PathBuf, (Stamp, Option<String>)>>,
}

impl Versions {
    /// What a program said, if it was asked and has a version.
    pub(super) fn said(&self, program: &Path) -> Option<String> {
        self.of(program)?.1
    }

    fn of(&self, program: &Path) -> Option<(Stamp, Option<String>)> {
        let now = stamp(program)?;
        // An entry is put in whole: a poisoned lock holds valid data.
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.get(program).filter(|(then, _)| *then == now).cloned()
    }

    /// Asks a program that was not asked yet.
    pub(super) async fn ask(&self, program: &Path, path: &[PathBuf], leash: &LeashConfig) {
        let Some(now) = stamp(program).filter(|_| self.of(program).is_none()) else { return };
        let version = match tokio::time::timeout(PATIENCE, asked(program, path, leash)).await {
            Ok(Ok(text)) => version_in(&text),
            Ok(Err(_)) | Err(_) => None,
        };
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.insert(program.to_owned(), (now, version));
    }
}

fn stamp(program: &Path) -> Option<Stamp> {
    let meta = fs::metadata(program).ok()?;
    Some((meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.len()))
}

/// What a program prints with `--version`, in a home of its own that is gone afterwards.
async fn asked(program: &Path, path: &[PathBuf], leash: &LeashConfig) -> io::Result<String> {
    let home = tempfile::Builder::new().prefix("aion-version-").tempdir()?;
    let beside = program.parent().map(Path::to_owned);
    let path = beside.into_iter().chain(path.iter().cloned());
    let path = std::env::join_paths(path).map_err(io::Error::other)?;
    let environment: [(OsString, OsString); 2] =
        [("PATH".into(), path), ("HOME".into(), home.path().into())];
    let command = LeashedCommand {
        program: program.into(),
        arguments: vec!["--version".into()],
        directory: home.path().to_owned(),
        environment: environment.into(),
    };
    let mut leashed = leash::spawn(leash, command).await?;
    let mut heard = Vec::new();
    leashed.output().take(HEARD).read_to_end(&mut heard).await?;
    leashed.kill();
    leashed.wait().await?;
    Ok(String::from_utf8_lossy(&heard).into_owned())
}

/// The first version in a text: two or more numbers with dots between them.
fn version_in(text: &str) -> Option<String> {
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
    text.split(|c: char| !inside(c)).find_map(|word| {
        let word = word.strip_prefix('v').unwrap_or(word).trim_end_matches('.');
        let mut parts = word.split('.');
        let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let first = number(parts.next()?);
        let second = parts.next()?.starts_with(|c: char| c.is_ascii_digit());
        (first && second && word.len() <= 40).then(|| word.to_owned())
    })
}

/// The first number of a version.
pub(super) fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

/// The version that files beside a program name, where it comes from a package of npm or `PyPI`.
pub(super) fn beside(program: &Path, npm: Option<&str>, pypi: Option<&str>) -> Option<String> {
    let real = fs::canonicalize(program).ok()?;
    let of_npm = |package: &str| {
        let above = real.ancestors().skip(1).take(ABOVE);
        above.map(|at| at.join("package.json")).find_map(|at| named_by(&at, package))
    };
    let of_pypi = |package: &str| {
        let libraries = real.parent()?.parent()?.join("lib");
        let pythons = fs::read_dir(libraries).ok()?.flatten();
        pythons
            .map(|python| python.path().join("site-packages"))
            .find_map(|at| in_site(&at, package))
    };
    npm.and_then(of_npm).or_else(|| pypi.and_then(of_pypi))
}

/// The version that a file of npm names, if it is of that package.
pub(super) fn named_by(file: &Path, package: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Package {
        name: String,
        version: String,
    }
    let small = fs::metadata(file).ok()?.len() <= FILE_BYTES;
    let bytes = small.then(|| fs::read(file).ok())??;
    let found: Package = serde_json::from_slice(&bytes).ok()?;
    (found.name == package).then_some(found.version)
}

/// The version by which a package is installed for a Python.
fn in_site(site: &Path, package: &str) -> Option<String> {
    let begin = format!("{}-", package.replace('-', "_"));
    fs::read_dir(site).ok()?.flatten().find_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some(name.strip_prefix(&begin)?.strip_suffix(".dist-info")?.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::ground::tests::put;
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        for (text, expect) in [
            ("v22.23.5\n", Some("22.23.5")),
            ("goose 1.9.0", Some("1.9.0")),
            ("codex-cli 0.166.0-alpha.1 (linux)", Some("0.166.0-alpha.1")),
            ("2025.09.18-7ae6800", Some("2025.09.18-7ae6800")),
            ("see https://example.org.", None),
            ("no version", None),
        ] {
            assert_eq!(version_in(text).as_deref(), expect, "{text}");
        }
        assert_eq!((major("22.23.5"), major("x")), (Some(22), None));
    }

    #[test]
    fn a_package_names_the_version_of_its_program() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let package = dir.join("lib/node_modules/@a/one");
        put(&package.join("dist/cli.js"), "");
        put(&package.join("package.json"), r#"{"name": "@a/one", "version": "1.2.3"}"#);
        fs::create_dir(dir.join("bin")).unwrap();
        symlink(package.join("dist/cli.js"), dir.join("bin/one")).unwrap();
        let of = |npm, pypi| beside(&dir.join("bin/one"), npm, pypi);
        assert_eq!(of(Some("@a/one"), None).as_deref(), Some("1.2.3"));
        assert_eq!(of(Some("@a/other"), None), None);
        put(&dir.join("bin/two-acp"), "");
        fs::create_dir_all(dir.join("lib/python3.12/site-packages/two_agent-3.0.2.dist-info"))
            .unwrap();
        let two = beside(&dir.join("bin/two-acp"), None, Some("two-agent"));
        assert_eq!(two.as_deref(), Some("3.0.2"));
    }
}
