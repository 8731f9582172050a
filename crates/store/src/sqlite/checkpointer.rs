//! Moves committed pages from the log into the database, beside the commit path; it never writes
//! anything of its own.

use std::fs;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use rusqlite::Connection;

use crate::failpoint;
use crate::sqlite::connection::{Paths, read_write};
use crate::sqlite::witness::Witness;
use crate::sqlite::writer::Checkpoint;

/// Pages in the log from which on the writer is made to wait until it is cut.
const LONG_LOG: i64 = 16 * 1024;
/// How long a checkpoint waits for readers.
const PATIENCE: Duration = Duration::from_millis(500);

/// Works until the writer is gone.
pub(crate) fn run(paths: &Paths, witness: &Arc<Witness>, wanted: &Receiver<Checkpoint>) {
    let mut connection: Option<Connection> = None;
    while let Ok(kind) = wanted.recv() {
        if connection.is_none() {
            connection = read_write(&paths.database)
                .and_then(|c| c.busy_timeout(PATIENCE).map(|()| c))
                .map_err(|error| tracing::warn!(%error, "no connection for checkpoints"))
                .ok();
        }
        let Some(open) = &connection else { continue };
        failpoint::hit("store.checkpoint");
        if let Err(error) = checkpoint(open, kind) {
            tracing::warn!(%error, "a checkpoint of the store failed; a later one goes on");
            connection = None;
            continue;
        }
        if let Ok(found) = fs::metadata(&paths.database) {
            witness.database_bytes(found.len());
        }
    }
}

fn checkpoint(connection: &Connection, kind: Checkpoint) -> rusqlite::Result<()> {
    let log = pragma(connection, "PRAGMA wal_checkpoint(PASSIVE)")?;
    if kind == Checkpoint::Truncate {
        pragma(connection, "PRAGMA wal_checkpoint(TRUNCATE)")?;
    } else if log > LONG_LOG {
        pragma(connection, "PRAGMA wal_checkpoint(RESTART)")?;
    }
    Ok(())
}

/// Runs a checkpoint and says how many pages the log has.
fn pragma(connection: &Connection, sql: &str) -> rusqlite::Result<i64> {
    connection.prepare_cached(sql)?.query_row([], |row| row.get(1))
}
