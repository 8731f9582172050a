//! Where accepted messages stand, from the rows of the mailboxes; it reads no message.

use std::collections::BTreeMap;

use aion_core::id::{Seq, SlotId, TeamId};
use rusqlite::{CachedStatement, Connection, OptionalExtension};

use crate::error::StoreError;
use crate::event_store::Deliveries;
use crate::projection::MessageState;
use crate::sqlite::connection::failed;
use crate::sqlite::read::{End, end, entry};
use crate::sqlite::rows::{message_id, signed};

/// For each event every mailbox that its message was put into, by slot.
pub(crate) fn deliveries(
    connection: &Connection,
    team: &TeamId,
    accepted: &[Seq],
) -> Result<Vec<Deliveries>, StoreError> {
    let end = end(connection, team)?;
    let read = || -> rusqlite::Result<Vec<Option<Deliveries>>> {
        let rows = places(connection, &end, accepted)?;
        let mut copies = connection.prepare_cached(
            "SELECT slot, state FROM messages WHERE id >= ?1 AND id < ?2 ORDER BY slot",
        )?;
        let none = Some(Deliveries::new());
        let of = |seq| rows.get(seq).map_or(Ok(none.clone()), |row| mailboxes(&mut copies, *row));
        accepted.iter().map(of).collect()
    };
    read()
        .map_err(|error| failed("read the store", &error))?
        .into_iter()
        .collect::<Option<_>>()
        .ok_or_else(|| StoreError::Corrupt(format!("a message of team {team} is in no state")))
}

/// The row of each event, as far as there is one.
fn places(
    connection: &Connection,
    end: &End,
    accepted: &[Seq],
) -> rusqlite::Result<BTreeMap<Seq, i64>> {
    let mut rows: BTreeMap<Seq, i64> =
        accepted.iter().filter(|seq| (1..=end.seq).contains(&seq.0)).map(|seq| (*seq, 0)).collect();
    let mut before = connection
        .prepare_cached("SELECT previous FROM events WHERE id = ?1 AND team = ?2 AND seq = ?3")?;
    let mut passed: Option<(i64, u64)> = None;
    // Each event knows the one before it: the way goes back, from what can be looked up.
    for (seq, place) in rows.iter_mut().rev() {
        let near = entry(connection, end, seq.0)?;
        let (mut row, mut at) = passed.filter(|(_, at)| *at <= near.1).unwrap_or(near);
        while at > seq.0 {
            let key = (row, end.key, signed(at));
            // A row that is missing is reported by whoever reads the events.
            let Some(previous) = before.query_row(key, |found| found.get(0)).optional()? else {
                break;
            };
            (row, at) = (previous, at - 1);
        }
        *place = row;
        passed = Some((row, at));
    }
    Ok(rows)
}

fn mailboxes(copies: &mut CachedStatement<'_>, event: i64) -> rusqlite::Result<Option<Deliveries>> {
    let ids = (message_id(event, 0), message_id(event + 1, 0));
    copies
        .query_map(ids, |row| {
            Ok(MessageState::of_row(row.get(1)?).map(|state| (row.get(0).map(SlotId), state)))
        })?
        .map(|row| row?.map(|(slot, state)| Ok((slot?, state))).transpose())
        .collect()
}
