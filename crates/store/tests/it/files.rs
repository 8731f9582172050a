//! What the files of the embedded store promise: who may open them, who may read them, and that
//! damage is named and never taken for an empty log.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use aion_core::id::Seq;
use aion_store::{EventStore, INLINE_LIMIT, Snapshot, SqliteOptions, SqliteStore, StoreError};
use rusqlite::Connection;

use crate::events::{append, conversation, created, said, sent, spawned, team};

pub(crate) fn open(dir: &Path) -> SqliteStore {
    SqliteStore::open(dir, &SqliteOptions::default()).unwrap()
}

/// A store with one team of `messages` + 2 events.
async fn filled(dir: &Path, messages: u64) -> SqliteStore {
    let store = open(dir);
    let a = team("a");
    let epoch = store.open(&a).await.unwrap().epoch;
    store.append(append(&a, epoch, 0, vec![created(&a), spawned()])).await.unwrap();
    for n in 2..2 + messages {
        store.append(append(&a, epoch, n, vec![sent(n, "some text")])).await.unwrap();
    }
    store
}

/// Changes the database of a closed store behind its back.
fn tamper(dir: &Path, sql: &str) {
    let changed = Connection::open(dir.join("store.db")).unwrap().execute(sql, []).unwrap();
    assert!(changed > 0, "{sql}");
}

#[tokio::test]
async fn only_the_owner_can_look_into_it() {
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("deep/data");
    let store = filled(&dir, 1).await;
    let large = said(0, &"x".repeat(2 * INLINE_LIMIT));
    store.append_items(&team("a"), &conversation("talk"), 0, vec![large]).await.unwrap();
    let mut next = vec![dir];
    let mut files = 0;
    while let Some(path) = next.pop() {
        let found = fs::metadata(&path).unwrap();
        let expected = if found.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(found.permissions().mode() & 0o777, expected, "{}", path.display());
        if found.is_dir() {
            next.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            files += 1;
        }
    }
    // The database, its log and index, the lock, the witness and the large item.
    assert_eq!(files, 6);
}

#[tokio::test]
async fn a_second_writer_is_told_who_is_first() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path());
    let second = SqliteStore::open(dir.path(), &SqliteOptions::default());
    let Err(StoreError::Locked { holder }) = second else { panic!("{second:?}") };
    assert!(holder.starts_with(&format!("process {} (", std::process::id())), "{holder}");
    drop(first);
    open(dir.path());
}

#[test]
fn the_lock_of_a_dead_process_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("lock"), "process 1 (somebody who died)\n").unwrap();
    open(dir.path());
    // A child that outlives the holder does not keep the lock.
    let store = open(dir.path());
    let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    drop(store);
    open(dir.path());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test]
async fn an_owner_from_before_a_restart_is_fenced_off() {
    let dir = tempfile::tempdir().unwrap();
    let a = team("a");
    let store = filled(dir.path(), 1).await;
    let old = store.open(&a).await.unwrap().epoch;
    drop(store);
    let store = open(dir.path());
    // Nobody has opened the team since: the old owner may be the same process under a new roof.
    store.append(append(&a, old, 3, vec![sent(3, "x")])).await.unwrap();
    let new = store.open(&a).await.unwrap().epoch;
    assert!(new > old);
    let fenced = store.append(append(&a, old, 4, vec![sent(4, "x")])).await;
    assert!(matches!(fenced, Err(StoreError::StaleEpoch { .. })), "{fenced:?}");
    // Erasing a team and making it anew does not bring back an old epoch, also after a restart.
    store.erase(&a).await.unwrap();
    drop(store);
    assert!(open(dir.path()).open(&a).await.unwrap().epoch > new);
}

#[tokio::test]
async fn a_restored_copy_without_its_witness_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    drop(filled(dir.path(), 1).await);
    fs::copy(file("store.db"), file("copy")).unwrap();
    drop(filled_further(dir.path()).await);
    fs::rename(file("copy"), file("store.db")).unwrap();
    for opened in [
        SqliteStore::open(dir.path(), &SqliteOptions::default()),
        SqliteStore::open_read_only(dir.path()),
    ] {
        let Err(StoreError::Corrupt(text)) = opened else { panic!("{opened:?}") };
        assert!(text.ends_with("remove the file `witness` beside it"), "{text}");
    }
    fs::remove_file(file("witness")).unwrap();
    assert_eq!(open(dir.path()).read(&team("a"), Seq(0), 9).await.unwrap().len(), 3);
}

