//! The one place where the runtime learns what time it is; it never decides by wall time.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aion_core::time::Millis;
use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::Instant;

/// Time as the runtime needs it: a monotonic span, a wall time for display, and a way to wait.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// How long the clock has been running. Never goes back and stands still while suspended.
    fn monotonic(&self) -> Millis;
    /// Milliseconds since the Unix epoch; only for what people read and for downtime.
    fn wall_ms(&self) -> u64;
    /// Waits until [`Clock::monotonic`] has reached `at`.
    fn sleep_until(&self, at: Millis) -> BoxFuture<'static, ()>;
}

/// The machine's own clock. Its waits follow tokio's time, also where a test has paused it.
#[derive(Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock that begins at zero.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn monotonic(&self) -> Millis {
        Millis(u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn wall_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn sleep_until(&self, at: Millis) -> BoxFuture<'static, ()> {
        // A span too long for the machine is as good as never: the timer is set anew long before.
        let longest = Duration::from_hours(365 * 24);
        let target = self.origin + Duration::from_millis(at.0).min(self.origin.elapsed() + longest);
        Box::pin(tokio::time::sleep_until(target))
    }
}

/// A clock that moves only when it is told to.
#[derive(Debug)]
pub struct ManualClock {
    now: watch::Sender<u64>,
    wall: AtomicU64,
}

impl ManualClock {
    /// A clock at zero, with a wall time.
    #[must_use]
    pub fn new(wall_ms: u64) -> Self {
        Self { now: watch::Sender::new(0), wall: AtomicU64::new(wall_ms) }
    }

    /// Moves it, and the wall time with it.
    pub fn advance(&self, span: Millis) {
        self.wall.fetch_add(span.0, Ordering::SeqCst);
        self.now.send_modify(|now| *now += span.0);
    }

    /// Moves the wall time alone, as a suspended machine does.
    pub fn advance_wall(&self, span: Millis) {
        self.wall.fetch_add(span.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn monotonic(&self) -> Millis {
        Millis(*self.now.borrow())
    }

    fn wall_ms(&self) -> u64 {
        self.wall.load(Ordering::SeqCst)
    }

    fn sleep_until(&self, at: Millis) -> BoxFuture<'static, ()> {
        let mut now = self.now.subscribe();
        Box::pin(async move {
            if now.wait_for(|now| *now >= at.0).await.is_err() {
                // The clock is gone: its time will never come.
                std::future::pending::<()>().await;
            }
        })
    }
}
