//! Holds every store to one contract, and SQLite to what its files promise.

mod contract;
mod events;
mod stores;
