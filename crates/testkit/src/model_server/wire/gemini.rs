//! Google's Gemini, from the service's side; it answers nothing itself.

use aion_agent::provider::{Part, StopReason, ToolResult};
use serde_json::{Value, json};

use super::{
    Answer, Asked, Violation, answered, data, given, mark, pieces, returned, text_of, thoughts,
};

pub(super) fn read(body: &Value, path: &str) -> Result<Asked, Violation> {
    let (model, method) = path
        .rsplit('/')
        .next()
        .and_then(|last| last.split_once(':'))
        .ok_or("the path names no model")?;
    let mut asked = Asked {
        model: model.to_owned(),
        system: text_of(&body["systemInstruction"]["parts"]),
        stream: method == "streamGenerateContent",
        ..Asked::default()
    };
    // Calls have no ids here: results answer them by name, in order.
    let mut calls: Vec<(String, String)> = Vec::new();
    for (at, content) in body["contents"].as_array().ok_or("contents: required")?.iter().enumerate()
    {
        let model = content["role"] == "model";
        if model {
            calls.clear();
            check_signature(content)?;
        }
        for part in content["parts"].as_array().into_iter().flatten() {
            if let Some(name) = part["functionCall"]["name"].as_str() {
                let call = format!("g{at}-{}", calls.len());
                calls.push((call.clone(), name.to_owned()));
                let input = part["functionCall"]["args"].clone();
                answered(&mut asked.messages, Part::Call { call, tool: name.to_owned(), input });
            } else if let Some(name) = part["functionResponse"]["name"].as_str() {
                let place = calls.iter().position(|(_, known)| known == name);
                let place = place.ok_or(format!("functionResponse {name} answers no call"))?;
                let response = &part["functionResponse"]["response"];
                let ok = response["error"].is_null();
                let text = if ok { &response["output"] } else { &response["error"] };
                let text = text.as_str().unwrap_or_default().to_owned();
                let call = calls.remove(place).0;
                returned(&mut asked.messages, ToolResult { call, text, images: Vec::new(), ok });
            } else if let Some(text) = part["text"].as_str() {
                if model {
                    answered(&mut asked.messages, Part::Text { text: text.to_owned() });
                } else {
                    asked.messages.push(given(text));
                }
            } else if part["inlineData"].is_object() {
                asked.messages.push(given("[an image]"));
            } else {
                return Err("contents.parts: a part without data".to_owned());
            }
        }
    }
    Ok(asked)
}

/// The first call of each step carries its signature back.
fn check_signature(content: &Value) -> Result<(), Violation> {
    let parts = content["parts"].as_array().into_iter().flatten();
    let first = parts.into_iter().find(|part| part["functionCall"].is_object());
    match first {
        Some(part) if part["thoughtSignature"] != json!(sign(&part["functionCall"])) => {
            Err("function call is missing a thought_signature in functionCall parts".to_owned())
        }
        Some(_) | None => Ok(()),
    }
}

fn sign(call: &Value) -> String {
    mark(&format!("{} {}", call["name"], call["args"]))
}

pub(super) fn stream(answer: &Answer, asked: &Asked, more: usize) -> Vec<String> {
    let mut parts = Vec::new();
    let mut more = Some(more);
    for part in self::parts(answer) {
        match part["text"].as_str() {
            Some(text) => {
                let more =
                    if part["thought"] == json!(true) { 0 } else { more.take().unwrap_or(0) };
                parts.extend(pieces(text, more).into_iter().map(|piece| {
                    let mut piece_of = part.clone();
                    piece_of["text"] = json!(piece);
                    piece_of
                }));
            }
            None => parts.push(part),
        }
    }
    let mut out: Vec<String> = parts
        .into_iter()
        .map(|part| {
            data(&json!({
                "candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}],
                "modelVersion": asked.model,
                "usageMetadata": {"promptTokenCount": answer.usage.input + answer.usage.cache_read},
            }))
        })
        .collect();
    out.push(data(&json!({
        "candidates": [{
            "index": 0, "finishReason": stop(answer),
            "content": {"role": "model", "parts": [{"text": ""}]},
        }],
        "modelVersion": asked.model,
        "usageMetadata": usage(answer),
    })));
    out
}

pub(super) fn whole(answer: &Answer, asked: &Asked) -> Value {
    json!({
        "candidates": [{
            "index": 0, "finishReason": stop(answer),
            "content": {"role": "model", "parts": parts(answer)},
        }],
        "modelVersion": asked.model,
        "usageMetadata": usage(answer),
    })
}

fn parts(answer: &Answer) -> Vec<Value> {
    let mut parts = Vec::new();
    let thought = thoughts(answer);
    if !thought.is_empty() {
        parts.push(json!({"text": thought, "thought": true}));
    }
    let mut signed = false;
    for part in &answer.parts {
        match part {
            Part::Thought { .. } => {}
            Part::Text { text } => parts.push(json!({"text": text})),
            Part::Call { tool, input, .. } => {
                let call = json!({"name": tool, "args": input});
                let sign = sign(&call);
                let mut part = json!({"functionCall": call});
                if !std::mem::replace(&mut signed, true) {
                    part["thoughtSignature"] = json!(sign);
                }
                parts.push(part);
            }
        }
    }
    parts
}

fn usage(answer: &Answer) -> Value {
    let usage = answer.usage;
    let read = usage.input + usage.cache_read;
    json!({
        "promptTokenCount": read,
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": usage.output,
        "totalTokenCount": read + usage.output,
    })
}

fn stop(answer: &Answer) -> &'static str {
    match answer.stop {
        Some(StopReason::MaxTokens) => "MAX_TOKENS",
        Some(StopReason::Refusal) => "SAFETY",
        Some(StopReason::EndTurn | StopReason::ToolUse) | None => "STOP",
    }
}
