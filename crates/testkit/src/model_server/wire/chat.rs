//! `OpenAI`'s Chat Completions, from the service's side; it answers nothing itself.

use aion_agent::provider::{Part, StopReason};
use serde_json::{Value, json};

use super::{
    Answer, Asked, Violation, answered, call_id, data, given, input, pieces, result, returned,
    text_of, thoughts,
};

pub(super) fn read(body: &Value) -> Result<Asked, Violation> {
    let mut asked = Asked {
        model: body["model"].as_str().ok_or("you must provide a model parameter")?.to_owned(),
        stream: body["stream"] == json!(true),
        ..Asked::default()
    };
    for message in body["messages"].as_array().ok_or("missing messages")? {
        let text = text_of(&message["content"]);
        match message["role"].as_str() {
            Some("system" | "developer") => asked.system.push_str(&text),
            Some("user") => asked.messages.push(given(text)),
            Some("assistant") => {
                let calls = message["tool_calls"].as_array();
                if text.is_empty() && calls.is_none_or(Vec::is_empty) {
                    return Err("an assistant message needs content or tool_calls".to_owned());
                }
                if !text.is_empty() {
                    answered(&mut asked.messages, Part::Text { text });
                }
                for call in calls.into_iter().flatten() {
                    let function = &call["function"];
                    let part = Part::Call {
                        call: call["id"].as_str().ok_or("a call without an id")?.to_owned(),
                        tool: function["name"].as_str().ok_or("a call without a name")?.to_owned(),
                        input: input(function["arguments"].as_str().unwrap_or_default())?,
                    };
                    answered(&mut asked.messages, part);
                }
            }
            Some("tool") => {
                let call = message["tool_call_id"].as_str().ok_or("tool_call_id is missing")?;
                returned(&mut asked.messages, result(call, &text));
            }
            other => return Err(format!("a message with the role {other:?}")),
        }
    }
    Ok(asked)
}

pub(super) fn stream(answer: &Answer, asked: &Asked, more: usize) -> Vec<String> {
    let chunk = |delta: Value, finish: Value| {
        data(&json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": asked.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }))
    };
    let mut out = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
    for piece in pieces(&thoughts(answer), 0) {
        out.push(chunk(json!({"reasoning_content": piece}), Value::Null));
    }
    let mut more = Some(more);
    let mut calls = Vec::new();
    for part in &answer.parts {
        match part {
            Part::Thought { .. } => {}
            Part::Text { text } => {
                for piece in pieces(text, more.take().unwrap_or(0)) {
                    out.push(chunk(json!({"content": piece}), Value::Null));
                }
            }
            Part::Call { call, tool, input } => {
                let index = calls.len();
                let head = json!({"index": index, "id": call_id(call, ""), "type": "function",
                    "function": {"name": tool, "arguments": ""}});
                out.push(chunk(json!({"tool_calls": [head]}), Value::Null));
                calls.push(pieces(&input.to_string(), 0));
            }
        }
    }
    // Parallel calls are written in turns.
    let longest = calls.iter().map(Vec::len).max().unwrap_or(0);
    for at in 0..longest {
        for (index, pieces) in calls.iter().enumerate() {
            if let Some(piece) = pieces.get(at) {
                let part = json!({"index": index, "function": {"arguments": piece}});
                out.push(chunk(json!({"tool_calls": [part]}), Value::Null));
            }
        }
    }
    out.push(chunk(json!({}), json!(stop(answer))));
    out.push(data(&json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": asked.model,
        "choices": [], "usage": usage(answer),
    })));
    out.push("data: [DONE]\n\n".to_owned());
    out
}

pub(super) fn whole(answer: &Answer, asked: &Asked) -> Value {
    let said: String = answer.parts.iter().filter_map(text).collect();
    let calls: Vec<Value> = answer
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Call { call, tool, input } => Some(json!({
                "id": call_id(call, ""), "type": "function",
                "function": {"name": tool, "arguments": input.to_string()},
            })),
            Part::Text { .. } | Part::Thought { .. } => None,
        })
        .collect();
    let mut message = json!({"role": "assistant", "content": said});
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "model": asked.model,
        "choices": [{"index": 0, "message": message, "finish_reason": stop(answer)}],
        "usage": usage(answer),
    })
}

fn text(part: &Part) -> Option<&str> {
    match part {
        Part::Text { text } => Some(text),
        Part::Thought { .. } | Part::Call { .. } => None,
    }
}

fn usage(answer: &Answer) -> Value {
    let usage = answer.usage;
    let read = usage.input + usage.cache_read;
    json!({
        "prompt_tokens": read,
        "completion_tokens": usage.output,
        "total_tokens": read + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
    })
}

fn stop(answer: &Answer) -> &'static str {
    match answer.stop {
        Some(StopReason::ToolUse) => "tool_calls",
        Some(StopReason::MaxTokens) => "length",
        Some(StopReason::Refusal) => "content_filter",
        Some(StopReason::EndTurn) | None => "stop",
    }
}
