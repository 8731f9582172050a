//! What all agents of this process share of one service: how many calls at once, and its pauses;
//! never what is called.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout};

use super::retry::Patience;
use crate::provider::ProviderError;

/// Calls at once at one place.
const AT_ONCE: usize = 256;

/// The gates of this process, one a place.
static GATES: Mutex<BTreeMap<String, Weak<Gate>>> = Mutex::new(BTreeMap::new());

/// The gate before one service.
#[derive(Debug)]
pub(super) struct Gate {
    places: Arc<Semaphore>,
    /// Until when nobody calls.
    pause: Mutex<Option<Instant>>,
}

impl Gate {
    /// The gate of a place: the same for everybody who calls there.
    pub(super) fn of(place: &str) -> Arc<Self> {
        let mut gates = GATES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = gates.get(place).and_then(Weak::upgrade) {
            return gate;
        }
        gates.retain(|_, gate| gate.strong_count() > 0);
        let places = Arc::new(Semaphore::new(AT_ONCE));
        let gate = Arc::new(Self { places, pause: Mutex::new(None) });
        gates.insert(place.to_owned(), Arc::downgrade(&gate));
        gate
    }

    /// Nobody calls for this long.
    pub(super) fn pause(&self, wait: Duration) {
        let until = Instant::now() + wait;
        let mut pause = self.pause.lock().unwrap_or_else(PoisonError::into_inner);
        if pause.is_none_or(|known| known < until) {
            *pause = Some(until);
        }
    }

    /// Waits for a place and for the end of a pause, if that is near.
    pub(super) async fn enter(
        &self,
        patience: &Patience,
    ) -> Result<OwnedSemaphorePermit, ProviderError> {
        let place = timeout(patience.queue, Arc::clone(&self.places).acquire_owned()).await;
        let Ok(Ok(permit)) = place else {
            let text = format!("{AT_ONCE} other calls run and none of them ended");
            return Err(ProviderError::Unavailable { text, retry_after: None });
        };
        // A pause may be made longer while it is waited for.
        let latest = Instant::now() + patience.longest_wait;
        while let Some(until) = self.paused_until() {
            if until > latest {
                let retry_after = Some(until.saturating_duration_since(Instant::now()));
                return Err(ProviderError::RateLimit { retry_after });
            }
            sleep_until(until).await;
        }
        Ok(permit)
    }

    fn paused_until(&self) -> Option<Instant> {
        let pause = self.pause.lock().unwrap_or_else(PoisonError::into_inner);
        pause.filter(|until| *until > Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pause_holds_for_everybody_who_calls_there() {
        let patience = Patience::default();
        let (one, other) = (Gate::of("limits-a"), Gate::of("limits-a"));
        assert!(Arc::ptr_eq(&one, &other));
        one.pause(Duration::from_secs(4));
        let began = Instant::now();
        drop(other.enter(&patience).await.unwrap());
        assert_eq!(began.elapsed(), Duration::from_secs(4));
        one.pause(Duration::from_secs(30));
        let refused = other.enter(&patience).await.unwrap_err();
        let retry_after = Some(Duration::from_secs(30));
        assert_eq!(refused, ProviderError::RateLimit { retry_after });
        drop(Gate::of("limits-b").enter(&patience).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn calls_wait_for_a_place_but_not_forever() {
        let patience = Patience::default();
        let gate = Gate::of("limits-c");
        let mut held = Vec::new();
        for _ in 0..AT_ONCE {
            held.push(gate.enter(&patience).await.unwrap());
        }
        let refused = gate.enter(&patience).await.unwrap_err();
        assert!(matches!(refused, ProviderError::Unavailable { .. }));
        held.pop();
        drop(gate.enter(&patience).await.unwrap());
    }
}
