//! Anthropic's Messages, from the service's side; it answers nothing itself.

use aion_agent::provider::{Part, StopReason, ToolResult};
use serde_json::{Value, json};

use super::{
    Answer, Asked, Violation, answered, call_id, event, given, mark, mark_of, pieces, returned,
    text_of, thought_mark, thoughts,
};

pub(super) fn read(body: &Value) -> Result<Asked, Violation> {
    if body["max_tokens"].as_u64().is_none_or(|most| most == 0) {
        return Err("max_tokens: Field required".to_owned());
    }
    let mut asked = Asked {
        model: body["model"].as_str().ok_or("model: Field required")?.to_owned(),
        system: text_of(&body["system"]),
        stream: body["stream"] == json!(true),
        marks_cache: body.to_string().contains("\"cache_control\""),
        ..Asked::default()
    };
    let marks = body.to_string().matches("\"cache_control\"").count();
    if marks > 4 {
        return Err(format!(
            "a maximum of 4 blocks with cache_control may be provided, found {marks}"
        ));
    }
    for message in body["messages"].as_array().ok_or("messages: Field required")? {
        let assistant = match message["role"].as_str() {
            Some("assistant") => true,
            Some("user") => false,
            other => return Err(format!("messages: role {other:?}")),
        };
        let text = [json!({"type": "text", "text": message["content"]})];
        let blocks = match &message["content"] {
            Value::Array(blocks) => blocks.as_slice(),
            _ => &text,
        };
        if blocks.is_empty() {
            return Err("messages: all messages must have non-empty content".to_owned());
        }
        if assistant {
            check_thinking(blocks)?;
        }
        for block in blocks {
            self::block(block, assistant, &mut asked)?;
        }
    }
    Ok(asked)
}

fn block(block: &Value, assistant: bool, asked: &mut Asked) -> Result<(), Violation> {
    let messages = &mut asked.messages;
    let text = |field: &str| block[field].as_str().unwrap_or_default().to_owned();
    match (block["type"].as_str().unwrap_or_default(), assistant) {
        ("text", _) if text("text").trim().is_empty() => {
            return Err("messages: text content blocks must be non-empty".to_owned());
        }
        ("text", true) => answered(messages, Part::Text { text: text("text") }),
        ("text", false) => messages.push(given(text("text"))),
        ("image", false) => messages.push(given("[an image]")),
        ("thinking", true) => {
            let (text, signature) = (text("thinking"), Some(text("signature")));
            answered(messages, Part::Thought { text, signature });
        }
        ("redacted_thinking", true) => {}
        ("tool_use", true) => {
            let (call, tool) = (text("id"), text("name"));
            answered(messages, Part::Call { call, tool, input: block["input"].clone() });
        }
        ("tool_result", false) => returned(
            messages,
            ToolResult {
                call: text("tool_use_id"),
                text: text_of(&block["content"]),
                images: Vec::new(),
                ok: block["is_error"] != json!(true),
            },
        ),
        (other, _) => return Err(format!("messages: a block of type {other:?} here")),
    }
    Ok(())
}

