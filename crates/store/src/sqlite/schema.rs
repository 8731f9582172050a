//! The tables, their versions and the way from one version to the next; it never looks at a row.

use std::fs;
use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::error::StoreError;
use crate::sqlite::connection::{create_private, failed};
use crate::sqlite::rows::signed;

/// Marks a file as ours, in its header.
const APPLICATION_ID: i32 = 0x6169_6f6e;

/// One version of the schema: what turns the one before it into this one.
pub(crate) type Step = fn(&Transaction<'_>) -> rusqlite::Result<()>;

/// All versions, the first of which makes the tables of an empty file.
pub(crate) const STEPS: &[Step] = &[first];

/// Brings a database to the newest version; keeps a copy of the file before it changes an old one.
/// Says whether the tables were made from nothing.
pub(crate) fn migrate(
    connection: &mut Connection,
    database: &Path,
    steps: &[Step],
) -> Result<bool, StoreError> {
    let version = version(connection)?;
    check(connection, version, steps.len())?;
    if version == steps.len() {
        return Ok(false);
    }
    if version > 0 {
        back_up(connection, database, version)?;
    }
    let fail = |error| failed("change the schema of the store", &error);
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
    for step in &steps[version..] {
        step(&transaction).map_err(fail)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(fail)?;
    transaction.pragma_update(None, "user_version", signed(steps.len() as u64)).map_err(fail)?;
    transaction.commit().map_err(fail)?;
    Ok(version == 0)
}

/// Refuses a database that this build must not read.
pub(crate) fn check_readable(connection: &Connection) -> Result<(), StoreError> {
    let version = version(connection)?;
    check(connection, version, STEPS.len())?;
    if version < STEPS.len() {
        return Err(StoreError::Unavailable(format!(
            "the schema of the store is version {version}; start a team once to bring it to version {}",
            STEPS.len()
        )));
    }
    Ok(())
}

fn version(connection: &Connection) -> Result<usize, StoreError> {
    let version: i64 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(|error| failed("read the schema version", &error))?;
    usize::try_from(version)
        .map_err(|_| StoreError::Corrupt(format!("the schema version is {version}")))
}

fn check(connection: &Connection, version: usize, known: usize) -> Result<(), StoreError> {
    let fail = |error| failed("read the header of the store", &error);
    let id: i32 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(fail)?;
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(fail)?;
    let fits =
        if version == 0 { id == 0 && tables == 0 } else { id == APPLICATION_ID && tables > 0 };
    if !fits {
        return Err(StoreError::Corrupt("the file is not a store of aion".to_owned()));
    }
    if version > known {
        return Err(StoreError::Newer(format!("the store (schema {version}; this is {known})")));
    }
    Ok(())
}

/// Copies the whole database beside itself, named for the version it has.
fn back_up(connection: &Connection, database: &Path, version: usize) -> Result<(), StoreError> {
    let copy = database.with_extension(format!("v{version}.backup"));
    let fail = |error: std::io::Error| {
        StoreError::Unavailable(format!(
            "keep {} before changing the schema: {error}",
            copy.display()
        ))
    };
    // A copy that an earlier attempt left unfinished would block this one.
    match fs::remove_file(&copy) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(fail(error)),
    }
    let Some(target) = copy.to_str() else {
        return Err(fail(std::io::Error::other("the path is not valid UTF-8")));
    };
    create_private(&copy).map_err(fail)?;
    connection
        .execute("VACUUM INTO ?1", [target])
        .map_err(|error| failed("keep a copy before changing the schema", &error))?;
    fs::File::open(&copy).and_then(|file| file.sync_all()).map_err(fail)
}

fn first(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(FIRST)
}

const FIRST: &str = "
    CREATE TABLE meta (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        epoch INTEGER NOT NULL,
        commits INTEGER NOT NULL
    ) STRICT;
    INSERT INTO meta VALUES (1, 0, 0);

    CREATE TABLE teams (
        key INTEGER PRIMARY KEY,
        team TEXT NOT NULL UNIQUE,
        epoch INTEGER NOT NULL,
        seq INTEGER NOT NULL DEFAULT 0,
        head BLOB NOT NULL,
        last_event INTEGER NOT NULL DEFAULT 0,
        wall_ms INTEGER NOT NULL DEFAULT 0,
        commits INTEGER NOT NULL DEFAULT 0,
        name TEXT NOT NULL DEFAULT '',
        owner TEXT NOT NULL DEFAULT '',
        workspace TEXT NOT NULL DEFAULT '',
        solo INTEGER NOT NULL DEFAULT 0,
        ended INTEGER NOT NULL DEFAULT 0,
        members INTEGER NOT NULL DEFAULT 0,
        tasks_open INTEGER NOT NULL DEFAULT 0,
        requests_open INTEGER NOT NULL DEFAULT 0,
        turns INTEGER NOT NULL DEFAULT 0,
        messages_accepted INTEGER NOT NULL DEFAULT 0,
        messages_acknowledged INTEGER NOT NULL DEFAULT 0,
        messages_dead INTEGER NOT NULL DEFAULT 0,
        messages_superseded INTEGER NOT NULL DEFAULT 0,
        tasks_completed INTEGER NOT NULL DEFAULT 0,
        requests_decided INTEGER NOT NULL DEFAULT 0,
        restarts INTEGER NOT NULL DEFAULT 0
    ) STRICT;

    -- Events of all teams in the order of their commits. Each names the one before it in its own
    -- team, and only every 64th is in the index: a commit of many teams writes few pages.
    CREATE TABLE events (
        id INTEGER PRIMARY KEY,
        team INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        previous INTEGER NOT NULL,
        hash BLOB NOT NULL,
        body BLOB NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX events_by_team ON events (team, seq) WHERE seq & 63 = 0;

    CREATE TABLE members (
        team INTEGER NOT NULL,
        slot INTEGER NOT NULL,
        name TEXT NOT NULL,
        state INTEGER NOT NULL,
        PRIMARY KEY (team, slot)
    ) STRICT, WITHOUT ROWID;

    -- A message's id is that of the event that accepted it, times 1,024, and which of its
    -- recipients this is. Only open messages are in the index, so that it stays small.
    CREATE TABLE messages (
        id INTEGER PRIMARY KEY,
        team INTEGER NOT NULL,
        slot INTEGER NOT NULL,
        message INTEGER NOT NULL,
        state INTEGER NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX messages_open ON messages (team, slot, message) WHERE state < 2;

    CREATE TABLE tasks (
        team INTEGER NOT NULL,
        task INTEGER NOT NULL,
        owner INTEGER,
        state INTEGER NOT NULL,
        PRIMARY KEY (team, task)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE requests (
        team INTEGER NOT NULL,
        request INTEGER NOT NULL,
        kind TEXT NOT NULL,
        state INTEGER NOT NULL,
        PRIMARY KEY (team, request)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE usage (
        team INTEGER NOT NULL,
        slot INTEGER NOT NULL,
        input INTEGER NOT NULL,
        output INTEGER NOT NULL,
        cache_read INTEGER NOT NULL,
        cache_write INTEGER NOT NULL,
        reasoning INTEGER NOT NULL,
        micro_usd INTEGER NOT NULL,
        PRIMARY KEY (team, slot)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE conversations (
        key INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        team INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX conversations_by_team ON conversations (team);

    -- An item's id is its conversation's key and its place, so that one tree holds all of them.
    CREATE TABLE items (
        id INTEGER PRIMARY KEY,
        body BLOB,
        blob TEXT
    ) STRICT;

    CREATE TABLE snapshots (
        team INTEGER NOT NULL,
        bucket INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        state_version INTEGER NOT NULL,
        checksum BLOB NOT NULL,
        bytes BLOB NOT NULL,
        PRIMARY KEY (team, bucket)
    ) STRICT;
";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::sqlite::connection::read_write;

    /// The tables as they are, and a later version of them.
    const LATER: &[Step] = &[first, |transaction| {
        transaction.execute_batch("ALTER TABLE teams ADD COLUMN motto TEXT NOT NULL DEFAULT ''")
    }];

    fn mottos(connection: &Connection) -> rusqlite::Result<i64> {
        connection.query_row("SELECT count(motto) FROM teams", [], |row| row.get(0))
    }

    #[test]
    fn an_old_schema_is_kept_beside_the_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("store.db");
        create_private(&file).unwrap();
        let mut connection = read_write(&file).unwrap();
        assert!(migrate(&mut connection, &file, STEPS).unwrap());
        assert!(!migrate(&mut connection, &file, STEPS).unwrap());
        connection
            .execute("INSERT INTO teams (team, epoch, head) VALUES ('a', 1, zeroblob(32))", [])
            .unwrap();
        // An attempt that died half-way left its copy.
        let copy = dir.path().join("store.v1.backup");
        fs::write(&copy, "half a copy").unwrap();

        assert!(!migrate(&mut connection, &file, LATER).unwrap());
        assert_eq!(mottos(&connection).unwrap(), 1);
        assert_eq!(version(&connection).unwrap(), 2);
        assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
        let old = read_write(&copy).unwrap();
        assert_eq!(version(&old).unwrap(), 1);
        check(&old, 1, 2).unwrap();
        let teams: i64 = old.query_row("SELECT count(*) FROM teams", [], |row| row.get(0)).unwrap();
        assert_eq!(teams, 1);
        assert!(mottos(&old).is_err());

        let newer = migrate(&mut connection, &file, STEPS);
        assert!(matches!(newer, Err(StoreError::Newer(_))), "{newer:?}");
    }

    #[test]
    fn a_step_that_fails_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("store.db");
        create_private(&file).unwrap();
        let mut connection = read_write(&file).unwrap();
        migrate(&mut connection, &file, STEPS).unwrap();
        let broken: [Step; 3] = [first, LATER[1], |transaction| {
            transaction.execute_batch("CREATE TABLE teams (twice TEXT)")
        }];
        let failed = migrate(&mut connection, &file, &broken);
        assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
        assert_eq!(version(&connection).unwrap(), 1);
        assert!(mottos(&connection).is_err());
    }
}
