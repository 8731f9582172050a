//! A session's one timer: when the rules want to be asked again; it never decides anything.

use std::fmt;
use std::sync::Arc;

use aion_core::time::Millis;
use futures::future::BoxFuture;

use crate::clock::Clock;

/// A due time that did not pass by a tick is tried again after this long, not at once.
const HOLD_OFF: Millis = Millis(1_000);

pub(crate) struct Timer {
    clock: Arc<dyn Clock>,
    at: Option<Millis>,
    sleep: Option<BoxFuture<'static, ()>>,
    fired: Option<Millis>,
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer").field("at", &self.at).finish_non_exhaustive()
    }
}

impl Timer {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, at: None, sleep: None, fired: None }
    }

    pub(crate) fn is_set(&self) -> bool {
        self.sleep.is_some()
    }

    /// Sets the time at which [`Timer::due`] returns; none means never.
    pub(crate) fn set(&mut self, at: Option<Millis>) {
        if self.at == at && self.sleep.is_some() {
            return;
        }
        self.at = at;
        let again = at.is_some() && at == self.fired;
        self.sleep = at.map(|at| {
            let at = if again { Millis(self.clock.monotonic().0 + HOLD_OFF.0) } else { at };
            self.clock.sleep_until(at)
        });
    }

    /// Waits until the set time.
    pub(crate) async fn due(&mut self) {
        match &mut self.sleep {
            Some(sleep) => {
                sleep.await;
                self.sleep = None;
                self.fired = self.at;
            }
            None => std::future::pending().await,
        }
    }
}
