//! What the machine itself can do: a small durable write; it knows nothing of the product.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

/// A file that grows by 4 KiB at a time, each made durable with fdatasync.
#[derive(Debug)]
pub(crate) struct DiskBaseline {
    file: File,
}

impl DiskBaseline {
    pub(crate) fn new(directory: &Path) -> Result<Self> {
        let path = directory.join("baseline");
        Ok(Self { file: OpenOptions::new().create(true).append(true).open(path)? })
    }

    /// Appends for so long; the time of each append in seconds.
    pub(crate) fn slice(&mut self, length: Duration) -> Result<Vec<f64>> {
        let block = [0x5a_u8; 4_096];
        let mut times = Vec::new();
        let end = Instant::now() + length;
        while Instant::now() < end {
            let begun = Instant::now();
            self.file.write_all(&block)?;
            self.file.sync_data()?;
            times.push(begun.elapsed().as_secs_f64());
        }
        Ok(times)
    }
}

/// CPU time of all threads of this process so far, in seconds.
pub(crate) fn cpu_seconds() -> f64 {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return 0.0 };
    let nanoseconds: u64 = tasks
        .filter_map(|task| {
            let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        })
        .sum();
    Duration::from_nanos(nanoseconds).as_secs_f64()
}

/// Memory of this process that is in RAM and shared with no file, in bytes.
pub(crate) fn private_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut pages = text.split(' ').skip(1).map(|field| field.parse::<u64>().unwrap_or(0));
    let resident = pages.next().unwrap_or(0);
    let shared = pages.next().unwrap_or(0);
    // The page size of every machine that this is measured on.
    (resident - shared) * 4_096
}
