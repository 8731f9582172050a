//! Anthropic's Messages: how it is asked and read; never sends.

use aion_core::budget::Usage;
use serde_json::{Value, json};

use super::words::{
    count, id, input, json as parse, say, sign, signed, text, think, too_long, tool as name,
};
use super::{Ask, Frame, Out, Reader, broken};
use crate::provider::{Message, ModelEvent, Part, ProviderError, StopReason, ToolResult};

const SIGNATURE: &str = "anthropic";
const REDACTED: &str = "anthropic-redacted";

/// The fewest tokens that thinking may be given.
const LEAST_THINKING: u32 = 1024;

pub(super) fn body(ask: &Ask<'_>) -> Value {
    let mut messages = messages(ask);
    // Everything up to here is the same at the next step.
    let last = messages.last_mut().and_then(|message| message["content"].as_array_mut());
    if let Some(block) = last.and_then(|content| content.last_mut()) {
        block["cache_control"] = json!({"type": "ephemeral"});
    }
    let mut body = json!({
        "model": ask.model,
        "max_tokens": ask.max_tokens,
        "stream": true,
        "messages": messages,
    });
    if !ask.request.system.trim().is_empty() {
        body["system"] = json!([{
            "type": "text",
            "text": ask.request.system,
            "cache_control": {"type": "ephemeral"},
        }]);
    }
    if !ask.request.tools.is_empty() {
        let tools: Vec<Value> = ask
            .request
            .tools
            .iter()
            .map(|tool| {
                json!({
                    "name": tool.name,
                    "description": tool.description,
                    "input_schema": tool.input_schema,
                })
            })
            .collect();
        body["tools"] = Value::Array(tools);
    }
    if binds(ask.model) {
        // A conversation is made shorter, and its roster changes: thoughts that were bound to what
        // was before are better dropped than refused. These models think adaptively anyway, and tell
        // what they do between their calls in thoughts, which are shown to nobody unless asked for.
        body["thinking"] = json!({
            "type": "adaptive",
            "display": "summarized",
            "block_binding": {"prefix_mismatch_behavior": "drop_block"},
        });
    } else if ask.thinking.is_some() && chooses(ask.model) {
        body["thinking"] = json!({"type": "adaptive"});
    } else if let Some(tokens) = ask.thinking
        && ask.max_tokens > LEAST_THINKING
    {
        let tokens = tokens.clamp(LEAST_THINKING, ask.max_tokens - 1);
        body["thinking"] = json!({"type": "enabled", "budget_tokens": tokens});
    }
    body
}

/// Whether the model chooses itself how much it thinks: the newer ones of the service's own refuse
/// to be told.
fn chooses(model: &str) -> bool {
    const TOLD: [&str; 5] = ["claude-3", "-4-0", "-4-1", "-4-5", "-4-2025"];
    model.starts_with("claude-") && !TOLD.iter().any(|told| model.contains(told))
}

/// Whether the model's thoughts are bound to all that was before them.
pub(super) fn binds(model: &str) -> bool {
    let Some((family, version)) =
        model.strip_prefix("claude-").and_then(|name| name.split_once('-'))
    else {
        return false;
    };
    let mut numbers = version.split('-').map(|number| number.parse::<u32>().unwrap_or(0));
    let major = numbers.next().unwrap_or(0);
    // What comes after is a date where it is long.
    let minor = numbers.next().filter(|minor| *minor < 100).unwrap_or(0);
    let first = if matches!(family, "fable" | "mythos") { (5, 1) } else { (5, 5) };
    major < 100 && (major, minor) >= first
}

