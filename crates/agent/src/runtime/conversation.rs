//! Turns a transcript into the conversation that a model is shown; never changes the transcript.

use aion_core::transcript::{Content, Item};
use aion_core::turn::CallId;

use super::images;
use crate::provider::{Message, Part, ToolResult};

/// What a call is answered with when its turn ended before it did.
const UNANSWERED: &str = "The turn ended before this call did. It may have run, or have run in part: look before you \
     do it again.";

/// The conversation of a transcript. Every call in it has a result.
pub(super) fn conversation<'a>(items: impl IntoIterator<Item = &'a Item>) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut open: Vec<CallId> = Vec::new();
    for item in items {
        let Item { turn, step, content } = item;
        let part = match content {
            Content::Given { text } | Content::Summary { text, .. } => {
                close(&mut messages, &mut open);
                messages.push(Message::Given { turn: *turn, text: text.clone() });
                continue;
            }
            Content::Got { call, output, ok, images } => {
                open.retain(|c| c != call);
                let result = ToolResult {
                    call: call.clone(),
                    text: output.clone(),
                    ok: *ok,
                    images: images.clone(),
                };
                match messages.last_mut() {
                    Some(Message::Results { results, .. }) => results.push(result),
                    _ => messages.push(Message::Results { turn: *turn, results: vec![result] }),
                }
                continue;
            }
            Content::Said { text } if text.is_empty() => None,
            Content::Said { text } => Some(Part::Text { text: text.clone() }),
            Content::Thought { text, signature } => {
                Some(Part::Thought { text: text.clone(), signature: signature.clone() })
            }
            Content::Called { call, tool, input } => {
                Some(Part::Call { call: call.clone(), tool: tool.clone(), input: input.clone() })
            }
        };
        let same = matches!(messages.last(), Some(Message::Answer { turn: t, step: s, .. })
            if t == turn && s == step);
        if !same {
            close(&mut messages, &mut open);
            messages.push(Message::Answer { turn: *turn, step: *step, parts: Vec::new() });
        }
        if let Content::Called { call, .. } = content {
            open.push(call.clone());
        }
        if let (Some(Message::Answer { parts, .. }), Some(part)) = (messages.last_mut(), part) {
            parts.push(part);
        }
    }
    close(&mut messages, &mut open);
    images::keep_newest(&mut messages);
    messages
}

/// Answers the calls that nothing answered.
fn close(messages: &mut Vec<Message>, open: &mut Vec<CallId>) {
    if open.is_empty() {
        return;
    }
    let missing = open.drain(..).map(|call| ToolResult {
        call,
        text: UNANSWERED.to_owned(),
        ok: false,
        images: Vec::new(),
    });
    match messages.last_mut() {
        Some(Message::Results { results, .. }) => results.extend(missing),
        Some(Message::Answer { turn, .. }) => {
            let turn = *turn;
            messages.push(Message::Results { turn, results: missing.collect() });
        }
        Some(Message::Given { .. }) | None => drop(missing),
    }
}

#[cfg(test)]
mod tests {
    use aion_core::id::TurnId;
    use serde_json::json;

    use super::*;

    fn item(turn: u64, step: u32, content: Content) -> Item {
        Item { turn: TurnId(turn), step, content }
    }

    fn called(call: &str) -> Content {
        Content::Called { call: call.into(), tool: "Read".into(), input: json!({}) }
    }

    #[test]
    fn parts_of_a_step_are_one_answer_and_calls_without_result_get_one() {
        let items = [
            item(1, 0, Content::Given { text: "go".into() }),
            item(1, 0, Content::Thought { text: "hm".into(), signature: Some("s".into()) }),
            item(1, 0, Content::Said { text: "I look".into() }),
            item(1, 0, called("a")),
            item(1, 0, called("b")),
            item(
                1,
                0,
                Content::Got { call: "b".into(), output: "B".into(), ok: true, images: vec![] },
            ),
            item(2, 0, Content::Given { text: "again".into() }),
            item(2, 0, Content::Said { text: String::new() }),
        ];
        let part =
            |call: &str| Part::Call { call: call.into(), tool: "Read".into(), input: json!({}) };
        assert_eq!(
            conversation(&items),
            [
                Message::Given { turn: TurnId(1), text: "go".into() },
                Message::Answer {
                    turn: TurnId(1),
                    step: 0,
                    parts: vec![
                        Part::Thought { text: "hm".into(), signature: Some("s".into()) },
                        Part::Text { text: "I look".into() },
                        part("a"),
                        part("b"),
                    ],
                },
                Message::Results {
                    turn: TurnId(1),
                    results: vec![
                        ToolResult { call: "b".into(), text: "B".into(), ok: true, images: vec![] },
                        ToolResult {
                            call: "a".into(),
                            text: UNANSWERED.into(),
                            ok: false,
                            images: vec![]
                        },
                    ],
                },
                Message::Given { turn: TurnId(2), text: "again".into() },
                Message::Answer { turn: TurnId(2), step: 0, parts: vec![] },
            ]
        );
    }
}
