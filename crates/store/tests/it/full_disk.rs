//! A full disk refuses appends by name, loses nothing, and is forgotten once there is room.

use std::path::Path;
use std::process::Command;

use aion_core::id::{Seq, TeamId};
use aion_store::{EventStore, SqliteOptions, SqliteStore, StoreError};
use futures::future::join_all;

use crate::events::{append, created, sent, spawned, team};
use crate::gate::Gate;

async fn begin(store: &SqliteStore, name: &str) -> (TeamId, u64) {
    let a = team(name);
    let epoch = store.open(&a).await.unwrap().epoch;
    store.append(append(&a, epoch, 0, vec![created(&a), spawned()])).await.unwrap();
    (a, epoch)
}

/// Appends until the disk is full; says how many events were acknowledged.
async fn fill(store: &SqliteStore, a: &TeamId, epoch: u64, from: u64) -> u64 {
    for seq in from..from + 10_000 {
        match store.append(append(a, epoch, seq, vec![sent(seq, &"x".repeat(5_000))])).await {
            Ok(()) => {}
            Err(StoreError::Unavailable(text)) => {
                assert!(text.contains("full"), "{text}");
                return seq;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("the disk never fills");
}

#[tokio::test]
async fn a_full_database_recovers_when_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let options = SqliteOptions::default().with_max_pages(200);
    let store = SqliteStore::open(dir.path(), &options).unwrap();
    let (room, epoch) = begin(&store, "room").await;
    for seq in 2..42 {
        let large = sent(seq, &"x".repeat(4_000));
        store.append(append(&room, epoch, seq, vec![large])).await.unwrap();
    }
    let (a, epoch) = begin(&store, "a").await;
    let seq = fill(&store, &a, epoch, 2).await;
    let refused = store.append(append(&a, epoch, seq, vec![sent(seq, &"x".repeat(5_000))])).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    assert_eq!(store.read(&a, Seq(0), usize::MAX).await.unwrap().len() as u64, seq);
    store.erase(&room).await.unwrap();
    store.append(append(&a, epoch, seq, vec![sent(seq, &"x".repeat(5_000))])).await.unwrap();
    drop(store);
    let store = SqliteStore::open(dir.path(), &SqliteOptions::default()).unwrap();
    assert_eq!(store.verify(&a).await.unwrap().events, seq + 1);
}

#[tokio::test]
async fn an_append_that_does_not_fit_fails_alone_in_its_batch() {
    let dir = tempfile::tempdir().unwrap();
    let (gate, options) = Gate::new(SqliteOptions::default().with_max_pages(120));
    let store = SqliteStore::open(dir.path(), &options).unwrap();
    let mut teams = Vec::new();
    for n in 0..6 {
        teams.push(begin(&store, &format!("t-{n}")).await);
    }
    let (first, epoch) = begin(&store, "first").await;
    let appends = teams.iter().enumerate().map(|(n, (a, epoch))| {
        let text = if n == 3 { "x".repeat(900_000) } else { "small".to_owned() };
        store.append(append(a, *epoch, 2, vec![sent(2, &text)]))
    });
    let first = store.append(append(&first, epoch, 2, vec![sent(2, "first")]));
    let (first, results) = gate.run(first, join_all(appends)).await;
    first.unwrap();
    for (n, (result, (a, _))) in results.into_iter().zip(&teams).enumerate() {
        let kept = store.read(a, Seq(0), 9).await.unwrap().len();
        if n == 3 {
            assert!(matches!(result, Err(StoreError::Unavailable(_))), "{result:?}");
            assert_eq!(kept, 2);
        } else {
            result.unwrap();
            assert_eq!(kept, 3);
        }
    }
}

/// Where a small file system can be mounted, the disk really is full; elsewhere the limit on the
/// database's pages above stands for it.
#[tokio::test]
async fn a_full_tmpfs_or_where_it_cannot_be_mounted_only_max_page_count() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mounted) = Tmpfs::mount(dir.path(), "4m") else {
        println!("no tmpfs can be mounted here: a full disk is tested by max_page_count only");
        return;
    };
    let data = dir.path().join("data");
    let ballast = dir.path().join("ballast");
    std::fs::write(&ballast, vec![0; 2 * 1024 * 1024]).unwrap();
    let store = SqliteStore::open(&data, &SqliteOptions::default()).unwrap();
    let (a, epoch) = begin(&store, "a").await;
    let seq = fill(&store, &a, epoch, 2).await;
    assert_eq!(store.read(&a, Seq(0), usize::MAX).await.unwrap().len() as u64, seq);
    std::fs::remove_file(&ballast).unwrap();
    store.append(append(&a, epoch, seq, vec![sent(seq, "there is room")])).await.unwrap();
    drop(store);
    let store = SqliteStore::open(&data, &SqliteOptions::default()).unwrap();
    assert_eq!(store.verify(&a).await.unwrap().events, seq + 1);
    drop(store);
    drop(mounted);
}

struct Tmpfs<'a>(&'a Path);

impl<'a> Tmpfs<'a> {
    fn mount(at: &'a Path, size: &str) -> Option<Self> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "aion-test"])
            .arg(at)
            .output();
        mounted.is_ok_and(|output| output.status.success()).then_some(Self(at))
    }
}

impl Drop for Tmpfs<'_> {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "{} is busy", self.0.display());
    }
}
