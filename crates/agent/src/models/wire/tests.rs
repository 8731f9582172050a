//! Requests as each service is asked, and answers as each gives them; nothing is sent.

use std::sync::Arc;

use aion_core::id::{AgentName, TurnId};
use aion_core::transcript::Image;
use serde_json::{Value, json};

use super::{Ask, Frame, Out, beta, body, reader, speaks};
use crate::host::ToolSpec;
use crate::models::Service;
use crate::provider::{
    Message, ModelEvent, ModelRequest, Part, ProviderError, StopReason, ToolResult,
};

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        agent: AgentName::parse("bob").unwrap(),
        model: None,
        turn: TurnId(1),
        step: 1,
        system: String::new(),
        messages,
        tools: Vec::new(),
        max_tokens: 2000,
    }
}

/// What a model of a service is sent of a conversation.
fn asked(service: Service, model: &str, messages: Vec<Message>) -> Value {
    let request = request(messages);
    let thinking = Some(1500);
    body(service, &Ask { request: &request, model, max_tokens: 2000, thinking, window: 100_000 })
}

fn answer(parts: Vec<Part>) -> Message {
    Message::Answer { turn: TurnId(1), step: 0, parts }
}

fn given(text: &str) -> Message {
    Message::Given { turn: TurnId(1), text: text.into() }
}

fn thought(text: &str, signature: &str) -> Part {
    Part::Thought { text: text.into(), signature: Some(signature.into()) }
}

fn call(call: &str, tool: &str) -> Part {
    Part::Call { call: call.into(), tool: tool.into(), input: json!({"n": 1}) }
}

fn results(calls: &[&str]) -> Message {
    let result = |call: &&str| ToolResult {
        call: (*call).into(),
        text: format!("of {call}"),
        ok: true,
        images: Vec::new(),
    };
    Message::Results { turn: TurnId(1), results: calls.iter().map(result).collect() }
}

/// What is read of an answer of these pieces.
fn read(service: Service, pieces: &[Value]) -> Result<Vec<ModelEvent>, ProviderError> {
    let mut reader = reader(service, "m");
    let mut out = Out::new();
    for piece in pieces {
        reader.read(Frame { event: String::new(), data: piece.to_string() }, &mut out)?;
    }
    if !matches!(out.back(), Some(ModelEvent::Stop(_))) {
        reader.end(&mut out)?;
    }
    Ok(out.into())
}

/// The calls of an answer, and its stop.
fn calls(service: Service, pieces: &[Value]) -> (Vec<(String, String, Value)>, StopReason) {
    let mut calls = Vec::new();
    for event in read(service, pieces).unwrap() {
        match event {
            ModelEvent::ToolCall { call, tool, input } => calls.push((call, tool, input)),
            ModelEvent::Stop(stop) => return (calls, stop),
            ModelEvent::Text(_) | ModelEvent::Thought { .. } | ModelEvent::Usage(_) => {}
        }
    }
    panic!("no stop");
}

/// What a service is sent of a call that showed an image, and of one that showed none.
fn sent(service: Service, field: &str) -> Value {
    let call = |call: &str| Part::Call { call: call.into(), tool: "Read".into(), input: json!({}) };
    let result = |call: &str, images: Vec<Image>| ToolResult {
        call: call.into(),
        text: format!("text of {call}"),
        ok: true,
        images,
    };
    let image = Image { media_type: "image/png".into(), data: "UE5H".to_owned().into() };
    let turn = TurnId(1);
    let request = request(vec![
        given("look"),
        answer(vec![call("a"), call("b")]),
        Message::Results { turn, results: vec![result("a", vec![image]), result("b", vec![])] },
    ]);
    let ask =
        Ask { request: &request, model: "m", max_tokens: 100, thinking: None, window: 100_000 };
    let sent = body(service, &ask);
    // The question and the calls come before.
    Value::Array(sent[field].as_array().unwrap()[2..].to_vec())
}

#[test]
fn images_of_results_go_to_every_service_in_its_own_words() {
    let words = "[What the tools showed, in order: images of a]";
    let url = "data:image/png;base64,UE5H";
    assert_eq!(
        sent(Service::Anthropic, "messages"),
        json!([{ "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": "a", "content": [
                { "type": "text", "text": "text of a" },
                { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "UE5H" } },
            ] },
            {
                "type": "tool_result", "tool_use_id": "b", "content": "text of b",
                "cache_control": { "type": "ephemeral" },
            },
        ] }])
    );
    for service in [Service::OpenAi, Service::Compatible] {
        assert_eq!(
            sent(service, "messages"),
            json!([
                { "role": "tool", "tool_call_id": "a", "content": "text of a" },
                { "role": "tool", "tool_call_id": "b", "content": "text of b" },
                { "role": "user", "content": [
                    { "type": "text", "text": words },
                    { "type": "image_url", "image_url": { "url": url } },
                ] },
            ])
        );
    }
    let items = sent(Service::OpenAiResponses, "input");
    let last = items.as_array().unwrap().last().unwrap();
    assert_eq!(
        *last,
        json!({ "type": "message", "role": "user", "content": [
            { "type": "input_text", "text": words },
            { "type": "input_image", "image_url": url },
        ] })
    );
    assert_eq!(
        sent(Service::Gemini, "contents")[0]["parts"][2],
        json!({ "inlineData": { "mimeType": "image/png", "data": "UE5H" } })
    );
    assert_eq!(
        sent(Service::Ollama, "messages")[2],
        json!({ "role": "user", "content": words, "images": ["UE5H"] })
    );
}

