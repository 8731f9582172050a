//! What is believed of an answer, whatever format it came in: sizes, names, counts; it reads no
//! bytes and waits for nothing.

use aion_core::budget::Usage;
use aion_core::text::is_unseen;
use serde_json::Value;

use super::wire::{broken, known_id, plain};
use crate::provider::{ModelEvent, ProviderError};

/// The most calls in one answer.
const CALLS: usize = 128;

/// The most parts of one answer: pieces of one kind that follow one another are one.
const PARTS: usize = 1024;

/// The most bytes of a call's id and of a tool's name.
const NAME: usize = 128;

/// How deep the input of a call may be nested. A transcript nests it deeper, and has to be read.
const DEPTH: usize = 64;

/// The most tokens of one kind that one call is believed to have used.
const TOKENS: u64 = u32::MAX as u64;

/// What kind of part came last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Text,
    Thought,
}

/// Looks at every event of one answer.
#[derive(Debug, Default)]
pub(super) struct Guard {
    calls: usize,
    parts: usize,
    open: Option<Part>,
}

impl Guard {
    /// The event as it is believed, or why the answer cannot be used.
    pub(super) fn pass(&mut self, event: ModelEvent) -> Result<ModelEvent, ProviderError> {
        let event = match event {
            ModelEvent::Text(text) => {
                self.part(Part::Text, false)?;
                ModelEvent::Text(text)
            }
            ModelEvent::Thought { text, signature } => {
                // A signature closes its part.
                self.part(Part::Thought, signature.is_some())?;
                ModelEvent::Thought { text, signature }
            }
            ModelEvent::ToolCall { call, tool, input } => {
                self.calls += 1;
                if self.calls > CALLS {
                    return Err(broken(format!("the answer holds more than {CALLS} calls")));
                }
                if !input.is_object() {
                    return Err(broken("the input of a call is no object"));
                }
                if is_deep(&input, DEPTH) {
                    let what = format!("the input of a call is nested deeper than {DEPTH} levels");
                    return Err(broken(what));
                }
                self.open = None;
                let call = if is_odd(&call) { known_id(&call) } else { call };
                let tool = if is_odd(&tool) { plain(&tool) } else { tool };
                ModelEvent::ToolCall { call, tool, input }
            }
            ModelEvent::Usage(usage) => ModelEvent::Usage(believed(usage)),
            ModelEvent::Stop(reason) => ModelEvent::Stop(reason),
        };
        Ok(event)
    }

    fn part(&mut self, part: Part, closes: bool) -> Result<(), ProviderError> {
        if self.open != Some(part) {
            self.parts += 1;
        }
        self.open = (!closes).then_some(part);
        if self.parts > PARTS {
            return Err(broken(format!("the answer holds more than {PARTS} parts")));
        }
        Ok(())
    }
}

/// Whether an id or a name is not one that a journal or a screen should keep as it is.
fn is_odd(name: &str) -> bool {
    name.len() > NAME || name.chars().any(|c| c.is_control() || is_unseen(c))
}

fn is_deep(value: &Value, most: usize) -> bool {
    let Some(most) = most.checked_sub(1) else { return true };
    match value {
        Value::Array(values) => values.iter().any(|value| is_deep(value, most)),
        Value::Object(fields) => fields.values().any(|value| is_deep(value, most)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Counts that no budget is emptied by: more than any model can hold is a mistake of the service.
fn believed(usage: Usage) -> Usage {
    Usage {
        input: usage.input.min(TOKENS),
        output: usage.output.min(TOKENS),
        cache_read: usage.cache_read.min(TOKENS),
        cache_write: usage.cache_write.min(TOKENS),
        reasoning: usage.reasoning.min(TOKENS),
        micro_usd: usage.micro_usd,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(call: &str, tool: &str, input: Value) -> ModelEvent {
        ModelEvent::ToolCall { call: call.into(), tool: tool.into(), input }
    }

    #[test]
    fn names_and_ids_are_short_and_can_be_shown() {
        let mut guard = Guard::default();
        let good = call("toolu_1", "Read", json!({"a": [1]}));
        assert_eq!(guard.pass(good.clone()), Ok(good));
        let odd = guard.pass(call(&"x".repeat(1 << 20), "Re\u{1b}[2Jad\u{202e}", json!({})));
        let Ok(ModelEvent::ToolCall { call: id, tool, .. }) = odd else { panic!("{odd:?}") };
        assert!(id.starts_with("call_") && id.len() < 40, "{id}");
        assert_eq!(tool, "Re\\u{1b}[2Jad\\u{202e}");
        let long = guard.pass(call("a", &"y".repeat(1 << 20), json!({})));
        let Ok(ModelEvent::ToolCall { tool, .. }) = long else { panic!("{long:?}") };
        assert!(tool.len() < 310);
    }

    #[test]
    fn an_input_can_be_kept_and_read_again() {
        let nested = |depth: usize| {
            let text = format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
            serde_json::from_str::<Value>(&text).unwrap()
        };
        let mut guard = Guard::default();
        assert!(guard.pass(call("a", "Read", nested(DEPTH - 1))).is_ok());
        for refused in [nested(DEPTH), nested(120), json!([1]), json!("x"), Value::Null] {
            let refused = guard.pass(call("a", "Read", refused));
            assert!(matches!(refused, Err(ProviderError::Broken(_))), "{refused:?}");
        }
    }

    #[test]
    fn an_answer_has_so_many_parts_and_calls_at_most() {
        let mut guard = Guard::default();
        for at in 0..CALLS {
            assert!(guard.pass(call(&at.to_string(), "Read", json!({}))).is_ok());
        }
        assert!(guard.pass(call("more", "Read", json!({}))).is_err());
        let mut guard = Guard::default();
        for _ in 0..10_000 {
            assert!(guard.pass(ModelEvent::Text("a".into())).is_ok());
        }
        let sealed = || ModelEvent::Thought { text: String::new(), signature: Some("s".into()) };
        for _ in 1..PARTS {
            assert!(guard.pass(sealed()).is_ok());
        }
        assert!(guard.pass(sealed()).is_err());
    }

    #[test]
    fn no_count_of_a_service_empties_every_budget() {
        let all = Usage {
            input: u64::MAX,
            output: u64::MAX,
            cache_read: u64::MAX,
            cache_write: u64::MAX,
            reasoning: u64::MAX,
            micro_usd: 7,
        };
        let Ok(ModelEvent::Usage(usage)) = Guard::default().pass(ModelEvent::Usage(all)) else {
            panic!("a count is no reason to refuse an answer");
        };
        assert_eq!((usage.input, usage.amount().tokens, usage.micro_usd), (TOKENS, TOKENS * 4, 7));
    }
}
