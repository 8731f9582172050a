//! The store that is handed out: it passes every question to the thread that may answer it, and
//! never touches the database itself once it is open.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use aion_core::event::Recorded;
use aion_core::id::{ConversationId, Seq, TeamId};
use aion_core::transcript::Item;
use futures::future::{BoxFuture, FutureExt};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::encode::{Encoded, EncodedItem, encode_items};
use crate::error::StoreError;
use crate::event_store::{Append, Deliveries, EventStore, Loaded, Snapshot, TeamRow, Totals};
use crate::sqlite::batch::{CommitFault, Done, Entry, Ledger};
use crate::sqlite::blobs::Blobs;
use crate::sqlite::checkpointer;
use crate::sqlite::connection::{
    Paths, create_private, create_private_dir, failed, read_only, read_write, sync_dir,
};
use crate::sqlite::heads::Heads;
use crate::sqlite::lock::DirectoryLock;
use crate::sqlite::read::{self, ReadModelDump, Verified};
use crate::sqlite::readers::Readers;
use crate::sqlite::witness::{Testimony, Witness};
use crate::sqlite::writer::{FaultPlan, Job, Reply, Writer, limit_pages, progress};
use crate::sqlite::{backup, deliveries, restore, schema, snapshots};

/// How a store is opened.
#[derive(Clone)]
pub struct SqliteOptions {
    readers: usize,
    max_pages: Option<u32>,
    faults: Option<FaultPlan>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { readers: 2, max_pages: None, faults: None }
    }
}

impl fmt::Debug for SqliteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteOptions")
            .field("readers", &self.readers)
            .field("max_pages", &self.max_pages)
            .finish_non_exhaustive()
    }
}

impl SqliteOptions {
    /// How many threads read.
    #[must_use]
    pub fn with_readers(mut self, readers: usize) -> Self {
        self.readers = readers;
        self
    }

    /// The most pages the database may grow to; for tests of a full disk.
    #[must_use]
    pub fn with_max_pages(mut self, pages: u32) -> Self {
        self.max_pages = Some(pages);
        self
    }

    /// Lets the n-th COMMIT (from 1) of the group commits fail; for tests of unknown commits.
    #[must_use]
    pub fn with_commit_faults(
        mut self,
        faults: impl Fn(u64) -> CommitFault + Send + Sync + 'static,
    ) -> Self {
        self.faults = Some(Arc::new(faults));
        self
    }
}

/// A store in a data directory. Dropping it waits until all that was asked is done.
#[derive(Debug)]
pub struct SqliteStore {
    readers: Readers,
    blobs: Blobs,
    writing: Option<Writing>,
}

/// What only a store has that may write.
#[derive(Debug)]
struct Writing {
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
    _lock: DirectoryLock,
}

impl SqliteStore {
    /// Opens the store of a data directory for writing, and makes it if there is none. Only one
    /// process at a time can; another one is told who it is.
    pub fn open(dir: &Path, options: &SqliteOptions) -> Result<Self, StoreError> {
        let paths = Paths::new(dir);
        let fail = |error: std::io::Error| {
            StoreError::Unavailable(format!("prepare {}: {error}", dir.display()))
        };
        if !dir.is_dir() {
            create_private_dir(dir).map_err(fail)?;
        }
        let lock = DirectoryLock::take(&paths.lock)?;
        restore::take_back(dir)?;
        let testimony = Witness::testimony(&paths.witness);
        check_files(&paths, testimony)?;
        let fresh = !paths.database.exists();
        if !paths.blobs.is_dir() {
            create_private_dir(&paths.blobs).map_err(fail)?;
        }
        create_private(&paths.database).map_err(fail)?;
        let (connection, ledger) = prepare(&paths, testimony, options.max_pages)?;
        let witness = Arc::new(Witness::open(&paths.witness)?);
        if fresh {
            connection
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
                .map_err(|error| failed("make the store", &error))?;
            witness.database_bytes(fs::metadata(&paths.database).map_err(fail)?.len());
            witness.sync().map_err(fail)?;
            sync_dir(dir).map_err(fail)?;
            if let Some(parent) = dir.canonicalize().map_err(fail)?.parent() {
                sync_dir(parent).map_err(fail)?;
            }
        }
        let blobs = Blobs::new(&paths.blobs);
        sweep(&connection, &blobs)?;
        let readers = Readers::start(&paths.database, options.readers)?;
        let (jobs, queue) = mpsc::channel();
        let (checkpoints, wanted) = mpsc::sync_channel(1);
        let writer = Writer::new(
            paths.clone(),
            connection,
            ledger,
            blobs.clone(),
            Arc::clone(&witness),
            checkpoints,
            options.faults.clone(),
            options.max_pages,
        );
        let threads = vec![
            spawn("store-writer", move || writer.run(&queue))?,
            spawn("store-checkpointer", move || checkpointer::run(&paths, &witness, &wanted))?,
        ];
        Ok(Self {
            readers,
            blobs,
            writing: Some(Writing { jobs: Some(jobs), threads, _lock: lock }),
        })
    }

