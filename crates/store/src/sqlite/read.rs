//! The questions that are answered from the database; they never change it.

use aion_core::event::Recorded;
use aion_core::id::{ConversationId, Seq, TeamId};
use aion_core::transcript::Item;
use rusqlite::{Connection, OptionalExtension, Row};

use crate::chain::Link;
use crate::error::StoreError;
use crate::event_store::{TeamRow, Totals};
use crate::sqlite::batch::item_id;
use crate::sqlite::blobs::Blobs;
use crate::sqlite::connection::failed;
use crate::sqlite::heads::{COUNT_COLUMNS, counts};
use crate::sqlite::rows::{signed, unsigned};
use crate::upcast;

/// Rows that are fetched in one read transaction.
const PAGE: usize = 1_024;

/// Every so many events of a team one can be looked up by its place.
const INDEXED: u64 = 64;

/// The whole chain of a team, as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// How many events there are.
    pub events: u64,
    /// The hash of the last one, which covers all of them; lower-case hex.
    pub hash: String,
}

/// The end of a log as readers see it.
pub(crate) struct End {
    pub(crate) key: i64,
    pub(crate) seq: u64,
    link: Link,
    last_event: i64,
}

fn sql(error: &rusqlite::Error) -> StoreError {
    failed("read the store", error)
}

pub(crate) fn end(connection: &Connection, team: &TeamId) -> Result<End, StoreError> {
    connection
        .prepare_cached("SELECT key, seq, head, last_event FROM teams WHERE team = ?1")
        .and_then(|mut found| {
            found
                .query_row([team.as_str()], |row| {
                    Ok(End {
                        key: row.get(0)?,
                        seq: unsigned(row.get(1)?),
                        link: Link(row.get(2)?),
                        last_event: row.get(3)?,
                    })
                })
                .optional()
        })
        .map_err(|error| sql(&error))?
        .ok_or_else(|| StoreError::NoTeam(team.clone()))
}

/// Up to `limit` events after `after` and not after `until`, each checked against the chain.
pub(crate) fn events(
    connection: &Connection,
    team: &TeamId,
    after: Seq,
    until: Option<Seq>,
    limit: usize,
) -> Result<Vec<Recorded>, StoreError> {
    let end = end(connection, team)?;
    let last = until.map_or(end.seq, |until| until.0.min(end.seq));
    let mut walk = Walk { connection, team, end: &end, seq: after.0, link: None };
    let mut found = Vec::new();
    while walk.seq < last && found.len() < limit {
        let page = walk.page(last, limit - found.len())?;
        for (seq, body) in page {
            found.push(upcast::read(&body, || format!("event {seq} of team {team}"))?);
        }
    }
    Ok(found)
}

/// Walks a team's whole chain and holds it against its head.
pub(crate) fn verify(connection: &Connection, team: &TeamId) -> Result<Verified, StoreError> {
    let end = end(connection, team)?;
    let mut walk = Walk { connection, team, end: &end, seq: 0, link: Some(Link::START) };
    while walk.seq < end.seq {
        for (seq, body) in walk.page(end.seq, usize::MAX)? {
            upcast::read(&body, || format!("event {seq} of team {team}"))?;
        }
    }
    Ok(Verified { events: end.seq, hash: end.link.to_string() })
}

/// A walk along a chain that trusts no link it has not recomputed.
struct Walk<'a> {
    connection: &'a Connection,
    team: &'a TeamId,
    end: &'a End,
    /// The last event that was passed.
    seq: u64,
    /// Its link, where it was recomputed.
    link: Option<Link>,
}

/// One stored event.
struct Stored {
    seq: u64,
    previous: i64,
    link: Link,
    body: Vec<u8>,
}

