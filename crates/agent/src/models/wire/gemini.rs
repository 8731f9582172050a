//! Google's Gemini: how it is asked and read; never sends.

use aion_core::budget::Usage;
use aion_core::turn::CallId;
use serde_json::{Value, json};

use super::chat::failure;
use super::words::{count, id, in_order, json as parse, say, sign, signed, text, tool};
use super::{Ask, Frame, Out, Reader, broken};
use crate::provider::{Message, ModelEvent, Part, ProviderError, StopReason};

const SIGNATURE: &str = "gemini";

/// What stands for a signature that was never given, or by another service: newer models refuse a
/// call without one, and take this for it.
pub(super) const NO_SIGNATURE: &str = "skip_thought_signature_validator";

pub(super) fn body(ask: &Ask<'_>) -> Value {
    let mut generation = json!({"maxOutputTokens": ask.max_tokens});
    if let Some(tokens) = ask.thinking {
        generation["thinkingConfig"] = json!({"includeThoughts": true, "thinkingBudget": tokens});
    }
    let mut body = json!({"contents": contents(ask), "generationConfig": generation});
    if !ask.request.system.trim().is_empty() {
        body["systemInstruction"] = json!({"parts": [{"text": ask.request.system}]});
    }
    if !ask.request.tools.is_empty() {
        let tools = ask.request.tools.iter().map(|tool| {
            json!({
                "name": tool.name,
                "description": tool.description,
                "parametersJsonSchema": tool.input_schema,
            })
        });
        body["tools"] = json!([{"functionDeclarations": tools.collect::<Value>()}]);
    }
    body
}

fn contents(ask: &Ask<'_>) -> Vec<Value> {
    let mut contents: Vec<Value> = Vec::new();
    // A result goes by its tool's name here, and where it has several calls by their order.
    let mut calls: Vec<&CallId> = Vec::new();
    let mut tools: Vec<&str> = Vec::new();
    for message in &ask.request.messages {
        let (role, parts) = match message {
            Message::Given { text, .. } if text.trim().is_empty() => continue,
            Message::Given { text, .. } => ("user", vec![json!({"text": text})]),
            Message::Answer { parts, .. } => {
                (calls, tools) = parts
                    .iter()
                    .filter_map(|part| match part {
                        Part::Call { call, tool, .. } => Some((call, tool.as_str())),
                        Part::Text { .. } | Part::Thought { .. } => None,
                    })
                    .unzip();
                ("model", answer(parts, ask.model))
            }
            Message::Results { results, .. } => {
                let parts = in_order(results, &calls).into_iter().map(|result| {
                    let at = calls.iter().position(|call| **call == result.call);
                    let name = at.and_then(|at| tools.get(at)).copied().unwrap_or_default();
                    let field = if result.ok { "output" } else { "error" };
                    let mut response = json!({
                        "name": tool(name),
                        "response": {field: result.text},
                    });
                    if is_new(ask.model) {
                        response["id"] = json!(id(&result.call));
                    }
                    json!({"functionResponse": response})
                });
                let images = results.iter().flat_map(|result| &result.images).map(|image| {
                    json!({"inlineData": {
                        "mimeType": image.media_type,
                        "data": image.data.as_str(),
                    }})
                });
                ("user", parts.chain(images).collect())
            }
        };
        if parts.is_empty() {
            continue;
        }
        match contents.last_mut() {
            Some(last) if last["role"] == role => {
                if let Some(known) = last["parts"].as_array_mut() {
                    known.extend(parts);
                }
            }
            _ => contents.push(json!({"role": role, "parts": parts})),
        }
    }
    contents
}

/// Whether the model is one of those that want their signatures and the ids of their calls back.
fn is_new(model: &str) -> bool {
    model.contains("gemini-") && !["gemini-1", "gemini-2"].iter().any(|old| model.contains(old))
}

