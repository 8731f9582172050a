//! Holds every store to one contract, and SQLite to what its files promise.
#![expect(clippy::unwrap_used, reason = "tests")]

mod contract;
mod events;
mod stores;
