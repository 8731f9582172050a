//! Every store that was ever released is still opened, by whatever schema it was written, and says
//! what it said then.
//!
//! `UPDATE_GOLDEN=1` writes the store of the present schema if there is none. One that is there is
//! never overwritten: what was released does not change. What it said is beside it.

use std::fs;
use std::path::{Path, PathBuf};

use aion_core::id::Seq;
use aion_core::team::Team;
use aion_store::{EventStore, SqliteOptions, SqliteStore};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::events::{append, conversation, created, said, sent, spawned, team};
use crate::files::open;
use crate::samples;

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Writes a store with every event there is, and a team like those that people have.
async fn write(dir: &Path) {
    let store = open(dir);
    let a = team("a");
    let epoch = store.open(&a).await.unwrap().epoch;
    store.append(append(&a, epoch, 0, vec![created(&a), spawned()])).await.unwrap();
    for n in 2..72 {
        store.append(append(&a, epoch, n, vec![sent(n, "some text")])).await.unwrap();
    }
    store.append_items(&team("a"), &conversation("talk"), 0, vec![said(0, "hello")]).await.unwrap();
    let all = team("all");
    let epoch = store.open(&all).await.unwrap().epoch;
    let events: Vec<_> = samples::all().into_iter().map(|(_, event)| event).collect();
    store.append(append(&all, epoch, 0, events)).await.unwrap();
}

/// What a store says of itself.
async fn said_by(dir: &Path) -> Value {
    let store = SqliteStore::open(dir, &SqliteOptions::default()).unwrap();
    let mut teams = Vec::new();
    for row in store.teams().await.unwrap() {
        store.verify(&row.team).await.unwrap();
        let events = store.read(&row.team, Seq(0), 10_000).await.unwrap();
        let mut state = Team::new();
        if row.team == team("a") {
            for event in &events {
                state.evolve(event.at, &event.event);
            }
        }
        let open: usize = state.agents().map(|agent| agent.mailbox().unread()).sum();
        teams.push(json!({
            "team": row.team, "name": row.name, "members": row.members, "seq": row.seq,
            "messages_open": row.messages_open, "unread_by_the_log": open, "events": events,
        }));
    }
    let items = store.items(&conversation("talk"), 0, 10).await.unwrap();
    json!({ "teams": teams, "items": items })
}

#[tokio::test]
async fn a_store_of_every_schema_opens_and_says_the_same() {
    let version = |file: &Path| {
        let connection = Connection::open(file).unwrap();
        let version = connection.pragma_query_value(None, "user_version", |row| row.get(0));
        let version: i64 = version.unwrap();
        version
    };
    let scratch = tempfile::tempdir().unwrap();
    let fresh = scratch.path().join("fresh");
    write(&fresh).await;
    let present = version(&fresh.join("store.db"));
    let golden = directory().join(format!("store-v{present}"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() && !golden.exists() {
        fs::create_dir_all(&golden).unwrap();
        // One file holds all of it.
        let whole = Connection::open(fresh.join("store.db")).unwrap();
        whole.execute("VACUUM INTO ?1", [golden.join("store.db").to_str().unwrap()]).unwrap();
        let said = said_by(&fresh).await;
        fs::write(golden.join("said.json"), format!("{said}\n")).unwrap();
    }
    assert!(golden.exists(), "write the store of schema {present} with UPDATE_GOLDEN=1");
    for number in 1..=present {
        let golden = directory().join(format!("store-v{number}"));
        let dir = scratch.path().join(number.to_string());
        fs::create_dir(&dir).unwrap();
        fs::copy(golden.join("store.db"), dir.join("store.db")).unwrap();
        assert_eq!(version(&dir.join("store.db")), number);
        let then: Value =
            serde_json::from_str(&fs::read_to_string(golden.join("said.json")).unwrap()).unwrap();
        assert_eq!(said_by(&dir).await, then, "a store of schema {number}");
        assert_eq!(version(&dir.join("store.db")), present);
        // It is not only read: what comes next is taken.
        let store = open(&dir);
        let opened = store.open(&team("a")).await.unwrap();
        let more = append(&team("a"), opened.epoch, 72, vec![sent(72, "more")]);
        store.append(more).await.unwrap();
        store.verify(&team("a")).await.unwrap();
    }
}
