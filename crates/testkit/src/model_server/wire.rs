//! The formats of the models' services, from the service's side; they answer nothing themselves.

mod anthropic;
mod chat;
mod gemini;
mod ollama;
mod responses;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use aion_agent::provider::{Message, Part, ToolResult};
use aion_core::id::TurnId;
use serde_json::{Value, json};

use super::brain::Answer;

/// The turn of all that comes over the wire, which knows none.
const TURN: TurnId = TurnId(1);
/// How many characters one piece of an answer has.
const PIECE: usize = 12;

/// A service's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Anthropic's Messages.
    Anthropic,
    /// `OpenAI`'s Chat Completions.
    Chat,
    /// `OpenAI`'s Responses.
    Responses,
    /// Google's Gemini.
    Gemini,
    /// Ollama's chat.
    Ollama,
}

/// A request, whatever the format.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    pub(super) agent: String,
    pub(super) model: String,
    pub(super) system: String,
    pub(super) messages: Vec<Message>,
    pub(super) stream: bool,
    /// Bytes of the body.
    pub(super) bytes: u64,
    /// Whether it marks what a cache is to keep.
    pub(super) marks_cache: bool,
    /// Names that stand before those of tools, where a format has such.
    pub(super) spaces: BTreeMap<String, String>,
}

/// Why a real service would refuse a request.
pub(super) type Violation = String;

impl Format {
    /// Reads a request as strictly as the service does.
    pub(super) fn read(self, body: &Value, path: &str) -> Result<Asked, Violation> {
        let mut asked = match self {
            Self::Anthropic => anthropic::read(body),
            Self::Chat => chat::read(body),
            Self::Responses => responses::read(body),
            Self::Gemini => gemini::read(body, path),
            Self::Ollama => ollama::read(body),
        }?;
        paired(&asked.messages)?;
        asked.agent = agent(&asked.system);
        asked.bytes = body.to_string().len() as u64;
        Ok(asked)
    }

    /// The pieces of a streamed answer; `more` bytes make one of them huge.
    pub(super) fn stream(self, answer: &Answer, asked: &Asked, more: usize) -> Vec<String> {
        match self {
            Self::Anthropic => anthropic::stream(answer, asked, more),
            Self::Chat => chat::stream(answer, asked, more),
            Self::Responses => responses::stream(answer, asked, more),
            Self::Gemini => gemini::stream(answer, asked, more),
            Self::Ollama => ollama::stream(answer, asked, more),
        }
    }

    /// The same answer at once.
    pub(super) fn whole(self, answer: &Answer, asked: &Asked) -> Value {
        match self {
            Self::Anthropic => anthropic::whole(answer, asked),
            Self::Chat => chat::whole(answer, asked),
            Self::Responses => responses::whole(answer, asked),
            Self::Gemini => gemini::whole(answer, asked),
            Self::Ollama => ollama::whole(answer, asked),
        }
    }

    /// A piece that is no JSON.
    pub(super) fn malformed(self) -> String {
        match self {
            Self::Ollama => "{\"message\": \n".to_owned(),
            Self::Anthropic | Self::Chat | Self::Responses | Self::Gemini => {
                "data: {\"type\": \n\n".to_owned()
            }
        }
    }

    /// A piece that says nothing.
    pub(super) fn ping(self) -> Option<String> {
        match self {
            Self::Anthropic => Some(event("ping", &json!({"type": "ping"}))),
            Self::Chat | Self::Responses | Self::Gemini => Some(": ping\n\n".to_owned()),
            Self::Ollama => None,
        }
    }

    /// The service's words for a refusal.
    pub(super) fn refusal(self, status: u16, why: &str) -> Value {
        let kind = match status {
            400 => "invalid_request_error",
            401 => "authentication_error",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            _ => "api_error",
        };
        match self {
            Self::Anthropic => json!({"type": "error", "error": {"type": kind, "message": why}}),
            Self::Chat | Self::Responses => json!({"error": {"type": kind, "message": why}}),
            Self::Gemini => json!({"error": {"code": status, "status": kind, "message": why}}),
            Self::Ollama => json!({"error": why}),
        }
    }
}

/// Who asks, by the system prompt's first words.
fn agent(system: &str) -> String {
    let name = system.split_once("You are ").map_or("", |(_, rest)| rest);
    let name: String =
        name.chars().take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')).collect();
    if name.is_empty() { "somebody".to_owned() } else { name }
}

