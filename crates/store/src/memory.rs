//! A store in memory, for simulations and for teams that need not outlive their process; nothing
//! it keeps is durable.

mod models;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aion_core::event::Recorded;
use aion_core::id::{ConversationId, Seq, TeamId};
use aion_core::transcript::Item;
use futures::future::{BoxFuture, FutureExt, ready};

use crate::encode::{Body, Encoded, encode_items};
use crate::error::StoreError;
use crate::event_store::{Append, Deliveries, EventStore, Loaded, Snapshot, TeamRow, Totals};
use crate::projection::{Counts, apply};
use crate::upcast;

use models::Models;

/// Keeps teams in memory.
#[derive(Default)]
pub struct MemoryStore {
    inner: Mutex<Inner>,
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Inner {
    last_epoch: u64,
    teams: BTreeMap<TeamId, Log>,
    conversations: HashMap<ConversationId, Conversation>,
}

#[derive(Default)]
struct Log {
    epoch: u64,
    bodies: Vec<Vec<u8>>,
    wall_ms: u64,
    snapshots: BTreeMap<u64, Snapshot>,
    models: Models,
    counts: Counts,
}

struct Conversation {
    team: TeamId,
    items: Vec<Item>,
}

/// One snapshot is kept for this many events.
pub(crate) const SNAPSHOT_SPACING: u64 = 2_000;

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing here panics half-way through a change.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log<'a>(inner: &'a Inner, team: &TeamId) -> Result<&'a Log, StoreError> {
        inner.teams.get(team).ok_or_else(|| StoreError::NoTeam(team.clone()))
    }

    fn open_now(&self, team: &TeamId) -> Result<Loaded, StoreError> {
        let mut inner = self.lock();
        inner.last_epoch += 1;
        let epoch = inner.last_epoch;
        let log = inner.teams.entry(team.clone()).or_default();
        log.epoch = epoch;
        let snapshot = log.snapshots.values().next_back().cloned();
        let after = snapshot.as_ref().map_or(Seq(0), |snapshot| snapshot.seq);
        let events = log.events(team, after, usize::MAX)?;
        Ok(Loaded { epoch, snapshot, events, last_append_wall_ms: log.wall_ms })
    }

    fn append_now(&self, append: Append) -> Result<(), StoreError> {
        let encoded = Encoded::new(append)?;
        let mut inner = self.lock();
        let Some(log) = inner.teams.get_mut(&encoded.team) else {
            return Err(StoreError::NoTeam(encoded.team));
        };
        if log.epoch != encoded.epoch {
            return Err(StoreError::StaleEpoch { team: encoded.team, current: log.epoch });
        }
        if log.seq() != encoded.expected {
            return Err(StoreError::Conflict {
                team: encoded.team,
                expected: encoded.expected,
                actual: log.seq(),
            });
        }
        if encoded.bodies.is_empty() {
            return Ok(());
        }
        for change in &encoded.changes {
            let Ok(()) = apply(change, &mut log.models, &mut log.counts);
        }
        log.bodies.extend(encoded.bodies.into_iter().map(Body::into_bytes));
        log.wall_ms = encoded.wall_ms;
        Ok(())
    }

    fn keep_snapshot_now(&self, team: &TeamId, snapshot: Snapshot) -> Result<(), StoreError> {
        let mut inner = self.lock();
        let Some(log) = inner.teams.get_mut(team) else {
            return Err(StoreError::NoTeam(team.clone()));
        };
        if snapshot.seq > log.seq() {
            return Err(StoreError::Conflict {
                team: team.clone(),
                expected: snapshot.seq,
                actual: log.seq(),
            });
        }
        let bucket = snapshot.seq.0 / SNAPSHOT_SPACING;
        if log.snapshots.get(&bucket).is_none_or(|kept| kept.seq <= snapshot.seq) {
            log.snapshots.insert(bucket, snapshot);
        }
        Ok(())
    }

    fn append_items_now(
        &self,
        team: &TeamId,
        conversation: &ConversationId,
        expected: u64,
        items: Vec<Item>,
    ) -> Result<(), StoreError> {
        encode_items(&items)?;
        let mut inner = self.lock();
        Self::log(&inner, team)?;
        let kept = inner
            .conversations
            .entry(conversation.clone())
            .or_insert_with(|| Conversation { team: team.clone(), items: Vec::new() });
        if kept.team != *team || kept.items.len() as u64 != expected {
            return Err(StoreError::Conflict {
                team: team.clone(),
                expected: Seq(expected),
                actual: Seq(kept.items.len() as u64),
            });
        }
        kept.items.extend(items);
        Ok(())
    }

    fn items_now(&self, conversation: &ConversationId, after: u64, limit: usize) -> Vec<Item> {
        let skip = usize::try_from(after).unwrap_or(usize::MAX);
        self.lock().conversations.get(conversation).map_or_else(Vec::new, |kept| {
            kept.items.iter().skip(skip).take(limit).cloned().collect()
        })
    }

    fn erase_now(&self, team: &TeamId) -> Result<(), StoreError> {
        let mut inner = self.lock();
        let gone = inner.teams.remove(team).map(|_| ());
        inner.conversations.retain(|_, conversation| conversation.team != *team);
        gone.ok_or_else(|| StoreError::NoTeam(team.clone()))
    }

    fn teams_now(&self) -> Vec<TeamRow> {
        let inner = self.lock();
        let mut rows: Vec<TeamRow> = inner
            .teams
            .iter()
            .filter(|(_, log)| !log.bodies.is_empty())
            .map(|(team, log)| log.row(team))
            .collect();
        rows.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| a.team.cmp(&b.team)));
        rows
    }
}

