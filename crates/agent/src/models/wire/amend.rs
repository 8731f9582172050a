//! What is left out of a request when its service refuses just that; never what a person or a tool
//! said.
//!
//! Thoughts are bound to models, accounts, and the conversation before them, and some services are
//! asked for more than they give everybody. A conversation must not end on that.

use serde_json::{Value, json};

use super::gemini::NO_SIGNATURE;
use crate::models::Service;

/// Leaves out of a request what the service's refusal names; false where it names nothing of this.
pub(in crate::models) fn amend(service: Service, refused: &str, body: &mut Value) -> bool {
    let refused = refused.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| refused.contains(word));
    match service {
        Service::Anthropic => {
            if !says(&["thinking"]) {
                return false;
            }
            if says(&["signature", "bound to", "cannot be modified"]) {
                return without_thoughts(body);
            }
            // What stands between may not know these.
            ["block_binding", "display"]
                .into_iter()
                .any(|field| says(&[field]) && remove(&mut body["thinking"], field))
        }
        Service::OpenAiResponses => {
            if says(&["reasoning.summary", "reasoning summaries"]) {
                let reasoning = body["reasoning"].as_object_mut();
                return reasoning.is_some_and(|reasoning| reasoning.remove("summary").is_some());
            }
            says(&["encrypted content", "encrypted_content", "of type 'reasoning'"])
                && keep(&mut body["input"], |item| item["type"] != "reasoning")
        }
        Service::Gemini => {
            if says(&["unknown name \"id\""]) {
                return without_ids(body);
            }
            says(&["thought signature", "thought_signature"]) && without_signatures(body)
        }
        Service::OpenAi | Service::Compatible => amend_chat(&says, body),
        Service::Ollama => says(&["thinking"]) && remove(body, "think"),
    }
}

fn amend_chat(says: &dyn Fn(&[&str]) -> bool, body: &mut Value) -> bool {
    if says(&["reasoning_effort"]) {
        if !remove(body, "reasoning_effort") {
            body["reasoning_effort"] = json!("none");
        }
        return true;
    }
    if says(&["reasoning_content"]) {
        let messages = body["messages"].as_array_mut().into_iter().flatten();
        return messages.filter_map(|m| remove(m, "reasoning_content").then_some(())).count() > 0;
    }
    if says(&["stream_options"]) {
        return remove(body, "stream_options");
    }
    // The newer name stands in the refusal of the older one, and is tried alone.
    if says(&["max_completion_tokens", "max_tokens"]) {
        let (old, new) = if body["max_tokens"].is_null() {
            ("max_completion_tokens", "max_tokens")
        } else {
            ("max_tokens", "max_completion_tokens")
        };
        let most = body[old].take();
        remove(body, old);
        body[new] = most;
        return true;
    }
    false
}

/// Without what was thought. Where thinking was asked for, it would be missed.
fn without_thoughts(body: &mut Value) -> bool {
    let mut some = false;
    for message in body["messages"].as_array_mut().into_iter().flatten() {
        some |= keep(&mut message["content"], |block| {
            block["type"] != "thinking" && block["type"] != "redacted_thinking"
        });
    }
    keep(&mut body["messages"], |message| message["content"] != json!([]));
    if body["thinking"]["type"] == "enabled" {
        remove(body, "thinking");
    }
    some
}

fn without_signatures(body: &mut Value) -> bool {
    let mut some = false;
    for content in body["contents"].as_array_mut().into_iter().flatten() {
        for part in content["parts"].as_array_mut().into_iter().flatten() {
            let signed = part["thoughtSignature"].as_str();
            if signed.is_some_and(|signature| signature != NO_SIGNATURE) {
                some = true;
                if part["functionCall"].is_object() {
                    part["thoughtSignature"] = json!(NO_SIGNATURE);
                } else {
                    remove(part, "thoughtSignature");
                }
            }
        }
    }
    some
}

/// Without the ids of calls and results, which then go by their order.
fn without_ids(body: &mut Value) -> bool {
    let mut some = false;
    for content in body["contents"].as_array_mut().into_iter().flatten() {
        for part in content["parts"].as_array_mut().into_iter().flatten() {
            for field in ["functionCall", "functionResponse"] {
                some |= part.get_mut(field).is_some_and(|value| remove(value, "id"));
            }
        }
    }
    some
}

/// Keeps what is wanted of a list; true where something went.
fn keep(list: &mut Value, wanted: impl Fn(&Value) -> bool) -> bool {
    let Some(list) = list.as_array_mut() else { return false };
    let before = list.len();
    list.retain(wanted);
    list.len() < before
}

