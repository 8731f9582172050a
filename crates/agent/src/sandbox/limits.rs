//! How much a command may take of the machine; it measures nothing.

use std::fs;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

const MIB: u64 = 1024 * 1024;
const GIB: u64 = 1024 * MIB;

/// The limits of one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processes and threads at a time.
    pub processes: u64,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Bytes that one process may hold in memory.
    pub memory_bytes: u64,
    /// Bytes of temporary files, where they have a place of their own in memory.
    pub temporary_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        let memory = memory();
        Self {
            processes: 4_096,
            file_bytes: 16 * GIB,
            memory_bytes: memory / 4 * 3,
            temporary_bytes: (memory / 4).clamp(256 * MIB, 4 * GIB),
        }
    }
}

/// The machine's memory; where it is not known, a modest one.
fn memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(4 * GIB, |kib| kib * 1024)
}

impl Limits {
    /// Sets them for this process and what it starts. A limit that is lower already stays.
    pub(super) fn set(&self, processes_of_others: u64) -> nix::Result<()> {
        let all = [
            (Resource::RLIMIT_CORE, 0),
            (Resource::RLIMIT_FSIZE, self.file_bytes),
            (Resource::RLIMIT_DATA, self.memory_bytes),
            (Resource::RLIMIT_NPROC, self.processes.saturating_add(processes_of_others)),
        ];
        for (resource, limit) in all {
            let (soft, hard) = getrlimit(resource)?;
            setrlimit(resource, soft.min(limit), hard.min(limit))?;
        }
        Ok(())
    }
}
