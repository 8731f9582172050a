//! Decisions on their way to the turn that waits for them; never made here.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aion_core::id::RequestId;
use aion_core::request::Decision;
use tokio::sync::Notify;

/// The decisions that reached one turn, kept until the turn asks for them: a decision may be there
/// before its question, when a turn is taken up again.
#[derive(Debug, Default)]
pub struct Answers {
    decided: Mutex<BTreeMap<RequestId, Decision>>,
    arrived: Notify,
}

impl Answers {
    /// Hands over a decision. The first one for a request stays.
    pub fn put(&self, request: RequestId, decision: Decision) {
        self.lock().entry(request).or_insert(decision);
        self.arrived.notify_waiters();
    }

    /// Waits for the decision of a request and takes it.
    pub(crate) async fn wait(&self, request: RequestId) -> Decision {
        loop {
            let arrived = self.arrived.notified();
            tokio::pin!(arrived);
            // Registered before the look, so that a decision between look and wait is not missed.
            arrived.as_mut().enable();
            if let Some(decision) = self.lock().remove(&request) {
                return decision;
            }
            arrived.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RequestId, Decision>> {
        // A map insert or removal leaves no half-done state behind.
        self.decided.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
