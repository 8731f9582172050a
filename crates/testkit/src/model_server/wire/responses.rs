//! `OpenAI`'s Responses, from the service's side; nothing is kept here between two requests.

use aion_agent::provider::{Part, StopReason};
use serde_json::{Value, json};

use super::{
    Answer, Asked, Violation, answered, call_id, event, given, input, mark, mark_of, pieces,
    result, returned, text_of, thought_mark, thoughts,
};

pub(super) fn read(body: &Value) -> Result<Asked, Violation> {
    let mut asked = Asked {
        model: body["model"].as_str().ok_or("missing required parameter: 'model'")?.to_owned(),
        system: body["instructions"].as_str().unwrap_or_default().to_owned(),
        stream: body["stream"] == json!(true),
        ..Asked::default()
    };
    if let Some(text) = body["input"].as_str() {
        asked.messages.push(given(text));
    }
    let mut thought = String::new();
    for item in body["input"].as_array().into_iter().flatten() {
        let kind = item["type"].as_str().unwrap_or("message");
        let text = |field: &str| item[field].as_str().unwrap_or_default().to_owned();
        match (kind, item["role"].as_str()) {
            ("message", Some("assistant")) => {
                answered(&mut asked.messages, Part::Text { text: text_of(&item["content"]) });
            }
            ("message", Some("developer" | "system")) => {
                asked.system.push_str(&text_of(&item["content"]));
            }
            ("message", _) => {
                thought.clear();
                asked.messages.push(given(text_of(&item["content"])));
            }
            ("reasoning", _) => {
                let summary = text_of(&item["summary"]);
                thought = mark(&summary);
                if item["encrypted_content"] != json!(thought) {
                    return Err("the encrypted content could not be verified".to_owned());
                }
                let signature = Some(thought.clone());
                answered(&mut asked.messages, Part::Thought { text: summary, signature });
            }
            ("function_call", _) => {
                let call = text("call_id");
                if !mark_of(&call).is_empty() && mark_of(&call) != thought {
                    return Err(format!(
                        "item 'function_call' {call} was provided without its 'reasoning' item"
                    ));
                }
                let (tool, input) = (text("name"), input(&text("arguments"))?);
                answered(&mut asked.messages, Part::Call { call, tool, input });
            }
            ("function_call_output", _) => {
                thought.clear();
                let output = match &item["output"] {
                    Value::String(output) => output.clone(),
                    parts => text_of(parts),
                };
                returned(&mut asked.messages, result(&text("call_id"), &output));
            }
            (other, _) => return Err(format!("an item of the type {other:?}")),
        }
    }
    Ok(asked)
}

pub(super) fn stream(answer: &Answer, asked: &Asked, more: usize) -> Vec<String> {
    let said = |name: &str, mut data: Value| {
        data["type"] = json!(name);
        event(name, &data)
    };
    let mut out = vec![said(
        "response.created",
        json!({"response": {
            "id": "resp_1", "object": "response", "status": "in_progress", "model": asked.model,
        }}),
    )];
    let mut more = Some(more);
    for (index, item) in items(answer, asked).into_iter().enumerate() {
        let mut empty = item.clone();
        let (delta, pieces) = match item["type"].as_str() {
            Some("reasoning") => {
                empty["summary"] = json!([]);
                let pieces = pieces(&text_of(&item["summary"]), 0);
                ("response.reasoning_summary_text.delta", pieces)
            }
            Some("function_call") => {
                empty["arguments"] = json!("");
                let pieces = pieces(item["arguments"].as_str().unwrap_or_default(), 0);
                ("response.function_call_arguments.delta", pieces)
            }
            _ => {
                empty["content"] = json!([]);
                let text = text_of(&item["content"]);
                ("response.output_text.delta", pieces(&text, more.take().unwrap_or(0)))
            }
        };
        let added = json!({"output_index": index, "item": empty});
        out.push(said("response.output_item.added", added));
        out.extend(pieces.into_iter().map(|piece| {
            said(delta, json!({"output_index": index, "item_id": item["id"], "delta": piece}))
        }));
        let done = json!({"output_index": index, "item": item});
        out.push(said("response.output_item.done", done));
    }
    let last = match answer.stop {
        Some(StopReason::MaxTokens | StopReason::Refusal) => "response.incomplete",
        Some(StopReason::EndTurn | StopReason::ToolUse) | None => "response.completed",
    };
    out.push(said(last, json!({"response": whole(answer, asked)})));
    out
}

pub(super) fn whole(answer: &Answer, asked: &Asked) -> Value {
    let why = match answer.stop {
        Some(StopReason::MaxTokens) => Some("max_output_tokens"),
        Some(StopReason::Refusal) => Some("content_filter"),
        Some(StopReason::EndTurn | StopReason::ToolUse) | None => None,
    };
    let usage = answer.usage;
    let read = usage.input + usage.cache_read;
    json!({
        "id": "resp_1", "object": "response", "model": asked.model,
        "status": if why.is_some() { "incomplete" } else { "completed" },
        "incomplete_details": why.map(|why| json!({"reason": why})),
        "output": items(answer, asked),
        "usage": {
            "input_tokens": read,
            "input_tokens_details": {"cached_tokens": usage.cache_read},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": read + usage.output,
        },
    })
}

fn items(answer: &Answer, asked: &Asked) -> Vec<Value> {
    let (thought, sign) = (thoughts(answer), thought_mark(answer));
    let mut items = Vec::new();
    if !thought.is_empty() {
        items.push(json!({
            "type": "reasoning", "id": "rs_1", "encrypted_content": sign,
            "summary": [{"type": "summary_text", "text": thought}],
        }));
    }
    items.extend(answer.parts.iter().filter_map(|part| match part {
        Part::Thought { .. } => None,
        Part::Text { text } => Some(json!({
            "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        })),
        Part::Call { call, tool, input } => {
            let mut item = json!({
                "type": "function_call", "id": format!("fc_{call}"),
                "call_id": call_id(call, &sign), "name": tool,
                "arguments": input.to_string(), "status": "completed",
            });
            if let Some(space) = asked.spaces.get(tool) {
                item["namespace"] = json!(space);
            }
            Some(item)
        }
    }));
    items
}
