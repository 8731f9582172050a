//! Removes a team with everything that was kept for it; it never touches another team's rows.

use aion_core::id::TeamId;
use rusqlite::{Connection, OptionalExtension};

use crate::error::StoreError;
use crate::sqlite::batch::{Ledger, item_id, write_meta};
use crate::sqlite::rows::{MODELS, signed};

/// Removes a team inside the transaction that is open.
pub(crate) fn erase(
    connection: &Connection,
    ledger: &mut Ledger,
    team: &TeamId,
) -> rusqlite::Result<Result<(), StoreError>> {
    let found: Option<i64> = connection
        .query_row("SELECT key FROM teams WHERE team = ?1", [team.as_str()], |row| row.get(0))
        .optional()?;
    let Some(key) = found else {
        return Ok(Err(StoreError::NoTeam(team.clone())));
    };
    let conversations: Vec<i64> = connection
        .prepare("SELECT key FROM conversations WHERE team = ?1")?
        .query_map([key], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for conversation in conversations {
        connection.execute(
            "DELETE FROM items WHERE id >= ?1 AND id < ?2",
            (item_id(conversation, 0), item_id(conversation + 1, 0)),
        )?;
    }
    erase_events(connection, key)?;
    for table in MODELS.iter().filter(|table| **table != "messages") {
        connection.execute(&format!("DELETE FROM {table} WHERE team = ?1"), [key])?;
    }
    for table in ["conversations", "snapshots"] {
        connection.execute(&format!("DELETE FROM {table} WHERE team = ?1"), [key])?;
    }
    connection.execute("DELETE FROM teams WHERE key = ?1", [key])?;
    ledger.commits += 1;
    write_meta(connection, ledger.epoch, ledger.commits)?;
    Ok(Ok(()))
}

/// Follows the team's chain. Where that is broken it looks at every row instead.
fn erase_events(connection: &Connection, key: i64) -> rusqlite::Result<()> {
    let seq: i64 =
        connection.query_row("SELECT seq FROM teams WHERE key = ?1", [key], |row| row.get(0))?;
    let chain = "WITH RECURSIVE chain (id) AS (
            SELECT last_event FROM teams WHERE key = ?1
            UNION
            SELECT e.previous FROM chain c JOIN events e ON e.id = c.id WHERE e.previous > 0
        )";
    connection.execute(
        &format!(
            "{chain} DELETE FROM messages WHERE id IN (
                SELECT m.id FROM chain c JOIN messages m
                ON m.id >= c.id << 10 AND m.id < (c.id + 1) << 10
            ) AND team = ?1"
        ),
        [key],
    )?;
    let erased = connection.execute(
        &format!("{chain} DELETE FROM events WHERE id IN (SELECT id FROM chain) AND team = ?1"),
        [key],
    )?;
    if signed(erased as u64) != seq {
        connection.execute("DELETE FROM messages WHERE team = ?1", [key])?;
        connection.execute("DELETE FROM events WHERE team = ?1", [key])?;
    }
    Ok(())
}
