//! The processes that carry the loop's mark, as `/proc` shows them; it signals nobody.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// The variable that every process of one loop has in its environment.
pub(crate) const MARK: &str = "AION_KILL_LOOP";

/// Waits until no process carries the mark; answers those that still do after `patience`.
pub(crate) fn left(mark: &str, patience: Duration) -> Vec<String> {
    let deadline = Instant::now() + patience;
    loop {
        let found = carrying(mark);
        if found.is_empty() || Instant::now() >= deadline {
            return found;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Process id and command line of every living process with the mark, except ourselves.
fn carrying(mark: &str) -> Vec<String> {
    let wanted = format!("{MARK}={mark}");
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != std::process::id())
        .filter(|pid| {
            // The dead have an empty environment.
            fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|all| all.split(|byte| *byte == 0).any(|one| one == wanted.as_bytes()))
        })
        .map(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            format!("{pid}: {}", String::from_utf8_lossy(&line).replace('\0', " "))
        })
        .collect()
}
