//! Requests as each service is asked; nothing is sent.

use aion_core::id::{AgentName, TurnId};
use aion_core::transcript::Image;
use serde_json::{Value, json};

use super::{Ask, body};
use crate::models::Service;
use crate::provider::{Message, ModelRequest, Part, ToolResult};

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
    let request = ModelRequest {
        agent: AgentName::parse("bob").unwrap(),
        model: None,
        turn,
        step: 1,
        system: String::new(),
        messages: vec![
            Message::Given { turn, text: "look".into() },
            Message::Answer { turn, step: 0, parts: vec![call("a"), call("b")] },
            Message::Results { turn, results: vec![result("a", vec![image]), result("b", vec![])] },
        ],
        tools: Vec::new(),
        max_tokens: 100,
    };
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
