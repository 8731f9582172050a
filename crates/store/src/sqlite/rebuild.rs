//! Makes the read models anew from the logs; it never changes an event.

use aion_core::event::Recorded;
use rusqlite::{Connection, Row};

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
    let teams: Vec<(i64, String)> = connection
        .prepare("SELECT key, team FROM teams")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (key, team) in teams {
        let mut counts = Counts::default();
        let mut events =
            connection.prepare("SELECT seq, body FROM events WHERE team = ?1 ORDER BY seq")?;
        let mut rows = events.query([key])?;
        while let Some(row) = rows.next()? {
            match event(row, &team)? {
                Ok(recorded) => project(connection, key, &recorded, &mut counts)?,
                Err(error) => return Ok(Err(error)),
            }
        }
        keep(connection, key, &counts)?;
    }
    Ok(Ok(()))
}

fn event(row: &Row<'_>, team: &str) -> rusqlite::Result<Result<Recorded, StoreError>> {
    let seq: i64 = row.get(0)?;
    let body: Vec<u8> = row.get(1)?;
    Ok(upcast::read(&body, || format!("event {seq} of team {team}")))
}

fn project(
    connection: &Connection,
    key: i64,
    recorded: &Recorded,
    counts: &mut Counts,
) -> rusqlite::Result<()> {
    let mut found = Vec::new();
    changes(recorded, &mut found);
    let mut rows = SqlRows { connection, key };
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
