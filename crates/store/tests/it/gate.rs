//! Holds the writing thread at a COMMIT until everything else is in its queue; for tests that need
//! to know what shares a commit.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use aion_store::{CommitFault, SqliteOptions};

/// The test's side.
pub(crate) struct Gate {
    armed: Arc<AtomicBool>,
    commits: Arc<AtomicU64>,
    at_commit: mpsc::Receiver<()>,
    go_on: mpsc::Sender<()>,
}

impl Gate {
    /// A gate, and the options of a store that stops at it.
    pub(crate) fn new(options: SqliteOptions) -> (Self, SqliteOptions) {
        Self::observing(options, || ())
    }

    /// The same, with something to look at before each group commit.
    pub(crate) fn observing(
        options: SqliteOptions,
        observe: impl Fn() + Send + Sync + 'static,
    ) -> (Self, SqliteOptions) {
        let (arrived, at_commit) = mpsc::channel();
        let (go_on, released) = mpsc::channel();
        let released = Mutex::new(released);
        let gate = Self {
            armed: Arc::new(AtomicBool::new(false)),
            commits: Arc::new(AtomicU64::new(0)),
            at_commit,
            go_on,
        };
        let (armed, commits) = (Arc::clone(&gate.armed), Arc::clone(&gate.commits));
        let options = options.with_commit_faults(move |_| {
            commits.fetch_add(1, Ordering::Relaxed);
            observe();
            if armed.swap(false, Ordering::Relaxed) {
                arrived.send(()).unwrap();
                released.lock().unwrap().recv().unwrap();
            }
            CommitFault::None
        });
        (gate, options)
    }

    /// How many group commits there were.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Sends `first` to the store, and everything in `behind` while the commit of `first` has
    /// stopped; then lets it go on and waits for all.
    pub(crate) async fn run<A, B>(
        &self,
        first: impl Future<Output = A>,
        behind: impl Future<Output = B>,
    ) -> (A, B) {
        self.armed.store(true, Ordering::Relaxed);
        let behind = async {
            self.at_commit.recv().unwrap();
            // Polls `behind` once before the commit goes on.
            let go_on = async { self.go_on.send(()).unwrap() };
            futures::join!(behind, go_on).0
        };
        futures::join!(first, behind)
    }
}