async fn filled_further(dir: &Path) -> SqliteStore {
    let store = open(dir);
    let a = team("a");
    let epoch = store.open(&a).await.unwrap().epoch;
    store.append(append(&a, epoch, 3, vec![sent(3, "x")])).await.unwrap();
    store
}

#[tokio::test]
async fn readers_stand_beside_the_writer() {
    let dir = tempfile::tempdir().unwrap();
    let none = SqliteStore::open_read_only(dir.path());
    assert!(matches!(none, Err(StoreError::Unavailable(_))), "{none:?}");
    assert!(!SqliteStore::exists(dir.path()));
    let writer = filled(dir.path(), 1).await;
    let reader = SqliteStore::open_read_only(dir.path()).unwrap();
    let a = team("a");
    assert_eq!(reader.read(&a, Seq(0), 99).await.unwrap().len(), 3);
    let epoch = writer.open(&a).await.unwrap().epoch;
    writer.append(append(&a, epoch, 3, vec![sent(3, "x")])).await.unwrap();
    assert_eq!(reader.read(&a, Seq(0), 99).await.unwrap().len(), 4);
    assert_eq!(reader.teams().await.unwrap(), writer.teams().await.unwrap());
    let refused = reader.append(append(&a, epoch, 4, vec![sent(4, "x")])).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    drop(writer);
    assert_eq!(reader.read(&a, Seq(0), 99).await.unwrap().len(), 4);
    drop(reader);
    let alone = SqliteStore::open_read_only(dir.path()).unwrap();
    assert_eq!(alone.verify(&a).await.unwrap().events, 4);
    drop(alone);
    // A reader that was the last to close left nothing behind that disturbs the next writer.
    assert_eq!(open(dir.path()).read(&a, Seq(0), 99).await.unwrap().len(), 4);
}

#[tokio::test]
async fn a_changed_event_is_found_wherever_it_is_read() {
    for (sql, at) in [
        (
            "UPDATE events SET body = CAST(replace(body, 'some text', 'sums text') AS BLOB) WHERE seq = 4",
            4,
        ),
        ("UPDATE events SET hash = zeroblob(32) WHERE seq = 4", 4),
        ("DELETE FROM events WHERE seq = 4", 4),
        ("DELETE FROM events WHERE seq = 7", 7),
        ("DELETE FROM events", 7),
    ] {
        let dir = tempfile::tempdir().unwrap();
        drop(filled(dir.path(), 5).await);
        tamper(dir.path(), sql);
        let store = open(dir.path());
        let a = team("a");
        let named = |result: Result<(), StoreError>| match result {
            Err(StoreError::Corrupt(text)) => {
                assert!(text.contains(&format!("event {at} ")), "{text}");
            }
            other => panic!("{sql}: {other:?}"),
        };
        named(store.verify(&a).await.map(|_| ()));
        named(store.read(&a, Seq(0), 99).await.map(|_| ()));
        named(store.read(&a, Seq(at - 1), 99).await.map(|_| ()));
        named(store.open(&a).await.map(|_| ()));
    }
}

#[tokio::test]
async fn a_forged_event_with_a_fitting_hash_breaks_the_chain_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    drop(filled(dir.path(), 5).await);
    tamper(
        dir.path(),
        "UPDATE events SET (body, hash) = (SELECT body, hash FROM events WHERE seq = 4) WHERE seq = 5",
    );
    let found = open(dir.path()).verify(&team("a")).await;
    assert!(matches!(found, Err(StoreError::Corrupt(_))), "{found:?}");
}

#[tokio::test]
async fn an_event_or_a_schema_of_a_newer_version_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    drop(filled(dir.path(), 1).await);
    let file = dir.path().join("store.db");
    Connection::open(&file).unwrap().pragma_update(None, "user_version", 99).unwrap();
    for opened in [
        SqliteStore::open(dir.path(), &SqliteOptions::default()),
        SqliteStore::open_read_only(dir.path()),
    ] {
        let Err(StoreError::Newer(what)) = opened else { panic!("{opened:?}") };
        assert_eq!(what, "the store (schema 99; this is 1)");
    }
}

