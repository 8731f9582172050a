//! `OpenAI`'s Chat Completions, and what is compatible with them: how they are asked and read;
//! never sends.

use std::collections::BTreeMap;

use aion_core::budget::Usage;
use serde_json::{Value, json};

use super::words::{
    count, data_url, id, images, input, json as parse, result, retry_delay, say, sign, signed,
    text, think, too_long, tool as name, verdict,
};
use super::{Ask, Frame, Out, Reader, broken};
use crate::provider::{Message, ModelEvent, Part, ProviderError, StopReason};

const SIGNATURE: &str = "chat";

/// The most calls in one answer.
const CALLS: usize = 128;

/// Who is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    OpenAi,
    Compatible,
}

pub(super) fn body(ask: &Ask<'_>, dialect: Dialect) -> Value {
    let mut messages = Vec::new();
    if !ask.request.system.trim().is_empty() {
        messages.push(json!({"role": "system", "content": ask.request.system}));
    }
    for message in &ask.request.messages {
        match message {
            Message::Given { text, .. } => given(&mut messages, text),
            Message::Answer { parts, .. } => messages.extend(answer(parts, ask.model)),
            Message::Results { results, .. } => {
                messages.extend(results.iter().map(|one| {
                    json!({"role": "tool", "tool_call_id": id(&one.call), "content": result(one)})
                }));
                messages.extend(images(results).map(|(text, images)| {
                    let images = images.map(
                        |image| json!({"type": "image_url", "image_url": {"url": data_url(image)}}),
                    );
                    let text = json!({"type": "text", "text": text});
                    let content: Value = std::iter::once(text).chain(images).collect();
                    json!({"role": "user", "content": content})
                }));
            }
        }
    }
    let mut body = json!({
        "model": ask.model,
        "stream": true,
        "stream_options": {"include_usage": true},
        "messages": messages,
    });
    // Each refuses or ignores the other's word.
    let limit = match dialect {
        Dialect::OpenAi => "max_completion_tokens",
        Dialect::Compatible => "max_tokens",
    };
    body[limit] = json!(ask.max_tokens);
    if !ask.request.tools.is_empty() {
        body["tools"] = functions(ask);
        if dialect == Dialect::OpenAi && thinks_or_calls(ask.model) {
            body["reasoning_effort"] = json!("none");
        }
    }
    body
}

/// Whether the model takes tools in these words only where it does not think.
fn thinks_or_calls(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let Some(version) = name.strip_prefix("gpt-") else { return false };
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(version.len());
    let (major, minor) = version[..end].split_once('.').unwrap_or((&version[..end], "0"));
    let number = |digits: &str| digits.parse::<u32>().ok();
    number(major).zip(number(minor)).is_some_and(|version| version >= (5, 4))
}

/// The tools, as functions.
pub(super) fn functions(ask: &Ask<'_>) -> Value {
    let function = |tool: &crate::host::ToolSpec| {
        json!({
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.input_schema,
            },
        })
    };
    ask.request.tools.iter().map(|tool| function(tool)).collect()
}

/// Adds what was given. Many models take no two messages of one side after each other.
pub(super) fn given(messages: &mut Vec<Value>, text: &str) {
    let open = messages.last_mut().filter(|last| last["role"] == "user");
    match open.map(|last| &mut last["content"]) {
        Some(Value::String(known)) => {
            known.push_str("\n\n");
            known.push_str(text);
        }
        _ => messages.push(json!({"role": "user", "content": text})),
    }
}

fn answer(parts: &[Part], model: &str) -> Option<Value> {
    let mut said = String::new();
    let mut thought = String::new();
    let mut calls = Vec::new();
    for part in parts {
        match part {
            Part::Text { text } => said.push_str(text),
            // Models that think in words of their own want them back with their calls; others
            // refuse them.
            Part::Thought { text, signature } => {
                if signed(SIGNATURE, signature.as_deref()) == Some(model) {
                    thought.push_str(text);
                }
            }
            Part::Call { call, tool, input } => calls.push(json!({
                "id": id(call),
                "type": "function",
                "function": {"name": name(tool), "arguments": input.to_string()},
            })),
        }
    }
    if said.trim().is_empty() && calls.is_empty() {
        return None;
    }
    let mut message = json!({"role": "assistant", "content": said});
    if !calls.is_empty() {
        if said.is_empty() {
            message["content"] = Value::Null;
        }
        message["tool_calls"] = Value::Array(calls);
        if !thought.is_empty() {
            message["reasoning_content"] = json!(thought);
        }
    }
    Some(message)
}

/// A call that is being read.
#[derive(Debug, Default)]
struct Call {
    id: String,
    tool: String,
    input: String,
}

/// An answer that is being read.
#[derive(Debug)]
pub(super) struct Answer {
    model: String,
    /// It thinks in words that it wants back.
    thinks: bool,
    calls: BTreeMap<u64, Call>,
    stop: Option<StopReason>,
}