    /// Opens the store of a data directory for reading only, beside a process that writes.
    pub fn open_read_only(dir: &Path) -> Result<Self, StoreError> {
        let paths = Paths::new(dir);
        restore::check_finished(dir)?;
        // Read before the database: the database is never behind it.
        let testimony = Witness::testimony(&paths.witness);
        if !paths.database.exists() && testimony == Testimony::default() {
            return Err(StoreError::Unavailable(format!("there is no store in {}", dir.display())));
        }
        check_files(&paths, testimony)?;
        let fail = |error: rusqlite::Error| failed("open the store for reading", &error);
        let connection = read_only(&paths.database).map_err(fail)?;
        schema::check_readable(&connection)?;
        check_progress(progress(&connection).map_err(fail)?.1, testimony)?;
        let readers = Readers::start(&paths.database, SqliteOptions::default().readers)?;
        Ok(Self { readers, blobs: Blobs::new(&paths.blobs), writing: None })
    }

    /// Copies the store of a data directory, as it is at one moment, and then the directories
    /// `beside` it, into a directory that is empty. Whoever writes goes on meanwhile.
    pub fn back_up(dir: &Path, to: &Path, beside: &[&str]) -> Result<(), StoreError> {
        backup::back_up(dir, to, beside)
    }

    /// Puts a copy, with the directories `beside` its store, in the place of what a data directory
    /// has of them, which nobody may use meanwhile. What was there is kept in a directory whose
    /// path is the answer. Cut short, it leaves a directory that is read by nobody until the next
    /// [`SqliteStore::open`] takes it back.
    pub fn restore(
        copy: &Path,
        dir: &Path,
        beside: &[&str],
    ) -> Result<Option<PathBuf>, StoreError> {
        restore::restore(copy, dir, beside, &mut || Ok(()))
    }

    /// Restores as [`SqliteStore::restore`] does, and passes `step` after each change: its error
    /// leaves everything as a process would that was killed there; for tests of cuts.
    pub fn restore_by_steps(
        copy: &Path,
        dir: &Path,
        beside: &[&str],
        step: &mut dyn FnMut() -> Result<(), StoreError>,
    ) -> Result<Option<PathBuf>, StoreError> {
        restore::restore(copy, dir, beside, step)
    }

    /// Whether a data directory holds a store, or what a restore that was cut short left of one.
    pub fn exists(dir: &Path) -> bool {
        Paths::new(dir).database.exists() || restore::is_unfinished(dir)
    }

    /// Reads a team's whole log and checks its hash chain.
    pub async fn verify(&self, team: &TeamId) -> Result<Verified, StoreError> {
        let team = team.clone();
        self.readers.run(move |connection| read::verify(connection, &team)).await
    }

    /// Makes the read models of all teams anew from their logs.
    pub async fn rebuild(&self) -> Result<(), StoreError> {
        self.ask(Job::Rebuild).await
    }

