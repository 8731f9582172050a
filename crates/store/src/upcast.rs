//! Reads stored events of every version into today's words; it never rewrites what is stored.

use aion_core::event::{EVENT_VERSION, Recorded};
use serde_json::Value;

use crate::error::StoreError;

/// Brings an event from one version to the next.
pub(crate) type Step = fn(&mut Value);

/// What each version needs to become the next one: the first entry turns version 1 into 2.
const STEPS: &[Step] = &[];

/// Reads one stored event whose bytes are known to be undamaged. `place` names it in an error.
pub(crate) fn read(bytes: &[u8], place: impl FnOnce() -> String) -> Result<Recorded, StoreError> {
    read_with(bytes, EVENT_VERSION, STEPS, place)
}

fn read_with(
    bytes: &[u8],
    current: u16,
    steps: &[Step],
    place: impl FnOnce() -> String,
) -> Result<Recorded, StoreError> {
    if let Ok(recorded) = serde_json::from_slice::<Recorded>(bytes)
        && recorded.version == current
    {
        return Ok(recorded);
    }
    let mut value: Value = match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(error) => return Err(StoreError::Corrupt(format!("{}: {error}", place()))),
    };
    let name = value["event"]["type"].as_str().unwrap_or("without a type").to_owned();
    let version = value["version"].as_u64().unwrap_or(0);
    if version > u64::from(current) {
        return Err(StoreError::Newer(format!("{} ({name}, version {version})", place())));
    }
    if version == 0 {
        return Err(StoreError::Corrupt(format!("{}: no version", place())));
    }
    for step in steps.iter().skip(version as usize - 1) {
        step(&mut value);
    }
    value["version"] = Value::from(current);
    match serde_json::from_value(value) {
        Ok(recorded) => Ok(recorded),
        // The bytes are what was written, so whoever wrote them knew more words.
        Err(error) => Err(StoreError::Newer(format!("{} ({name}: {error})", place()))),
    }
}

#[cfg(test)]
mod tests {
    use aion_core::event::Event;
    use serde_json::json;

    use super::*;

    fn stored(version: u16, event: &Value) -> Vec<u8> {
        json!({
            "seq": 7, "at": 1, "version": version, "actor": "user", "command_id": "c",
            "event": event,
        })
        .to_string()
        .into_bytes()
    }

    fn check(
        version: u16,
        event: &Value,
        current: u16,
        steps: &[Step],
    ) -> Result<Recorded, String> {
        read_with(&stored(version, event), current, steps, || "event 7 of team a".to_owned())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn an_old_event_is_brought_up_step_by_step() {
        let steps: [Step; 2] = [
            |value| value["event"]["title"] = value["event"]["label"].take(),
            |value| value["event"]["name"] = value["event"]["title"].take(),
        ];
        let renamed = Event::TeamRenamed { name: "b".to_owned() };
        let old = json!({ "type": "team_renamed", "label": "b" });
        let newer = json!({ "type": "team_renamed", "title": "b" });
        let current = json!({ "type": "team_renamed", "name": "b" });
        for (version, event) in [(1, &old), (2, &newer), (3, &current)] {
            let recorded = check(version, event, 3, &steps).unwrap();
            assert_eq!((recorded.version, &recorded.event), (3, &renamed));
        }
    }

    #[test]
    fn newer_events_are_refused_by_name() {
        let renamed = json!({ "type": "team_renamed", "name": "b" });
        assert_eq!(
            check(2, &renamed, 1, &[]).unwrap_err(),
            "event 7 of team a (team_renamed, version 2) was written by a newer version of aion; \
             update aion to read it"
        );
        let unknown = check(1, &json!({ "type": "team_sang" }), 1, &[]).unwrap_err();
        assert!(unknown.starts_with("event 7 of team a (team_sang: unknown variant"), "{unknown}");
    }

    #[test]
    fn what_is_no_event_is_damage() {
        let read = read_with(b"{\"seq\":", 1, &[], || "event 7 of team a".to_owned());
        assert!(matches!(read, Err(StoreError::Corrupt(_))), "{read:?}");
    }
}
