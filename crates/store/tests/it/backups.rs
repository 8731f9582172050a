//! A copy of a store is the store at one moment, and can take its place.

use std::fs;
use std::path::Path;

use aion_core::id::Seq;
use aion_store::{EventStore, INLINE_LIMIT, SqliteStore, StoreError};

use crate::events::{append, conversation, created, said, sent, spawned, team};
use crate::files::open;

/// A directory that goes along with a store.
const BESIDE: [&str; 1] = ["scenarios"];

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
    SqliteStore::back_up(&dir, &copy, &[]).unwrap();
    // The writer goes on, and the copy does not.
    store.append(append(&a, epoch, 2, vec![sent(2, "later")])).await.unwrap();
    let copied = SqliteStore::open_read_only(&copy).unwrap();
    assert_eq!(copied.verify(&a).await.unwrap().events, 2);
    assert_eq!(copied.items(&talk, 0, 10).await.unwrap(), std::slice::from_ref(&large));
    drop(copied);

    // Nobody's store is taken away under his hands.
    let refused = SqliteStore::restore(&copy, &dir, &[]);
    assert!(matches!(refused, Err(StoreError::Locked { .. })), "{refused:?}");
    drop(store);
    let kept = SqliteStore::restore(&copy, &dir, &[]).unwrap().unwrap();
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
    assert!(SqliteStore::back_up(&dir, &copy, &[]).is_err());
    fs::create_dir(&copy).unwrap();
    fs::write(copy.join("store.db"), "this is no database, and never was one").unwrap();
    drop(open(&dir));
    assert!(SqliteStore::restore(&copy, &dir, &[]).is_err());
    assert!(SqliteStore::exists(&dir));
}

/// Adds events to team a, and a scenario that says how many there are now.
async fn grow(dir: &Path, store: &SqliteStore, events: u64) {
    let a = team("a");
    let loaded = store.open(&a).await.unwrap();
    for seq in loaded.events.len() as u64..events {
        let event = if seq == 0 { created(&a) } else { sent(seq, &"x".repeat(2_000)) };
        store.append(append(&a, loaded.epoch, seq, vec![event])).await.unwrap();
    }
    let talk = conversation("talk");
    if store.items(&talk, 0, 1).await.unwrap().is_empty() {
        let large = said(0, &"y".repeat(2 * INLINE_LIMIT));
        store.append_items(&a, &talk, 0, vec![large]).await.unwrap();
    }
    fs::create_dir_all(dir.join("scenarios")).unwrap();
    fs::write(dir.join("scenarios/a.toml"), events.to_string()).unwrap();
}

/// How many events a store has, which fit to its scenario and its transcript.
async fn whole(dir: &Path, store: &SqliteStore) -> u64 {
    let events = store.verify(&team("a")).await.unwrap().events;
    assert_eq!(fs::read_to_string(dir.join("scenarios/a.toml")).unwrap(), events.to_string());
    assert_eq!(store.items(&conversation("talk"), 0, 10).await.unwrap().len(), 1);
    events
}

/// Copies all files as they are, also under the hands of whoever writes them.
fn image(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            image(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[tokio::test]
async fn what_a_killed_writer_left_in_its_log_is_restored_or_refused() {
    let outer = tempfile::tempdir().unwrap();
    let path = |name: &str| outer.path().join(name);
    let store = open(&path("killed"));
    grow(&path("killed"), &store, 9).await;
    image(&path("killed"), &path("copy"));
    drop(store);
    assert!(fs::metadata(path("copy/store.db-wal")).unwrap().len() > 9 * 2_000);

    let (copy, dir) = (path("copy"), path("data"));
    assert_eq!(SqliteStore::restore(&copy, &dir, &BESIDE).unwrap(), None);
    assert_eq!(whole(&dir, &open(&dir)).await, 9);
    // What is kept can be put back in turn, and is what it was.
    let store = open(&dir);
    grow(&dir, &store, 12).await;
    drop(store);
    let kept = SqliteStore::restore(&copy, &dir, &BESIDE).unwrap().unwrap();
    assert_eq!(whole(&dir, &open(&dir)).await, 9);
    SqliteStore::restore(&kept, &dir, &BESIDE).unwrap().unwrap();
    assert_eq!(whole(&dir, &open(&dir)).await, 12);

    // Without its log it is refused, with a witness or without; and what is there stays.
    fs::remove_file(copy.join("store.db-wal")).unwrap();
    for _ in 0..2 {
        let refused = SqliteStore::restore(&copy, &dir, &BESIDE);
        assert!(matches!(refused, Err(StoreError::Corrupt(_))), "{refused:?}");
        assert_eq!(whole(&dir, &open(&dir)).await, 12);
        let _ = fs::remove_file(copy.join("witness"));
    }
}

#[tokio::test]
async fn a_restore_that_is_cut_short_leaves_all_of_the_old_or_of_the_new() {
    let outer = tempfile::tempdir().unwrap();
    let path = |name: &str| outer.path().join(name);
    let (origin, copy) = (path("origin"), path("copy"));
    let store = open(&origin);
    grow(&origin, &store, 4).await;
    SqliteStore::back_up(&origin, &copy, &BESIDE).unwrap();
    grow(&origin, &store, 7).await;
    // As a killed writer leaves it: with a log.
    image(&origin, &path("old"));
    drop(store);
    let (mut old, mut new, mut refused) = (0, 0, 0);
    for cut in 1.. {
        let dir = path(&format!("cut-{cut}"));
        image(&path("old"), &dir);
        let mut left = cut;
        let restored = SqliteStore::restore_by_steps(&copy, &dir, &BESIDE, &mut || {
            left -= 1;
            if left == 0 { Err(StoreError::Unavailable("cut".to_owned())) } else { Ok(()) }
        });
        let ended = restored.is_ok();
        // Whoever only reads sees a whole store or is told what to do.
        assert!(SqliteStore::exists(&dir), "cut {cut}");
        match SqliteStore::open_read_only(&dir) {
            Ok(store) => assert!([4, 7].contains(&whole(&dir, &store).await), "cut {cut}"),
            Err(StoreError::Unavailable(text)) => {
                assert!(text.contains("`aion restore` can be tried again"), "cut {cut}: {text}");
                refused += 1;
                for entry in fs::read_dir(&dir).unwrap() {
                    let kept = entry.unwrap().path();
                    let name = kept.file_name().unwrap().to_str().unwrap();
                    if name.starts_with("before-restore-") && SqliteStore::exists(&kept) {
                        assert!(SqliteStore::open_read_only(&kept).is_err(), "cut {cut}");
                    }
                }
            }
            Err(other) => panic!("cut {cut}: {other}"),
        }
        // Trying again does it, whatever was left; and so does opening.
        let again = path(&format!("again-{cut}"));
        image(&dir, &again);
        SqliteStore::restore(&copy, &again, &BESIDE).unwrap().unwrap();
        assert_eq!(whole(&again, &open(&again)).await, 4, "cut {cut}");
        match whole(&dir, &open(&dir)).await {
            7 => old += 1,
            4 => new += 1,
            other => panic!("cut {cut}: {other} events"),
        }
        for name in ["restore.new", "restore.unfinished"] {
            assert!(!dir.join(name).exists(), "cut {cut}: {name}");
        }
        if ended {
            break;
        }
    }
    assert!(old >= 10 && new == 2 && refused >= 9, "{old} old, {new} new, {refused} refused");
}
