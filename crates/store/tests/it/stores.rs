//! The stores of this crate, each held to the contract; nothing here knows what the contract says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aion_store::{CommitFault, MemoryStore, SqliteOptions, SqliteStore};

use crate::contract;

#[tokio::test]
async fn the_memory_store_keeps_the_contract() {
    contract::check(&MemoryStore::new()).await;
}

#[tokio::test]
async fn the_sqlite_store_keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path(), &SqliteOptions::default()).unwrap();
    contract::check(&store).await;
}

#[tokio::test]
async fn a_commit_of_sqlite_that_is_unknown_is_found_or_not() {
    for fault in [CommitFault::Applied, CommitFault::NotApplied] {
        let dir = tempfile::tempdir().unwrap();
        let armed = Arc::new(AtomicBool::new(false));
        let trigger = Arc::clone(&armed);
        let options = SqliteOptions::default().with_commit_faults(move |_| {
            if trigger.swap(false, Ordering::Relaxed) { fault } else { CommitFault::None }
        });
        let store = SqliteStore::open(dir.path(), &options).unwrap();
        let arm = || armed.store(true, Ordering::Relaxed);
        contract::check_unknown(&store, arm, fault == CommitFault::Applied).await;
        drop(store);
        let store = SqliteStore::open(dir.path(), &SqliteOptions::default()).unwrap();
        contract::check_intact(&store).await;
    }
}
