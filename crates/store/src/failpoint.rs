//! Named points at which a process kills itself, for crash tests; without the feature
//! `failpoints` it never does anything.
//!
//! The environment variable `AION_FAILPOINT` names a point, and with `name:nth` which visit to it
//! counts (from 1; the first one if not said).

/// Every point of this crate.
pub const POINTS: [&str; 8] = [
    "store.before_commit",
    "store.after_commit",
    "store.before_reply",
    "store.before_items",
    "store.after_items",
    "store.before_snapshot",
    "store.after_snapshot",
    "store.checkpoint",
];

/// Passes the point `name`: kills this process with SIGKILL if it was told to die there.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub fn hit(_name: &str) {}

/// Passes the point `name`: kills this process with SIGKILL if it was told to die there.
#[cfg(feature = "failpoints")]
pub fn hit(name: &str) {
    armed::hit(name);
}

#[cfg(feature = "failpoints")]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    struct Armed {
        name: String,
        nth: u64,
        seen: AtomicU64,
    }

    static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

    pub(super) fn hit(name: &str) {
        let Some(armed) = ARMED.get_or_init(read_environment) else {
            return;
        };
        if armed.name == name && armed.seen.fetch_add(1, Ordering::Relaxed) + 1 == armed.nth {
            // A process that cannot signal itself is left running, and the crash test notices.
            let _ = kill(Pid::this(), Signal::SIGKILL);
            loop {
                std::thread::park();
            }
        }
    }

    fn read_environment() -> Option<Armed> {
        let text = std::env::var("AION_FAILPOINT").ok()?;
        let (name, nth) = match text.rsplit_once(':') {
            Some((name, nth)) => (name.to_owned(), nth.parse().ok()?),
            None => (text, 1),
        };
        Some(Armed { name, nth, seen: AtomicU64::new(0) })
    }
}
