//! A database or a log that was cut off is noticed: either everything that was acknowledged is
//! there, or a named error says that it is not.

use std::fs::{self, File};
use std::path::Path;

use aion_core::event::Recorded;
use aion_core::id::{Seq, TeamId};
use aion_store::{EventStore, SqliteOptions, SqliteStore, StoreError};

use crate::events::{append, conversation, created, said, sent, spawned, team};

const CUTS: u64 = 1_000;
const FILES: [&str; 3] = ["store.db", "store.db-wal", "witness"];

type Logs = Vec<(TeamId, Vec<Recorded>)>;

#[tokio::test]
async fn a_cut_at_any_point_loses_nothing_silently() {
    let origin = tempfile::tempdir().unwrap();
    let (early, late) = (origin.path().join("early"), origin.path().join("late"));
    let acknowledged = make_images(origin.path(), &early, &late).await;

    let reader = SqliteStore::open_read_only(&early).unwrap();
    for (a, events) in &acknowledged.0 {
        assert_eq!(reader.read(a, Seq(0), usize::MAX).await.unwrap(), *events);
    }
    drop(reader);
    let database = size(&late.join("store.db"));
    let total = database + size(&late.join("store.db-wal"));
    assert!(database > 100_000 && total - database > 100_000, "{database} of {total}");
    // In memory where that is possible: thousands of syncs of a disk would prove nothing more.
    let scratch = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let (mut whole, mut named) = (0, 0);
    for cut in 0..CUTS {
        // Every other time the witness is an older one, as after a power failure: then the end of
        // the log may be missing, but nothing of what it testifies to.
        let lagging = cut % 2 == 1;
        let dir = scratch.path().join(cut.to_string());
        let at = total * cut / (CUTS - 1);
        copy_cut(&late, &dir, at, database);
        if lagging {
            fs::copy(early.join("witness"), dir.join("witness")).unwrap();
        }
        let expected = if lagging { &acknowledged.0 } else { &acknowledged.1 };
        match check(&dir, expected).await {
            Ok(()) => whole += 1,
            Err(StoreError::Corrupt(_)) => named += 1,
            Err(other) => panic!("cut at {at}: {other}"),
        }
        fs::remove_dir_all(dir).unwrap();
    }
    assert_eq!(whole + named, CUTS);
    // Both happen: the cuts are not all in one place.
    assert!(whole > 50 && named > 500, "{whole} whole, {named} named");
}

/// Writes a store and copies its files twice, as a killed process would leave them. Says what was
/// acknowledged at each moment.
async fn make_images(origin: &Path, early: &Path, late: &Path) -> (Logs, Logs) {
    let dir = origin.join("live");
    write(&dir, 0, 40).await;
    let store = open(&dir).unwrap();
    fill(&store, 40, 30).await;
    let first = logs(&store).await;
    copy(&dir, early);
    fill(&store, 70, 30).await;
    let second = logs(&store).await;
    copy(&dir, late);
    (first, second)
}

async fn write(dir: &Path, from: u64, rounds: u64) {
    fill(&open(dir).unwrap(), from, rounds).await;
}

async fn fill(store: &SqliteStore, from: u64, rounds: u64) {
    for round in from..from + rounds {
        let a = team(&format!("team-{}", round % 4));
        let loaded = store.open(&a).await.unwrap();
        let seq = loaded.events.len() as u64;
        let events = if seq == 0 {
            vec![created(&a), spawned()]
        } else {
            let text = "x".repeat(200 + round as usize * 37);
            vec![sent(seq, &text), sent(seq + 1, "short")]
        };
        store.append(append(&a, loaded.epoch, seq, events)).await.unwrap();
        let talk = conversation(&format!("talk-{}", round % 4));
        store.append_items(&a, &talk, round / 4, vec![said(0, "hm")]).await.unwrap();
    }
}

async fn logs(store: &SqliteStore) -> Logs {
    let mut logs = Vec::new();
    for n in 0..4 {
        let a = team(&format!("team-{n}"));
        let events = store.read(&a, Seq(0), usize::MAX).await.unwrap();
        assert!(!events.is_empty());
        logs.push((a, events));
    }
    logs
}

/// Opens what is left and looks for everything that was acknowledged.
async fn check(dir: &Path, expected: &Logs) -> Result<(), StoreError> {
    let store = open(dir)?;
    let rows = store.teams().await?;
    for (a, acknowledged) in expected {
        let loaded = store.open(a).await?;
        assert_eq!(loaded.events[..acknowledged.len()], acknowledged[..], "{a}");
        let row = rows.iter().find(|row| row.team == *a);
        assert!(row.is_some_and(|row| row.seq.0 >= acknowledged.len() as u64), "{a}");
        store.verify(a).await?;
    }
    Ok(())
}

fn open(dir: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(dir, &SqliteOptions::default().with_readers(1))
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for name in FILES {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

/// Copies the files as if database and log were one, cut off at `at`.
fn copy_cut(from: &Path, to: &Path, at: u64, database: u64) {
    copy(from, to);
    let (name, length) =
        if at < database { ("store.db", at) } else { ("store.db-wal", at - database) };
    File::options().write(true).open(to.join(name)).unwrap().set_len(length).unwrap();
}

fn size(file: &Path) -> u64 {
    fs::metadata(file).unwrap().len()
}
