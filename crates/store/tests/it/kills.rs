//! A process that is killed at any named point has lost nothing that it had acknowledged, and left
//! nothing half-done. Needs the feature `failpoints`.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use aion_core::id::Seq;
use aion_store::{EventStore, Snapshot, SqliteOptions, SqliteStore, failpoint};

use crate::events::{append, conversation, created, said, sent, spawned, team};

/// Where the killed process keeps its data; only set for that process.
const DATA: &str = "AION_TEST_KILLS";
const ROUNDS: u64 = 400;

#[test]
fn a_kill_at_any_point_loses_nothing_acknowledged() {
    for point in failpoint::POINTS {
        for nth in [1, 3] {
            // The checkpointer has work once in a long while.
            let nth = if point == "store.checkpoint" { 1 } else { nth };
            let dir = tempfile::tempdir().unwrap();
            run_until_killed(dir.path(), &format!("{point}:{nth}"));
            check(dir.path(), point);
        }
    }
}

/// What the killed process does; in any other process nothing.
#[tokio::test]
async fn victim() {
    let Some(dir) = std::env::var_os(DATA).map(PathBuf::from) else { return };
    let mut acknowledged = File::create(dir.join("acknowledged")).unwrap();
    let mut note = |events: u64, items: u64| writeln!(acknowledged, "{events} {items}").unwrap();
    let store = SqliteStore::open(&dir.join("data"), &SqliteOptions::default()).unwrap();
    let (a, talk) = (team("a"), conversation("talk"));
    let epoch = store.open(&a).await.unwrap().epoch;
    store.append(append(&a, epoch, 0, vec![created(&a), spawned()])).await.unwrap();
    note(2, 0);
    for round in 0..ROUNDS {
        let seq = 2 + round;
        store.append(append(&a, epoch, seq, vec![sent(seq, &"x".repeat(16_000))])).await.unwrap();
        note(seq + 1, round);
        store.append_items(&a, &talk, round, vec![said(0, "hm")]).await.unwrap();
        note(seq + 1, round + 1);
        let snapshot = Snapshot { seq: Seq(seq), state_version: 1, bytes: vec![1; 100] };
        store.keep_snapshot(&a, snapshot).await.unwrap();
    }
    panic!("the failpoint was never met");
}

fn run_until_killed(dir: &Path, failpoint: &str) {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::victim", "--test-threads", "1"])
        .env(DATA, dir)
        .env("AION_FAILPOINT", failpoint)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.signal(), Some(9), "{failpoint}: {status}");
}

#[tokio::main(flavor = "current_thread")]
async fn check(dir: &Path, point: &str) {
    let acknowledged = fs::read_to_string(dir.join("acknowledged")).unwrap();
    let (mut events, mut items) = (0, 0);
    for line in acknowledged.lines() {
        let (left, right) = line.split_once(' ').unwrap();
        (events, items) = (left.parse::<u64>().unwrap(), right.parse::<u64>().unwrap());
    }
    let store = SqliteStore::open(&dir.join("data"), &SqliteOptions::default()).unwrap();
    let (a, talk) = (team("a"), conversation("talk"));
    let seq = store.open(&a).await.unwrap().snapshot.map_or(0, |snapshot| snapshot.seq.0);
    let found = store.verify(&a).await.unwrap().events;
    // What was not yet acknowledged is there whole or not at all.
    assert!(found == events || found == events + 1 || found == events + 2, "{point}: {found}");
    assert!(seq <= found, "{point}: {seq}");
    let kept = store.items(&talk, 0, usize::MAX).await.unwrap().len() as u64;
    assert!(kept == items || kept == items + 1, "{point}: {kept}");
    let before = store.dump_read_models().await.unwrap();
    store.rebuild().await.unwrap();
    assert_eq!(store.dump_read_models().await.unwrap(), before, "{point}");
}
