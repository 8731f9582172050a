//! Tells those who watch what happened and what is being written; it never makes a sender wait.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aion_agent::host::Delta;
use aion_core::event::Recorded;
use aion_core::id::{Seq, SlotId, TurnId};
use aion_store::StoreError;
use futures::Stream;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::world::Shared;

/// Batches a watcher may fall behind before it is told to come again.
const BATCHES: usize = 256;
/// Deltas a watcher may fall behind.
const DELTAS: usize = 1_024;
/// Text that is kept of one running turn for those who come late.
const LIVE_TEXT: usize = 64 * 1024;
/// Events read from the store at a time.
const PAGE: usize = 512;

/// One team's bus. Its channels exist only while somebody listens.
#[derive(Debug, Default)]
pub(crate) struct Bus {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    events: Option<broadcast::Sender<Arc<[Recorded]>>>,
    deltas: Option<broadcast::Sender<LiveDelta>>,
    live: BTreeMap<TurnId, LiveTurn>,
    closed: bool,
}

/// What a running turn has written since its last complete step, and how much in all.
#[derive(Debug, Default)]
struct LiveTurn {
    pieces: VecDeque<LiveDelta>,
    bytes: usize,
    offsets: [(u32, u64); 2],
}

/// A piece of a running turn.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveDelta {
    /// Who writes.
    pub slot: SlotId,
    /// The turn.
    pub turn: TurnId,
    /// How many bytes of the same kind the step had written before this piece.
    pub offset: u64,
    /// The piece.
    pub delta: Arc<Delta>,
}

impl Bus {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here can be half-done: a poisoned lock holds valid data.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn publish(&self, batch: &Arc<[Recorded]>) {
        let mut inner = self.lock();
        if let Some(events) = &inner.events
            && events.send(Arc::clone(batch)).is_err()
        {
            inner.events = None;
        }
    }

    /// A turn begins: what it writes is shown from here on.
    pub(crate) fn began(&self, turn: TurnId) {
        let mut inner = self.lock();
        if !inner.closed {
            inner.live.entry(turn).or_default();
        }
    }

    /// A turn has ended. What it wrote is in its transcript, and what it still writes while it dies
    /// is nobody's.
    pub(crate) fn ended(&self, turn: TurnId) {
        self.lock().live.remove(&turn);
    }

    pub(crate) fn delta(&self, slot: SlotId, turn: TurnId, delta: Delta) {
        let mut inner = self.lock();
        let Some(live) = inner.live.get_mut(&turn) else { return };
        let piece = LiveDelta { slot, turn, offset: live.advance(&delta), delta: Arc::new(delta) };
        live.keep(piece.clone());
        if let Some(deltas) = &inner.deltas
            && deltas.send(piece).is_err()
        {
            inner.deltas = None;
        }
    }

    /// Ends every subscription.
    pub(crate) fn close(&self) {
        let mut inner = self.lock();
        *inner = Inner { closed: true, ..Inner::default() };
    }

    fn subscribe_events(&self) -> broadcast::Receiver<Arc<[Recorded]>> {
        let mut inner = self.lock();
        if inner.closed {
            return broadcast::Sender::new(1).subscribe();
        }
        inner.events.get_or_insert_with(|| broadcast::Sender::new(BATCHES)).subscribe()
    }

    pub(crate) fn subscribe_deltas(&self) -> DeltaSubscription {
        let mut inner = self.lock();
        if inner.closed {
            let live = broadcast::Sender::new(1).subscribe();
            return DeltaSubscription { past: VecDeque::new(), live };
        }
        let live = inner.deltas.get_or_insert_with(|| broadcast::Sender::new(DELTAS)).subscribe();
        let past = inner.live.values().flat_map(|turn| turn.pieces.iter().cloned()).collect();
        DeltaSubscription { past, live }
    }
}

impl LiveTurn {
    /// Where a piece begins in its step's text; counts it.
    fn advance(&mut self, delta: &Delta) -> u64 {
        let (kind, step, len) = match delta {
            Delta::Text { step, text } => (0, *step, text.len()),
            Delta::Thought { step, text } => (1, *step, text.len()),
            Delta::Called { .. } | Delta::Got { .. } => return 0,
        };
        let (at, offset) = &mut self.offsets[kind];
        if *at != step {
            (*at, *offset) = (step, 0);
        }
        let before = *offset;
        *offset += len as u64;
        before
    }

