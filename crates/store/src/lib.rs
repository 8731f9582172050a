//! Remembers teams: an append-only event log with read models.
//!
//! [`EventStore`] is what the shell needs; [`MemoryStore`] and [`SqliteStore`] keep it. A store
//! decides nothing: it says what is durable, and refuses what does not fit the log.

mod chain;
mod encode;
mod error;
mod event_store;
pub mod failpoint;
mod memory;
mod projection;
mod sqlite;
mod upcast;

pub use encode::{APPEND_LIMIT, Body, INLINE_LIMIT};
pub use error::StoreError;
pub use event_store::{Append, Deliveries, EventStore, Loaded, Snapshot, TeamRow, Totals};
pub use memory::MemoryStore;
pub use projection::MessageState;
pub use sqlite::{CommitFault, ReadModelDump, SqliteOptions, SqliteStore, Verified};
