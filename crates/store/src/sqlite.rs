//! The embedded store: SQLite with one writing thread, group commits and a few readers; it never
//! blocks an async task.

mod backup;
mod batch;
mod blobs;
mod checkpointer;
mod connection;
mod deliveries;
mod erase;
mod heads;
mod lock;
mod read;
mod readers;
mod rebuild;
mod restore;
mod rows;
mod schema;
mod snapshots;
mod store;
mod witness;
mod writer;

pub use batch::CommitFault;
pub use read::{ReadModelDump, Verified};
pub use store::{SqliteOptions, SqliteStore};
