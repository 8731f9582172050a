//! A store whose failures are planned, so that a test can repeat them; it never waits, and never
//! loses anything but the answers it was told to lose.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aion_core::event::Recorded;
use aion_core::id::{ConversationId, Seq, TeamId};
use aion_core::transcript::Item;
use aion_store::{Append, Deliveries, EventStore, Loaded, Snapshot, StoreError, TeamRow, Totals};
use futures::future::{BoxFuture, FutureExt};

/// What a store is asked to do, as far as it can fail here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// [`EventStore::open`].
    Open,
    /// [`EventStore::append`].
    Append,
    /// [`EventStore::read`].
    Read,
    /// [`EventStore::append_items`].
    AppendItems,
    /// [`EventStore::keep_snapshot`].
    KeepSnapshot,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is written, and the caller is told so.
    Unavailable,
    /// It is written, and the caller is told that nobody knows.
    UnknownApplied,
    /// Nothing is written, and the caller is told that nobody knows.
    UnknownNotApplied,
    /// Nothing is written, and the caller is told that somebody else was faster.
    Conflict,
}

/// Which calls fail, and how. The same plan fails the same calls.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    planned: BTreeMap<(Operation, u64), Fault>,
    seeded: Option<Seeded>,
}

#[derive(Clone, Debug)]
struct Seeded {
    seed: u64,
    per_mille: u64,
}

impl FaultPlan {
    /// No faults.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Lets the `nth` call (from 1) of an operation fail.
    #[must_use]
    pub fn at(mut self, operation: Operation, nth: u64, fault: Fault) -> Self {
        self.planned.insert((operation, nth), fault);
        self
    }

    /// Lets about `per_mille` of a thousand appends of events and of transcript items fail, each
    /// in a way that the seed alone decides.
    #[must_use]
    pub fn seeded(mut self, seed: u64, per_mille: u64) -> Self {
        self.seeded = Some(Seeded { seed, per_mille });
        self
    }

    fn fault(&self, operation: Operation, nth: u64) -> Option<Fault> {
        self.planned.get(&(operation, nth)).copied().or_else(|| {
            let seeded = self.seeded.as_ref()?;
            let lane = match operation {
                Operation::Append => 0,
                Operation::AppendItems => 1,
                Operation::Open | Operation::Read | Operation::KeepSnapshot => return None,
            };
            let drawn = mix(seeded.seed ^ mix(nth << 1 | lane));
            if drawn % 1_000 >= seeded.per_mille {
                return None;
            }
            Some(match (drawn >> 32) % 4 {
                0 => Fault::Unavailable,
                1 => Fault::UnknownApplied,
                2 => Fault::UnknownNotApplied,
                _ => Fault::Conflict,
            })
        })
    }
}

/// The finaliser of `SplitMix64`: spreads neighbouring numbers over the whole range.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A fault that happened: the operation, which call of it (from 1), and how it failed.
pub type Injected = (Operation, u64, Fault);

/// A store with planned failures in front of another one.
#[derive(Debug)]
pub struct FaultyStore<S> {
    inner: S,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    plan: FaultPlan,
    calls: BTreeMap<Operation, u64>,
    injected: Vec<Injected>,
}

impl<S> FaultyStore<S> {
    /// Puts the plan's failures in front of `inner`.
    pub fn new(inner: S, plan: FaultPlan) -> Self {
        let state = State { plan, calls: BTreeMap::new(), injected: Vec::new() };
        Self { inner, state: Mutex::new(state) }
    }

    /// The store behind.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Follows another plan from the next call on. Calls are counted on.
    pub fn set_plan(&self, plan: FaultPlan) {
        self.lock().plan = plan;
    }

    /// Lets the next call of an operation fail.
    pub fn fail_next(&self, operation: Operation, fault: Fault) {
        let mut state = self.lock();
        let next = state.calls.get(&operation).copied().unwrap_or(0) + 1;
        state.plan.planned.insert((operation, next), fault);
    }

    /// How often an operation was called.
    pub fn calls(&self, operation: Operation) -> u64 {
        self.lock().calls.get(&operation).copied().unwrap_or(0)
    }

    /// The faults that happened, in order.
    pub fn injected(&self) -> Vec<Injected> {
        self.lock().injected.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing here panics half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self, operation: Operation) -> Option<Fault> {
        let mut state = self.lock();
        let calls = state.calls.entry(operation).or_insert(0);
        *calls += 1;
        let nth = *calls;
        let fault = state.plan.fault(operation, nth)?;
        state.injected.push((operation, nth, fault));
        Some(fault)
    }

    /// Runs a call of the store behind, or fails as planned. Whether the call was made is decided
    /// when its future is first polled.
    async fn faulty<T>(
        &self,
        operation: Operation,
        team: &TeamId,
        expected: Seq,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match self.next(operation) {
            None => call.await,
            Some(Fault::UnknownApplied) => match call.await {
                Ok(_) => Err(StoreError::Unknown(PLANNED.to_owned())),
                Err(error) => Err(error),
            },
            Some(Fault::UnknownNotApplied) => Err(StoreError::Unknown(PLANNED.to_owned())),
            Some(Fault::Unavailable) => Err(StoreError::Unavailable(PLANNED.to_owned())),
            Some(Fault::Conflict) => {
                Err(StoreError::Conflict { team: team.clone(), expected, actual: expected.next() })
            }
        }
    }
}

const PLANNED: &str = "a fault that a test planned";

impl<S: EventStore> EventStore for FaultyStore<S> {
    fn open<'a>(&'a self, team: &'a TeamId) -> BoxFuture<'a, Result<Loaded, StoreError>> {
        self.faulty(Operation::Open, team, Seq(0), self.inner.open(team)).boxed()
    }

    fn append(&self, append: Append) -> BoxFuture<'_, Result<(), StoreError>> {
        let (team, expected) = (append.team.clone(), append.expected);
        let call = self.inner.append(append);
        async move { self.faulty(Operation::Append, &team, expected, call).await }.boxed()
    }

    fn read<'a>(
        &'a self,
        team: &'a TeamId,
        after: Seq,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Recorded>, StoreError>> {
        let call = self.inner.read(team, after, limit);
        self.faulty(Operation::Read, team, after, call).boxed()
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
        let at = snapshot.seq;
        let call = self.inner.keep_snapshot(team, snapshot);
        self.faulty(Operation::KeepSnapshot, team, at, call).boxed()
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
        let call = self.inner.append_items(team, conversation, expected, items);
        self.faulty(Operation::AppendItems, team, Seq(expected), call).boxed()
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
