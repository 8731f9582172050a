//! Ollama's chat: how it is asked and read; never sends.

use aion_core::budget::Usage;
use aion_core::turn::CallId;
use serde_json::{Value, json};

use super::chat::{failure, functions, given};
use super::words::{count, images, in_order, input, json as parse, result, say, text, think, tool};
use super::{Ask, Frame, Out, Reader, broken};
use crate::provider::{Message, ModelEvent, Part, ProviderError, StopReason};

pub(super) fn body(ask: &Ask<'_>) -> Value {
    let mut messages = Vec::new();
    if !ask.request.system.trim().is_empty() {
        messages.push(json!({"role": "system", "content": ask.request.system}));
    }
    // A result goes by its tool's name here, and by the order of the calls.
    let mut calls: Vec<&CallId> = Vec::new();
    let mut tools: Vec<&str> = Vec::new();
    for message in &ask.request.messages {
        match message {
            Message::Given { text, .. } => given(&mut messages, text),
            Message::Answer { parts, .. } => {
                (calls, tools) = parts
                    .iter()
                    .filter_map(|part| match part {
                        Part::Call { call, tool, .. } => Some((call, tool.as_str())),
                        Part::Text { .. } | Part::Thought { .. } => None,
                    })
                    .unzip();
                messages.extend(answer(parts));
            }
            Message::Results { results, .. } => {
                messages.extend(in_order(results, &calls).into_iter().map(|one| {
                    let at = calls.iter().position(|call| **call == one.call);
                    let name = at.and_then(|at| tools.get(at)).copied().unwrap_or_default();
                    json!({"role": "tool", "tool_name": tool(name), "content": result(one)})
                }));
                messages.extend(images(results).map(|(text, images)| {
                    let images: Value = images.map(|image| json!(image.data.as_str())).collect();
                    json!({"role": "user", "content": text, "images": images})
                }));
            }
        }
    }
    let mut body = json!({
        "model": ask.model,
        "stream": true,
        "messages": messages,
        "options": {
            "num_predict": ask.max_tokens,
            // Ollama's own default is so small that it would forget the beginning without a word.
            "num_ctx": ask.window,
        },
    });
    if ask.thinking.is_some() {
        body["think"] = json!(true);
    }
    if !ask.request.tools.is_empty() {
        body["tools"] = functions(ask);
    }
    body
}

fn answer(parts: &[Part]) -> Option<Value> {
    let (mut said, mut thought, mut calls) = (String::new(), String::new(), Vec::new());
    for part in parts {
        match part {
            Part::Text { text } => said.push_str(text),
            Part::Thought { text, signature: None } => thought.push_str(text),
            // It is another service's.
            Part::Thought { signature: Some(_), .. } => {}
            Part::Call { tool: name, input, .. } => {
                calls.push(json!({"function": {"name": tool(name), "arguments": input}}));
            }
        }
    }
    if said.trim().is_empty() && calls.is_empty() {
        return None;
    }
    let mut message = json!({"role": "assistant", "content": said});
    if !thought.is_empty() {
        message["thinking"] = json!(thought);
    }
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    Some(message)
}

/// An answer that is being read.
#[derive(Debug, Default)]
pub(super) struct Answer {
    called: bool,
}

impl Reader for Answer {
    fn read(&mut self, frame: Frame, out: &mut Out) -> Result<(), ProviderError> {
        let data = parse(&frame.data)?;
        if !data["error"].is_null() {
            return Err(failure(&data["error"]));
        }
        let message = &data["message"];
        think(out, text(message, "/thinking"));
        say(out, text(message, "/content"));
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let tool =
                text(call, "/function/name").ok_or_else(|| broken("a call names no tool"))?;
            let input = match &call["function"]["arguments"] {
                Value::Null => json!({}),
                Value::String(written) => {
                    input(written).ok_or_else(|| broken("the input of a call is not whole"))?
                }
                arguments => arguments.clone(),
            };
            self.called = true;
            let id = text(call, "/id").unwrap_or_default().to_owned();
            out.push_back(ModelEvent::ToolCall { call: id, tool: tool.to_owned(), input });
        }
        if data["done"] == json!(true) {
            out.push_back(ModelEvent::Usage(Usage {
                input: count(&data, "/prompt_eval_count").unwrap_or(0),
                output: count(&data, "/eval_count").unwrap_or(0),
                ..Usage::default()
            }));
            out.push_back(ModelEvent::Stop(match data["done_reason"].as_str() {
                Some("length") => StopReason::MaxTokens,
                _ if self.called => StopReason::ToolUse,
                _ => StopReason::EndTurn,
            }));
        }
        Ok(())
    }
}
