//! Ollama's chat, from the service's side; it answers nothing itself.

use aion_agent::provider::{Part, StopReason};
use serde_json::{Value, json};

use super::{Answer, Asked, Violation, answered, given, pieces, result, returned, thoughts};

pub(super) fn read(body: &Value) -> Result<Asked, Violation> {
    let mut asked = Asked {
        model: body["model"].as_str().ok_or("model is required")?.to_owned(),
        // It streams unless it is told not to.
        stream: body["stream"] != json!(false),
        ..Asked::default()
    };
    // Calls have no ids here: results answer them by name, in order.
    let mut calls: Vec<(String, String)> = Vec::new();
    for (at, message) in body["messages"].as_array().into_iter().flatten().enumerate() {
        let text = message["content"].as_str().unwrap_or_default();
        match message["role"].as_str() {
            Some("system") => asked.system.push_str(text),
            Some("user") => asked.messages.push(given(text)),
            Some("assistant") => {
                calls.clear();
                if !text.is_empty() {
                    answered(&mut asked.messages, Part::Text { text: text.to_owned() });
                }
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    let function = &call["function"];
                    if !function["arguments"].is_object() {
                        return Err("tool_calls: arguments have to be an object".to_owned());
                    }
                    let tool = function["name"].as_str().ok_or("a call without a name")?.to_owned();
                    let call = format!("o{at}-{}", calls.len());
                    calls.push((call.clone(), tool.clone()));
                    let input = function["arguments"].clone();
                    answered(&mut asked.messages, Part::Call { call, tool, input });
                }
            }
            Some("tool") => {
                let name = message["tool_name"].as_str().unwrap_or_default();
                let place = calls.iter().position(|(_, known)| known == name);
                let place = place.ok_or(format!("a result of {name} answers no call"))?;
                let call = calls.remove(place).0;
                returned(&mut asked.messages, result(&call, text));
            }
            other => return Err(format!("invalid message role: {other:?}")),
        }
    }
    Ok(asked)
}

pub(super) fn stream(answer: &Answer, asked: &Asked, more: usize) -> Vec<String> {
    let line = |message: Value| {
        format!("{}\n", json!({"model": asked.model, "message": message, "done": false}))
    };
    let said = |key: &str, piece: String| {
        let mut message = json!({"role": "assistant", "content": ""});
        message[key] = json!(piece);
        line(message)
    };
    let mut out: Vec<String> =
        pieces(&thoughts(answer), 0).into_iter().map(|piece| said("thinking", piece)).collect();
    let mut more = Some(more);
    for part in &answer.parts {
        match part {
            Part::Thought { .. } => {}
            Part::Text { text } => out.extend(
                pieces(text, more.take().unwrap_or(0))
                    .into_iter()
                    .map(|piece| said("content", piece)),
            ),
            Part::Call { tool, input, .. } => out.push(line(json!({
                "role": "assistant", "content": "",
                "tool_calls": [{"function": {"name": tool, "arguments": input}}],
            }))),
        }
    }
    let mut last = end(answer, asked);
    last["message"] = json!({"role": "assistant", "content": ""});
    out.push(format!("{last}\n"));
    out
}

pub(super) fn whole(answer: &Answer, asked: &Asked) -> Value {
    let mut said = String::new();
    let mut calls = Vec::new();
    for part in &answer.parts {
        match part {
            Part::Thought { .. } => {}
            Part::Text { text } => said.push_str(text),
            Part::Call { tool, input, .. } => {
                calls.push(json!({"function": {"name": tool, "arguments": input}}));
            }
        }
    }
    let mut whole = end(answer, asked);
    whole["message"] = json!({
        "role": "assistant", "content": said, "thinking": thoughts(answer), "tool_calls": calls,
    });
    whole
}

fn end(answer: &Answer, asked: &Asked) -> Value {
    let stop = match answer.stop {
        Some(StopReason::MaxTokens) => "length",
        Some(StopReason::EndTurn | StopReason::ToolUse | StopReason::Refusal) | None => "stop",
    };
    json!({
        "model": asked.model, "done": true, "done_reason": stop,
        "prompt_eval_count": answer.usage.input + answer.usage.cache_read,
        "eval_count": answer.usage.output,
    })
}