    fn keep(&mut self, piece: LiveDelta) {
        self.bytes += size(&piece.delta);
        self.pieces.push_back(piece);
        while self.bytes > LIVE_TEXT
            && let Some(oldest) = self.pieces.pop_front()
        {
            self.bytes -= size(&oldest.delta);
        }
    }
}

fn size(delta: &Delta) -> usize {
    std::mem::size_of::<LiveDelta>()
        + match delta {
            Delta::Text { text, .. } | Delta::Thought { text, .. } => text.len(),
            Delta::Called { call, tool, description, .. } => {
                call.len() + tool.len() + description.len()
            }
            Delta::Got { call, text, .. } => call.len() + text.len(),
        }
}

/// Why a subscription ended. Every one may be resumed from the last event that was seen.
#[derive(Debug, thiserror::Error)]
pub enum SubscriptionEnd {
    /// The reader was too slow; subscribe again from where it was.
    #[error("read fast enough; resume after event {seen}")]
    TooSlow {
        /// The last event that was handed out.
        seen: Seq,
    },
    /// The past could not be read.
    #[error("read the past of the team")]
    Store(#[source] StoreError),
}

/// A team's events after a point, past and future, in order, each once.
#[derive(Debug)]
pub struct Subscription {
    shared: Arc<Shared>,
    live: broadcast::Receiver<Arc<[Recorded]>>,
    seen: Seq,
    ready: VecDeque<Recorded>,
    /// Whether everything before the live part was handed out.
    caught_up: bool,
}

impl Subscription {
    pub(crate) fn new(shared: Arc<Shared>, from: Seq) -> Self {
        // First the live part, then the past: an event that falls between is in both, and the
        // sequence number tells them apart.
        let live = shared.bus.subscribe_events();
        Self { shared, live, seen: from, ready: VecDeque::new(), caught_up: false }
    }

    /// The last event that was handed out.
    pub fn seen(&self) -> Seq {
        self.seen
    }

    /// The next event. Waits for one; `None` means that the team is closed.
    pub async fn next(&mut self) -> Result<Option<Recorded>, SubscriptionEnd> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.seen = event.seq;
                return Ok(Some(event));
            }
            if !self.caught_up {
                let store = &self.shared.house.store;
                let page = store
                    .read(&self.shared.team, self.seen, PAGE)
                    .await
                    .map_err(SubscriptionEnd::Store)?;
                self.caught_up = page.is_empty();
                self.ready = page.into();
                continue;
            }
            match self.live.recv().await {
                Ok(batch) => self.take(&batch),
                Err(RecvError::Closed) => return Ok(None),
                Err(RecvError::Lagged(_)) => {
                    return Err(SubscriptionEnd::TooSlow { seen: self.seen });
                }
            }
        }
    }

    fn take(&mut self, batch: &[Recorded]) {
        match batch.first() {
            // Something is missing before this batch: the store has it, and the batch too.
            Some(first) if first.seq > self.seen.next() => self.caught_up = false,
            Some(_) | None => {
                let seen = self.seen;
                self.ready.extend(batch.iter().filter(|event| event.seq > seen).cloned());
            }
        }
    }

    /// The same as a stream, which ends with the first error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Recorded, SubscriptionEnd>> + Send {
        futures::stream::unfold(Some(self), |state| async {
            let mut subscription = state?;
            match subscription.next().await {
                Ok(Some(event)) => Some((Ok(event), Some(subscription))),
                Ok(None) => None,
                Err(end) => Some((Err(end), None)),
            }
        })
    }
}

/// What agents write while they write it, beginning with what running turns have written so far.
#[derive(Debug)]
pub struct DeltaSubscription {
    past: VecDeque<LiveDelta>,
    live: broadcast::Receiver<LiveDelta>,
}

impl DeltaSubscription {
    /// The next piece. `None` means that the team is closed, or that pieces were missed: subscribe
    /// again, and read the transcript for what lies between.
    pub async fn next(&mut self) -> Option<LiveDelta> {
        match self.past.pop_front() {
            Some(piece) => Some(piece),
            None => self.live.recv().await.ok(),
        }
    }
}
