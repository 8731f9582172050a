//! A copy of a store is the store at one moment, and can take its place.

use std::fs;

use aion_core::id::Seq;
use aion_store::{EventStore, INLINE_LIMIT, SqliteStore, StoreError};

use crate::events::{append, conversation, created, said, sent, spawned, team};
use crate::files::open;

#[tokio::test]
async fn a_copy_made_beside_a_writer_takes_its_place() {
    let outer = tempfile::tempdir().unwrap();
    let (dir, copy) = (outer.path().join("data"), outer.path().join("copy"));
    let store = open(&dir);
    let a = team("a");
    let epoch = store.open(&a).await.unwrap().epoch;
    store.append(append(&a, epoch, 0, vec![created(&a), spawned()])).await.unwrap();
    let talk = conversation("talk");
    let large = said(0, &"x".repeat(2 * INLINE_LIMIT));
    store.append_items(&a, &talk, 0, vec![large.clone()]).await.unwrap();
    SqliteStore::back_up(&dir, &copy).unwrap();
    // The writer goes on, and the copy does not.
    store.append(append(&a, epoch, 2, vec![sent(2, "later")])).await.unwrap();
    let copied = SqliteStore::open_read_only(&copy).unwrap();
    assert_eq!(copied.verify(&a).await.unwrap().events, 2);
    assert_eq!(copied.items(&talk, 0, 10).await.unwrap(), std::slice::from_ref(&large));
    drop(copied);

    // Nobody's store is taken away under his hands.
    let refused = SqliteStore::restore(&copy, &dir);
    assert!(matches!(refused, Err(StoreError::Locked { .. })), "{refused:?}");
    drop(store);
    let kept = SqliteStore::restore(&copy, &dir).unwrap().unwrap();
    let before = SqliteStore::open_read_only(&kept).unwrap();
    assert_eq!(before.verify(&a).await.unwrap().events, 3);
    let restored = open(&dir);
    assert_eq!(restored.verify(&a).await.unwrap().events, 2);
    assert_eq!(restored.items(&talk, 0, 10).await.unwrap(), [large]);
    assert_eq!(restored.read(&a, Seq(0), 10).await.unwrap().len(), 2);
    let epoch = restored.open(&a).await.unwrap().epoch;
    restored.append(append(&a, epoch, 2, vec![sent(2, "other")])).await.unwrap();
    assert_eq!(restored.verify(&a).await.unwrap().events, 3);
    let left: Vec<_> = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("restored"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

#[tokio::test]
async fn what_is_no_store_is_neither_copied_nor_restored() {
    let outer = tempfile::tempdir().unwrap();
    let (dir, copy) = (outer.path().join("data"), outer.path().join("copy"));
    assert!(SqliteStore::back_up(&dir, &copy).is_err());
    fs::create_dir(&copy).unwrap();
    fs::write(copy.join("store.db"), "this is no database, and never was one").unwrap();
    drop(open(&dir));
    assert!(SqliteStore::restore(&copy, &dir).is_err());
    assert!(SqliteStore::exists(&dir));
}
