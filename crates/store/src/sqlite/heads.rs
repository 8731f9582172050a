//! Where each team's log ends, kept by the writer between commits; it never answers a reader.

use std::collections::HashMap;

use aion_core::id::TeamId;
use rusqlite::{Connection, OptionalExtension, Row};

use crate::chain::Link;
use crate::event_store::Totals;
use crate::projection::Counts;
use crate::sqlite::rows::{signed, unsigned};

/// The end of one team's log.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) key: i64,
    pub(crate) epoch: u64,
    pub(crate) seq: u64,
    pub(crate) link: Link,
    pub(crate) last_event: i64,
    pub(crate) wall_ms: u64,
    pub(crate) counts: Counts,
    dirty: bool,
}

/// The heads that were used since the writer's connection was opened.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    known: HashMap<TeamId, Head>,
    dirty: Vec<TeamId>,
}

impl Heads {
    /// The head of a team, if there is such a team.
    pub(crate) fn get(
        &mut self,
        connection: &Connection,
        team: &TeamId,
    ) -> rusqlite::Result<Option<&mut Head>> {
        if !self.known.contains_key(team)
            && let Some(head) = load(connection, team)?
        {
            self.known.insert(team.clone(), head);
        }
        Ok(self.known.get_mut(team))
    }

    /// Adds a team that was just made.
    pub(crate) fn add(&mut self, team: &TeamId, key: i64, epoch: u64) {
        let head = Head {
            key,
            epoch,
            seq: 0,
            link: Link::START,
            last_event: 0,
            wall_ms: 0,
            counts: Counts::default(),
            dirty: false,
        };
        self.known.insert(team.clone(), head);
    }

    /// Notes that a head has to be written with this commit.
    pub(crate) fn touch(&mut self, team: &TeamId) {
        if let Some(head) = self.known.get_mut(team)
            && !head.dirty
        {
            head.dirty = true;
            self.dirty.push(team.clone());
        }
    }

    /// Writes every touched head; says whether there was one.
    pub(crate) fn write(
        &mut self,
        connection: &Connection,
        commits: u64,
    ) -> rusqlite::Result<bool> {
        let any = !self.dirty.is_empty();
        for team in self.dirty.drain(..) {
            if let Some(head) = self.known.get_mut(&team) {
                head.dirty = false;
                store(connection, head, commits)?;
            }
        }
        Ok(any)
    }

    /// Forgets everything: what was not committed never happened.
    pub(crate) fn clear(&mut self) {
        self.known.clear();
        self.dirty.clear();
    }

    /// Forgets one team.
    pub(crate) fn remove(&mut self, team: &TeamId) {
        self.known.remove(team);
    }
}

/// The columns of a team's numbers, in the order of [`counts`].
pub(crate) const COUNT_COLUMNS: &str = "members, tasks_open, requests_open, turns, \
     messages_accepted, messages_acknowledged, messages_dead, messages_superseded, \
     tasks_completed, requests_decided, restarts";

/// Reads the columns of [`COUNT_COLUMNS`], the first of which is at `from`.
pub(crate) fn counts(row: &Row<'_>, from: usize) -> rusqlite::Result<Counts> {
    let column = |at: usize| row.get::<_, i64>(from + at).map(unsigned);
    Ok(Counts {
        members: column(0)?,
        tasks_open: column(1)?,
        requests_open: column(2)?,
        totals: Totals {
            turns: column(3)?,
            messages_accepted: column(4)?,
            messages_acknowledged: column(5)?,
            messages_dead: column(6)?,
            messages_superseded: column(7)?,
            tasks_completed: column(8)?,
            requests_decided: column(9)?,
            restarts: column(10)?,
        },
    })
}

fn load(connection: &Connection, team: &TeamId) -> rusqlite::Result<Option<Head>> {
    connection
        .prepare_cached(&format!(
            "SELECT key, epoch, seq, head, wall_ms, last_event, {COUNT_COLUMNS} FROM teams WHERE team = ?1"
        ))?
        .query_row([team.as_str()], |row| {
            Ok(Head {
                key: row.get(0)?,
                epoch: unsigned(row.get(1)?),
                seq: unsigned(row.get(2)?),
                link: Link(row.get(3)?),
                wall_ms: unsigned(row.get(4)?),
                last_event: row.get(5)?,
                counts: counts(row, 6)?,
                dirty: false,
            })
        })
        .optional()
}

fn store(connection: &Connection, head: &Head, commits: u64) -> rusqlite::Result<()> {
    let Counts { members, tasks_open, requests_open, totals } = head.counts;
    connection
        .prepare_cached(
            "UPDATE teams SET epoch = ?2, seq = ?3, head = ?4, wall_ms = ?5, commits = ?6,
                members = ?7, tasks_open = ?8, requests_open = ?9, turns = ?10,
                messages_accepted = ?11, messages_acknowledged = ?12, messages_dead = ?13,
                messages_superseded = ?14, tasks_completed = ?15, requests_decided = ?16,
                restarts = ?17, last_event = ?18
             WHERE key = ?1",
        )?
        .execute(rusqlite::params![
            head.key,
            signed(head.epoch),
            signed(head.seq),
            &head.link.0[..],
            signed(head.wall_ms),
            signed(commits),
            signed(members),
            signed(tasks_open),
            signed(requests_open),
            signed(totals.turns),
            signed(totals.messages_accepted),
            signed(totals.messages_acknowledged),
            signed(totals.messages_dead),
            signed(totals.messages_superseded),
            signed(totals.tasks_completed),
            signed(totals.requests_decided),
            signed(totals.restarts),
            head.last_event,
        ])
        .map(|_| ())
}