#[tokio::test]
async fn a_file_that_is_something_else_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("store.db"), "a diary, not a database".repeat(400)).unwrap();
    let opened = SqliteStore::open(dir.path(), &SqliteOptions::default());
    assert!(matches!(opened, Err(StoreError::Corrupt(_))), "{opened:?}");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("store.db");
    Connection::open(&file).unwrap().execute_batch("CREATE TABLE songs (name TEXT)").unwrap();
    let opened = SqliteStore::open(dir.path(), &SqliteOptions::default());
    assert!(matches!(opened, Err(StoreError::Corrupt(_))), "{opened:?}");
}

#[tokio::test]
async fn a_damaged_snapshot_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let a = team("a");
    let shot = |seq: u64| Snapshot { seq: Seq(seq), state_version: 1, bytes: vec![7; 100] };
    let store = filled(dir.path(), 10).await;
    let epoch = store.open(&a).await.unwrap().epoch;
    let many = (12..2_100).map(|n| sent(n, "x")).collect();
    store.append(append(&a, epoch, 12, many)).await.unwrap();
    store.keep_snapshot(&a, shot(5)).await.unwrap();
    store.keep_snapshot(&a, shot(2_050)).await.unwrap();
    assert_eq!(store.open(&a).await.unwrap().snapshot, Some(shot(2_050)));
    drop(store);
    tamper(dir.path(), "UPDATE snapshots SET bytes = zeroblob(100) WHERE seq = 2050");
    let loaded = open(dir.path()).open(&a).await.unwrap();
    assert_eq!((loaded.snapshot, loaded.events.len()), (Some(shot(5)), 2_095));
    tamper(dir.path(), "UPDATE snapshots SET state_version = 2 WHERE seq = 5");
    let loaded = open(dir.path()).open(&a).await.unwrap();
    assert_eq!((loaded.snapshot, loaded.events.len()), (None, 2_100));
}

#[tokio::test]
async fn large_items_are_files_that_are_checked_and_erased() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = || {
        let team = dir.path().join("blobs/a");
        fs::read_dir(team).map_or(Vec::new(), |found| found.map(|e| e.unwrap().path()).collect())
    };
    let (a, talk) = (team("a"), conversation("talk"));
    let large = said(0, &"x".repeat(INLINE_LIMIT));
    let store = filled(dir.path(), 1).await;
    let twice = vec![large.clone(), said(1, "small"), large.clone()];
    store.append_items(&a, &talk, 0, twice.clone()).await.unwrap();
    assert_eq!(blobs().len(), 1);
    drop(store);

    let store = open(dir.path());
    assert_eq!(store.items(&talk, 0, 9).await.unwrap(), twice);
    let file = blobs().remove(0);
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[1..]).unwrap();
    let damaged = store.items(&talk, 0, 9).await;
    assert!(matches!(damaged, Err(StoreError::Corrupt(_))), "{damaged:?}");
    fs::remove_file(&file).unwrap();
    let gone = store.items(&talk, 0, 9).await;
    assert!(matches!(gone, Err(StoreError::Corrupt(_))), "{gone:?}");
    fs::write(&file, &bytes).unwrap();
    assert_eq!(store.items(&talk, 2, 9).await.unwrap(), [large]);

    store.erase(&a).await.unwrap();
    assert_eq!(blobs().len(), 0);
    drop(store);
    // What an erasure left behind when the process died is removed at the next opening.
    fs::create_dir(dir.path().join("blobs/a")).unwrap();
    fs::write(&file, &bytes).unwrap();
    open(dir.path());
    assert_eq!(blobs().len(), 0);
}

#[tokio::test]
async fn nothing_of_an_erased_team_stays_in_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path(), 1).await;
    let (b, talk) = (team("b"), conversation("talk"));
    let epoch = store.open(&b).await.unwrap().epoch;
    store.append(append(&b, epoch, 0, vec![created(&b), sent(1, "CANARY one")])).await.unwrap();
    store.append_items(&b, &talk, 0, vec![said(0, "CANARY two")]).await.unwrap();
    let shot = Snapshot { seq: Seq(2), state_version: 1, bytes: b"CANARY three".to_vec() };
    store.keep_snapshot(&b, shot).await.unwrap();
    let found = || {
        ["store.db", "store.db-wal"]
            .iter()
            .flat_map(|name| fs::read(dir.path().join(name)).unwrap())
            .collect::<Vec<u8>>()
            .windows(6)
            .any(|window| window == b"CANARY")
    };
    assert!(found());
    store.erase(&b).await.unwrap();
    drop(store);
    assert!(!found());
    assert_eq!(open(dir.path()).read(&team("a"), Seq(0), 9).await.unwrap().len(), 3);
}
