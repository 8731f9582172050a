//! Every event that was ever released is still read, and written back as it was.
//!
//! `UPDATE_GOLDEN=1` writes the files of events that have none. A file that is there is never
//! overwritten: what was released does not change. Fields may be added, with a default.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use aion_core::command::Caller;
use aion_core::event::{EVENT_VERSION, Event, Recorded};
use aion_core::id::{CommandId, Seq, SlotId};
use aion_core::time::Timestamp;
use aion_store::{EventStore, MemoryStore};
use serde_json::Value;

use crate::events::{append, team};
use crate::samples;

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../core/tests/golden/events")
}

fn golden(event: Event) -> Recorded {
    Recorded {
        seq: Seq(5),
        at: Timestamp(1_234),
        version: EVENT_VERSION,
        actor: Caller::Agent(SlotId::LEAD),
        credential: Some("spawn-1".to_owned()),
        command_id: CommandId::new("c-1").unwrap(),
        event,
    }
}

/// The names that the reader of events knows, in its own words.
fn known_names() -> BTreeSet<String> {
    let error = serde_json::from_str::<Event>(r#"{"type":"?"}"#).unwrap_err().to_string();
    let names: BTreeSet<String> =
        error.split('`').skip(3).step_by(2).map(ToOwned::to_owned).collect();
    assert!(names.contains("team_created"), "{error}");
    names
}

#[test]
fn every_golden_event_is_read_and_written_back_equal() {
    let directory = directory();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(&directory).unwrap();
        for (name, event) in samples::all() {
            let file = directory.join(format!("{name}.json"));
            if !file.exists() {
                let text = serde_json::to_string_pretty(&golden(event)).unwrap();
                fs::write(file, text + "\n").unwrap();
            }
        }
    }
    let mut seen = BTreeSet::new();
    for entry in fs::read_dir(&directory).unwrap() {
        let file = entry.unwrap().path();
        let text = fs::read_to_string(&file).unwrap();
        let recorded: Recorded = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let written = serde_json::to_value(&recorded).unwrap();
        assert_eq!(serde_json::from_value::<Recorded>(written.clone()).unwrap(), recorded);
        let released: Value = serde_json::from_str(&text).unwrap();
        assert!(holds(&written, &released), "{} is written as {written}", file.display());
        let name = file.file_stem().unwrap().to_str().unwrap();
        let name = name.split('.').next().unwrap();
        assert_eq!(recorded.event.name(), name, "{}", file.display());
        seen.insert(name.to_owned());
    }
    assert_eq!(seen, known_names(), "run with UPDATE_GOLDEN=1 after adding an event");
}

/// Whether `written` says everything that `released` says.
fn holds(written: &Value, released: &Value) -> bool {
    match (written, released) {
        (Value::Object(written), Value::Object(released)) => released
            .iter()
            .all(|(name, value)| written.get(name).is_some_and(|found| holds(found, value))),
        _ => written == released,
    }
}

#[tokio::test]
async fn every_event_comes_back_from_a_store_equal() {
    let store = MemoryStore::new();
    let a = team("golden");
    let epoch = store.open(&a).await.unwrap().epoch;
    let events = samples::all().into_iter().map(|(_, event)| event).collect();
    let all = append(&a, epoch, 0, events);
    store.append(all.clone()).await.unwrap();
    assert_eq!(store.read(&a, Seq(0), usize::MAX).await.unwrap(), *all.events);
}