fn remove(value: &mut Value, field: &str) -> bool {
    value.as_object_mut().is_some_and(|fields| fields.remove(field).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(service: Service, refused: &str, mut body: Value, expect: Option<Value>) {
        let before = body.clone();
        let amended = amend(service, refused, &mut body);
        assert_eq!((amended, body), (expect.is_some(), expect.unwrap_or(before)));
    }

    #[test]
    fn thoughts_that_are_refused_are_left_out_and_nothing_else() {
        let refused = "400: messages.1.content.0: Invalid `signature` in `thinking` block. The block \
                       is bound to a different conversation.";
        let body = json!({
            "thinking": {"type": "adaptive"},
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "go"}]},
                {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "", "signature": "s"},
                    {"type": "tool_use", "id": "a", "name": "Read", "input": {}},
                ]},
            ],
        });
        let expect = json!({
            "thinking": {"type": "adaptive"},
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "go"}]},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": "a", "name": "Read", "input": {}},
                ]},
            ],
        });
        check(Service::Anthropic, refused, body.clone(), Some(expect.clone()));
        check(Service::Anthropic, refused, expect, None);
        check(Service::Anthropic, "400: no such model", body, None);

        let sealed = json!({"type": "reasoning", "encrypted_content": "x"});
        let call = json!({"type": "function_call"});
        check(
            Service::OpenAiResponses,
            "400: The encrypted content gAAA could not be verified.",
            json!({"input": [sealed, call]}),
            Some(json!({"input": [call]})),
        );
        check(
            Service::Gemini,
            "400: Unknown name \"id\" at 'contents[1].parts[0].function_call': Cannot find field.",
            json!({"contents": [{"parts": [
                {"text": "a"},
                {"functionCall": {"id": "a", "name": "Read"}},
                {"functionResponse": {"id": "a", "name": "Read"}},
            ]}]}),
            Some(json!({"contents": [{"parts": [
                {"text": "a"},
                {"functionCall": {"name": "Read"}},
                {"functionResponse": {"name": "Read"}},
            ]}]})),
        );
        check(
            Service::Gemini,
            "400: Corrupted thought signature.",
            json!({"contents": [{"parts": [
                {"text": "a", "thoughtSignature": "s"},
                {"functionCall": {}, "thoughtSignature": "s"},
                {"functionCall": {}},
            ]}]}),
            Some(json!({"contents": [{"parts": [
                {"text": "a"},
                {"functionCall": {}, "thoughtSignature": NO_SIGNATURE},
                {"functionCall": {}},
            ]}]})),
        );
    }

    #[test]
    fn what_a_service_does_not_give_everybody_is_not_asked_for_again() {
        check(
            Service::OpenAiResponses,
            "400: Your organization must be verified to generate reasoning summaries.",
            json!({"reasoning": {"summary": "auto"}}),
            Some(json!({"reasoning": {}})),
        );
        let effort = "400: Function tools with reasoning_effort are not supported for gpt-7.";
        check(Service::Compatible, effort, json!({}), Some(json!({"reasoning_effort": "none"})));
        check(Service::OpenAi, effort, json!({"reasoning_effort": "none"}), Some(json!({})));
        check(
            Service::Compatible,
            "400: Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            json!({"max_tokens": 7}),
            Some(json!({"max_completion_tokens": 7})),
        );
        check(
            Service::Compatible,
            "400: property 'stream_options' is unsupported",
            json!({"stream_options": {}, "stream": true}),
            Some(json!({"stream": true})),
        );
        check(
            Service::Compatible,
            "400: property 'reasoning_content' is unsupported",
            json!({"messages": [{"role": "user"}, {"reasoning_content": "x", "content": ""}]}),
            Some(json!({"messages": [{"role": "user"}, {"content": ""}]})),
        );
        let thinking = json!({"type": "adaptive", "display": "summarized", "block_binding": {}});
        check(
            Service::Anthropic,
            "400: thinking.adaptive.block_binding: Extra inputs are not permitted",
            json!({"thinking": thinking}),
            Some(json!({"thinking": {"type": "adaptive", "display": "summarized"}})),
        );
        check(
            Service::Anthropic,
            "400: thinking.adaptive.display: Extra inputs are not permitted",
            json!({"thinking": {"type": "adaptive", "display": "summarized"}}),
            Some(json!({"thinking": {"type": "adaptive"}})),
        );
        check(
            Service::Ollama,
            "400: \"m\" does not support thinking",
            json!({"think": true}),
            Some(json!({})),
        );
    }
}
