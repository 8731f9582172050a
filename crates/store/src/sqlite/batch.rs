//! One group commit: appends, openings and transcript items of many teams in one transaction; it
//! never answers anybody itself.

use aion_core::id::{ConversationId, Seq, TeamId};
use rusqlite::{Connection, ErrorCode, OptionalExtension};

use crate::encode::{Encoded, EncodedItem};
use crate::error::StoreError;
use crate::failpoint;
use crate::projection::apply;
use crate::sqlite::blobs::Blobs;
use crate::sqlite::heads::Heads;
use crate::sqlite::rows::{SqlRows, signed, unsigned};

/// One thing that shares its commit with others.
#[derive(Debug)]
pub(crate) enum Entry {
    Append(Encoded),
    Open(TeamId),
    Items {
        team: TeamId,
        conversation: ConversationId,
        expected: u64,
        items: Vec<EncodedItem>,
        bytes: usize,
    },
}

/// What became of an entry once the commit is durable.
#[derive(Debug)]
pub(crate) enum Done {
    Kept,
    Opened { epoch: u64, seq: Seq, wall_ms: u64 },
}

/// Why nothing, or nothing that is known, was committed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nothing was written.
    Statement(rusqlite::Error),
    /// COMMIT failed in a way that leaves open what is on the disk.
    Commit(String),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Statement(error)
    }
}

/// What a test lets the disk do at a COMMIT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitFault {
    /// What it really does.
    #[default]
    None,
    /// It writes, and reports an error.
    Applied,
    /// It does not write, and reports an error.
    NotApplied,
}

/// The writer's view of the database between commits.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) heads: Heads,
    pub(crate) epoch: u64,
    pub(crate) commits: u64,
}

impl Entry {
    /// What it adds to a commit.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Append(encoded) => encoded.bytes,
            Self::Open(_) => 0,
            Self::Items { bytes, .. } => *bytes,
        }
    }
}

/// Writes all entries and commits. On a failure the transaction is gone and the ledger is empty.
pub(crate) fn commit<'e>(
    connection: &Connection,
    ledger: &mut Ledger,
    blobs: &Blobs,
    entries: impl Iterator<Item = &'e Entry>,
    fault: impl FnOnce() -> CommitFault,
) -> Result<Vec<Result<Done, StoreError>>, Failure> {
    let before = ledger.commits;
    let result = write(connection, ledger, blobs, entries, fault);
    if result.is_err() {
        ledger.heads.clear();
        ledger.commits = before;
        if !connection.is_autocommit() {
            // A connection that cannot roll back is closed by the caller.
            let _ = connection.execute_batch("ROLLBACK");
        }
    }
    result
}

fn write<'e>(
    connection: &Connection,
    ledger: &mut Ledger,
    blobs: &Blobs,
    entries: impl Iterator<Item = &'e Entry>,
    fault: impl FnOnce() -> CommitFault,
) -> Result<Vec<Result<Done, StoreError>>, Failure> {
    begin(connection)?;
    let mut outcomes = Vec::new();
    let (mut events, mut items, mut meta) = (false, false, false);
    for entry in entries {
        let outcome = match entry {
            Entry::Append(encoded) => {
                let outcome = append(connection, ledger, encoded)?;
                events |= outcome.is_ok();
                outcome
            }
            Entry::Open(team) => {
                meta = true;
                open(connection, ledger, team)?
            }
            Entry::Items { team, conversation, expected, items: new, .. } => {
                let outcome =
                    append_items(connection, ledger, blobs, team, conversation, *expected, new)?;
                items |= outcome.is_ok();
                outcome
            }
        };
        outcomes.push(outcome);
    }
    let commits = ledger.commits + 1;
    let heads = ledger.heads.write(connection, commits)?;
    if !heads && !items && !meta {
        connection.execute_batch("ROLLBACK")?;
        return Ok(outcomes);
    }
    if !heads || meta {
        write_meta(connection, ledger.epoch, commits)?;
    }
    if events {
        failpoint::hit("store.before_commit");
    }
    if items {
        failpoint::hit("store.before_items");
    }
    end(connection, fault())?;
    ledger.commits = commits;
    if events {
        failpoint::hit("store.after_commit");
    }
    if items {
        failpoint::hit("store.after_items");
    }
    Ok(outcomes)
}

/// Begins a transaction that may write.
pub(crate) fn begin(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([]).map(|_| ())
}

/// Commits, and tells an error after which nothing is known from one after which nothing is written.
pub(crate) fn end(connection: &Connection, fault: CommitFault) -> Result<(), Failure> {
    let committed = match fault {
        CommitFault::None | CommitFault::Applied => {
            connection.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]))
        }
        CommitFault::NotApplied => Ok(0),
    };
    match committed {
        Ok(_) if fault == CommitFault::None => Ok(()),
        Ok(_) => Err(Failure::Commit("injected by a test".to_owned())),
        Err(error) => match error.sqlite_error_code() {
            // The frame that commits is written last, so without room for it there is no commit.
            Some(ErrorCode::DiskFull) => Err(Failure::Statement(error)),
            // These leave the transaction open: it is rolled back as a whole.
            Some(
                ErrorCode::DatabaseBusy | ErrorCode::ConstraintViolation | ErrorCode::OutOfMemory,
            ) if !connection.is_autocommit() => Err(Failure::Statement(error)),
            _ => Err(Failure::Commit(error.to_string())),
        },
    }
}

/// Writes the numbers that no team's row holds.
pub(crate) fn write_meta(
    connection: &Connection,
    epoch: u64,
    commits: u64,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE meta SET epoch = ?1, commits = ?2")?
        .execute((signed(epoch), signed(commits)))
        .map(|_| ())
}

