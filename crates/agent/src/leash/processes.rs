//! The processes of this machine as `/proc` shows them; it only looks, and sends signals.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    /// Clock ticks from the machine's start to the process's.
    pub(super) start: u64,
    /// How many threads it has.
    pub(crate) threads: u64,
    /// Whether it is dead and only its exit code is left.
    pub(super) zombie: bool,
}

impl Process {
    /// A process, if it exists.
    pub(super) fn find(pid: i32) -> Option<Self> {
        parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// All of them.
    pub(crate) fn all() -> Vec<Self> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(Self::find)
            .collect()
    }

    /// The value of a variable in the environment that the process was started with.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let environ = fs::read(format!("/proc/{}/environ", self.pid)).ok()?;
        environ.split(|byte| *byte == 0).find_map(|entry| {
            let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            String::from_utf8(value.to_vec()).ok()
        })
    }

    /// Stops it. That it is gone already is as good.
    pub(super) fn stop(&self) {
        let _ = kill(Pid::from_raw(self.pid), Signal::SIGSTOP);
    }

    /// Asks it to end. One that is stopped has to go on to hear of it. That it is gone already is as
    /// good.
    pub(super) fn tell_to_end(&self) {
        let pid = Pid::from_raw(self.pid);
        let _ = kill(pid, Signal::SIGTERM);
        let _ = kill(pid, Signal::SIGCONT);
    }

    /// Stops and then kills it. That it is gone already is as good.
    pub(crate) fn kill(&self) {
        let pid = Pid::from_raw(self.pid);
        let _ = kill(pid, Signal::SIGSTOP);
        let _ = kill(pid, Signal::SIGKILL);
    }
}

/// The living descendants of a process, and the living members of its group; not itself.
pub(crate) fn below(all: &[Process], root: i32) -> Vec<Process> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(process.pid);
    }
    let mut family = BTreeSet::from([root]);
    let mut unseen = vec![root];
    while let Some(parent) = unseen.pop() {
        let found = children.get(&parent).into_iter().flatten();
        unseen.extend(found.filter(|child| family.insert(**child)));
    }
    all.iter()
        .filter(|p| p.pid != root && !p.zombie && (family.contains(&p.pid) || p.group == root))
        .copied()
        .collect()
}

/// Ends everything below a process, and what that begins meanwhile: who is stopped begins nothing
/// more, so all are stopped before the first of them is killed.
pub(crate) fn end_all_below(root: i32) {
    let mut stopped = BTreeSet::new();
    loop {
        let found = below(&Process::all(), root);
        if found.is_empty() {
            return;
        }
        let unstopped: Vec<Process> =
            found.iter().filter(|p| stopped.insert((p.pid, p.start))).copied().collect();
        if unstopped.is_empty() {
            found.iter().for_each(Process::kill);
        } else {
            unstopped.iter().for_each(Process::stop);
        }
    }
}

/// When a process that lives began, in clock ticks since the machine's start. Together with
/// [`boot_id`] it tells a process from another one that was given its number later.
pub fn birth(pid: i32) -> Option<u64> {
    Process::find(pid).filter(|process| !process.zombie).map(|process| process.start)
}

/// The identity of the machine's present run: process ids and start times mean nothing in another.
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

/// Reads a line of `/proc/PID/stat`. The command in it may hold anything, so fields are counted
/// from its last parenthesis.
fn parse(stat: &str) -> Option<Process> {
    let pid = stat.split(' ').next()?.parse().ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(Process {
        pid,
        zombie: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        threads: fields.get(17)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_whatever_the_command_is_called() {
        let line = "42 (a) b (c)) S 7 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 3 0 9001 1 1\n";
        let expected =
            Process { pid: 42, parent: 7, group: 42, threads: 3, start: 9001, zombie: false };
        assert_eq!(parse(line), Some(expected));
        assert_eq!(parse("42 (x"), None);
    }

    #[test]
    fn a_family_is_its_descendants_and_its_group_without_the_dead() {
        let process = |pid, parent, group, zombie| {
            let (threads, start) = (1, 1);
            Process { pid, parent, group, start, threads, zombie }
        };
        let all = [
            process(1, 0, 1, false),
            process(10, 1, 10, false),
            process(12, 11, 12, false),
            process(11, 10, 10, false),
            process(13, 1, 10, false),
            process(14, 10, 10, true),
            process(20, 1, 20, false),
        ];
        let pids: Vec<i32> = below(&all, 10).iter().map(|p| p.pid).collect();
        assert_eq!(pids, [12, 11, 13]);
    }
}