impl Walk<'_> {
    /// The next stored bytes, fetched in a read transaction of their own.
    fn page(&mut self, last: u64, limit: usize) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        let until = last.min(self.seq.saturating_add(limit.min(PAGE) as u64));
        let mut rows = self.fetch(until)?;
        // The newest comes first. The last one, if it was passed before, gives only its link.
        let mut link = match self.link {
            Some(link) => link,
            None if self.seq == 0 => Link::START,
            None => rows.pop().map_or(Link::START, |passed| passed.link),
        };
        let mut page = Vec::with_capacity(rows.len());
        for stored in rows.into_iter().rev() {
            link = link.next(&stored.body);
            let seq = stored.seq;
            if link != stored.link || (seq == self.end.seq && link != self.end.link) {
                return Err(self.broken(seq, "is not what was written"));
            }
            page.push((seq, stored.body));
        }
        self.link = Some(link);
        self.seq = until;
        Ok(page)
    }

    /// The rows from `until` back to the one after the last that was passed, or to that one itself
    /// where its link is not known.
    fn fetch(&self, until: u64) -> Result<Vec<Stored>, StoreError> {
        let fail = |error: rusqlite::Error| sql(&error);
        let transaction = self.connection.unchecked_transaction().map_err(fail)?;
        let known = self.link.is_some() || self.seq == 0;
        let first = if known { self.seq + 1 } else { self.seq };
        let (mut row, mut seq) = entry(self.connection, self.end, until).map_err(fail)?;
        let mut select = self
            .connection
            .prepare_cached(
                "SELECT previous, hash, body FROM events WHERE id = ?1 AND team = ?2 AND seq = ?3",
            )
            .map_err(fail)?;
        let mut rows = Vec::with_capacity((until + 1 - first) as usize);
        while seq >= first {
            let stored = select
                .query_row((row, self.end.key, signed(seq)), |found| {
                    let (previous, link) = (found.get(0)?, Link(found.get(1)?));
                    let body = if seq > until { Vec::new() } else { found.get(2)? };
                    Ok(Stored { seq, previous, link, body })
                })
                .optional()
                .map_err(fail)?;
            let Some(stored) = stored else { return Err(self.broken(seq, "is missing")) };
            row = stored.previous;
            if seq <= until {
                rows.push(stored);
            }
            seq -= 1;
        }
        drop(select);
        transaction.finish().map_err(fail)?;
        Ok(rows)
    }

    fn broken(&self, seq: u64, how: &str) -> StoreError {
        // A team that was erased meanwhile is gone, not damaged.
        match end(self.connection, self.team) {
            Ok(now) if now.key == self.end.key && now.seq >= self.end.seq => {
                StoreError::Corrupt(format!("event {seq} of team {} {how}", self.team))
            }
            Ok(_) | Err(StoreError::NoTeam(_)) => StoreError::NoTeam(self.team.clone()),
            Err(error) => error,
        }
    }
}

/// The row, and its place, of the nearest event at or after `seq` that can be looked up.
pub(crate) fn entry(connection: &Connection, end: &End, seq: u64) -> rusqlite::Result<(i64, u64)> {
    let last = (end.last_event, end.seq);
    if last.1 - seq < INDEXED {
        return Ok(last);
    }
    let found = connection
        .prepare_cached("SELECT id FROM events WHERE team = ?1 AND seq = ?2 AND seq & 63 = 0")?
        .query_row((end.key, signed(seq.next_multiple_of(INDEXED))), |row| row.get(0))
        .optional()?;
    // Where the index has lost an entry, the way from the end is longer and just as good.
    Ok(found.map_or(last, |row| (row, seq.next_multiple_of(INDEXED))))
}

/// All teams that have events, by name.
pub(crate) fn teams(connection: &Connection) -> Result<Vec<TeamRow>, StoreError> {
    let read = || -> rusqlite::Result<Vec<Option<TeamRow>>> {
        connection
            .prepare_cached(&format!(
                "SELECT team, name, owner, workspace, solo, ended, seq, wall_ms, {COUNT_COLUMNS}
                 FROM teams WHERE seq > 0 ORDER BY name, team"
            ))?
            .query_map([], team_row)?
            .collect()
    };
    read()
        .map_err(|error| sql(&error))?
        .into_iter()
        .collect::<Option<Vec<TeamRow>>>()
        .ok_or_else(|| StoreError::Corrupt("a team's id is not one".to_owned()))
}