impl Reader for Answer {
    fn read(&mut self, frame: Frame, out: &mut Out) -> Result<(), ProviderError> {
        if frame.data.trim() == "[DONE]" {
            return self.end(out);
        }
        let data = parse(&frame.data)?;
        if data["error"].is_object() || data["error"].is_string() {
            return Err(failure(&data["error"]));
        }
        if data["object"] == "error" {
            return Err(failure(&data));
        }
        let choice = &data["choices"][0];
        let delta = &choice["delta"];
        let own = text(delta, "/reasoning_content");
        self.thinks |= own.is_some();
        think(out, own.or_else(|| text(delta, "/reasoning")));
        let said = text(delta, "/content").or_else(|| text(delta, "/refusal"));
        if said.is_some() || delta["tool_calls"].is_array() {
            self.thought(out);
        }
        say(out, said);
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.call(call)?;
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.stop = Some(match reason {
                "error" => return Err(broken("the service broke the answer off")),
                "length" => StopReason::MaxTokens,
                "content_filter" => StopReason::Refusal,
                "tool_calls" | "function_call" => StopReason::ToolUse,
                _ if !self.calls.is_empty() => StopReason::ToolUse,
                _ => StopReason::EndTurn,
            });
        }
        if let Some(usage) = usage(&data["usage"]) {
            out.push_back(ModelEvent::Usage(usage));
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Out) -> Result<(), ProviderError> {
        let stop = self.stop.ok_or_else(|| broken("the stream ended before the answer did"))?;
        self.thought(out);
        for call in std::mem::take(&mut self.calls).into_values() {
            match input(&call.input) {
                // The limit may have come before its input.
                _ if stop == StopReason::MaxTokens && call.input.trim().is_empty() => {}
                Some(input) if !call.tool.is_empty() => {
                    out.push_back(ModelEvent::ToolCall { call: call.id, tool: call.tool, input });
                }
                _ if stop == StopReason::MaxTokens => {}
                _ => return Err(broken("the input of a call is not whole")),
            }
        }
        out.push_back(ModelEvent::Stop(stop));
        Ok(())
    }
}

impl Answer {
    /// Nothing read yet of an answer of this model.
    pub(super) fn new(model: &str) -> Self {
        Self { model: model.to_owned(), thinks: false, calls: BTreeMap::new(), stop: None }
    }

    /// Closes what was thought, with the name of whose it is.
    fn thought(&mut self, out: &mut Out) {
        if std::mem::take(&mut self.thinks) {
            let signature = Some(sign(SIGNATURE, &self.model));
            out.push_back(ModelEvent::Thought { text: String::new(), signature });
        }
    }

    fn call(&mut self, piece: &Value) -> Result<(), ProviderError> {
        let name = text(piece, "/function/name");
        let key = text(piece, "/id");
        let last = self.calls.keys().next_back().copied();
        let next = last.map_or(0, |last| last.saturating_add(1));
        // Without a number a new name is a new call; with one, a new id and a name are: some number
        // all their calls alike.
        let index = match piece["index"].as_u64() {
            None if name.is_some() => next,
            None => last.unwrap_or(0),
            Some(index) => match self.calls.get(&index) {
                Some(known)
                    if name.is_some()
                        && !known.id.is_empty()
                        && key.is_some_and(|key| key != known.id) =>
                {
                    next
                }
                Some(_) | None => index,
            },
        };
        // What goes on after such a call goes on with the last of them.
        let call = self.calls.entry(index).or_default();
        if let Some(key) = key {
            key.clone_into(&mut call.id);
        }
        // Some say the name with every piece.
        if let Some(name) = name
            && call.tool != name
        {
            call.tool.push_str(name);
        }
        match &piece["function"]["arguments"] {
            Value::String(part) => call.input.push_str(part),
            whole @ Value::Object(_) => call.input = whole.to_string(),
            _ => {}
        }
        if self.calls.len() > CALLS {
            return Err(broken(format!("the answer holds more than {CALLS} calls")));
        }
        Ok(())
    }
}

fn usage(usage: &Value) -> Option<Usage> {
    let read = count(usage, "/prompt_tokens")?;
    let cached = count(usage, "/prompt_tokens_details/cached_tokens").unwrap_or(0).min(read);
    Some(Usage {
        input: read - cached,
        output: count(usage, "/completion_tokens").unwrap_or(0),
        cache_read: cached,
        reasoning: count(usage, "/completion_tokens_details/reasoning_tokens").unwrap_or(0),
        ..Usage::default()
    })
}

/// An error in the middle of an answer. Its words are as they came: who shows them cuts them.
pub(in crate::models) fn failure(error: &Value) -> ProviderError {
    let said = error["message"].as_str().or_else(|| error.as_str()).unwrap_or("it says no more");
    let said = said.to_owned();
    let code = &error["code"];
    let status = code.as_u64().or_else(|| code.as_str()?.parse().ok());
    let status = status.and_then(|status| u16::try_from(status).ok());
    if let Some(status @ 400..=599) = status {
        return verdict(status, retry_delay(error), said, &error.to_string());
    }
    let kind = code.as_str().or_else(|| error["type"].as_str()).unwrap_or_default();
    match kind {
        "rate_limit_exceeded" | "rate_limit_error" => {
            ProviderError::RateLimit { retry_after: None }
        }
        "insufficient_quota" | "invalid_api_key" | "authentication_error" => {
            ProviderError::Login(said)
        }
        _ if too_long(kind) || too_long(&said) => ProviderError::TooLong(said),
        "invalid_request_error" | "invalid_prompt" => ProviderError::Fatal(said),
        _ => ProviderError::Unavailable { text: said, retry_after: None },
    }
}
