//! Keeps a team's state in the store now and then; never on the way of a command.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aion_core::id::Seq;
use aion_core::team::Team;
use aion_core::time::Millis;
use aion_store::Snapshot;

use crate::world::Shared;

/// Events between two snapshots.
const EVERY: u64 = 2_000;
/// Time between two snapshots: each costs in proportion to the whole state, so a team that makes
/// thousands of events a second has fewer.
const APART: Millis = Millis(250);

#[derive(Debug)]
pub(crate) struct Snapshots {
    shared: Arc<Shared>,
    last: Seq,
    not_before: Millis,
    busy: Arc<AtomicBool>,
}

impl Snapshots {
    pub(crate) fn new(shared: &Arc<Shared>, last: Seq) -> Self {
        Self { shared: Arc::clone(shared), last, not_before: Millis(0), busy: Arc::default() }
    }

    /// Keeps a snapshot where the last one is far behind and none is being kept.
    pub(crate) fn consider(&mut self, seq: Seq, state: &Team) {
        if seq.0.saturating_sub(self.last.0) < EVERY {
            return;
        }
        let now = self.shared.house.clock.monotonic();
        if now < self.not_before || self.busy.swap(true, Ordering::AcqRel) {
            return;
        }
        (self.last, self.not_before) = (seq, Millis(now.0 + APART.0));
        let (shared, busy, state) =
            (Arc::clone(&self.shared), Arc::clone(&self.busy), state.clone());
        tokio::spawn(async move {
            keep(&shared, seq, state).await;
            busy.store(false, Ordering::Release);
        });
    }
}

async fn keep(shared: &Shared, seq: Seq, state: Team) {
    // A snapshot is a cache: whatever fails here costs time at the next opening and nothing else.
    let bytes = tokio::task::spawn_blocking(move || serde_json::to_vec(&state)).await;
    let bytes = match bytes {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) => {
            return tracing::warn!(team = %shared.team, %error, "a snapshot could not be written");
        }
        Err(_) => return,
    };
    let snapshot = Snapshot { seq, state_version: Team::STATE_VERSION, bytes };
    if let Err(error) = shared.house.store.keep_snapshot(&shared.team, snapshot).await {
        tracing::warn!(team = %shared.team, %error, "a snapshot could not be kept");
    }
}
