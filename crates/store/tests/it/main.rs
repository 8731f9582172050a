//! Holds every store to one contract, and SQLite to what its files promise.
#![expect(clippy::unwrap_used, reason = "tests")]

mod backups;
mod contract;
mod cuts;
mod events;
mod files;
mod full_disk;
mod gate;
mod golden;
mod golden_stores;
#[cfg(feature = "failpoints")]
mod kills;
mod models;
mod queue;
mod samples;
mod stores;
