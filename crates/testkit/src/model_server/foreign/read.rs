//! Reads the requests of agents that are not ours, in every format that they speak; what it does not
//! know it passes over.

use aion_agent::provider::{Message, Part, ToolResult};
use aion_core::id::TurnId;
use serde_json::Value;

use super::{Foreign, Offered, inward, spoken_to, turn_of};
use crate::model_server::wire::{Asked, Format};

const TURN: TurnId = TurnId(1);

/// Reads a request.
pub(in crate::model_server) fn read(format: Format, body: &Value, path: &str) -> Foreign {
    let mut heard = Heard::default();
    match format {
        Format::Anthropic => anthropic(body, &mut heard),
        Format::Chat | Format::Ollama => chat(body, &mut heard),
        Format::Responses => responses(body, &mut heard),
        Format::Gemini => gemini(body, &mut heard),
    }
    let given = heard.messages.iter().filter_map(|message| match message {
        Message::Given { text, .. } => Some(text.as_str()),
        Message::Answer { .. } | Message::Results { .. } => None,
    });
    let agent = spoken_to(std::iter::once(heard.system.as_str()).chain(given));
    let in_path = path.rsplit('/').next().and_then(|last| last.split(':').next());
    let model = body["model"].as_str().or(in_path).unwrap_or_default().to_owned();
    let asked = Asked {
        agent: agent.unwrap_or_else(|| "somebody".to_owned()),
        model,
        system: heard.system,
        messages: turn_of(heard.messages),
        stream: body["stream"] == Value::Bool(true) || path.contains("streamGenerateContent"),
        bytes: body.to_string().len() as u64,
        ..Asked::default()
    };
    Foreign { asked, tools: tools(format, body), form: form(format, body) }
}

/// What was heard so far.
#[derive(Default)]
struct Heard {
    system: String,
    messages: Vec<Message>,
}

impl Heard {
    fn given(&mut self, text: String) {
        self.messages.push(Message::Given { turn: TURN, text });
    }

    fn answered(&mut self, part: Part) {
        match self.messages.last_mut() {
            Some(Message::Answer { parts, .. }) => parts.push(part),
            _ => self.messages.push(Message::Answer { turn: TURN, step: 0, parts: vec![part] }),
        }
    }

    fn called(&mut self, call: &Value, name: &Value, input: Value) {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.answered(inward(word(call), &word(name), input));
    }

    fn returned(&mut self, call: &str, text: String, ok: bool) {
        let result = ToolResult { call: call.to_owned(), text, images: Vec::new(), ok };
        match self.messages.last_mut() {
            Some(Message::Results { results, .. }) => results.push(result),
            _ => self.messages.push(Message::Results { turn: TURN, results: vec![result] }),
        }
    }
}