impl Log {
    fn seq(&self) -> Seq {
        Seq(self.bodies.len() as u64)
    }

    fn events(&self, team: &TeamId, after: Seq, limit: usize) -> Result<Vec<Recorded>, StoreError> {
        let skip = usize::try_from(after.0).unwrap_or(usize::MAX);
        self.bodies
            .iter()
            .enumerate()
            .skip(skip)
            .take(limit)
            .map(|(at, body)| upcast::read(body, || format!("event {} of team {team}", at + 1)))
            .collect()
    }

    fn row(&self, team: &TeamId) -> TeamRow {
        TeamRow {
            team: team.clone(),
            name: self.models.name.clone(),
            owner: self.models.owner.clone(),
            workspace: self.models.workspace.clone(),
            solo: self.models.solo,
            ended: self.models.ended,
            members: self.counts.members as u32,
            tasks_open: self.counts.tasks_open as u32,
            tasks_done: self.counts.totals.tasks_completed as u32,
            requests_open: self.counts.requests_open as u32,
            messages_open: self.counts.messages_open() as u32,
            seq: self.seq(),
            updated_wall_ms: self.wall_ms,
        }
    }
}

impl EventStore for MemoryStore {
    fn open<'a>(&'a self, team: &'a TeamId) -> BoxFuture<'a, Result<Loaded, StoreError>> {
        async move { self.open_now(team) }.boxed()
    }

    fn append(&self, append: Append) -> BoxFuture<'_, Result<(), StoreError>> {
        async move { self.append_now(append) }.boxed()
    }

    fn read<'a>(
        &'a self,
        team: &'a TeamId,
        after: Seq,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Recorded>, StoreError>> {
        async move { Self::log(&self.lock(), team)?.events(team, after, limit) }.boxed()
    }

    fn deliveries<'a>(
        &'a self,
        team: &'a TeamId,
        accepted: &'a [Seq],
    ) -> BoxFuture<'a, Result<Vec<Deliveries>, StoreError>> {
        async move {
            let inner = self.lock();
            let models = &Self::log(&inner, team)?.models;
            Ok(accepted.iter().map(|seq| models.deliveries(*seq)).collect())
        }
        .boxed()
    }

    fn teams(&self) -> BoxFuture<'_, Result<Vec<TeamRow>, StoreError>> {
        async move { Ok(self.teams_now()) }.boxed()
    }

    fn totals<'a>(&'a self, team: &'a TeamId) -> BoxFuture<'a, Result<Totals, StoreError>> {
        async move { Ok(Self::log(&self.lock(), team)?.counts.totals) }.boxed()
    }

    fn erase<'a>(&'a self, team: &'a TeamId) -> BoxFuture<'a, Result<(), StoreError>> {
        async move { self.erase_now(team) }.boxed()
    }

    fn keep_snapshot<'a>(
        &'a self,
        team: &'a TeamId,
        snapshot: Snapshot,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move { self.keep_snapshot_now(team, snapshot) }.boxed()
    }

    fn snapshot_before<'a>(
        &'a self,
        team: &'a TeamId,
        at: Seq,
    ) -> BoxFuture<'a, Result<Option<Snapshot>, StoreError>> {
        let inner = self.lock();
        let found = inner.teams.get(team).and_then(|log| {
            log.snapshots.values().rev().find(|snapshot| snapshot.seq <= at).cloned()
        });
        ready(Ok(found)).boxed()
    }

    fn append_items<'a>(
        &'a self,
        team: &'a TeamId,
        conversation: &'a ConversationId,
        expected: u64,
        items: Vec<Item>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move { self.append_items_now(team, conversation, expected, items) }.boxed()
    }

    fn items<'a>(
        &'a self,
        conversation: &'a ConversationId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Item>, StoreError>> {
        async move { Ok(self.items_now(conversation, after, limit)) }.boxed()
    }
}
