//! Where a data directory's daemon is: the file that it leaves there; it starts and ends nobody.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use aion_agent::leash::{birth, boot_id};
use serde::{Deserialize, Serialize};

use crate::exit::Failure;

/// What a daemon says of itself in `daemon.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DaemonFile {
    /// Its process.
    pub(crate) pid: i32,
    /// When that began, in clock ticks of the machine's run `boot`.
    pub(crate) began: u64,
    /// The machine's run.
    pub(crate) boot: String,
    /// Where it listens.
    pub(crate) url: String,
    /// Its version.
    pub(crate) version: String,
    /// The data that it serves.
    pub(crate) data_dir: PathBuf,
    /// Whether a command started it by itself.
    pub(crate) on_demand: bool,
    /// When it began to serve, in milliseconds since the Unix epoch.
    pub(crate) since_ms: u64,
}

/// What is found in a data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// No daemon has left its file.
    Nobody,
    /// The daemon that left its file is gone; its process number may be another's by now.
    Gone(DaemonFile),
    /// It lives.
    There(DaemonFile),
}

impl DaemonFile {
    /// Of this process.
    pub(crate) fn of_this_process(dir: &Path, url: &str, on_demand: bool) -> Self {
        let pid = std::process::id().try_into().unwrap_or(i32::MAX);
        Self {
            pid,
            began: birth(pid).unwrap_or_default(),
            boot: boot_id(),
            url: url.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            data_dir: dir.to_owned(),
            on_demand,
            since_ms: jiff::Timestamp::now().as_millisecond().try_into().unwrap_or_default(),
        }
    }

    /// Leaves it in its data directory, whole or not at all, for the owner alone.
    pub(crate) fn leave(&self) -> Result<(), Failure> {
        let path = path(&self.data_dir);
        let fresh = path.with_extension("json.new");
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        let write = || {
            match fs::remove_file(&fresh) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            let mut file =
                fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
            file.write_all(text.as_bytes())?;
            fs::rename(&fresh, &path)
        };
        write().map_err(|error| Failure::io(format!("write {}", path.display()), &error))
    }

    /// Takes it away again.
    pub(crate) fn take_away(&self) {
        // A file that stays names a process that is gone, which everybody notices.
        if read(&self.data_dir).as_ref() == Some(self) {
            let _ = fs::remove_file(path(&self.data_dir));
        }
    }

    /// Whether its process lives: the same process, not another one with its number.
    pub(crate) fn lives(&self) -> bool {
        self.boot == boot_id() && birth(self.pid) == Some(self.began)
    }
}

/// Looks for the daemon of a data directory.
pub(crate) fn look(dir: &Path) -> Look {
    match read(dir) {
        None => Look::Nobody,
        Some(file) if file.lives() => Look::There(file),
        Some(file) => Look::Gone(file),
    }
}

fn read(dir: &Path) -> Option<DaemonFile> {
    serde_json::from_slice(&fs::read(path(dir)).ok()?).ok()
}

fn path(dir: &Path) -> PathBuf {
    dir.join("daemon.json")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_counts_as_long_as_its_very_process_lives() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(look(dir.path()), Look::Nobody);
        let ours = DaemonFile::of_this_process(dir.path(), "http://127.0.0.1:1", true);
        ours.leave().unwrap();
        assert_eq!(look(dir.path()), Look::There(ours.clone()));
        let mode = fs::metadata(path(dir.path())).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let reused = DaemonFile { began: ours.began + 1, ..ours.clone() };
        reused.leave().unwrap();
        assert_eq!(look(dir.path()), Look::Gone(reused.clone()));
        let before = DaemonFile { boot: "another run".to_owned(), ..ours.clone() };
        before.leave().unwrap();
        assert_eq!(look(dir.path()), Look::Gone(before));
        ours.take_away();
        assert!(path(dir.path()).exists(), "another's file stays");
        ours.leave().unwrap();
        ours.take_away();
        fs::write(path(dir.path()), "{").unwrap();
        assert_eq!(look(dir.path()), Look::Nobody);
    }
}
