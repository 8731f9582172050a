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

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn decline(reason: &str) -> Decision {
        Decision::Decline { reason: Some(reason.to_owned()) }
    }

    #[tokio::test]
    async fn a_decision_may_come_before_or_after_its_question() {
        let answers = Answers::default();
        answers.put(RequestId(1), decline("first"));
        answers.put(RequestId(1), decline("second"));
        assert_eq!(answers.wait(RequestId(1)).await, decline("first"));

        let mut waits = Box::pin(answers.wait(RequestId(2)));
        assert_eq!(waits.as_mut().now_or_never(), None);
        answers.put(RequestId(3), decline("another's"));
        assert_eq!(waits.as_mut().now_or_never(), None);
        answers.put(RequestId(2), decline("mine"));
        assert_eq!(waits.await, decline("mine"));
    }
}
