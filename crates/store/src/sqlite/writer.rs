//! The one thread that writes: it gathers what waits into group commits and answers after them; it
//! never reads for anybody.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};

use aion_core::id::TeamId;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::encode::APPEND_LIMIT;
use crate::error::StoreError;
use crate::event_store::Snapshot;
use crate::failpoint;
use crate::sqlite::batch::{self, CommitFault, Done, Entry, Failure, Ledger};
use crate::sqlite::blobs::Blobs;
use crate::sqlite::connection::{Paths, failed, is_damage, read_write};
use crate::sqlite::erase::erase;
use crate::sqlite::rebuild::rebuild;
use crate::sqlite::rows::unsigned;
use crate::sqlite::snapshots;
use crate::sqlite::witness::Witness;

/// Where an answer goes.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// What the thread is asked to do.
#[derive(Debug)]
pub(crate) enum Job {
    /// Part of a group commit.
    Group(Entry, Reply<Done>),
    /// A snapshot, in a transaction of its own.
    Snapshot(TeamId, Snapshot, Reply<()>),
    /// Everything of a team, in a transaction of its own.
    Erase(TeamId, Reply<()>),
    /// The read models of all teams from their logs.
    Rebuild(Reply<()>),
}

/// What a checkpoint is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checkpoint {
    /// As far as it goes without waiting.
    Passive,
    /// Also cut the log, so that nothing of what was erased stays in it.
    Truncate,
}

/// Decides what the disk does at the n-th COMMIT, for tests.
pub(crate) type FaultPlan = Arc<dyn Fn(u64) -> CommitFault + Send + Sync>;

/// Bytes of commits after which the checkpointer is woken: a page that is written again and again
/// is then moved once.
const CHECKPOINT_EVERY: usize = 16 * 1024 * 1024;
/// What a commit adds to the log beside the bytes of its events: a few pages.
const COMMIT_OVERHEAD: usize = 24 * 1024;
/// What is left for transcripts in a commit while events wait as well.
const ITEMS_SHARE: usize = 128 * 1024;

/// The thread's own state.
pub(crate) struct Writer {
    paths: Paths,
    /// None after an I/O error, until it can be opened again.
    connection: Option<Connection>,
    ledger: Ledger,
    blobs: Blobs,
    witness: Arc<Witness>,
    checkpoints: SyncSender<Checkpoint>,
    since_checkpoint: usize,
    faults: Option<FaultPlan>,
    max_pages: Option<u32>,
    attempts: u64,
    first: VecDeque<(Entry, Reply<Done>)>,
    items: VecDeque<(Entry, Reply<Done>)>,
    others: VecDeque<Job>,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("paths", &self.paths).finish_non_exhaustive()
    }
}

impl Writer {
    #[expect(clippy::too_many_arguments, reason = "called once, where the parts are made")]
    pub(crate) fn new(
        paths: Paths,
        connection: Connection,
        ledger: Ledger,
        blobs: Blobs,
        witness: Arc<Witness>,
        checkpoints: SyncSender<Checkpoint>,
        faults: Option<FaultPlan>,
        max_pages: Option<u32>,
    ) -> Self {
        Self {
            paths,
            connection: Some(connection),
            ledger,
            blobs,
            witness,
            checkpoints,
            since_checkpoint: 0,
            faults,
            max_pages,
            attempts: 0,
            first: VecDeque::new(),
            items: VecDeque::new(),
            others: VecDeque::new(),
        }
    }