fn messages(ask: &Ask<'_>) -> Vec<Value> {
    let mut messages: Vec<Value> = Vec::new();
    for message in &ask.request.messages {
        let (role, blocks) = match message {
            Message::Given { text, .. } => ("user", text_block(text).into_iter().collect()),
            Message::Answer { parts, .. } => {
                ("assistant", parts.iter().filter_map(answer_block).collect::<Vec<_>>())
            }
            Message::Results { results, .. } => (
                "user",
                results
                    .iter()
                    .map(|result| {
                        let mut block = json!({
                            "type": "tool_result",
                            "tool_use_id": id(&result.call),
                            "content": result_content(result),
                        });
                        if !result.ok {
                            block["is_error"] = json!(true);
                        }
                        block
                    })
                    .collect(),
            ),
        };
        if blocks.is_empty() {
            continue;
        }
        // One side speaks at a time.
        match messages.last_mut() {
            Some(last) if last["role"] == role => {
                if let Some(content) = last["content"].as_array_mut() {
                    content.extend(blocks);
                }
            }
            _ => messages.push(json!({"role": role, "content": blocks})),
        }
    }
    messages
}

/// A result: its text, or its text and its images.
fn result_content(result: &ToolResult) -> Value {
    if result.images.is_empty() {
        return json!(result.text);
    }
    let images = result.images.iter().map(|image| {
        json!({
            "type": "image",
            "source": {
                "type": "base64",
                "media_type": image.media_type,
                "data": image.data.as_str(),
            },
        })
    });
    text_block(&result.text).into_iter().chain(images).collect()
}

