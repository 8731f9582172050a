//! One writer per data directory, by a lock of the operating system; it never trusts a number in a file.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::error::StoreError;
use crate::sqlite::connection::create_private;

/// The most that is shown of a holder's command line.
const SHOWN: usize = 160;

/// Held as long as this value lives; the system lets go of it when the process dies.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Takes the lock, or names who has it.
    pub(crate) fn take(path: &Path) -> Result<Self, StoreError> {
        let fail = |error| StoreError::Unavailable(format!("lock {}: {error}", path.display()));
        let mut file = create_private(path).map_err(fail)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Locked { holder: holder(&mut file) });
            }
            Err(TryLockError::Error(error)) => return Err(fail(error)),
        }
        // The text is for people; the lock holds without it, also on a full disk.
        let _ = file
            .set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| file.write_all(own_description().as_bytes()));
        Ok(Self { _file: file })
    }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    match file.read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => text.trim().to_owned(),
        Ok(_) | Err(_) => "another process".to_owned(),
    }
}

fn own_description() -> String {
    let command: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let command: String =
        command.join(" ").chars().filter(|c| !c.is_control()).take(SHOWN).collect();
    format!("process {} ({command})\n", std::process::id())
}