/// Thinking comes back as it was sent, before the calls that followed it.
fn check_thinking(blocks: &[Value]) -> Result<(), Violation> {
    let mut seen = String::new();
    for block in blocks {
        match block["type"].as_str() {
            Some("thinking") => {
                let text = block["thinking"].as_str().unwrap_or_default();
                if block["signature"] != json!(mark(text)) {
                    return Err("messages: invalid `signature` in `thinking` block".to_owned());
                }
                seen = mark(text);
            }
            Some("tool_use") => {
                let wanted = mark_of(block["id"].as_str().unwrap_or_default());
                if !wanted.is_empty() && wanted != seen {
                    return Err("messages: expected `thinking` before `tool_use`".to_owned());
                }
            }
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn stream(answer: &Answer, asked: &Asked, more: usize) -> Vec<String> {
    let usage = answer.usage;
    let mut out = vec![event(
        "message_start",
        &json!({"type": "message_start", "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": asked.model,
            "content": [], "stop_reason": null,
            "usage": {
                "input_tokens": usage.input,
                "cache_read_input_tokens": usage.cache_read,
                "cache_creation_input_tokens": usage.cache_write,
                "output_tokens": 1,
            },
        }}),
    )];
    let mut more = Some(more);
    for (index, block) in blocks(answer).into_iter().enumerate() {
        let (empty, deltas) = deltas(&block, &mut more);
        out.push(event(
            "content_block_start",
            &json!({
                "type": "content_block_start", "index": index, "content_block": empty,
            }),
        ));
        out.extend(deltas.into_iter().map(|delta| {
            let data = json!({"type": "content_block_delta", "index": index, "delta": delta});
            event("content_block_delta", &data)
        }));
        let stop = json!({"type": "content_block_stop", "index": index});
        out.push(event("content_block_stop", &stop));
    }
    out.push(event(
        "message_delta",
        &json!({
            "type": "message_delta",
            "delta": {"stop_reason": stop(answer), "stop_sequence": null},
            "usage": {"output_tokens": usage.output},
        }),
    ));
    out.push(event("message_stop", &json!({"type": "message_stop"})));
    out
}

/// A block as it begins, and what follows it.
fn deltas(block: &Value, more: &mut Option<usize>) -> (Value, Vec<Value>) {
    let text = |field: &str| block[field].as_str().unwrap_or_default().to_owned();
    match block["type"].as_str() {
        Some("thinking") => {
            let pieces = pieces(&text("thinking"), 0).into_iter();
            let thinking = pieces.map(|piece| json!({"type": "thinking_delta", "thinking": piece}));
            let signed = json!({"type": "signature_delta", "signature": block["signature"]});
            (
                json!({"type": "thinking", "thinking": "", "signature": ""}),
                thinking.chain([signed]).collect(),
            )
        }
        Some("tool_use") => {
            let written = block["input"].to_string();
            let pieces = pieces(&written, 0).into_iter();
            let written = pieces.map(|p| json!({"type": "input_json_delta", "partial_json": p}));
            let mut empty = block.clone();
            empty["input"] = json!({});
            (empty, written.collect())
        }
        _ => {
            let pieces = pieces(&text("text"), more.take().unwrap_or(0)).into_iter();
            let said = pieces.map(|piece| json!({"type": "text_delta", "text": piece}));
            (json!({"type": "text", "text": ""}), said.collect())
        }
    }
}

pub(super) fn whole(answer: &Answer, asked: &Asked) -> Value {
    let usage = answer.usage;
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": asked.model,
        "content": blocks(answer), "stop_reason": stop(answer), "stop_sequence": null,
        "usage": {
            "input_tokens": usage.input,
            "cache_read_input_tokens": usage.cache_read,
            "cache_creation_input_tokens": usage.cache_write,
            "output_tokens": usage.output,
        },
    })
}

fn blocks(answer: &Answer) -> Vec<Value> {
    let (thought, sign) = (thoughts(answer), thought_mark(answer));
    let mut blocks = Vec::new();
    if !thought.is_empty() {
        blocks.push(json!({"type": "thinking", "thinking": thought, "signature": sign}));
    }
    blocks.extend(answer.parts.iter().filter_map(|part| match part {
        Part::Thought { .. } => None,
        Part::Text { text } => Some(json!({"type": "text", "text": text})),
        Part::Call { call, tool, input } => Some(json!({
            "type": "tool_use", "id": call_id(call, &sign), "name": tool, "input": input,
        })),
    }));
    blocks
}

fn stop(answer: &Answer) -> &'static str {
    match answer.stop {
        Some(StopReason::ToolUse) => "tool_use",
        Some(StopReason::MaxTokens) => "max_tokens",
        Some(StopReason::Refusal) => "refusal",
        Some(StopReason::EndTurn) | None => "end_turn",
    }
}
