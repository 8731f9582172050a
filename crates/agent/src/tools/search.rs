//! Walking the workspace for the searching tools, with a stop flag; it follows no symbolic link.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use ignore::{Walk, WalkBuilder};

use super::blocking;
use crate::host::ToolOutput;
use crate::permission::Rulebook;

/// Says whether the one who asked is gone.
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Sets the flag when the future that holds it is dropped.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs blocking work that looks at a stop flag.
pub(super) fn stoppable(
    work: impl FnOnce(&Stop) -> Result<ToolOutput, String> + Send + 'static,
) -> BoxFuture<'static, ToolOutput> {
    let flag = Arc::new(AtomicBool::new(false));
    let guard = StopOnDrop(Arc::clone(&flag));
    let running = blocking(move || work(&Stop(flag)));
    async move {
        let _guard = guard;
        running.await
    }
    .boxed()
}

/// What rules keep from being read.
#[derive(Debug, Default)]
pub(super) struct Hidden(pub(super) Option<Arc<Rulebook>>);

impl Hidden {
    fn hides(&self, path: &Path) -> bool {
        self.0.as_ref().is_some_and(|book| book.hides(path))
    }
}

/// The files below a directory, by name: what git ignores, git's own files and what is hidden are
/// left out.
pub(super) fn walk(directory: &Path, hidden: Hidden) -> Walk {
    WalkBuilder::new(directory)
        .hidden(false)
        .require_git(false)
        .git_global(false)
        .follow_links(false)
        .filter_entry(move |entry| entry.file_name() != ".git" && !hidden.hides(entry.path()))
        .sort_by_file_path(Path::cmp)
        .build()
}
