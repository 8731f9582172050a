//! Prints what the embedded store keeps per second on this machine: `cargo run --release -p
//! aion-store --example throughput [directory]`. It judges nothing.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement that is read by people"
)]

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aion_core::command::Caller;
use aion_core::event::{EVENT_VERSION, Event, Recorded};
use aion_core::id::{CommandId, MessageId, Seq, SlotId, TeamId, TurnId};
use aion_core::message::{Body, Envelope, Recipient, Sender, Urgency};
use aion_core::time::Timestamp;
use aion_core::turn::TurnOutcome;
use aion_store::{Append, EventStore, SqliteOptions, SqliteStore};

const SLOT: SlotId = SlotId(2);

fn events(first: u64, message: u64) -> Vec<Recorded> {
    let sent = Event::MessageSent {
        message: Envelope {
            id: MessageId(message),
            from: Sender::Agent(SlotId::LEAD),
            to: Recipient::Agent(SLOT),
            body: Body::Text("x".repeat(300)),
            summary: None,
            urgency: Urgency::Wake,
            files: Vec::new(),
            again: None,
            sent_at: Timestamp(message),
        },
        recipients: vec![SLOT],
        held: false,
        key: None,
    };
    let started = Event::TurnStarted {
        turn: TurnId(message),
        slot: SLOT,
        batch: vec![MessageId(message)],
        offer: None,
        reserved: None,
    };
    let ended = Event::TurnEnded {
        turn: TurnId(message),
        slot: SLOT,
        outcome: TurnOutcome::Done { last_text: None },
        acknowledged: vec![MessageId(message)],
        requeued: Vec::new(),
        usage: None,
    };
    [sent, started, ended]
        .into_iter()
        .zip(first..)
        .map(|(event, seq)| Recorded {
            seq: Seq(seq),
            at: Timestamp(seq),
            version: EVENT_VERSION,
            actor: Caller::System,
            credential: None,
            command_id: CommandId::new(format!("c-{message}")).unwrap(),
            event,
        })
        .collect()
}

async fn run(store: &Arc<SqliteStore>, label: &str, teams: usize, per_append: usize) {
    let stop = Instant::now() + Duration::from_secs(3);
    let start = Instant::now();
    let tasks: Vec<_> = (0..teams)
        .map(|n| {
            let store = Arc::clone(store);
            let team = TeamId::new(format!("{label}-{n}")).unwrap();
            tokio::spawn(async move {
                let epoch = store.open(&team).await.unwrap().epoch;
                let (mut seq, mut message) = (0, 0);
                let mut waits = Vec::new();
                while Instant::now() < stop {
                    let mut batch = Vec::new();
                    for _ in 0..per_append {
                        message += 1;
                        batch.extend(events(seq + 1 + batch.len() as u64, message));
                    }
                    let count = batch.len() as u64;
                    let append = Append::new(team.clone(), epoch, Seq(seq), batch.into());
                    let asked = Instant::now();
                    store.append(append).await.unwrap();
                    waits.push(asked.elapsed());
                    seq += count;
                }
                (seq, waits)
            })
        })
        .collect();
    let (mut events, mut waits) = (0_u64, Vec::new());
    for task in tasks {
        let (count, mut own) = task.await.unwrap();
        events += count;
        waits.append(&mut own);
    }
    let millis = start.elapsed().as_millis().max(1);
    waits.sort();
    let at = |percent: usize| waits[waits.len() * percent / 100];
    println!(
        "{label}: {teams} teams, {} events an append: {} events/s, {} appends/s, p50 {:?}, p99 {:?}",
        per_append * 3,
        u128::from(events) * 1_000 / millis,
        waits.len() as u128 * 1_000 / millis,
        at(50),
        at(99)
    );
}

/// What the disk itself needs to make 4 KiB durable at the end of a file.
fn baseline(dir: &Path) {
    let path = dir.join("baseline");
    let mut file = File::create(&path).unwrap();
    let stop = Instant::now() + Duration::from_secs(2);
    let mut waits = Vec::new();
    while Instant::now() < stop {
        let asked = Instant::now();
        file.write_all(&[7; 4_096]).unwrap();
        file.sync_data().unwrap();
        waits.push(asked.elapsed());
    }
    waits.sort();
    let at = |percent: usize| waits[waits.len() * percent / 100];
    println!("4 KiB append + fdatasync: p50 {:?}, p99 {:?}", at(50), at(99));
    std::fs::remove_file(path).unwrap();
}

#[tokio::main]
async fn main() {
    let dir = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = dir.join(format!("aion-throughput-{}", std::process::id()));
    let store = Arc::new(SqliteStore::open(&dir, &SqliteOptions::default()).unwrap());
    for label in ["one-a", "one-b", "one-c"] {
        baseline(&dir);
        run(&store, label, 1, 1).await;
    }
    baseline(&dir);
    run(&store, "busy", 64, 1).await;
    run(&store, "full", 64, 8).await;
    run(&store, "alone-full", 1, 64).await;
    let team = TeamId::new("busy-0").unwrap();
    let start = Instant::now();
    let verified = store.verify(&team).await.unwrap();
    println!("verified {} events in {:?}", verified.events, start.elapsed());
    let team = TeamId::new("alone-full-0").unwrap();
    let start = Instant::now();
    let loaded = store.open(&team).await.unwrap();
    println!("opened {} events in {:?}", loaded.events.len(), start.elapsed());
    let start = Instant::now();
    println!("listed {} teams in {:?}", store.teams().await.unwrap().len(), start.elapsed());
    drop(store);
    std::fs::remove_dir_all(&dir).unwrap();
}
