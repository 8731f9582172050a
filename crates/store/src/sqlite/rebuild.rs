//! Makes the read models anew from the logs; it never changes an event.

use std::collections::BTreeMap;

use aion_core::event::Recorded;
use rusqlite::Connection;

use crate::error::StoreError;
use crate::projection::{Counts, apply, changes};
use crate::sqlite::rows::{MODELS, SqlRows, signed};
use crate::upcast;

/// Empties every read model and fills it again from the events.
pub(crate) fn rebuild(connection: &Connection) -> rusqlite::Result<Result<(), StoreError>> {
    for table in MODELS {
        connection.execute(&format!("DELETE FROM {table}"), [])?;
    }
    connection.execute(
        "UPDATE teams SET name = '', owner = '', workspace = '', solo = 0, ended = 0",
        [],
    )?;
    let mut teams: BTreeMap<i64, (String, Counts)> = connection
        .prepare("SELECT key, team FROM teams")?
        .query_map([], |row| Ok((row.get(0)?, (row.get(1)?, Counts::default()))))?
        .collect::<rusqlite::Result<_>>()?;
    // In the order of the commits, which is also that of each team.
    let mut events = connection.prepare("SELECT id, team, seq, body FROM events ORDER BY id")?;
    let mut rows = events.query([])?;
    while let Some(row) = rows.next()? {
        let (id, key, seq): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let body: Vec<u8> = row.get(3)?;
        let Some((team, counts)) = teams.get_mut(&key) else {
            return Ok(Err(StoreError::Corrupt(format!("event {id} belongs to no team"))));
        };
        match upcast::read(&body, || format!("event {seq} of team {team}")) {
            Ok(recorded) => project(connection, key, id, &recorded, counts)?,
            Err(error) => return Ok(Err(error)),
        }
    }
    for (key, (_, counts)) in &teams {
        keep(connection, *key, counts)?;
    }
    Ok(Ok(()))
}

fn project(
    connection: &Connection,
    key: i64,
    event: i64,
    recorded: &Recorded,
    counts: &mut Counts,
) -> rusqlite::Result<()> {
    let mut found = Vec::new();
    changes(recorded, &mut found);
    let mut rows = SqlRows { connection, key, event: (event, recorded.seq.0) };
    found.iter().try_for_each(|change| apply(change, &mut rows, counts))
}

fn keep(connection: &Connection, key: i64, counts: &Counts) -> rusqlite::Result<()> {
    let totals = &counts.totals;
    connection
        .prepare_cached(
            "UPDATE teams SET members = ?2, tasks_open = ?3, requests_open = ?4, turns = ?5,
                messages_accepted = ?6, messages_acknowledged = ?7, messages_dead = ?8,
                messages_superseded = ?9, tasks_completed = ?10, requests_decided = ?11,
                restarts = ?12
             WHERE key = ?1",
        )?
        .execute(rusqlite::params![
            key,
            signed(counts.members),
            signed(counts.tasks_open),
            signed(counts.requests_open),
            signed(totals.turns),
            signed(totals.messages_accepted),
            signed(totals.messages_acknowledged),
            signed(totals.messages_dead),
            signed(totals.messages_superseded),
            signed(totals.tasks_completed),
            signed(totals.requests_decided),
            signed(totals.restarts),
        ])
        .map(|_| ())
}
