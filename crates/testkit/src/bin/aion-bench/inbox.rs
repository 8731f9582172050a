//! The baseline that others use: a JSON file as inbox, a lock beside it, and a reader that looks
//! every 500 ms; it is as quick as that design can be, and makes nothing durable.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// How often a reader looks.
pub(crate) const POLL: Duration = Duration::from_millis(500);
/// How often a lock that is held is tried again.
const RETRY: Duration = Duration::from_millis(5);

/// One entry of an inbox file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    from: String,
    text: String,
    timestamp: u64,
    read: bool,
}

/// One inbox file with its lock.
#[derive(Clone, Debug)]
struct Inbox {
    file: PathBuf,
    lock: PathBuf,
}

impl Inbox {
    /// Reads, changes and writes the file under its lock.
    fn change<T>(&self, change: impl FnOnce(&mut Vec<Entry>) -> T) -> Result<T> {
        while fs::create_dir(&self.lock).is_err() {
            thread::sleep(RETRY);
        }
        let done = self.change_locked(change);
        fs::remove_dir(&self.lock)?;
        done
    }

    fn change_locked<T>(&self, change: impl FnOnce(&mut Vec<Entry>) -> T) -> Result<T> {
        let mut entries: Vec<Entry> = match fs::read(&self.file) {
            Ok(bytes) => serde_json::from_slice(&bytes)?,
            Err(_) => Vec::new(),
        };
        let answer = change(&mut entries);
        fs::write(&self.file, serde_json::to_vec_pretty(&entries)?)?;
        Ok(answer)
    }

    fn send(&self, number: u64, text: &str) -> Result<()> {
        let entry = Entry {
            from: "team-lead".to_owned(),
            text: text.to_owned(),
            timestamp: number,
            read: false,
        };
        self.change(|entries| entries.push(entry))
    }

    /// What is new, marked as read; looks without the lock first, as a poll does.
    fn take(&self) -> Result<Vec<u64>> {
        let Ok(bytes) = fs::read(&self.file) else { return Ok(Vec::new()) };
        // A file that is just being written is read again at the next look.
        let seen: Vec<Entry> = serde_json::from_slice(&bytes).unwrap_or_default();
        if seen.iter().all(|entry| entry.read) {
            return Ok(Vec::new());
        }
        self.change(|entries| {
            let new: Vec<u64> =
                entries.iter().filter(|entry| !entry.read).map(|entry| entry.timestamp).collect();
            for entry in entries.iter_mut() {
                entry.read = true;
            }
            new
        })
    }
}

/// A team of inboxes, each with a reader of its own.
#[derive(Debug)]
pub(crate) struct InboxTeam {
    inboxes: Vec<Inbox>,
    held: Receiver<(u64, Instant)>,
    stop: Arc<AtomicBool>,
    readers: Vec<JoinHandle<Result<()>>>,
    sent: u64,
}

impl InboxTeam {
    /// Starts `members` readers whose looks are spread evenly over the interval.
    pub(crate) fn start(directory: &Path, members: u32) -> Self {
        let (holds, held) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let mut team = Self { inboxes: Vec::new(), held, stop, readers: Vec::new(), sent: 0 };
        for member in 0..members {
            let inbox = Inbox {
                file: directory.join(format!("inbox-{member}.json")),
                lock: directory.join(format!("inbox-{member}.json.lock")),
            };
            let (reader, stop, holds) = (inbox.clone(), Arc::clone(&team.stop), holds.clone());
            let phase = POLL * member / members;
            team.readers.push(thread::spawn(move || read(&reader, phase, &stop, &holds)));
            team.inboxes.push(inbox);
        }
        team
    }

    /// Sends evenly over so long, one message to each member in turn; the time from each send to
    /// its reader's having it, in seconds.
    pub(crate) fn slice(&mut self, length: Duration, text: &str) -> Result<Vec<f64>> {
        let count = u32::try_from(self.inboxes.len())?;
        let first = self.sent;
        let mut begun = Vec::new();
        let start = Instant::now();
        for (index, inbox) in self.inboxes.iter().enumerate() {
            let due = start + length * u32::try_from(index)? / count;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            begun.push(Instant::now());
            inbox.send(self.sent, text)?;
            self.sent += 1;
        }
        let mut times = Vec::new();
        while times.len() < begun.len() {
            let (number, at) = self.held.recv_timeout(POLL * 10).context("wait for a reader")?;
            let place = usize::try_from(number - first)?;
            times.push((at - begun[place]).as_secs_f64());
        }
        Ok(times)
    }

    pub(crate) fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for reader in self.readers {
            reader.join().map_err(|_| anyhow::anyhow!("a reader of an inbox fell"))??;
        }
        Ok(())
    }
}

fn read(
    inbox: &Inbox,
    phase: Duration,
    stop: &AtomicBool,
    holds: &Sender<(u64, Instant)>,
) -> Result<()> {
    let mut next = Instant::now() + phase;
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        next += POLL;
        for number in inbox.take()? {
            // Whoever measured may be done.
            let _ = holds.send((number, Instant::now()));
        }
    }
    Ok(())
}