/// The text of whatever holds some.
fn flat(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(flat).collect::<Vec<_>>().join("\n"),
        Value::Object(fields) => {
            let places = ["text", "output", "content", "response", "result", "error"];
            let place = places.iter().find_map(|place| fields.get(*place));
            place.map_or_else(|| value.to_string(), flat)
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn arguments(value: &Value) -> Value {
    value.as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(|| value.clone())
}

fn anthropic(body: &Value, heard: &mut Heard) {
    heard.system = flat(&body["system"]);
    for message in list(&body["messages"]) {
        let user = message["role"] == "user";
        if let Some(text) = message["content"].as_str() {
            if user { heard.given(text.to_owned()) } else { heard.answered(said(text)) }
        }
        for block in list(&message["content"]) {
            match (block["type"].as_str(), user) {
                (Some("text"), true) => heard.given(flat(block)),
                (Some("text"), false) => heard.answered(said(&flat(block))),
                (Some("tool_use"), _) => {
                    heard.called(&block["id"], &block["name"], block["input"].clone());
                }
                (Some("tool_result"), _) => {
                    let call = block["tool_use_id"].as_str().unwrap_or_default();
                    let ok = block["is_error"] != Value::Bool(true);
                    heard.returned(call, flat(&block["content"]), ok);
                }
                _ => {}
            }
        }
    }
}

fn said(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

fn chat(body: &Value, heard: &mut Heard) {
    for message in list(&body["messages"]) {
        let text = flat(&message["content"]);
        match message["role"].as_str() {
            Some("system" | "developer") => heard.system.push_str(&text),
            Some("tool") => {
                let call = message["tool_call_id"].as_str().unwrap_or_default();
                heard.returned(call, text, true);
            }
            Some("assistant") => {
                if !text.is_empty() {
                    heard.answered(said(&text));
                }
                for call in list(&message["tool_calls"]) {
                    let function = &call["function"];
                    let input = arguments(&function["arguments"]);
                    heard.called(&call["id"], &function["name"], input);
                }
            }
            _ => heard.given(text),
        }
    }
}

fn responses(body: &Value, heard: &mut Heard) {
    heard.system = flat(&body["instructions"]);
    if let Some(text) = body["input"].as_str() {
        heard.given(text.to_owned());
    }
    for item in list(&body["input"]) {
        let kind = item["type"].as_str().unwrap_or("message");
        match (kind, item["role"].as_str()) {
            ("message", Some("assistant")) => heard.answered(said(&flat(&item["content"]))),
            ("message", Some("developer" | "system")) => {
                heard.system.push_str(&flat(&item["content"]));
            }
            // Each part stands for itself: what the agent adds is not of the team.
            ("message", _) if item["content"].is_array() => {
                list(&item["content"]).for_each(|part| heard.given(flat(part)));
            }
            ("message", _) => heard.given(flat(&item["content"])),
            (kind, _) if kind.ends_with("_output") => {
                let call = item["call_id"].as_str().unwrap_or_default();
                heard.returned(call, flat(&item["output"]), true);
            }
            (kind, _) if kind.ends_with("_call") => {
                let input = [&item["arguments"], &item["input"]];
                let input = input.into_iter().find(|input| !input.is_null()).unwrap_or(item);
                heard.called(&item["call_id"], &item["name"], arguments(input));
            }
            _ => {}
        }
    }
}

fn gemini(body: &Value, heard: &mut Heard) {
    heard.system = flat(&body["systemInstruction"]["parts"]);
    // Calls may have no ids here: results answer them by name, in order.
    let mut calls: Vec<(String, String)> = Vec::new();
    for (at, content) in list(&body["contents"]).enumerate() {
        let model = content["role"] == "model";
        for part in list(&content["parts"]) {
            let name = |of: &Value| of["name"].as_str().unwrap_or_default().to_owned();
            if part["functionCall"].is_object() {
                let called = &part["functionCall"];
                let call = format!("g{at}-{}", calls.len());
                calls.push((call.clone(), name(called)));
                heard.answered(inward(call, &name(called), called["args"].clone()));
            } else if part["functionResponse"].is_object() {
                let response = &part["functionResponse"];
                let place = calls.iter().position(|(_, known)| *known == name(response));
                let call = place.map(|place| calls.remove(place).0).unwrap_or_default();
                let ok = response["response"]["error"].is_null();
                heard.returned(&call, flat(&response["response"]), ok);
            } else if let Some(text) = part["text"].as_str() {
                if model { heard.answered(said(text)) } else { heard.given(text.to_owned()) }
            }
        }
    }
}

fn tools(format: Format, body: &Value) -> Vec<Offered> {
    let mut all = Vec::new();
    let mut add = |name: &Value, space: Option<&str>| {
        if let Some(name) = name.as_str() {
            all.push(Offered { name: name.to_owned(), space: space.map(str::to_owned) });
        }
    };
    for tool in list(&body["tools"]) {
        match format {
            Format::Gemini => {
                list(&tool["functionDeclarations"]).for_each(|one| add(&one["name"], None));
            }
            Format::Chat | Format::Ollama => add(&tool["function"]["name"], None),
            Format::Responses if tool["type"] == "namespace" => {
                list(&tool["tools"]).for_each(|one| add(&one["name"], tool["name"].as_str()));
            }
            Format::Anthropic | Format::Responses => add(&tool["name"], None),
        }
    }
    all
}

/// The schema of the answer, where one is asked for.
fn form(format: Format, body: &Value) -> Option<Value> {
    let place = match format {
        Format::Gemini => &body["generationConfig"]["responseJsonSchema"],
        Format::Anthropic => &body["output_config"]["format"]["schema"],
        Format::Chat => &body["response_format"]["json_schema"]["schema"],
        Format::Responses => &body["text"]["format"]["schema"],
        Format::Ollama => &body["format"],
    };
    let older = &body["generationConfig"]["responseSchema"];
    [place, older].into_iter().find(|form| form.is_object()).cloned()
}
