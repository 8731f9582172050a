//! A store whose appends wait at a gate, and fall over where a test says so; it loses nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aion_core::event::Recorded;
use aion_core::id::{ConversationId, Seq, TeamId};
use aion_core::transcript::Item;
use aion_store::{Append, Deliveries, EventStore, Loaded, Snapshot, StoreError, TeamRow, Totals};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;

/// The store.
#[derive(Debug)]
pub struct GatedStore {
    inner: Arc<dyn EventStore>,
    held: watch::Sender<bool>,
    waiting: watch::Sender<u64>,
    panics: AtomicBool,
}

impl GatedStore {
    /// An open gate in front of another store.
    #[must_use]
    pub fn new(inner: Arc<dyn EventStore>) -> Self {
        Self {
            inner,
            held: watch::Sender::new(false),
            waiting: watch::Sender::new(0),
            panics: AtomicBool::new(false),
        }
    }

    /// Lets appends wait until [`GatedStore::release`].
    pub fn hold(&self) {
        self.held.send_replace(true);
    }

    /// Lets waiting appends go on.
    pub fn release(&self) {
        self.held.send_replace(false);
    }

    /// Returns when an append waits.
    pub async fn is_held(&self) {
        // The sender is our own: it cannot be gone.
        let _ = self.waiting.subscribe().wait_for(|waiting| *waiting > 0).await;
    }

    /// Lets the next append panic before it writes.
    pub fn panic_next(&self) {
        self.panics.store(true, Ordering::SeqCst);
    }

    async fn pass(&self) {
        self.waiting.send_modify(|waiting| *waiting += 1);
        // The sender is our own: it cannot be gone.
        let _ = self.held.subscribe().wait_for(|held| !held).await;
        self.waiting.send_modify(|waiting| *waiting -= 1);
        assert!(!self.panics.swap(false, Ordering::SeqCst), "a panic that a test planned");
    }
}

impl EventStore for GatedStore {
    fn open<'a>(&'a self, team: &'a TeamId) -> BoxFuture<'a, Result<Loaded, StoreError>> {
        self.inner.open(team)
    }

    fn append(&self, append: Append) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            self.pass().await;
            self.inner.append(append).await
        }
        .boxed()
    }

    fn read<'a>(
        &'a self,
        team: &'a TeamId,
        after: Seq,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Recorded>, StoreError>> {
        self.inner.read(team, after, limit)
    }

    fn deliveries<'a>(
        &'a self,
        team: &'a TeamId,
        accepted: &'a [Seq],
    ) -> BoxFuture<'a, Result<Vec<Deliveries>, StoreError>> {
        self.inner.deliveries(team, accepted)
    }

    fn teams(&self) -> BoxFuture<'_, Result<Vec<TeamRow>, StoreError>> {
        self.inner.teams()
    }

    fn totals<'a>(&'a self, team: &'a TeamId) -> BoxFuture<'a, Result<Totals, StoreError>> {
        self.inner.totals(team)
    }

    fn erase<'a>(&'a self, team: &'a TeamId) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.erase(team)
    }

    fn keep_snapshot<'a>(
        &'a self,
        team: &'a TeamId,
        snapshot: Snapshot,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.keep_snapshot(team, snapshot)
    }

    fn snapshot_before<'a>(
        &'a self,
        team: &'a TeamId,
        at: Seq,
    ) -> BoxFuture<'a, Result<Option<Snapshot>, StoreError>> {
        self.inner.snapshot_before(team, at)
    }

    fn append_items<'a>(
        &'a self,
        team: &'a TeamId,
        conversation: &'a ConversationId,
        expected: u64,
        items: Vec<Item>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.append_items(team, conversation, expected, items)
    }

    fn items<'a>(
        &'a self,
        conversation: &'a ConversationId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Item>, StoreError>> {
        self.inner.items(conversation, after, limit)
    }
}
