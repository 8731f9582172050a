//! Opens connections the way each thread needs them and names what went wrong; it never runs a
//! query about teams.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::error::StoreError;

/// How long a thread waits for another one that holds a lock of the database.
const BUSY: Duration = Duration::from_secs(10);

/// Where the parts of a store are.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    pub(crate) database: PathBuf,
    pub(crate) wal: PathBuf,
    pub(crate) witness: PathBuf,
    pub(crate) blobs: PathBuf,
    pub(crate) lock: PathBuf,
}

impl Paths {
    pub(crate) fn new(dir: &Path) -> Self {
        Self {
            database: dir.join("store.db"),
            wal: dir.join("store.db-wal"),
            witness: dir.join("witness"),
            blobs: dir.join("blobs"),
            lock: dir.join("lock"),
        }
    }
}

/// A connection for the writer or the checkpointer. The file exists already.
pub(crate) fn read_write(database: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(
        database,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    // A connection that finds damage must not change the files when it is closed.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.busy_timeout(BUSY)?;
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// A connection that only reads.
pub(crate) fn read_only(database: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(
        database,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

/// Says what a failed statement means for the caller: nothing was written.
pub(crate) fn failed(doing: &str, error: &rusqlite::Error) -> StoreError {
    if is_damage(error) {
        StoreError::Corrupt(format!("failed to {doing}: {error}"))
    } else {
        StoreError::Unavailable(format!("{doing}: {error}"))
    }
}

/// Whether an error means that the file is not what was written into it.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => {
            matches!(failure.code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
        }
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::Utf8Error(..)
        | rusqlite::Error::InvalidColumnType(..) => true,
        _ => false,
    }
}

/// Makes a directory that only its owner can enter, with its parents; leaves one that exists.
pub(crate) fn create_private_dir(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Makes an empty file that only its owner can read, unless it exists.
pub(crate) fn create_private(file: &Path) -> io::Result<fs::File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(file)
}

/// Makes what was created or renamed in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    fs::File::open(dir)?.sync_all()
}
