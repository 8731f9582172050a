//! The team that is killed: its members, what each is sent, and what each does; it checks nothing.

use aion_agent::provider::{
    Message, ModelEvent, ModelRequest, Part, Provider, ProviderError, StopReason,
};
use aion_core::agent::{MemberSpec, PermissionMode};
use aion_core::command::{SendMessage, Settings};
use aion_core::id::{AgentName, ConversationId, SlotId};
use aion_core::limits::Limits;
use aion_core::message::{Recipient, Urgency};
use aion_testkit::chance::Chance;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use serde_json::json;

use crate::words::Word;

/// The members by slot: the lead, five that only talk, two whose commands run long, two whose
/// commands have to be asked for.
pub(crate) const MEMBERS: [&str; 10] = [
    "team-lead",
    "ada",
    "ben",
    "cleo",
    "dora",
    "emil",
    "runner-a",
    "runner-b",
    "asker-a",
    "asker-b",
];

/// The slots of those who hold a tool or a request.
pub(crate) const HOLDERS: [u32; 4] = [7, 8, 9, 10];

/// What makes a holder begin.
const HOLD: &str = "HOLD";

/// The settings of the team, with the limits that the loop lifts.
pub(crate) fn settings() -> Settings {
    let limits =
        Limits { messages_per_minute: 0, turns_without_progress: u32::MAX, ..Limits::default() };
    Settings { limits, auto_claim: false, ..Settings::default() }
}

/// What a member is made from.
pub(crate) fn member(team: &str, name: &str) -> anyhow::Result<MemberSpec> {
    let mode = if name.starts_with("runner") {
        PermissionMode::BypassPermissions
    } else {
        PermissionMode::Default
    };
    Ok(MemberSpec {
        name: if name == MEMBERS[0] { AgentName::lead() } else { AgentName::parse(name)? },
        label: None,
        agent_type: "chatter".to_owned(),
        model: None,
        color: None,
        prompt: format!("You are {name}."),
        mode,
        conversation: ConversationId::new(format!("{team}-{name}"))?,
        parent_call: None,
        parent_conversation: None,
    })
}

/// The message of a key: the same key always means the same message.
///
/// `p-…` is a probe for the lead, `h-…-SLOT` makes a holder begin, everything else is talk.
pub(crate) fn message(key: &str) -> SendMessage {
    let (to, text) = if key.starts_with("p-") {
        (Recipient::Lead, key.to_owned())
    } else if key.starts_with("h-") {
        let slot = key.rsplit('-').next().and_then(|slot| slot.parse().ok()).unwrap_or(HOLDERS[0]);
        (Recipient::Agent(SlotId(slot)), format!("{key} {HOLD}"))
    } else {
        let slot = 1 + u32::try_from(Chance::of(key).below(MEMBERS.len() as u64)).unwrap_or(0);
        (Recipient::Agent(SlotId(slot)), key.to_owned())
    };
    SendMessage {
        to,
        text,
        summary: None,
        urgency: Urgency::Wake,
        files: Vec::new(),
        key: Some(key.to_owned()),
    }
}

/// Answers for every member at once: says something to a peer half of the time, and lets holders
/// call their tool. What it says follows from member, turn and step alone.
#[derive(Debug)]
pub(crate) struct Chatter;

impl Provider for Chatter {
    fn stream(
        &self,
        request: ModelRequest,
    ) -> BoxStream<'static, Result<ModelEvent, ProviderError>> {
        let events = answer(&request);
        stream::iter(events.into_iter().map(Ok)).boxed()
    }
}

fn answer(request: &ModelRequest) -> Vec<ModelEvent> {
    let name = request.agent.as_str();
    match request.messages.last() {
        Some(Message::Results { results, .. }) => {
            for result in results.iter().filter(|result| result.ok) {
                if let Some(step) = result.call.strip_prefix("say-") {
                    Word::Told(token(request, step)).say();
                }
            }
        }
        Some(Message::Given { .. } | Message::Answer { .. }) | None => {
            let mut chance = Chance::of(&token(request, &request.step.to_string()));
            if chance.below(2) == 0 {
                return say(request, name, &mut chance);
            }
        }
    }
    if wants_to_hold(request) {
        return hold(request, name);
    }
    vec![ModelEvent::Text("Noted.".to_owned()), ModelEvent::Stop(StopReason::EndTurn)]
}

/// What is unique to a message that an agent sends.
fn token(request: &ModelRequest, step: &str) -> String {
    format!("a-{}-{}-{step}", request.agent.as_str(), request.turn.0)
}

fn say(request: &ModelRequest, name: &str, chance: &mut Chance) -> Vec<ModelEvent> {
    let others: Vec<&str> = MEMBERS.into_iter().filter(|other| *other != name).collect();
    let to = match chance.below(16) {
        0 => "*",
        _ => others[usize::try_from(chance.below(others.len() as u64)).unwrap_or(0)],
    };
    let step = request.step.to_string();
    let input = json!({ "to": to, "message": token(request, &step) });
    call(format!("say-{step}"), "team_send_message", input)
}

/// Whether this turn's mail asked for a tool that the turn has not called.
fn wants_to_hold(request: &ModelRequest) -> bool {
    let turn = request.turn;
    let asked = request.messages.iter().any(|message| {
        matches!(message, Message::Given { turn: t, text } if *t == turn && text.contains(HOLD))
    });
    let called = request.messages.iter().any(|message| match message {
        Message::Answer { turn: t, parts, .. } if *t == turn => {
            parts.iter().any(|part| matches!(part, Part::Call { tool, .. } if tool == "Bash"))
        }
        Message::Answer { .. } | Message::Given { .. } | Message::Results { .. } => false,
    });
    asked && !called
}

fn hold(request: &ModelRequest, name: &str) -> Vec<ModelEvent> {
    let (turn, step) = (request.turn.0, request.step);
    // The second process leaves its group and session: only the leash can find it.
    let command = if name.starts_with("runner") {
        "setsid sleep 600 & exec sleep 600".to_owned()
    } else {
        // It writes, so it is asked for: what only looks runs unasked.
        format!("echo {turn} > held")
    };
    let input = json!({ "command": command, "timeout_seconds": 600 });
    call(format!("hold-{step}"), "Bash", input)
}

fn call(call: String, tool: &str, input: serde_json::Value) -> Vec<ModelEvent> {
    let called = ModelEvent::ToolCall { call, tool: tool.to_owned(), input };
    vec![called, ModelEvent::Stop(StopReason::ToolUse)]
}
