//! `OpenAI`'s Chat Completions, and what is compatible with them: how they are asked and read;
//! never sends.

use std::collections::BTreeMap;

use aion_core::budget::Usage;
use serde_json::{Value, json};

use super::words::{
    count, data_url, id, images, input, json as parse, result, retry_delay, say, text, think,
    too_long, verdict,
};
use super::{Ask, Frame, Out, Reader, broken};
use crate::provider::{Message, ModelEvent, Part, ProviderError, StopReason};

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
            Message::Given { text, .. } => messages.push(json!({"role": "user", "content": text})),
            Message::Answer { parts, .. } => messages.extend(answer(parts)),
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
    }
    body
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

fn answer(parts: &[Part]) -> Option<Value> {
    let mut said = String::new();
    let mut calls = Vec::new();
    for part in parts {
        match part {
            Part::Text { text } => said.push_str(text),
            // It is not sent back here.
            Part::Thought { .. } => {}
            Part::Call { call, tool, input } => calls.push(json!({
                "id": id(call),
                "type": "function",
                "function": {"name": tool, "arguments": input.to_string()},
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
#[derive(Debug, Default)]
pub(super) struct Answer {
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
        let choice = &data["choices"][0];
        let delta = &choice["delta"];
        think(out, text(delta, "/reasoning_content").or_else(|| text(delta, "/reasoning")));
        say(out, text(delta, "/content").or_else(|| text(delta, "/refusal")));
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.call(call)?;
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.stop = Some(match reason {
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
        for call in std::mem::take(&mut self.calls).into_values() {
            match input(&call.input) {
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
    fn call(&mut self, piece: &Value) -> Result<(), ProviderError> {
        let name = text(piece, "/function/name");
        let key = text(piece, "/id");
        let index = piece["index"].as_u64().unwrap_or_else(|| {
            // Without a number, a new name is a new call.
            let last = self.calls.keys().next_back().copied();
            let new = name.is_some() || last.is_none();
            if new { last.map_or(0, |last| last.saturating_add(1)) } else { last.unwrap_or(0) }
        });
        let call = self.calls.entry(index).or_default();
        if let Some(key) = key {
            key.clone_into(&mut call.id);
        }
        call.tool.push_str(name.unwrap_or_default());
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
