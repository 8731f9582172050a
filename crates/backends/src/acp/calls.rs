//! The tool calls of one turn, and what each of them means to the team's journal; it asks nobody.

use std::collections::BTreeMap;

use aion_core::hash::ActionHash;
use aion_core::id::CallId;
use serde_json::{Value, json};

use super::call::{Call, CallNews, CallStatus};

/// The longest id of a call that the journal takes as it is.
const ID_BYTES: usize = 150;

/// The calls of a turn, by the agent's own ids.
#[derive(Debug, Default)]
pub(super) struct Calls {
    all: BTreeMap<String, Track>,
    /// Calls that are shown and have not ended.
    open: usize,
}

/// One call, and how far it has come.
#[derive(Debug, Default)]
pub(super) struct Track {
    pub(super) call: Call,
    /// A tool of the team that it proved to be.
    pub(super) team_tool: Option<String>,
    /// How often it was asked for.
    asked: u32,
    /// In the journal as started, and whether it may change something.
    pub(super) started: Option<(CallId, bool)>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Told of, and not in the transcript.
    #[default]
    Told,
    /// In the transcript.
    Shown,
    Ended,
}

impl Calls {
    /// Takes in what is new about a call.
    pub(super) fn learn(&mut self, news: CallNews) -> &mut Track {
        let track = self.all.entry(news.id.clone()).or_default();
        track.call.learn(news);
        track
    }

    pub(super) fn get(&mut self, id: &str) -> Option<&mut Track> {
        self.all.get_mut(id)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether a call is under way.
    pub(super) fn are_open(&self) -> bool {
        self.open > 0
    }

    /// A call goes into the transcript; false where it is there already.
    pub(super) fn show(&mut self, id: &str) -> bool {
        let told = self.all.get_mut(id).filter(|track| track.stage == Stage::Told);
        let Some(track) = told else { return false };
        track.stage = Stage::Shown;
        self.open += 1;
        true
    }

    /// A call that is in the transcript ended; false where it ended before.
    pub(super) fn end(&mut self, id: &str) -> bool {
        let shown = self.all.get_mut(id).filter(|track| track.stage == Stage::Shown);
        let Some(track) = shown else { return false };
        track.stage = Stage::Ended;
        self.open -= 1;
        true
    }

    /// The calls that are shown and have not ended.
    pub(super) fn open(&self) -> Vec<String> {
        let open = self.all.iter().filter(|(_, track)| track.stage == Stage::Shown);
        open.map(|(id, _)| id.clone()).collect()
    }
}

impl Track {
    /// Whether it has to be in the transcript by now.
    pub(super) fn is_under_way(&self) -> bool {
        self.stage == Stage::Told && self.call.status() != CallStatus::Pending
    }

    /// Whether it has ended, and how.
    pub(super) fn ended(&self) -> Option<bool> {
        match self.call.status() {
            CallStatus::Completed => Some(true),
            CallStatus::Failed => Some(false),
            CallStatus::Pending | CallStatus::InProgress => None,
        }
    }

    /// Its tool, for the transcript.
    pub(super) fn tool(&self) -> &str {
        let team_tool = self.team_tool.as_deref();
        team_tool.or(self.call.tool()).or(self.call.title()).unwrap_or(self.call.kind())
    }

    /// Its input, for the transcript.
    pub(super) fn input(&self) -> Value {
        self.call.input().cloned().unwrap_or_else(|| match self.call.title() {
            Some(title) => json!({ "title": title }),
            None => json!({}),
        })
    }

    /// The name under which the journal meets it when it is asked for: another one each time, since
    /// an agent may ask more than once for the same call.
    pub(super) fn next_name(&mut self, id: &str) -> CallId {
        self.asked += 1;
        match self.asked {
            1 => name(id),
            again => format!("{}#{again}", name(id)),
        }
    }
}

/// The name of a call in our transcript and journal.
pub(super) fn name(id: &str) -> CallId {
    if id.len() <= ID_BYTES { id.to_owned() } else { ActionHash::of_text(id).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learn(calls: &mut Calls, told: &Value) {
        calls.learn(CallNews::read(&told.to_string()).unwrap());
    }

    #[test]
    fn a_call_is_shown_once_and_ends_once() {
        let mut calls = Calls::default();
        learn(&mut calls, &json!({ "toolCallId": "c", "title": "look" }));
        assert!(!calls.get("c").unwrap().is_under_way() && !calls.are_open());
        learn(&mut calls, &json!({ "toolCallId": "c", "status": "completed" }));
        let track = calls.get("c").unwrap();
        assert!(track.is_under_way());
        assert_eq!((track.ended(), track.tool()), (Some(true), "look"));
        assert!(!calls.end("c"), "what was never shown does not end");
        assert!(calls.show("c") && !calls.show("c") && calls.are_open());
        assert_eq!(calls.open(), ["c"]);
        assert!(calls.end("c") && !calls.end("c") && !calls.are_open());
        assert!(!calls.show("other"));
    }

    #[test]
    fn a_call_that_is_asked_for_again_has_another_name() {
        let mut track = Track::default();
        assert_eq!(track.next_name("c"), "c");
        assert_eq!(track.next_name("c"), "c#2");
        assert_eq!(name(&"x".repeat(1_000)).len(), 64);
    }
}