/// Every call is answered right after its answer, and nothing else is.
fn paired(messages: &[Message]) -> Result<(), Violation> {
    let mut open: BTreeSet<&str> = BTreeSet::new();
    for message in messages {
        if let Message::Results { results, .. } = message {
            for ToolResult { call, .. } in results {
                if !open.remove(call.as_str()) {
                    return Err(format!("the result of {call} answers no call before it"));
                }
            }
            continue;
        }
        if let Some(call) = open.first() {
            return Err(format!("the call {call} has no result"));
        }
        if let Message::Answer { parts, .. } = message {
            open = parts.iter().filter_map(call_of).collect();
        }
    }
    open.first().map_or(Ok(()), |call| Err(format!("the call {call} has no result")))
}

fn call_of(part: &Part) -> Option<&str> {
    match part {
        Part::Call { call, .. } => Some(call),
        Part::Text { .. } | Part::Thought { .. } => None,
    }
}

fn given(text: impl Into<String>) -> Message {
    Message::Given { turn: TURN, text: text.into() }
}

/// Adds a part to the last answer, or begins one.
fn answered(messages: &mut Vec<Message>, part: Part) {
    match messages.last_mut() {
        Some(Message::Answer { parts, .. }) => parts.push(part),
        _ => messages.push(Message::Answer { turn: TURN, step: 0, parts: vec![part] }),
    }
}

/// Adds a result to the last ones, or begins them.
fn returned(messages: &mut Vec<Message>, result: ToolResult) {
    match messages.last_mut() {
        Some(Message::Results { results, .. }) => results.push(result),
        _ => messages.push(Message::Results { turn: TURN, results: vec![result] }),
    }
}

/// A result of a service that has no field for failure.
fn result(call: &str, text: &str) -> ToolResult {
    let (text, ok) = text.strip_prefix("Failed: ").map_or((text, true), |text| (text, false));
    ToolResult { call: call.to_owned(), text: text.to_owned(), images: Vec::new(), ok }
}

/// The text of a content that is a string or a list of parts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// A mark that proves that something came back as it was sent.
fn mark(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// The mark of what was thought before the calls of an answer; empty without.
fn thought_mark(answer: &Answer) -> String {
    let thoughts: String = answer.parts.iter().filter_map(thought_of).collect();
    if thoughts.is_empty() { String::new() } else { mark(&thoughts) }
}

fn thought_of(part: &Part) -> Option<&str> {
    match part {
        Part::Thought { text, .. } => Some(text),
        Part::Text { .. } | Part::Call { .. } => None,
    }
}

/// All thoughts of an answer as one.
fn thoughts(answer: &Answer) -> String {
    answer.parts.iter().filter_map(thought_of).collect()
}

/// A call's id, which says what was thought before it.
fn call_id(call: &str, thought: &str) -> String {
    format!("call_{call}_{thought}")
}

/// The mark in a call's id.
fn mark_of(id: &str) -> &str {
    id.rsplit_once('_').map_or("", |(_, mark)| mark)
}

fn input(text: &str) -> Result<Value, Violation> {
    serde_json::from_str(text).map_err(|error| format!("the input of a call is no JSON: {error}"))
}

/// A text in pieces, the first of them with `more` bytes.
fn pieces(text: &str, more: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let mut pieces: Vec<String> =
        characters.chunks(PIECE).map(|piece| piece.iter().collect()).collect();
    if let Some(first) = pieces.first_mut() {
        first.push_str(&"x".repeat(more));
    }
    pieces
}

/// A server-sent event with a name.
fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// A server-sent event.
fn data(data: &Value) -> String {
    format!("data: {data}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_is_in_the_system_prompt() {
        assert_eq!(agent("You are bob, a teammate in the team"), "bob");
        assert_eq!(agent("You are team-lead. Members: …"), "team-lead");
        assert_eq!(agent("Be good."), "somebody");
    }

    #[test]
    fn a_call_without_a_result_and_a_result_without_a_call_are_refused() {
        let call = Part::Call { call: "a".into(), tool: "Read".into(), input: json!({}) };
        let mut messages = vec![given("go")];
        answered(&mut messages, call);
        assert!(paired(&messages).is_err());
        returned(&mut messages, result("a", "Failed: no"));
        assert_eq!(paired(&messages), Ok(()));
        returned(&mut messages, result("a", "twice"));
        assert!(paired(&messages).is_err());
    }
}