fn append(
    connection: &Connection,
    ledger: &mut Ledger,
    encoded: &Encoded,
) -> rusqlite::Result<Result<Done, StoreError>> {
    let team = &encoded.team;
    let Some(head) = ledger.heads.get(connection, team)? else {
        return Ok(Err(StoreError::NoTeam(team.clone())));
    };
    if head.epoch != encoded.epoch {
        return Ok(Err(StoreError::StaleEpoch { team: team.clone(), current: head.epoch }));
    }
    if head.seq != encoded.expected.0 {
        return Ok(Err(conflict(team, encoded.expected.0, head.seq)));
    }
    if encoded.bodies.is_empty() {
        return Ok(Ok(Done::Kept));
    }
    let first = head.seq + 1;
    let mut first_event = 0;
    let mut insert = connection.prepare_cached(
        "INSERT INTO events (team, seq, previous, hash, body) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for body in &encoded.bodies {
        head.seq += 1;
        let body = body.bytes();
        head.link = head.link.next(body);
        insert.execute((head.key, signed(head.seq), head.last_event, &head.link.0[..], body))?;
        head.last_event = connection.last_insert_rowid();
        if head.seq == first {
            first_event = head.last_event;
        }
    }
    let mut rows = SqlRows { connection, key: head.key, event: (first_event, first) };
    for change in &encoded.changes {
        apply(change, &mut rows, &mut head.counts)?;
    }
    head.wall_ms = encoded.wall_ms;
    ledger.heads.touch(team);
    Ok(Ok(Done::Kept))
}

fn open(
    connection: &Connection,
    ledger: &mut Ledger,
    team: &TeamId,
) -> rusqlite::Result<Result<Done, StoreError>> {
    ledger.epoch += 1;
    let epoch = ledger.epoch;
    if ledger.heads.get(connection, team)?.is_none() {
        connection
            .prepare_cached("INSERT INTO teams (team, epoch, head) VALUES (?1, ?2, zeroblob(32))")?
            .execute((team.as_str(), signed(epoch)))?;
        ledger.heads.add(team, connection.last_insert_rowid(), epoch);
    }
    let opened = ledger.heads.get(connection, team)?.map(|head| {
        head.epoch = epoch;
        Done::Opened { epoch, seq: Seq(head.seq), wall_ms: head.wall_ms }
    });
    ledger.heads.touch(team);
    Ok(opened.ok_or_else(|| StoreError::NoTeam(team.clone())))
}

fn append_items(
    connection: &Connection,
    ledger: &mut Ledger,
    blobs: &Blobs,
    team: &TeamId,
    conversation: &ConversationId,
    expected: u64,
    items: &[EncodedItem],
) -> rusqlite::Result<Result<Done, StoreError>> {
    let Some(head) = ledger.heads.get(connection, team)? else {
        return Ok(Err(StoreError::NoTeam(team.clone())));
    };
    let found: Option<(i64, i64)> = connection
        .prepare_cached("SELECT key, team FROM conversations WHERE name = ?1")?
        .query_row([conversation.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let count = match found {
        Some((key, _)) => count_items(connection, key)?,
        None => 0,
    };
    if count != expected || found.is_some_and(|(_, owner)| owner != head.key) {
        return Ok(Err(conflict(team, expected, count)));
    }
    // A file can be gone only if the team was erased after the file was kept.
    let gone = items.iter().find_map(|item| match item {
        EncodedItem::Blob { sha256, .. } if !blobs.has(team, sha256) => Some(sha256),
        EncodedItem::Blob { .. } | EncodedItem::Inline(_) => None,
    });
    if let Some(sha256) = gone {
        return Ok(Err(StoreError::Unavailable(format!("the transcript file {sha256} is gone"))));
    }
    if items.is_empty() {
        return Ok(Ok(Done::Kept));
    }
    let key = if let Some((key, _)) = found {
        key
    } else {
        connection
            .prepare_cached("INSERT INTO conversations (name, team) VALUES (?1, ?2)")?
            .execute((conversation.as_str(), head.key))?;
        connection.last_insert_rowid()
    };
    let mut insert =
        connection.prepare_cached("INSERT INTO items (id, body, blob) VALUES (?1, ?2, ?3)")?;
    for (item, place) in items.iter().zip(expected..) {
        let id = item_id(key, place);
        match item {
            EncodedItem::Inline(body) => insert.execute((id, Some(&body[..]), None::<&str>))?,
            EncodedItem::Blob { sha256, .. } => {
                insert.execute((id, None::<&[u8]>, Some(sha256.as_str())))?
            }
        };
    }
    Ok(Ok(Done::Kept))
}

/// The row of the item at `place` (from 0) of a conversation.
pub(crate) fn item_id(conversation: i64, place: u64) -> i64 {
    (conversation << 32) + signed(place.min(u64::from(u32::MAX)))
}

/// How many items a conversation has. Their places have no gaps.
fn count_items(connection: &Connection, conversation: i64) -> rusqlite::Result<u64> {
    let last: Option<i64> = connection
        .prepare_cached("SELECT max(id) FROM items WHERE id >= ?1 AND id < ?2")?
        .query_row((item_id(conversation, 0), item_id(conversation + 1, 0)), |row| row.get(0))?;
    Ok(last.map_or(0, |id| (unsigned(id) & u64::from(u32::MAX)) + 1))
}

fn conflict(team: &TeamId, expected: u64, actual: u64) -> StoreError {
    StoreError::Conflict { team: team.clone(), expected: Seq(expected), actual: Seq(actual) }
}