fn answer(parts: &[Part], model: &str) -> Vec<Value> {
    let mut sent = Vec::new();
    // Only the first of several calls is signed.
    let new = is_new(model);
    let mut signs = new;
    // A signature belongs to the part after it.
    let mut open: Option<&str> = None;
    for part in parts {
        let mut value = match part {
            Part::Thought { signature, .. } => {
                open = signed(SIGNATURE, signature.as_deref()).or(open);
                continue;
            }
            Part::Text { text } if text.is_empty() => continue,
            Part::Text { text } => json!({"text": text}),
            Part::Call { call, tool: name, input } => {
                if std::mem::take(&mut signs) {
                    open = open.or(Some(NO_SIGNATURE));
                }
                let mut called = json!({"name": tool(name), "args": input});
                if new {
                    called["id"] = json!(id(call));
                }
                json!({"functionCall": called})
            }
        };
        if let Some(signature) = open.take() {
            value["thoughtSignature"] = json!(signature);
        }
        sent.push(value);
    }
    sent
}

/// An answer that is being read.
#[derive(Debug, Default)]
pub(super) struct Answer {
    called: bool,
    stop: Option<StopReason>,
}

impl Reader for Answer {
    fn read(&mut self, frame: Frame, out: &mut Out) -> Result<(), ProviderError> {
        let data = parse(&frame.data)?;
        if data["error"].is_object() {
            return Err(failure(&data["error"]));
        }
        if data["promptFeedback"]["blockReason"].is_string() {
            self.stop = Some(StopReason::Refusal);
        }
        let candidate = &data["candidates"][0];
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            self.part(part, out)?;
        }
        if let Some(reason) = candidate["finishReason"].as_str() {
            self.stop = Some(match reason {
                "STOP" if self.called => StopReason::ToolUse,
                "STOP" => StopReason::EndTurn,
                "MAX_TOKENS" => StopReason::MaxTokens,
                "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT"
                | "SPII" => StopReason::Refusal,
                // Malformed calls, too many of them, and what is new.
                other => return Err(broken(format!("the answer ended with {other}"))),
            });
        }
        let usage = &data["usageMetadata"];
        if let Some(read) = count(usage, "/promptTokenCount") {
            let cached = count(usage, "/cachedContentTokenCount").unwrap_or(0).min(read);
            let reasoning = count(usage, "/thoughtsTokenCount").unwrap_or(0);
            let written = count(usage, "/candidatesTokenCount").unwrap_or(0);
            out.push_back(ModelEvent::Usage(Usage {
                input: read - cached,
                output: written.saturating_add(reasoning),
                cache_read: cached,
                reasoning,
                ..Usage::default()
            }));
        }
        Ok(())
    }

    /// It says no more than the reason to stop; usage may come after it.
    fn end(&mut self, out: &mut Out) -> Result<(), ProviderError> {
        let stop = self.stop.ok_or_else(|| broken("the stream ended before the answer did"))?;
        out.push_back(ModelEvent::Stop(stop));
        Ok(())
    }
}

impl Answer {
    fn part(&mut self, part: &Value, out: &mut Out) -> Result<(), ProviderError> {
        let signature = text(part, "/thoughtSignature").map(|value| sign(SIGNATURE, value));
        if part["thought"] == json!(true) {
            let text = text(part, "/text").unwrap_or_default().to_owned();
            out.push_back(ModelEvent::Thought { text, signature });
            return Ok(());
        }
        if signature.is_some() {
            out.push_back(ModelEvent::Thought { text: String::new(), signature });
        }
        say(out, text(part, "/text"));
        let call = &part["functionCall"];
        if call.is_object() {
            let tool = text(call, "/name").ok_or_else(|| broken("a call names no tool"))?;
            let input = match &call["args"] {
                Value::Null => json!({}),
                args => args.clone(),
            };
            self.called = true;
            let id = call["id"].as_str().unwrap_or_default().to_owned();
            out.push_back(ModelEvent::ToolCall { call: id, tool: tool.to_owned(), input });
        }
        Ok(())
    }
}
