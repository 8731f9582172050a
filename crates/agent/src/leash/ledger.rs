//! What is on a leash, written down before it runs, so that a fall of the house leaves nothing
//! running; it starts nothing.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::MARK;
use super::processes::{Process, below, boot_id};

/// How long [`reap`] waits for processes to die.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause between two looks at what is still dying.
const PAUSE: Duration = Duration::from_millis(2);

/// One leash: a process group and the helper that leads it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeashEntry {
    /// The group, which is the helper's process id.
    pub group: i32,
    /// When the helper started, in clock ticks since the machine did.
    pub start: u64,
    /// Which run of the machine this was.
    pub boot: String,
    /// The mark that everything on this leash carries in its environment.
    pub mark: String,
}

/// Where leashes are written down.
pub trait LeashLedger: Send + Sync + fmt::Debug + 'static {
    /// A helper waits for the word to start its command. When this returns, the entry is durable.
    /// It may block.
    fn started(&self, entry: &LeashEntry) -> io::Result<()>;
    /// Helper and command are gone. It may block.
    fn ended(&self, entry: &LeashEntry);
}

/// A ledger of one small file per leash in a directory.
#[derive(Clone, Debug)]
pub struct DirectoryLedger {
    directory: PathBuf,
}

impl DirectoryLedger {
    /// Opens or makes the directory.
    pub fn open(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = directory.into();
        fs::create_dir_all(&directory)?;
        Ok(Self { directory })
    }

    /// What stands in the ledger. A file that was not written to its end is no entry: its command
    /// was never started.
    pub fn entries(&self) -> io::Result<Vec<LeashEntry>> {
        let mut entries = Vec::new();
        for file in fs::read_dir(&self.directory)? {
            if let Ok(entry) = serde_json::from_slice(&fs::read(file?.path())?) {
                entries.push(entry);
            }
        }
        entries.sort();
        Ok(entries)
    }

    /// Kills what is left of every entry and empties the ledger, but for entries of which something
    /// does not die. Answers how many processes were killed.
    pub fn reap(&self) -> io::Result<usize> {
        let entries = self.entries()?;
        let killed = reap(&entries);
        let boot = boot_id();
        let undead = |entry: &&LeashEntry| entry.boot == boot && !left(&[entry], false).is_empty();
        let kept: Vec<PathBuf> = entries.iter().filter(undead).map(|e| self.path(e)).collect();
        for file in fs::read_dir(&self.directory)? {
            let path = file?.path();
            if !kept.contains(&path) {
                fs::remove_file(path)?;
            }
        }
        Ok(killed)
    }

    fn path(&self, entry: &LeashEntry) -> PathBuf {
        self.directory.join(format!("{}.json", entry.mark))
    }
}

impl LeashLedger for DirectoryLedger {
    fn started(&self, entry: &LeashEntry) -> io::Result<()> {
        let mut file = File::create_new(self.path(entry))?;
        file.write_all(&serde_json::to_vec(entry)?)?;
        file.sync_all()?;
        sync_directory(&self.directory)
    }

    fn ended(&self, entry: &LeashEntry) {
        // An entry that stays is found dead at the next opening.
        let _ = fs::remove_file(self.path(entry));
    }
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Kills what is left of leashes whose holder is gone. A process is killed only if it certainly is
/// one of theirs: the helper by its start time, the others as its descendants, its group or by
/// their mark. Answers how many processes were killed.
pub fn reap(entries: &[LeashEntry]) -> usize {
    let boot = boot_id();
    let entries: Vec<&LeashEntry> = entries.iter().filter(|entry| entry.boot == boot).collect();
    kill_all(&entries, false).0
}

/// The same for one leash whose helper was killed a moment ago: what is in its group and not older
/// than it is its own, too, as the group's number cannot have been given to others yet. Says whether
/// everything is dead.
pub(super) fn reap_without_helper(entry: &LeashEntry) -> bool {
    kill_all(&[entry], true).1
}

/// Kills until two looks in a row find nobody. Answers how many were killed, and whether nobody is
/// left.
fn kill_all(entries: &[&LeashEntry], whole_group: bool) -> (usize, bool) {
    let deadline = Instant::now() + PATIENCE;
    let mut killed = BTreeSet::new();
    let mut quiet = 0;
    while quiet < 2 && !entries.is_empty() && Instant::now() < deadline {
        let left = left(entries, whole_group);
        quiet = if left.is_empty() { quiet + 1 } else { 0 };
        killed.extend(left.iter().map(|p| (p.pid, p.start)));
        left.iter().for_each(Process::kill);
        // A process in the middle of starting a program shows no environment for a moment.
        thread::sleep(PAUSE);
    }
    (killed.len(), quiet == 2 || entries.is_empty())
}

/// The living processes of leashes. The helpers come last: while one lives, what it leads stays its
/// descendants. Where a helper is gone, `whole_group` says whether its group's number is still its
/// own.
fn left(entries: &[&LeashEntry], whole_group: bool) -> Vec<Process> {
    let all = Process::all();
    let marks: BTreeSet<&str> = entries.iter().map(|entry| entry.mark.as_str()).collect();
    let is_marked = |p: &&Process| p.variable(MARK).is_some_and(|mark| marks.contains(&*mark));
    let mut left: Vec<Process> =
        all.iter().filter(|p| !p.zombie).filter(is_marked).copied().collect();
    let mut helpers = Vec::new();
    for entry in entries {
        let Some(helper) = all.iter().find(|p| p.pid == entry.group && p.start == entry.start)
        else {
            let own = |p: &&Process| p.group == entry.group && p.start >= entry.start && !p.zombie;
            left.extend(all.iter().filter(own).filter(|_| whole_group));
            continue;
        };
        left.extend(below(&all, entry.group));
        helpers.extend((!helper.zombie).then_some(*helper));
    }
    left.retain(|p| !helpers.contains(p));
    left.sort_unstable_by_key(|p| p.pid);
    left.dedup();
    left.extend(helpers);
    left
}
