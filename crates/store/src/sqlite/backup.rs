//! Copies a store beside whoever writes it, and puts a copy in the place of a store that nobody
//! uses; it never changes what it copies.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::encode::wall_ms;
use crate::error::StoreError;
use crate::sqlite::connection::{Paths, create_private_dir, failed, read_only, sync_dir};
use crate::sqlite::lock::DirectoryLock;
use crate::sqlite::schema;
use crate::sqlite::store::SqliteStore;

/// Copies the store of a data directory, as it is at one moment, into a directory that is empty.
/// Whoever writes goes on meanwhile.
pub(super) fn back_up(dir: &Path, to: &Path) -> Result<(), StoreError> {
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
    let target = into.database.to_str().ok_or_else(|| {
        StoreError::Unavailable(format!("{} is not written in UTF-8", to.display()))
    })?;
    connection
        .execute("VACUUM INTO ?1", [target])
        .map_err(|error| failed("copy the store", &error))?;
    private_file(&into.database).map_err(io_fail)?;
    // What a log refers to is kept before it is written down: all that the copy needs is there.
    copy_tree(&from.blobs, &into.blobs).map_err(io_fail)?;
    sync_dir(to).map_err(io_fail)
}

/// Puts a copy in the place of a data directory's store, which nobody may use meanwhile. What was
/// there is kept in a directory beside it, whose path is the answer.
pub(super) fn restore(copy: &Path, dir: &Path) -> Result<Option<PathBuf>, StoreError> {
    let (from, into) = (Paths::new(copy), Paths::new(dir));
    drop(SqliteStore::open_read_only(copy)?);
    let fail = |error: io::Error| {
        StoreError::Unavailable(format!("restore the store in {}: {error}", dir.display()))
    };
    create_private_dir(dir).map_err(fail)?;
    let _alone = DirectoryLock::take(&into.lock)?;
    // First all that can fail for want of room; what is there is touched only then.
    let (database, blobs) = (dir.join("store.db.restored"), dir.join("blobs.restored"));
    remove(&database).and_then(|()| remove(&blobs)).map_err(fail)?;
    fs::copy(&from.database, &database).map_err(fail)?;
    private_file(&database).map_err(fail)?;
    copy_tree(&from.blobs, &blobs).map_err(fail)?;
    sync_dir(dir).map_err(fail)?;
    let kept = dir.join(format!("before-restore-{}", wall_ms()));
    let shm = dir.join("store.db-shm");
    let mut moved = false;
    // The witness goes first and the database last: at no point does a store stand here that has
    // lost something and does not say so.
    for part in [&into.witness, &into.blobs, &shm, &into.wal, &into.database] {
        let Some(name) = part.file_name().filter(|_| part.exists()) else { continue };
        if !moved {
            create_private_dir(&kept).map_err(fail)?;
            moved = true;
        }
        fs::rename(part, kept.join(name)).map_err(fail)?;
    }
    fs::rename(&blobs, &into.blobs).map_err(fail)?;
    fs::rename(&database, &into.database).map_err(fail)?;
    sync_dir(dir).map_err(fail)?;
    Ok(moved.then_some(kept))
}

/// Copies a directory with all that is in it; one that is not there is like one that is empty.
fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    create_private_dir(to)?;
    let entries = match fs::read_dir(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
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

fn remove(path: &Path) -> io::Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