    /// Works until nobody can ask any more and all that was asked is done.
    pub(crate) fn run(mut self, jobs: &Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            self.sort_in(job);
            loop {
                while let Ok(job) = jobs.try_recv() {
                    self.sort_in(job);
                }
                let batch = self.next_batch();
                let other = self.others.pop_front();
                if batch.is_empty() && other.is_none() {
                    break;
                }
                if !batch.is_empty() {
                    self.commit(batch);
                }
                // One after each commit: it neither overtakes the appends nor waits for their end.
                if let Some(job) = other {
                    self.alone(job);
                }
            }
        }
        if let Some(connection) = &self.connection {
            // A reader elsewhere may keep this from being complete; the next opening goes on.
            let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        }
    }

    fn sort_in(&mut self, job: Job) {
        match job {
            Job::Group(entry @ (Entry::Append(_) | Entry::Open(_)), reply) => {
                self.first.push_back((entry, reply));
            }
            Job::Group(entry @ Entry::Items { .. }, reply) => self.items.push_back((entry, reply)),
            job @ (Job::Snapshot(..) | Job::Erase(..) | Job::Rebuild(_)) => {
                self.others.push_back(job);
            }
        }
    }

    /// Events first; transcripts fill what is left, and always have a small share.
    fn next_batch(&mut self) -> Vec<(Entry, Reply<Done>)> {
        let mut batch = Vec::with_capacity(self.first.len() + self.items.len());
        let mut bytes = 0;
        let share = if self.items.is_empty() { 0 } else { ITEMS_SHARE };
        take(&mut self.first, &mut batch, &mut bytes, APPEND_LIMIT - share);
        take(&mut self.items, &mut batch, &mut bytes, APPEND_LIMIT);
        batch
    }

    fn commit(&mut self, batch: Vec<(Entry, Reply<Done>)>) {
        match self.attempt(&batch) {
            Ok(outcomes) => {
                failpoint::hit("store.before_reply");
                for ((_, reply), outcome) in batch.into_iter().zip(outcomes) {
                    // A caller that no longer waits finds its command in the log.
                    let _ = reply.send(outcome);
                }
            }
            Err(Failure::Statement(_)) if batch.len() > 1 => {
                for alone in batch {
                    self.commit(vec![alone]);
                }
            }
            Err(Failure::Statement(error)) => {
                for (_, reply) in batch {
                    let _ = reply.send(Err(failed("append to the store", &error)));
                }
            }
            Err(Failure::Commit(error)) => {
                for (_, reply) in batch {
                    let _ = reply.send(Err(StoreError::Unknown(error.clone())));
                }
            }
        }
    }

    fn attempt(
        &mut self,
        batch: &[(Entry, Reply<Done>)],
    ) -> Result<Vec<Result<Done, StoreError>>, Failure> {
        self.connect()?;
        let Some(connection) = &self.connection else {
            return Ok(Vec::new());
        };
        self.attempts += 1;
        let fault =
            || self.faults.as_ref().map_or(CommitFault::None, |faults| faults(self.attempts));
        let before = self.ledger.commits;
        let entries = batch.iter().map(|(entry, _)| entry);
        let result = batch::commit(connection, &mut self.ledger, &self.blobs, entries, fault);
        match &result {
            Ok(_) if self.ledger.commits > before => {
                let bytes = batch.iter().map(|(entry, _)| entry.bytes()).sum();
                self.committed(bytes);
            }
            Ok(_) => {}
            Err(failure) => self.after(failure),
        }
        result
    }

    /// Runs a job in a transaction of its own.
    fn alone(&mut self, job: Job) {
        match job {
            Job::Group(entry, reply) => self.commit(vec![(entry, reply)]),
            Job::Snapshot(team, snapshot, reply) => {
                let kept = self.transaction("keep a snapshot", |connection, ledger| {
                    snapshots::keep(connection, ledger, &team, &snapshot)
                });
                if kept.is_ok() {
                    failpoint::hit("store.after_snapshot");
                }
                let _ = reply.send(kept);
            }
            Job::Erase(team, reply) => {
                let _ = reply.send(self.erase(&team));
            }
            Job::Rebuild(reply) => {
                let rebuilt = self
                    .transaction("rebuild the read models", |connection, _| rebuild(connection));
                self.ledger.heads.clear();
                let _ = reply.send(rebuilt);
            }
        }
    }

    fn transaction(
        &mut self,
        doing: &str,
        work: impl FnOnce(&Connection, &mut Ledger) -> rusqlite::Result<Result<(), StoreError>>,
    ) -> Result<(), StoreError> {
        self.connect().map_err(|error| failed(doing, &error))?;
        let Some(connection) = &self.connection else {
            return Ok(());
        };
        let before = self.ledger.commits;
        let mut refused = Ok(());
        let result = (|| {
            batch::begin(connection)?;
            refused = work(connection, &mut self.ledger)?;
            if refused.is_err() {
                connection.execute_batch("ROLLBACK")?;
                return Ok(());
            }
            batch::end(connection, CommitFault::None)
        })();
        match result {
            Ok(()) if refused.is_ok() => {
                self.committed(0);
                Ok(())
            }
            Ok(()) => {
                self.ledger.commits = before;
                refused
            }
            Err(failure) => {
                self.ledger.commits = before;
                if !connection.is_autocommit() {
                    let _ = connection.execute_batch("ROLLBACK");
                }
                self.ledger.heads.clear();
                self.after(&failure);
                Err(match failure {
                    Failure::Statement(error) => failed(doing, &error),
                    Failure::Commit(error) => StoreError::Unknown(error),
                })
            }
        }
    }

    fn erase(&mut self, team: &TeamId) -> Result<(), StoreError> {
        let doing = "erase a team";
        self.transaction(doing, |connection, ledger| {
            // What is erased is overwritten, not only unlinked.
            connection.pragma_update(None, "secure_delete", true)?;
            let erased = erase(connection, ledger, team);
            connection.pragma_update(None, "secure_delete", false)?;
            erased
        })?;
        self.ledger.heads.remove(team);
        // If the thread is busy, its next round cuts the log all the same.
        let _ = self.checkpoints.send(Checkpoint::Truncate);
        self.blobs.erase(team).map_err(|error| StoreError::Unavailable(format!("{doing}: {error}")))
    }

    fn committed(&mut self, bytes: usize) {
        self.witness.commits(self.ledger.commits);
        self.since_checkpoint += bytes + COMMIT_OVERHEAD;
        if self.since_checkpoint > CHECKPOINT_EVERY {
            self.since_checkpoint = 0;
            // A full channel means that one is due already.
            let _ = self.checkpoints.try_send(Checkpoint::Passive);
        }
    }

    /// Closes a connection that may hold a wrong idea of the file.
    fn after(&mut self, failure: &Failure) {
        let close = match failure {
            Failure::Commit(error) => {
                tracing::error!(%error, "a commit failed and may or may not be durable");
                true
            }
            Failure::Statement(error) => {
                tracing::warn!(%error, "a write to the store failed");
                is_damage(error)
                    || error.sqlite_error_code() == Some(rusqlite::ErrorCode::SystemIoFailure)
                    || self.connection.as_ref().is_some_and(|c| !c.is_autocommit())
            }
        };
        if close {
            self.connection = None;
            self.ledger.heads.clear();
        }
    }

    fn connect(&mut self) -> rusqlite::Result<()> {
        if self.connection.is_none() {
            let connection = read_write(&self.paths.database)?;
            limit_pages(&connection, self.max_pages)?;
            let (epoch, commits) = progress(&connection)?;
            self.ledger.epoch = self.ledger.epoch.max(epoch);
            self.ledger.commits = self.ledger.commits.max(commits);
            self.connection = Some(connection);
        }
        Ok(())
    }
}

/// The epoch that was given last, and the number of the last commit.
pub(crate) fn progress(connection: &Connection) -> rusqlite::Result<(u64, u64)> {
    connection.query_row(
        "SELECT meta.epoch, max(meta.commits, coalesce((SELECT max(commits) FROM teams), 0))
         FROM meta",
        [],
        |row| Ok((unsigned(row.get(0)?), unsigned(row.get(1)?))),
    )
}

/// Lets the file grow to so many pages, for tests of a full disk.
pub(crate) fn limit_pages(connection: &Connection, pages: Option<u32>) -> rusqlite::Result<()> {
    match pages {
        Some(pages) => {
            connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
        }
        None => Ok(()),
    }
}

fn take(
    queue: &mut VecDeque<(Entry, Reply<Done>)>,
    batch: &mut Vec<(Entry, Reply<Done>)>,
    bytes: &mut usize,
    limit: usize,
) {
    while let Some((entry, _)) = queue.front() {
        if !batch.is_empty() && *bytes + entry.bytes() > limit {
            break;
        }
        *bytes += entry.bytes();
        batch.extend(queue.pop_front());
    }
}