    /// Every row of the read models.
    pub async fn dump_read_models(&self) -> Result<ReadModelDump, StoreError> {
        self.readers.run(read::dump).await
    }

    fn writing(&self) -> Result<&Writing, StoreError> {
        self.writing
            .as_ref()
            .ok_or_else(|| StoreError::Unavailable("it is open for reading only".to_owned()))
    }

    async fn ask<T>(&self, job: impl FnOnce(Reply<T>) -> Job) -> Result<T, StoreError> {
        let writing = self.writing()?;
        let gone = || StoreError::Unavailable("the store is closed".to_owned());
        let (reply, answer) = oneshot::channel();
        writing.jobs.as_ref().ok_or_else(gone)?.send(job(reply)).map_err(|_| gone())?;
        // A writer that fell with the question in hand may have committed it.
        answer
            .await
            .map_err(|_| StoreError::Unknown("the store's writer has stopped".to_owned()))?
    }

    async fn group(&self, entry: Entry) -> Result<Done, StoreError> {
        self.ask(|reply| Job::Group(entry, reply)).await
    }

    async fn open_team(&self, team: &TeamId) -> Result<Loaded, StoreError> {
        let Done::Opened { epoch, seq, wall_ms } = self.group(Entry::Open(team.clone())).await?
        else {
            return Err(StoreError::Unknown("the store's writer gave no epoch".to_owned()));
        };
        let team = team.clone();
        self.readers
            .run(move |connection| {
                let snapshot = snapshots::newest(connection, &team, seq)?;
                let after = snapshot.as_ref().map_or(Seq(0), |snapshot| snapshot.seq);
                let events = read::events(connection, &team, after, Some(seq), usize::MAX)?;
                Ok(Loaded { epoch, snapshot, events, last_append_wall_ms: wall_ms })
            })
            .await
    }

    /// Makes the files of large items durable, before anything refers to them.
    async fn keep_blobs(
        &self,
        team: &TeamId,
        items: Vec<EncodedItem>,
    ) -> Result<Vec<EncodedItem>, StoreError> {
        if items.iter().all(|item| matches!(item, EncodedItem::Inline(_))) {
            return Ok(items);
        }
        let (team, blobs) = (team.clone(), self.blobs.clone());
        self.readers
            .run(move |_| {
                for item in &items {
                    if let EncodedItem::Blob { sha256, bytes } = item {
                        blobs.keep(&team, sha256, bytes)?;
                    }
                }
                Ok(items)
            })
            .await
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        if let Some(writing) = &mut self.writing {
            writing.jobs = None;
            for thread in writing.threads.drain(..) {
                let _ = thread.join();
            }
        }
    }
}

impl EventStore for SqliteStore {
    fn open<'a>(&'a self, team: &'a TeamId) -> BoxFuture<'a, Result<Loaded, StoreError>> {
        self.open_team(team).boxed()
    }

