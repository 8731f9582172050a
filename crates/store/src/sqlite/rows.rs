//! The read models of one team as SQL, for the projection; it never decides what changes.

use aion_core::budget::Usage;
use aion_core::id::{MessageId, RequestId, Seq, SlotId, TaskId};
use rusqlite::{Connection, Params};

use crate::projection::{MemberState, MessageState, NewOwner, RequestState, Rows, TaskState};

/// The rows of one team.
pub(crate) struct SqlRows<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) key: i64,
    /// An event of the team: its row and its place. Those after it that are committed with it
    /// have the rows after it.
    pub(crate) event: (i64, u64),
}

/// Every table whose rows belong to a team by its key.
pub(crate) const MODELS: [&str; 5] = ["members", "messages", "tasks", "requests", "usage"];

impl SqlRows<'_> {
    fn run(&self, sql: &str, params: impl Params) -> rusqlite::Result<bool> {
        Ok(self.connection.prepare_cached(sql)?.execute(params)? > 0)
    }
}

impl Rows for SqlRows<'_> {
    type Error = rusqlite::Error;

    fn put_team(
        &mut self,
        name: &str,
        owner: &str,
        workspace: &str,
        solo: bool,
    ) -> rusqlite::Result<()> {
        self.run(
            "UPDATE teams SET name = ?2, owner = ?3, workspace = ?4, solo = ?5 WHERE key = ?1",
            (self.key, name, owner, workspace, solo),
        )
        .map(|_| ())
    }

    fn name_team(&mut self, name: &str) -> rusqlite::Result<()> {
        self.run("UPDATE teams SET name = ?2 WHERE key = ?1", (self.key, name)).map(|_| ())
    }

    fn end_team(&mut self) -> rusqlite::Result<()> {
        self.run("UPDATE teams SET ended = 1 WHERE key = ?1", (self.key,)).map(|_| ())
    }

    fn put_member(&mut self, slot: SlotId, name: &str) -> rusqlite::Result<bool> {
        self.run(
            "INSERT OR IGNORE INTO members (team, slot, name, state) VALUES (?1, ?2, ?3, 0)",
            (self.key, slot.0, name),
        )
    }

    fn name_member(&mut self, slot: SlotId, name: &str) -> rusqlite::Result<()> {
        self.run(
            "UPDATE members SET name = ?3 WHERE team = ?1 AND slot = ?2",
            (self.key, slot.0, name),
        )
        .map(|_| ())
    }

    fn move_member(&mut self, slot: SlotId, to: MemberState) -> rusqlite::Result<bool> {
        self.run(
            "UPDATE members SET state = ?3 WHERE team = ?1 AND slot = ?2 AND state < 4",
            (self.key, slot.0, to as u8),
        )
    }

    fn put_message(
        &mut self,
        slot: SlotId,
        message: MessageId,
        seq: Seq,
        nth: usize,
    ) -> rusqlite::Result<bool> {
        let event = self.event.0 + signed(seq.0.saturating_sub(self.event.1));
        self.run(
            "INSERT OR IGNORE INTO messages (id, team, slot, message, state)
             VALUES (?1, ?2, ?3, ?4, 0)",
            (message_id(event, nth), self.key, slot.0, signed(message.0)),
        )
    }

    fn move_message(
        &mut self,
        slot: SlotId,
        message: MessageId,
        to: MessageState,
    ) -> rusqlite::Result<bool> {
        self.run(
            "UPDATE messages SET state = ?4
             WHERE team = ?1 AND slot = ?2 AND message = ?3 AND state < 2",
            (self.key, slot.0, signed(message.0), to as u8),
        )
    }

    fn put_task(&mut self, task: TaskId, owner: Option<SlotId>) -> rusqlite::Result<bool> {
        self.run(
            "INSERT OR IGNORE INTO tasks (team, task, owner, state) VALUES (?1, ?2, ?3, 0)",
            (self.key, task.0, owner.map(|slot| slot.0)),
        )
    }

    fn change_task(
        &mut self,
        task: TaskId,
        state: Option<TaskState>,
        owner: NewOwner,
    ) -> rusqlite::Result<bool> {
        let (changed, owner) = match owner {
            NewOwner::Same => (false, None),
            NewOwner::Nobody => (true, None),
            NewOwner::Member(slot) => (true, Some(slot.0)),
        };
        self.run(
            "UPDATE tasks SET state = coalesce(?3, state), owner = iif(?4, ?5, owner)
             WHERE team = ?1 AND task = ?2 AND state < 2",
            (self.key, task.0, state.map(|state| state as u8), changed, owner),
        )
    }

    fn put_request(&mut self, request: RequestId, kind: &str) -> rusqlite::Result<bool> {
        self.run(
            "INSERT OR IGNORE INTO requests (team, request, kind, state) VALUES (?1, ?2, ?3, 0)",
            (self.key, signed(request.0), kind),
        )
    }

    fn move_request(&mut self, request: RequestId, to: RequestState) -> rusqlite::Result<bool> {
        self.run(
            "UPDATE requests SET state = ?3 WHERE team = ?1 AND request = ?2 AND state < 2",
            (self.key, signed(request.0), to as u8),
        )
    }

    fn add_usage(&mut self, slot: SlotId, usage: Usage) -> rusqlite::Result<()> {
        self.run(
            "INSERT INTO usage VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT (team, slot) DO UPDATE SET
                input = min(input + excluded.input, 0x7fffffffffffffff),
                output = min(output + excluded.output, 0x7fffffffffffffff),
                cache_read = min(cache_read + excluded.cache_read, 0x7fffffffffffffff),
                cache_write = min(cache_write + excluded.cache_write, 0x7fffffffffffffff),
                reasoning = min(reasoning + excluded.reasoning, 0x7fffffffffffffff),
                micro_usd = min(micro_usd + excluded.micro_usd, 0x7fffffffffffffff)",
            (
                self.key,
                slot.0,
                signed(usage.input),
                signed(usage.output),
                signed(usage.cache_read),
                signed(usage.cache_write),
                signed(usage.reasoning),
                signed(usage.micro_usd),
            ),
        )
        .map(|_| ())
    }
}

/// The row of a message in the mailbox of its `nth` recipient.
pub(crate) fn message_id(event: i64, nth: usize) -> i64 {
    (event << 10) + signed(nth as u64).min(1_023)
}

/// A number as SQLite keeps it. Ids are counters and never come near the end of the range.
pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A number as it was before [`signed`].
pub(crate) fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
