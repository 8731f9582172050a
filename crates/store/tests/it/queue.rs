//! What waits for the writing thread shares its commits, events first.

use std::sync::{Arc, Mutex};

use aion_core::id::Seq;
use aion_store::{EventStore, Snapshot, SqliteOptions, SqliteStore, StoreError};
use futures::future::join_all;
use rusqlite::Connection;

use crate::events::{append, conversation, created, said, sent, spawned, team};
use crate::gate::Gate;

#[tokio::test]
async fn appends_of_many_teams_that_wait_share_one_commit() {
    let dir = tempfile::tempdir().unwrap();
    let (gate, options) = Gate::new(SqliteOptions::default());
    let store = SqliteStore::open(dir.path(), &options).unwrap();
    let teams: Vec<_> = (0..65).map(|n| team(&format!("t-{n}"))).collect();
    let mut epochs = Vec::new();
    for a in &teams {
        epochs.push(store.open(a).await.unwrap().epoch);
    }
    let before = gate.commits();
    let mut appends = teams.iter().zip(epochs).map(|(a, epoch)| {
        store.append(append(a, epoch, 0, vec![created(a), spawned(), sent(1, "x")]))
    });
    let first = appends.next().unwrap();
    let (first, others) = gate.run(first, join_all(appends)).await;
    first.unwrap();
    for other in others {
        other.unwrap();
    }
    // The first, and all the others together.
    assert_eq!(gate.commits() - before, 2);
    assert_eq!(store.teams().await.unwrap().len(), 65);
}

#[tokio::test]
async fn events_pass_transcripts_and_both_share_commits() {
    let dir = tempfile::tempdir().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (file, counts) = (dir.path().join("store.db"), Arc::clone(&seen));
    let (gate, options) = Gate::observing(SqliteOptions::default(), move || {
        let reader = Connection::open(&file).unwrap();
        let rows = "SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM items)";
        let found: (u32, u32) =
            reader.query_row(rows, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        counts.lock().unwrap().push(found);
    });
    let store = SqliteStore::open(dir.path(), &options).unwrap();
    let a = team("a");
    let epoch = store.open(&a).await.unwrap().epoch;
    store.append(append(&a, epoch, 0, vec![created(&a), spawned()])).await.unwrap();
    seen.lock().unwrap().clear();
    let talks: Vec<_> = (0..20).map(|n| conversation(&format!("talk-{n}"))).collect();
    let items = join_all(
        talks
            .iter()
            .map(|talk| store.append_items(&a, talk, 0, vec![said(0, &"x".repeat(60_000))])),
    );
    let events =
        join_all((3..8).map(|seq| {
            store.append(append(&a, epoch, seq, vec![sent(seq, &"x".repeat(200_000))]))
        }));
    let first = store.append(append(&a, epoch, 2, vec![sent(2, "x")]));
    let (first, (items, events)) = gate.run(first, futures::future::join(items, events)).await;
    first.unwrap();
    items.into_iter().chain(events).collect::<Result<(), _>>().unwrap();
    // 2.2 MB in commits of at most 1 MiB. The transcripts were asked for first, and have only what
    // the events leave.
    assert_eq!(*seen.lock().unwrap(), [(2, 0), (3, 0), (7, 4), (8, 18)]);
    assert_eq!(store.read(&a, Seq(0), 99).await.unwrap().len(), 8);
}

#[tokio::test]
async fn a_snapshot_and_an_erasure_are_in_turn_beside_appends() {
    let dir = tempfile::tempdir().unwrap();
    let (gate, options) = Gate::new(SqliteOptions::default());
    let store = SqliteStore::open(dir.path(), &options).unwrap();
    let (a, b, talk) = (team("a"), team("b"), conversation("talk"));
    let mut epoch = 0;
    for team in [&b, &a] {
        epoch = store.open(team).await.unwrap().epoch;
        store.append(append(team, epoch, 0, vec![created(team), spawned()])).await.unwrap();
    }
    let shot = Snapshot { seq: Seq(2), state_version: 1, bytes: vec![1] };
    let first = store.append(append(&a, epoch, 2, vec![sent(1, "x")]));
    let behind = async {
        futures::join!(
            store.keep_snapshot(&a, shot.clone()),
            store.erase(&b),
            store.append_items(&b, &talk, 0, vec![said(0, "x")]),
        )
    };
    let (first, (kept, erased, late)) = gate.run(first, behind).await;
    first.unwrap();
    kept.unwrap();
    erased.unwrap();
    // The item was asked for after the erasure, and passed it: it is gone with its team.
    late.unwrap();
    assert_eq!(store.items(&talk, 0, 9).await.unwrap(), []);
    assert!(matches!(store.read(&b, Seq(0), 9).await, Err(StoreError::NoTeam(_))));
    let loaded = store.open(&a).await.unwrap();
    assert_eq!((loaded.snapshot, loaded.events.len()), (Some(shot), 1));
}