    fn append(&self, append: Append) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let encoded = Encoded::new(append)?;
            self.group(Entry::Append(encoded)).await.map(|_| ())
        }
        .boxed()
    }

    fn read<'a>(
        &'a self,
        team: &'a TeamId,
        after: Seq,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Recorded>, StoreError>> {
        let team = team.clone();
        self.readers
            .run(move |connection| read::events(connection, &team, after, None, limit))
            .boxed()
    }

    fn deliveries<'a>(
        &'a self,
        team: &'a TeamId,
        accepted: &'a [Seq],
    ) -> BoxFuture<'a, Result<Vec<Deliveries>, StoreError>> {
        let (team, accepted) = (team.clone(), accepted.to_vec());
        self.readers
            .run(move |connection| deliveries::deliveries(connection, &team, &accepted))
            .boxed()
    }

    fn teams(&self) -> BoxFuture<'_, Result<Vec<TeamRow>, StoreError>> {
        self.readers.run(read::teams).boxed()
    }

    fn totals<'a>(&'a self, team: &'a TeamId) -> BoxFuture<'a, Result<Totals, StoreError>> {
        let team = team.clone();
        self.readers.run(move |connection| read::totals(connection, &team)).boxed()
    }

    fn erase<'a>(&'a self, team: &'a TeamId) -> BoxFuture<'a, Result<(), StoreError>> {
        self.ask(|reply| Job::Erase(team.clone(), reply)).boxed()
    }

    fn keep_snapshot<'a>(
        &'a self,
        team: &'a TeamId,
        snapshot: Snapshot,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.ask(|reply| Job::Snapshot(team.clone(), snapshot, reply)).boxed()
    }

    fn snapshot_before<'a>(
        &'a self,
        team: &'a TeamId,
        at: Seq,
    ) -> BoxFuture<'a, Result<Option<Snapshot>, StoreError>> {
        let team = team.clone();
        self.readers.run(move |connection| snapshots::newest(connection, &team, at)).boxed()
    }

    fn append_items<'a>(
        &'a self,
        team: &'a TeamId,
        conversation: &'a ConversationId,
        expected: u64,
        items: Vec<Item>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            self.writing()?;
            let (items, bytes) = encode_items(&items)?;
            let items = self.keep_blobs(team, items).await?;
            let (team, conversation) = (team.clone(), conversation.clone());
            self.group(Entry::Items { team, conversation, expected, items, bytes })
                .await
                .map(|_| ())
        }
        .boxed()
    }

    fn items<'a>(
        &'a self,
        conversation: &'a ConversationId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Item>, StoreError>> {
        let (conversation, blobs) = (conversation.clone(), self.blobs.clone());
        self.readers
            .run(move |connection| read::items(connection, &blobs, &conversation, after, limit))
            .boxed()
    }
}

const RESTORED: &str =
    "if you put back an older copy on purpose, remove the file `witness` beside it";

/// Refuses files that are shorter than they have been. SQLite itself would take an empty file for
/// a new database, and the rest of a cut log for all of it.
fn check_files(paths: &Paths, testimony: Testimony) -> Result<(), StoreError> {
    let size = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
    let (database, log) = (size(&paths.database), size(&paths.wal));
    if database < testimony.database_bytes || (database == 0 && log > 0) {
        return Err(StoreError::Corrupt(format!(
            "{} has {database} bytes and had {}; {RESTORED}",
            paths.database.display(),
            testimony.database_bytes,
        )));
    }
    Ok(())
}

/// Refuses a database that has fewer commits than were answered.
fn check_progress(commits: u64, testimony: Testimony) -> Result<(), StoreError> {
    if commits < testimony.commits {
        return Err(StoreError::Corrupt(format!(
            "it ends at commit {commits}, and commit {} was acknowledged; {RESTORED}",
            testimony.commits
        )));
    }
    Ok(())
}

/// The writer's connection to a database that is whole and has today's tables.
fn prepare(
    paths: &Paths,
    testimony: Testimony,
    max_pages: Option<u32>,
) -> Result<(Connection, Ledger), StoreError> {
    let fail = |error: rusqlite::Error| failed("open the store", &error);
    let mut connection = read_write(&paths.database).map_err(fail)?;
    schema::migrate(&mut connection, &paths.database, schema::STEPS)?;
    let (epoch, commits) = progress(&connection).map_err(fail)?;
    check_progress(commits, testimony)?;
    limit_pages(&connection, max_pages).map_err(fail)?;
    Ok((connection, Ledger { heads: Heads::default(), epoch, commits }))
}

/// Removes the files of teams that are gone.
fn sweep(connection: &Connection, blobs: &Blobs) -> Result<(), StoreError> {
    let mut known = connection
        .prepare("SELECT 1 FROM teams WHERE team = ?1")
        .map_err(|error| failed("open the store", &error))?;
    let mut exists = |team: &str| known.exists([team]).unwrap_or(true);
    blobs
        .sweep(&mut exists)
        .map_err(|error| StoreError::Unavailable(format!("remove files of erased teams: {error}")))
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(|error| StoreError::Unavailable(format!("start a thread: {error}")))
}