fn text_block(text: &str) -> Option<Value> {
    // An empty text is refused.
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

fn answer_block(part: &Part) -> Option<Value> {
    match part {
        Part::Text { text } => text_block(text),
        Part::Thought { text, signature } => {
            let signature = signature.as_deref();
            // A thought that nobody signed, or somebody else, would be refused.
            signed(SIGNATURE, signature)
                .map(|sign| json!({"type": "thinking", "thinking": text, "signature": sign}))
                .or_else(|| {
                    signed(REDACTED, signature)
                        .map(|data| json!({"type": "redacted_thinking", "data": data}))
                })
        }
        Part::Call { call, tool, input } => {
            Some(json!({"type": "tool_use", "id": id(call), "name": name(tool), "input": input}))
        }
    }
}

/// The block that is being read.
#[derive(Debug, Default)]
enum Block {
    #[default]
    Other,
    Thought {
        signature: String,
    },
    Call {
        id: String,
        tool: String,
        input: String,
        /// What the block began with, where it brought the input whole.
        whole: Value,
    },
}

/// An answer that is being read.
#[derive(Debug, Default)]
pub(super) struct Answer {
    block: Block,
    /// A call without any input, until it is known that the limit of tokens did not cut it there.
    bare: Option<ModelEvent>,
    /// A call whose input was not whole: only the limit of tokens excuses it.
    cut: bool,
    usage: Usage,
    stop: Option<StopReason>,
}

impl Reader for Answer {
    fn read(&mut self, frame: Frame, out: &mut Out) -> Result<(), ProviderError> {
        let data = parse(&frame.data)?;
        match data["type"].as_str().unwrap_or(&frame.event) {
            "message_start" => self.count(&data["message"]["usage"], out),
            "content_block_start" => self.start(&data["content_block"], out),
            "content_block_delta" => self.delta(&data["delta"], out),
            "content_block_stop" => self.close(out),
            "message_delta" => {
                self.count(&data["usage"], out);
                self.stop = match data["delta"]["stop_reason"].as_str() {
                    None => self.stop,
                    Some("tool_use") => Some(StopReason::ToolUse),
                    Some("max_tokens" | "model_context_window_exceeded") => {
                        Some(StopReason::MaxTokens)
                    }
                    Some("refusal") => Some(StopReason::Refusal),
                    Some(_) => Some(StopReason::EndTurn),
                };
            }
            "message_stop" => {
                // A call that was not closed was cut.
                self.cut |= matches!(self.block, Block::Call { .. });
                if self.cut && self.stop != Some(StopReason::MaxTokens) {
                    return Err(broken("the input of a call is not whole"));
                }
                let stop = self.stop.ok_or_else(|| broken("the answer says no reason to stop"))?;
                let bare = self.bare.take();
                out.extend(bare.filter(|_| stop != StopReason::MaxTokens));
                out.push_back(ModelEvent::Stop(stop));
            }
            "error" => return Err(failure(&data["error"])),
            // Pings, and what is new.
            _ => {}
        }
        Ok(())
    }
}

impl Answer {
    fn start(&mut self, block: &Value, out: &mut Out) {
        out.extend(self.bare.take());
        self.block = match block["type"].as_str() {
            Some("thinking") => {
                think(out, text(block, "/thinking"));
                Block::Thought { signature: text(block, "/signature").unwrap_or_default().into() }
            }
            Some("redacted_thinking") => {
                let data = block["data"].as_str().unwrap_or_default();
                let signature = Some(sign(REDACTED, data));
                // It begins a part of its own: what is open has its signature already.
                out.push_back(ModelEvent::Thought { text: String::new(), signature });
                Block::Other
            }
            Some("tool_use") => Block::Call {
                id: block["id"].as_str().unwrap_or_default().to_owned(),
                tool: block["name"].as_str().unwrap_or_default().to_owned(),
                input: String::new(),
                whole: block["input"].clone(),
            },
            _ => {
                say(out, text(block, "/text"));
                Block::Other
            }
        };
    }

    fn delta(&mut self, delta: &Value, out: &mut Out) {
        match (&mut self.block, delta["type"].as_str()) {
            (_, Some("text_delta")) => say(out, text(delta, "/text")),
            (_, Some("thinking_delta")) => think(out, text(delta, "/thinking")),
            (Block::Thought { signature }, Some("signature_delta")) => {
                signature.push_str(text(delta, "/signature").unwrap_or_default());
            }
            (Block::Call { input, .. }, Some("input_json_delta")) => {
                input.push_str(text(delta, "/partial_json").unwrap_or_default());
            }
            _ => {}
        }
    }

    fn close(&mut self, out: &mut Out) {
        match std::mem::take(&mut self.block) {
            Block::Other => {}
            Block::Thought { signature } => {
                let signature = (!signature.is_empty()).then(|| sign(SIGNATURE, &signature));
                if signature.is_some() {
                    out.push_back(ModelEvent::Thought { text: String::new(), signature });
                }
            }
            Block::Call { id, tool, input: written, whole } => {
                let input = if written.is_empty() && whole.is_object() {
                    Some(whole)
                } else {
                    input(&written)
                };
                match input {
                    Some(input) if !tool.is_empty() => {
                        let bare = input.as_object().is_some_and(serde_json::Map::is_empty);
                        let call = ModelEvent::ToolCall { call: id, tool, input };
                        if bare && written.is_empty() {
                            self.bare = Some(call);
                        } else {
                            out.push_back(call);
                        }
                    }
                    _ => self.cut = true,
                }
            }
        }
    }

    /// Each report is of the whole call so far; a field that is missing says nothing new.
    fn count(&mut self, usage: &Value, out: &mut Out) {
        let known = &mut self.usage;
        for (field, pointer) in [
            (&mut known.input, "/input_tokens"),
            (&mut known.output, "/output_tokens"),
            (&mut known.cache_read, "/cache_read_input_tokens"),
            (&mut known.cache_write, "/cache_creation_input_tokens"),
            (&mut known.reasoning, "/output_tokens_details/thinking_tokens"),
        ] {
            *field = count(usage, pointer).unwrap_or(*field);
        }
        if usage.is_object() {
            out.push_back(ModelEvent::Usage(self.usage));
        }
    }
}

/// An error in the middle of an answer. Its words are as they came.
fn failure(error: &Value) -> ProviderError {
    let said = error["message"].as_str().unwrap_or("it says no more").to_owned();
    match error["type"].as_str() {
        Some("rate_limit_error") => ProviderError::RateLimit { retry_after: None },
        Some("authentication_error" | "permission_error" | "billing_error") => {
            ProviderError::Login(said)
        }
        Some("request_too_large") => ProviderError::TooLong(said),
        Some("invalid_request_error") if too_long(&said) => ProviderError::TooLong(said),
        Some("invalid_request_error" | "not_found_error") => ProviderError::Fatal(said),
        _ => ProviderError::Unavailable { text: said, retry_after: None },
    }
}
