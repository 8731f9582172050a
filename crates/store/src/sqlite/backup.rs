//! Copies a store beside whoever writes it; it never changes what it copies.

use std::fs;
use std::io;
use std::path::Path;

use rusqlite::Connection;

use crate::error::StoreError;
use crate::sqlite::connection::{Paths, create_private_dir, failed, read_only, sync_dir};
use crate::sqlite::schema;
use crate::sqlite::store::SqliteStore;

/// Copies the store of a data directory, as it is at one moment, and then the directories `beside`
/// it, into a directory that is empty. Whoever writes goes on meanwhile.
pub(super) fn back_up(dir: &Path, to: &Path, beside: &[&str]) -> Result<(), StoreError> {
    let (from, into) = (Paths::new(dir), Paths::new(to));
    // Refuses what is damaged or newer before anything is copied.
    drop(SqliteStore::open_read_only(dir)?);
    let io_fail = |error: io::Error| {
        StoreError::Unavailable(format!("copy the store to {}: {error}", to.display()))
    };
    create_private_dir(to).map_err(io_fail)?;
    let connection =
        read_only(&from.database).map_err(|error| failed("open the store for reading", &error))?;
    schema::check_readable(&connection)?;
    copy_database(&connection, &into.database)?;
    // What a log refers to is kept before it is written down: all that the copy needs is there.
    copy_tree(&from.blobs, &into.blobs).map_err(io_fail)?;
    for tree in beside {
        copy_tree(&dir.join(tree), &to.join(tree)).map_err(io_fail)?;
    }
    sync_dir(to).map_err(io_fail)
}

/// Copies what a connection reads, with what is in its log, into a file that does not exist.
pub(super) fn copy_database(connection: &Connection, to: &Path) -> Result<(), StoreError> {
    let target = to.to_str().ok_or_else(|| {
        StoreError::Unavailable(format!("{} is not written in UTF-8", to.display()))
    })?;
    connection
        .execute("VACUUM INTO ?1", [target])
        .map_err(|error| failed("copy the store", &error))?;
    private_file(to)
        .map_err(|error| StoreError::Unavailable(format!("keep {}: {error}", to.display())))
}

/// Copies a directory with all that is in it; one that is not there is like one that is empty.
pub(super) fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    create_private_dir(to)?;
    let entries = match fs::read_dir(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let target = to.join(entry.file_name());
        // What became of a name since it was listed is told by what is there now.
        let kind = match entry.file_type() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            kind => kind?,
        };
        if kind.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else if let Err(error) = fs::copy(entry.path(), &target) {
            // A file that was just being written has its place only under its own name.
            if error.kind() != io::ErrorKind::NotFound {
                return Err(error);
            }
        } else {
            private_file(&target)?;
        }
    }
    sync_dir(to)
}

fn private_file(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    fs::File::open(path)?.sync_all()
}

/// Removes a file or a directory with all that is in it; one that is not there is removed.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
