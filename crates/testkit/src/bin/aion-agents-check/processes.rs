//! The processes of this namespace, as `/proc` shows them; it signals nobody.

use std::fs;

/// A process that lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Living {
    /// Its id.
    pub(crate) pid: u32,
    /// Its command line.
    pub(crate) line: String,
    /// Memory of its own and its share of what it shares, in KiB.
    pub(crate) memory: u64,
}

/// All processes but this one, the oldest first.
pub(crate) fn others() -> Vec<Living> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let mut all: Vec<Living> =
        pids.filter(|pid| *pid != std::process::id()).filter_map(living).collect();
    all.sort_by_key(|living| living.pid);
    all
}

/// A process, unless it is dead and only waits to be noticed.
fn living(pid: u32) -> Option<Living> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let state = stat.rsplit_once(") ")?.1.chars().next()?;
    if state == 'Z' {
        return None;
    }
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).replace('\0', " ").trim().to_owned();
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let memory = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap_or_default();
    let memory = memory.trim().trim_end_matches(" kB").parse().unwrap_or(0);
    Some(Living { pid, line, memory })
}
