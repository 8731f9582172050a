//! What the shell needs of a store, as one trait and plain data; never how it is kept.

use std::fmt;
use std::sync::Arc;

use aion_core::event::Recorded;
use aion_core::id::{ConversationId, Seq, SlotId, TeamId};
use aion_core::transcript::Item;
use futures::future::BoxFuture;

use crate::encode::Body;
use crate::error::StoreError;
use crate::projection::MessageState;

/// One append: events that become durable together, or not at all.
#[derive(Clone, Debug)]
pub struct Append {
    /// The team.
    pub team: TeamId,
    /// The epoch that [`EventStore::open`] gave; an older one is fenced off.
    pub epoch: u64,
    /// The last sequence number the caller knows; the events follow it without a gap.
    pub expected: Seq,
    /// The events, with their sequence numbers; shared, so that who appends need not copy them.
    pub events: Arc<[Recorded]>,
    /// The same events as the log keeps them, one for one.
    pub bodies: Vec<Body>,
}

impl Append {
    /// An append of events that nobody has written yet.
    pub fn new(team: TeamId, epoch: u64, expected: Seq, events: Arc<[Recorded]>) -> Self {
        let bodies = events.iter().map(Body::of).collect();
        Self { team, epoch, expected, events, bodies }
    }
}

/// What a team's log holds.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The epoch under which the caller may append from here on.
    pub epoch: u64,
    /// The newest usable snapshot, if there is one.
    pub snapshot: Option<Snapshot>,
    /// The events after the snapshot, or all of them.
    pub events: Vec<Recorded>,
    /// Wall-clock time of the last append, in milliseconds since the Unix epoch; 0 for an empty log.
    pub last_append_wall_ms: u64,
}

/// A cached state. Disposable: a store may lose it at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The last event it contains.
    pub seq: Seq,
    /// The version of the state's format.
    pub state_version: u32,
    /// The serialised state.
    pub bytes: Vec<u8>,
}

/// One line of the list of teams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeamRow {
    /// The team.
    pub team: TeamId,
    /// Its name.
    pub name: String,
    /// Its owner.
    pub owner: String,
    /// Its directory.
    pub workspace: String,
    /// Whether it is a conversation.
    pub solo: bool,
    /// Whether it has ended.
    pub ended: bool,
    /// Members that are not removed.
    pub members: u32,
    /// Open tasks.
    pub tasks_open: u32,
    /// Completed tasks.
    pub tasks_done: u32,
    /// Requests without a decision.
    pub requests_open: u32,
    /// Messages in mailboxes that are not yet acknowledged.
    pub messages_open: u32,
    /// The last event.
    pub seq: Seq,
    /// Wall-clock time of the last append, in milliseconds since the Unix epoch.
    pub updated_wall_ms: u64,
}

/// Numbers of a team's whole life, counted by the store's read models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Turns that ended.
    pub turns: u64,
    /// Messages accepted, counted once per recipient's mailbox.
    pub messages_accepted: u64,
    /// Of these: acknowledged.
    pub messages_acknowledged: u64,
    /// Of these: dead letters.
    pub messages_dead: u64,
    /// Of these: superseded by a newer notice.
    pub messages_superseded: u64,
    /// Tasks completed.
    pub tasks_completed: u64,
    /// Requests decided.
    pub requests_decided: u64,
    /// Restarts of members.
    pub restarts: u64,
}

/// Every mailbox that one message was put into, and where it stands there.
pub type Deliveries = Vec<(SlotId, MessageState)>;

/// What the shell needs of a store. One contract suite holds every implementation to it.
pub trait EventStore: Send + Sync + fmt::Debug + 'static {
    /// Opens a team's log for writing and fences off earlier owners. An unknown team has an empty log.
    fn open<'a>(&'a self, team: &'a TeamId) -> BoxFuture<'a, Result<Loaded, StoreError>>;
    /// Appends, and answers when the events are durable.
    fn append(&self, append: Append) -> BoxFuture<'_, Result<(), StoreError>>;
    /// Up to `limit` events after `after`, in order.
    fn read<'a>(
        &'a self,
        team: &'a TeamId,
        after: Seq,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Recorded>, StoreError>>;
    /// Where the messages stand that the events at `accepted` accepted: for each of them every
    /// mailbox that it was put into, by slot. Nothing where an event accepted none.
    fn deliveries<'a>(
        &'a self,
        team: &'a TeamId,
        accepted: &'a [Seq],
    ) -> BoxFuture<'a, Result<Vec<Deliveries>, StoreError>>;
    /// All teams, by name.
    fn teams(&self) -> BoxFuture<'_, Result<Vec<TeamRow>, StoreError>>;
    /// A team's numbers.
    fn totals<'a>(&'a self, team: &'a TeamId) -> BoxFuture<'a, Result<Totals, StoreError>>;
    /// Erases a team with its transcripts.
    fn erase<'a>(&'a self, team: &'a TeamId) -> BoxFuture<'a, Result<(), StoreError>>;
    /// Keeps a snapshot. Never part of an append, and never waited for by one.
    fn keep_snapshot<'a>(
        &'a self,
        team: &'a TeamId,
        snapshot: Snapshot,
    ) -> BoxFuture<'a, Result<(), StoreError>>;
    /// The newest snapshot at or before `at`, for replay.
    fn snapshot_before<'a>(
        &'a self,
        team: &'a TeamId,
        at: Seq,
    ) -> BoxFuture<'a, Result<Option<Snapshot>, StoreError>>;
    /// Appends transcript items of a team's conversation behind the `expected` that are there, and
    /// answers when they are durable. A conflict says how many there are.
    fn append_items<'a>(
        &'a self,
        team: &'a TeamId,
        conversation: &'a ConversationId,
        expected: u64,
        items: Vec<Item>,
    ) -> BoxFuture<'a, Result<(), StoreError>>;
    /// Up to `limit` transcript items after the first `after`.
    fn items<'a>(
        &'a self,
        conversation: &'a ConversationId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Item>, StoreError>>;
}
