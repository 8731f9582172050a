//! `OpenAI`'s Responses: how they are asked and read; never sends, and has nothing kept there.

use aion_core::budget::Usage;
use serde_json::{Value, json};

use super::chat::failure;
use super::words::{
    count, data_url, id, images, input, json as parse, result, say, sign, signed, text, think,
    tool as name,
};
use super::{Ask, Frame, Out, Reader, broken};
use crate::provider::{Message, ModelEvent, Part, ProviderError, StopReason};

const SIGNATURE: &str = "openai";

pub(super) fn body(ask: &Ask<'_>) -> Value {
    let mut items = Vec::new();
    for message in &ask.request.messages {
        match message {
            Message::Given { text, .. } => items.push(json!({
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": text}],
            })),
            Message::Answer { parts, .. } => {
                // What was thought goes before what came of it. Where nothing came, it is refused.
                let came = parts.iter().rposition(is_said).map_or(0, |at| at + 1);
                items.extend(parts[..came].iter().filter_map(item));
            }
            Message::Results { results, .. } => {
                items.extend(results.iter().map(|one| {
                    json!({
                        "type": "function_call_output",
                        "call_id": id(&one.call),
                        "output": result(one),
                    })
                }));
                items.extend(images(results).map(|(text, images)| {
                    let images = images
                        .map(|image| json!({"type": "input_image", "image_url": data_url(image)}));
                    let text = json!({"type": "input_text", "text": text});
                    let content: Value = std::iter::once(text).chain(images).collect();
                    json!({"type": "message", "role": "user", "content": content})
                }));
            }
        }
    }
    let mut body = json!({
        "model": ask.model,
        "stream": true,
        "store": false,
        "max_output_tokens": ask.max_tokens,
        "input": items,
    });
    if !ask.request.system.trim().is_empty() {
        body["instructions"] = json!(ask.request.system);
    }
    if reasons(ask.model) {
        // What it thought comes sealed, and goes back with the results of its calls.
        body["include"] = json!(["reasoning.encrypted_content"]);
        body["reasoning"] = json!({"summary": "auto"});
    }
    if !ask.request.tools.is_empty() {
        let tools = ask.request.tools.iter().map(|tool| {
            json!({
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.input_schema,
                "strict": false,
            })
        });
        body["tools"] = tools.collect();
    }
    body
}

fn is_said(part: &Part) -> bool {
    match part {
        Part::Text { text } => !text.trim().is_empty(),
        Part::Call { .. } => true,
        Part::Thought { .. } => false,
    }
}

/// Whether the model thinks: others refuse to be asked for it.
pub(super) fn reasons(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let number = |rest: &str| {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest[..digits].parse::<u32>().ok()
    };
    let generation = name.strip_prefix("gpt-").and_then(number);
    name.strip_prefix('o').and_then(number).is_some()
        || (generation.is_some_and(|generation| generation >= 5) && !name.contains("chat"))
        || name.starts_with("codex")
}

fn item(part: &Part) -> Option<Value> {
    match part {
        Part::Text { text } => (!text.trim().is_empty()).then(|| {
            json!({
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": text}],
            })
        }),
        Part::Thought { text, signature } => {
            let (id, sealed) = signed(SIGNATURE, signature.as_deref())?.split_once(' ')?;
            let summary = if text.is_empty() {
                json!([])
            } else {
                json!([{"type": "summary_text", "text": text}])
            };
            Some(json!({
                "type": "reasoning",
                "id": id,
                "summary": summary,
                "encrypted_content": sealed,
            }))
        }
        Part::Call { call, tool, input } => Some(json!({
            "type": "function_call",
            "call_id": id(call),
            "name": name(tool),
            "arguments": input.to_string(),
        })),
    }
}

/// An answer that is being read.
#[derive(Debug, Default)]
pub(super) struct Answer {
    called: bool,
    cut: bool,
}

impl Reader for Answer {
    fn read(&mut self, frame: Frame, out: &mut Out) -> Result<(), ProviderError> {
        if frame.data.trim() == "[DONE]" {
            return Ok(());
        }
        let data = parse(&frame.data)?;
        match data["type"].as_str().unwrap_or(&frame.event) {
            "response.output_text.delta" | "response.refusal.delta" => {
                say(out, text(&data, "/delta"));
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                think(out, text(&data, "/delta"));
            }
            "response.output_item.done" => self.item(&data["item"], out),
            "response.completed" => {
                let stop = if self.called { StopReason::ToolUse } else { StopReason::EndTurn };
                return self.stop(&data["response"], stop, out);
            }
            "response.incomplete" => {
                let filtered = data["response"]["incomplete_details"]["reason"] == "content_filter";
                let stop = if filtered { StopReason::Refusal } else { StopReason::MaxTokens };
                return self.stop(&data["response"], stop, out);
            }
            "response.failed" => return Err(failure(&data["response"]["error"])),
            "error" => {
                let error = &data["error"];
                return Err(failure(if error.is_object() { error } else { &data }));
            }
            // Progress, and what is new.
            _ => {}
        }
        Ok(())
    }
}

impl Answer {
    fn item(&mut self, item: &Value, out: &mut Out) {
        match item["type"].as_str() {
            Some("function_call") => {
                let tool = item["name"].as_str().unwrap_or_default().to_owned();
                let call = item["call_id"].as_str().unwrap_or_default().to_owned();
                match input(item["arguments"].as_str().unwrap_or_default()) {
                    Some(input) if !tool.is_empty() => {
                        self.called = true;
                        out.push_back(ModelEvent::ToolCall { call, tool, input });
                    }
                    _ => self.cut = true,
                }
            }
            Some("reasoning") => {
                let id = text(item, "/id").unwrap_or("rs");
                if let Some(sealed) = text(item, "/encrypted_content") {
                    let signature = Some(sign(SIGNATURE, &format!("{id} {sealed}")));
                    out.push_back(ModelEvent::Thought { text: String::new(), signature });
                }
            }
            _ => {}
        }
    }

    fn stop(
        &mut self,
        response: &Value,
        stop: StopReason,
        out: &mut Out,
    ) -> Result<(), ProviderError> {
        if self.cut && stop != StopReason::MaxTokens {
            return Err(broken("the input of a call is not whole"));
        }
        let usage = &response["usage"];
        if let Some(read) = count(usage, "/input_tokens") {
            let cached = count(usage, "/input_tokens_details/cached_tokens").unwrap_or(0).min(read);
            out.push_back(ModelEvent::Usage(Usage {
                input: read - cached,
                output: count(usage, "/output_tokens").unwrap_or(0),
                cache_read: cached,
                reasoning: count(usage, "/output_tokens_details/reasoning_tokens").unwrap_or(0),
                ..Usage::default()
            }));
        }
        out.push_back(ModelEvent::Stop(stop));
        Ok(())
    }
}