#[test]
fn a_call_of_a_tool_that_is_none_can_be_sent_back() {
    for service in Service::ALL {
        let conversation =
            vec![given("go"), answer(vec![call("a", "functions.Read\u{1b} x")]), results(&["a"])];
        let sent = asked(service, "m", conversation).to_string();
        assert!(sent.contains("\"functions_Read__x\""), "{service:?}: {sent}");
        assert!(!sent.contains("functions.Read"), "{service:?}: {sent}");
    }
}

#[test]
fn results_stand_in_the_order_of_their_calls_where_nothing_else_pairs_them() {
    let conversation = || {
        let both = answer(vec![call("a", "Read"), call("b", "Read")]);
        vec![given("go"), both, results(&["b", "a"])]
    };
    let sent = asked(Service::Gemini, "gemini-2.5-pro", conversation());
    let response = |call: &str| {
        json!({"functionResponse": {
            "name": "Read", "response": {"output": format!("of {call}")},
        }})
    };
    assert_eq!(sent["contents"][2]["parts"], json!([response("a"), response("b")]));
    // Newer models gave the calls their ids, and want them back.
    let sent = asked(Service::Gemini, "gemini-3.8-flash", conversation());
    let ids = |at: usize, field: &str| {
        let parts = sent["contents"][at]["parts"].as_array().unwrap();
        parts.iter().map(|part| part[field]["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(1, "functionCall"), [json!("a"), json!("b")]);
    assert_eq!(ids(2, "functionResponse"), [json!("a"), json!("b")]);
    let sent = asked(Service::Ollama, "m", conversation());
    let result =
        |call: &str| json!({"role": "tool", "tool_name": "Read", "content": format!("of {call}")});
    assert_eq!(sent["messages"][2], result("a"));
    assert_eq!(sent["messages"][3], result("b"));
}

#[test]
fn newer_models_of_google_get_a_signature_with_the_first_call_of_every_answer() {
    let signed = |model: &str, parts: Vec<Part>| {
        let sent = asked(Service::Gemini, model, vec![given("go"), answer(parts)]);
        let parts = sent["contents"][1]["parts"].as_array().unwrap().clone();
        parts.into_iter().map(|part| part["thoughtSignature"].clone()).collect::<Vec<_>>()
    };
    let own = || vec![thought("hm", "gemini:abc"), call("a", "Read"), call("b", "Read")];
    let foreign = || vec![thought("hm", "anthropic:abc"), call("a", "Read"), call("b", "Read")];
    let skip = json!("skip_thought_signature_validator");
    assert_eq!(signed("gemini-3.8-flash", own()), [json!("abc"), Value::Null]);
    assert_eq!(signed("gemini-3.8-flash", foreign()), [skip, Value::Null]);
    assert_eq!(signed("gemini-2.5-pro", foreign()), [Value::Null, Value::Null]);
    assert_eq!(signed("gemma-3", foreign()), [Value::Null, Value::Null]);
}

#[test]
fn what_was_thought_for_nothing_is_not_sent_back_where_that_is_refused() {
    let input = |parts: Vec<Part>| {
        asked(Service::OpenAiResponses, "gpt-6.2-sol", vec![given("go"), answer(parts)])["input"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["type"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let thought = || thought("hm", "openai:rs_1 sealed");
    assert_eq!(input(vec![thought(), thought()]), ["message"]);
    assert_eq!(
        input(vec![thought(), call("a", "Read"), thought()]),
        ["message", "reasoning", "function_call"]
    );
}

#[test]
fn who_thinks_is_asked_for_it_in_the_words_of_his_model() {
    let thinking =
        |model: &str| asked(Service::Anthropic, model, vec![given("go")])["thinking"].clone();
    let told = json!({"type": "enabled", "budget_tokens": 1500});
    let chosen = json!({"type": "adaptive"});
    for model in ["claude-sonnet-4-5", "claude-haiku-4-5-20251001", "claude-opus-4-20250514", "m"] {
        assert_eq!(thinking(model), told, "{model}");
    }
    for model in ["claude-opus-4-8", "claude-sonnet-5", "claude-sonnet-4-6", "claude-opus-5"] {
        assert_eq!(thinking(model), chosen, "{model}");
        assert_eq!(beta(Service::Anthropic, model), None, "{model}");
    }
    // Their thoughts are bound to what was before, which changes.
    let bound = json!({
        "type": "adaptive",
        "display": "summarized",
        "block_binding": {"prefix_mismatch_behavior": "drop_block"},
    });
    for model in [
        "claude-sonnet-5-5",
        "claude-opus-5-5-20260922",
        "claude-haiku-5-5",
        "claude-fable-5-1",
        "claude-opus-6",
    ] {
        assert_eq!(thinking(model), bound, "{model}");
        assert!(beta(Service::Anthropic, model).is_some(), "{model}");
    }
    let reasons = |model: &str| {
        asked(Service::OpenAiResponses, model, vec![given("go")])["include"].is_array()
    };
    for model in ["gpt-5.2", "gpt-6.2-sol", "gpt-10", "o3-mini", "codex-mini-latest", "x/gpt-5"] {
        assert!(reasons(model), "{model}");
    }
    for model in ["gpt-4.1", "gpt-4o", "gpt-5-chat-latest", "omni", "m"] {
        assert!(!reasons(model), "{model}");
    }
}

#[test]
fn openais_models_that_think_are_spoken_to_in_its_newer_words() {
    let spoken = |base: &str, model: &str| speaks(Service::OpenAi, base, model);
    let home = "https://api.openai.com/v1";
    assert_eq!(spoken(home, "gpt-6.2-sol"), Service::OpenAiResponses);
    assert_eq!(spoken(home, "gpt-5-mini"), Service::OpenAiResponses);
    assert_eq!(spoken(home, "gpt-4.1"), Service::OpenAi);
    assert_eq!(spoken("http://127.0.0.1:4000/v1", "gpt-6.2-sol"), Service::OpenAi);
    assert_eq!(speaks(Service::Compatible, home, "gpt-6.2-sol"), Service::Compatible);
    // Elsewhere they get their tools, and do not think.
    let effort = |service, model: &str| {
        let tool = ToolSpec {
            name: "Read".into(),
            description: "Reads.".into(),
            input_schema: json!({"type": "object"}),
        };
        let request = ModelRequest { tools: vec![Arc::new(tool)], ..request(vec![given("go")]) };
        let ask = Ask { request: &request, model, max_tokens: 9, thinking: None, window: 9 };
        body(service, &ask)["reasoning_effort"].clone()
    };
    for model in ["gpt-5.4", "gpt-5.6-terra", "gpt-6-sol", "openai/gpt-10"] {
        assert_eq!(effort(Service::OpenAi, model), json!("none"), "{model}");
    }
    for model in ["gpt-5", "gpt-5.2", "gpt-4o", "gpt-4.1-mini", "o3", "gpt-oss-120b", "m"] {
        assert_eq!(effort(Service::OpenAi, model), Value::Null, "{model}");
    }
    assert_eq!(effort(Service::Compatible, "gpt-6-sol"), Value::Null);
}

#[test]
fn a_thought_in_words_goes_back_with_its_calls_to_the_model_that_had_it() {
    let chunk =
        |delta: Value, stop: Value| json!({"choices": [{"delta": delta, "finish_reason": stop}]});
    let function = json!({"name": "Read", "arguments": "{\"n\":1}"});
    let events = read(
        Service::Compatible,
        &[
            chunk(json!({"reasoning_content": "I "}), Value::Null),
            chunk(json!({"reasoning_content": "look."}), Value::Null),
            chunk(
                json!({"tool_calls": [{"index": 0, "id": "a", "function": function}]}),
                Value::Null,
            ),
            chunk(json!({}), json!("tool_calls")),
        ],
    )
    .unwrap();
    let closed = ModelEvent::Thought { text: String::new(), signature: Some("chat:m".into()) };
    assert_eq!(events[2], closed);
    let sent = |model: &str, parts: Vec<Part>| {
        let conversation = vec![given("go"), answer(parts), results(&["a"])];
        asked(Service::Compatible, model, conversation)["messages"][1]["reasoning_content"].clone()
    };
    let calling = || vec![thought("I look.", "chat:m"), call("a", "Read")];
    assert_eq!(sent("m", calling()), json!("I look."));
    assert_eq!(sent("another", calling()), Value::Null);
    let only = vec![thought("I look.", "chat:m"), Part::Text { text: "Hi.".into() }];
    assert_eq!(sent("m", only), Value::Null);
}

#[test]
fn what_was_given_twice_in_a_row_is_one_message_where_sides_take_turns() {
    for service in [Service::OpenAi, Service::Compatible, Service::Ollama] {
        let sent = asked(service, "m", vec![given("a"), given("b"), answer(vec![]), given("c")]);
        assert_eq!(sent["messages"], json!([{"role": "user", "content": "a\n\nb\n\nc"}]));
    }
}

#[test]
fn calls_are_told_apart_however_they_are_numbered() {
    let pieces = |deltas: &[Value]| {
        let mut pieces: Vec<Value> = deltas
            .iter()
            .map(|call| json!({"choices": [{"delta": {"tool_calls": [call]}}]}))
            .collect();
        pieces.push(json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}));
        pieces
    };
    let check = |deltas: &[Value], expect: &[(&str, &str)]| {
        let (calls, stop) = calls(Service::Compatible, &pieces(deltas));
        let calls: Vec<_> =
            calls.iter().map(|(id, tool, _)| (id.as_str(), tool.as_str())).collect();
        assert_eq!((calls.as_slice(), stop), (expect, StopReason::ToolUse));
    };
    let piece = |index: Value, id: Value, name: Value, written: &str| json!({"index": index, "id": id, "function": {"name": name, "arguments": written}});
    let two = [("a", "Read"), ("b", "Read")];
    let (none, read) = (Value::Null, json!("Read"));
    // In order; all with one number; without any.
    check(
        &[
            piece(json!(0), json!("a"), read.clone(), ""),
            piece(json!(0), none.clone(), none.clone(), "{}"),
            piece(json!(1), json!("b"), read.clone(), "{}"),
        ],
        &two,
    );
    for index in [json!(0), Value::Null] {
        check(
            &[
                piece(index.clone(), json!("a"), read.clone(), "{}"),
                piece(index.clone(), json!("b"), read.clone(), "{}"),
            ],
            &two,
        );
    }
    // With the name and the id in every piece; with another id in every piece.
    check(
        &[
            piece(json!(0), json!("a"), read.clone(), "{\"x\""),
            piece(json!(0), json!("a"), read.clone(), ":1}"),
        ],
        &[("a", "Read")],
    );
    check(
        &[piece(json!(0), json!("a"), read, "{\"x\""), piece(json!(0), json!("b"), none, ":1}")],
        &[("b", "Read")],
    );
}

#[test]
fn a_call_that_was_cut_before_its_input_is_none() {
    let chat = |stop: &str| {
        let function = json!({"name": "TeamDelete", "arguments": ""});
        let delta = json!({"tool_calls": [{"index": 0, "id": "a", "function": function}]});
        calls(Service::OpenAi, &[json!({"choices": [{"delta": delta, "finish_reason": stop}]})])
    };
    let block = json!({"type": "tool_use", "id": "a", "name": "TeamDelete", "input": {}});
    let anthropic = |stop: &str| {
        calls(
            Service::Anthropic,
            &[
                json!({"type": "content_block_start", "content_block": block}),
                json!({"type": "content_block_stop"}),
                json!({"type": "message_delta", "delta": {"stop_reason": stop}}),
                json!({"type": "message_stop"}),
            ],
        )
    };
    let whole = vec![("a".to_owned(), "TeamDelete".to_owned(), json!({}))];
    assert_eq!(chat("tool_calls"), (whole.clone(), StopReason::ToolUse));
    assert_eq!(chat("length"), (vec![], StopReason::MaxTokens));
    assert_eq!(anthropic("tool_use"), (whole, StopReason::ToolUse));
    assert_eq!(anthropic("max_tokens"), (vec![], StopReason::MaxTokens));
}

#[test]
fn an_answer_that_the_service_broke_off_is_not_whole() {
    let chat = |reason: &str| {
        read(Service::Compatible, &[json!({"choices": [{"delta": {}, "finish_reason": reason}]})])
    };
    assert!(chat("stop").is_ok());
    assert!(matches!(chat("error"), Err(ProviderError::Broken(_))));
    let old = json!({"object": "error", "message": "maximum context length is 10", "code": 400});
    assert!(matches!(read(Service::Compatible, &[old]), Err(ProviderError::TooLong(_))));
    let gemini =
        |reason: &str| read(Service::Gemini, &[json!({"candidates": [{"finishReason": reason}]})]);
    for reason in ["MALFORMED_FUNCTION_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE"] {
        assert!(matches!(gemini(reason), Err(ProviderError::Broken(_))), "{reason}");
    }
    assert_eq!(gemini("SAFETY"), Ok(vec![ModelEvent::Stop(StopReason::Refusal)]));
    let written = |arguments: Value| {
        let call = json!({"function": {"name": "Read", "arguments": arguments}});
        let message = json!({"message": {"tool_calls": [call]}, "done": true});
        read(Service::Ollama, &[message])
    };
    assert_eq!(written(json!("{\"n\": 1}")), written(json!({"n": 1})));
    assert!(written(json!("{\"n\"")).is_err());
}