fn team_row(row: &Row<'_>) -> rusqlite::Result<Option<TeamRow>> {
    let counts = counts(row, 8)?;
    let Ok(team) = TeamId::new(row.get::<_, String>(0)?) else {
        return Ok(None);
    };
    Ok(Some(TeamRow {
        team,
        name: row.get(1)?,
        owner: row.get(2)?,
        workspace: row.get(3)?,
        solo: row.get(4)?,
        ended: row.get(5)?,
        members: counts.members as u32,
        tasks_open: counts.tasks_open as u32,
        tasks_done: counts.totals.tasks_completed as u32,
        requests_open: counts.requests_open as u32,
        messages_open: counts.messages_open() as u32,
        seq: Seq(unsigned(row.get(6)?)),
        updated_wall_ms: unsigned(row.get(7)?),
    }))
}

/// A team's numbers.
pub(crate) fn totals(connection: &Connection, team: &TeamId) -> Result<Totals, StoreError> {
    connection
        .prepare_cached(&format!("SELECT {COUNT_COLUMNS} FROM teams WHERE team = ?1"))
        .and_then(|mut query| {
            query.query_row([team.as_str()], |row| Ok(counts(row, 0)?.totals)).optional()
        })
        .map_err(|error| sql(&error))?
        .ok_or_else(|| StoreError::NoTeam(team.clone()))
}

/// Up to `limit` items of a conversation after the first `after`.
pub(crate) fn items(
    connection: &Connection,
    blobs: &Blobs,
    conversation: &ConversationId,
    after: u64,
    limit: usize,
) -> Result<Vec<Item>, StoreError> {
    let found: Option<(i64, String)> = connection
        .prepare_cached(
            "SELECT c.key, t.team FROM conversations c JOIN teams t ON t.key = c.team
             WHERE c.name = ?1",
        )
        .and_then(|mut query| {
            query
                .query_row([conversation.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()
        })
        .map_err(|error| sql(&error))?;
    let Some((key, team)) = found else {
        return Ok(Vec::new());
    };
    let mut items = Vec::new();
    let mut next = after;
    while items.len() < limit {
        let page = fetch_items(connection, key, next, (limit - items.len()).min(PAGE))
            .map_err(|error| sql(&error))?;
        if page.is_empty() {
            break;
        }
        for (id, body, blob) in page {
            if id != item_id(key, next) {
                return Err(StoreError::Corrupt(format!(
                    "item {next} of conversation {conversation} is missing"
                )));
            }
            next += 1;
            let bytes = match (body, blob) {
                (Some(body), None) => body,
                (None, Some(sha256)) => blobs.read(&team, &sha256)?,
                (Some(_), Some(_)) | (None, None) => Vec::new(),
            };
            items.push(serde_json::from_slice(&bytes).map_err(|error| {
                StoreError::Corrupt(format!("item {id} of conversation {conversation}: {error}"))
            })?);
        }
    }
    Ok(items)
}

type ItemRow = (i64, Option<Vec<u8>>, Option<String>);

fn fetch_items(
    connection: &Connection,
    key: i64,
    after: u64,
    limit: usize,
) -> rusqlite::Result<Vec<ItemRow>> {
    connection
        .prepare_cached(
            "SELECT id, body, blob FROM items WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3",
        )?
        .query_map((item_id(key, after), item_id(key + 1, 0), signed(limit as u64)), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?
        .collect()
}

/// Every row of every read model as text, to compare what was kept with what is rebuilt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadModelDump {
    /// One line for each row, sorted.
    pub rows: Vec<String>,
}

/// Reads all read models.
pub(crate) fn dump(connection: &Connection) -> Result<ReadModelDump, StoreError> {
    let read = || -> rusqlite::Result<Vec<String>> {
        let mut rows = Vec::new();
        for table in crate::sqlite::rows::MODELS.iter().chain(&["teams"]) {
            let mut statement = connection.prepare(&format!("SELECT * FROM {table}"))?;
            let columns = statement.column_count();
            let mut found = statement.query([])?;
            while let Some(row) = found.next()? {
                let mut line = (*table).to_owned();
                for column in 0..columns {
                    let value: rusqlite::types::Value = row.get(column)?;
                    line.extend([" ", &format!("{value:?}")]);
                }
                rows.push(line);
            }
        }
        rows.sort();
        Ok(rows)
    };
    read().map(|rows| ReadModelDump { rows }).map_err(|error| sql(&error))
}
