//! Large transcript items in files named by the hash of their content; it never knows what refers
//! to them.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use aion_core::id::TeamId;

use crate::chain::sha256_hex;
use crate::error::StoreError;
use crate::sqlite::connection::{create_private_dir, sync_dir};

/// The directory of all of them, with one directory per team so that a team can be erased.
#[derive(Clone, Debug)]
pub(crate) struct Blobs {
    root: PathBuf,
}

impl Blobs {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Keeps some bytes under their hash; durable when this returns.
    pub(crate) fn keep(&self, team: &TeamId, sha256: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let fail =
            |error: io::Error| StoreError::Unavailable(format!("keep a transcript file: {error}"));
        let dir = self.dir(team);
        if !dir.is_dir() {
            create_private_dir(&dir).map_err(fail)?;
            sync_dir(&self.root).map_err(fail)?;
        }
        let file = dir.join(sha256);
        if file.metadata().is_ok_and(|found| found.len() == bytes.len() as u64) {
            // An earlier process may have died between the rename and the sync.
            return sync_dir(&dir).map_err(fail);
        }
        let unfinished = dir.join(format!("{sha256}.new"));
        let write = || {
            let mut out = fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&unfinished)?;
            out.write_all(bytes)?;
            out.sync_all()?;
            fs::rename(&unfinished, &file)?;
            sync_dir(&dir)
        };
        write().map_err(|error| {
            let _ = fs::remove_file(&unfinished);
            fail(error)
        })
    }

    /// Whether a file is there.
    pub(crate) fn has(&self, team: &TeamId, sha256: &str) -> bool {
        self.dir(team).join(sha256).is_file()
    }

    /// Reads a file back, and refuses one that is not what was kept.
    pub(crate) fn read(&self, team: &str, sha256: &str) -> Result<Vec<u8>, StoreError> {
        let path = self.root.join(team).join(sha256);
        let bytes = fs::read(&path).map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                StoreError::Corrupt(format!("the transcript file {} is gone", path.display()))
            } else {
                StoreError::Unavailable(format!("read {}: {error}", path.display()))
            }
        })?;
        if sha256_hex(&bytes) != sha256 {
            return Err(StoreError::Corrupt(format!(
                "the transcript file {} is not what was kept",
                path.display()
            )));
        }
        Ok(bytes)
    }

    /// Removes all files of a team.
    pub(crate) fn erase(&self, team: &TeamId) -> io::Result<()> {
        remove(&self.dir(team))?;
        if self.root.is_dir() { sync_dir(&self.root) } else { Ok(()) }
    }

    /// Removes what an erasure left behind when it was cut short.
    pub(crate) fn sweep(&self, mut known: impl FnMut(&str) -> bool) -> io::Result<()> {
        let entries = match fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(|name| !known(name)) {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }

    fn dir(&self, team: &TeamId) -> PathBuf {
        self.root.join(team.as_str())
    }
}

fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
