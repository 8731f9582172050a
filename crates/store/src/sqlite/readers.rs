//! A few threads that only read, each with its own connection; they never hold a transaction open
//! between two jobs.

use std::fmt;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::error::StoreError;
use crate::sqlite::connection::{failed, read_only};

type Job = Box<dyn FnOnce(&Connection) + Send>;

/// The threads.
pub(crate) struct Readers {
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readers").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

impl Readers {
    pub(crate) fn start(database: &Path, count: usize) -> Result<Self, StoreError> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let queue = Arc::new(Mutex::new(queue));
        let mut readers = Self { jobs: Some(jobs), threads: Vec::new() };
        for _ in 0..count.max(1) {
            let connection = read_only(database)
                .map_err(|error| failed("open the store for reading", &error))?;
            let queue = Arc::clone(&queue);
            let thread = thread::Builder::new()
                .name("store-reader".to_owned())
                .spawn(move || work(&connection, &queue))
                .map_err(|error| StoreError::Unavailable(format!("start a thread: {error}")))?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    /// Runs `job` on one of the threads.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let gone = || StoreError::Unavailable("the store is closed".to_owned());
        let (reply, answer) = oneshot::channel();
        let job = Box::new(move |connection: &Connection| {
            // Nobody waits any more: fine.
            let _ = reply.send(job(connection));
        });
        self.jobs.as_ref().ok_or_else(gone)?.send(job).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn work(connection: &Connection, queue: &Mutex<Receiver<Job>>) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match job {
            Ok(job) => job(connection),
            Err(_) => return,
        }
    }
}
