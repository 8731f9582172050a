//! News of a session, read leniently and made small; a kind that is not known is a sign of life and
//! nothing else.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::call::CallNews;
use super::options::ConfigOption;

/// The most bytes of one piece of text that are kept.
const PIECE_BYTES: usize = 256 * 1024;
/// The longest id of a session.
const ID_BYTES: usize = 1024;
/// Options of a session that are read, and the bytes of their description.
const OPTIONS_BYTES: usize = 256 * 1024;

/// News, and whose.
#[derive(Debug, PartialEq)]
pub(super) struct Told {
    /// The session, by the agent's own id.
    pub(super) session: String,
    /// The news.
    pub(super) update: Update,
}

/// What is new in a session.
#[derive(Debug, PartialEq)]
pub(super) enum Update {
    /// A piece of what it says.
    Said(String),
    /// A piece of what it thinks.
    Thought(String),
    /// A tool call began, or something of it changed.
    Call(Box<CallNews>),
    /// It is in another mode.
    Mode(String),
    /// All of its options, as they are.
    Options(Vec<ConfigOption>),
    /// What the session has cost so far, in millionths of a US dollar, where it says that.
    Cost(u64),
    /// Whatever else.
    Other,
}

impl Told {
    /// Whether it was said or done, and is not merely how the session stands.
    pub(super) fn is_of_a_turn(&self) -> bool {
        match self.update {
            Update::Said(_) | Update::Thought(_) | Update::Call(_) => true,
            Update::Mode(_) | Update::Options(_) | Update::Cost(_) | Update::Other => false,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    update: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(borrow)]
    session_update: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    current_mode_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    config_options: Option<&'a RawValue>,
    #[serde(borrow, default)]
    cost: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Cost<'a> {
    amount: f64,
    #[serde(borrow)]
    currency: Cow<'a, str>,
}

impl Update {
    /// Reads the parameters of `session/update`; none where they are no news of a session.
    pub(super) fn read(params: &str) -> Option<Told> {
        let params: Params = serde_json::from_str(params).ok()?;
        if params.session_id.len() > ID_BYTES || !params.update.get().starts_with('{') {
            return None;
        }
        let update = Self::of(params.update).unwrap_or(Self::Other);
        Some(Told { session: params.session_id.into_owned(), update })
    }

    fn of(raw: &RawValue) -> Option<Self> {
        let body: Body = serde_json::from_str(raw.get()).ok()?;
        Some(match &*body.session_update {
            "agent_message_chunk" => Self::Said(text(body.content?)?),
            "agent_thought_chunk" => Self::Thought(text(body.content?)?),
            "tool_call" | "tool_call_update" => Self::Call(Box::new(CallNews::read(raw.get())?)),
            "current_mode_update" => Self::Mode(body.current_mode_id?.into_owned()),
            "config_option_update" => Self::Options(options(body.config_options?)?),
            "usage_update" => Self::Cost(micro_usd(body.cost?)?),
            _ => Self::Other,
        })
    }
}

/// The text of a block of content; other kinds are named.
pub(super) fn text(block: &RawValue) -> Option<String> {
    let block: Block = serde_json::from_str(block.get()).ok()?;
    match (&*block.kind, block.text) {
        ("text", Some(text)) => Some(cut(&text, PIECE_BYTES)),
        ("text", None) => None,
        (kind, _) => Some(format!("[{}]", cut(kind, 64))),
    }
}

/// A text, or its beginning.
pub(super) fn cut(text: &str, most: usize) -> String {
    aion_core::message::shorten(text, most)
}

/// A value, if it is not larger than that.
pub(super) fn value(raw: &RawValue, most: usize) -> Option<Value> {
    if raw.get().len() > most {
        return None;
    }
    serde_json::from_str(raw.get()).ok()
}

fn options(raw: &RawValue) -> Option<Vec<ConfigOption>> {
    value(raw, OPTIONS_BYTES).map(|value| ConfigOption::all(&value))
}

fn micro_usd(raw: &RawValue) -> Option<u64> {
    let cost: Cost = serde_json::from_str(raw.get()).ok()?;
    let micro = (cost.amount * 1e6).round();
    // A session that cost more than that is one that miscounts.
    let counts = cost.currency.eq_ignore_ascii_case("usd") && (0.0..1e12).contains(&micro);
    #[expect(clippy::cast_sign_loss, reason = "it is in the range")]
    counts.then_some(micro as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "it reads better where it is called")]
    fn check(update: Value, expect: Update) {
        let params = json!({ "sessionId": "s", "update": update });
        let told = Update::read(&params.to_string()).unwrap();
        assert_eq!(told, Told { session: "s".to_owned(), update: expect }, "{params}");
    }

    #[test]
    fn what_is_known_is_read_and_all_else_is_a_sign_of_life() {
        let chunk =
            |kind: &str, content: Value| json!({ "sessionUpdate": kind, "content": content });
        let said = json!({ "type": "text", "text": "hello" });
        check(chunk("agent_message_chunk", said.clone()), Update::Said("hello".to_owned()));
        check(chunk("agent_thought_chunk", said.clone()), Update::Thought("hello".to_owned()));
        check(chunk("user_message_chunk", said), Update::Other);
        let image = json!({ "type": "image", "data": "AAAA", "mimeType": "image/png" });
        check(chunk("agent_message_chunk", image), Update::Said("[image]".to_owned()));
        check(chunk("agent_message_chunk", Value::Null), Update::Other);
        check(chunk("agent_message_chunk", json!(7)), Update::Other);
        check(json!({ "sessionUpdate": "a_new_kind", "content": [1, 2] }), Update::Other);
        check(json!({ "sessionUpdate": null }), Update::Other);
        check(json!({}), Update::Other);
        let mode = json!({ "sessionUpdate": "current_mode_update", "currentModeId": "plan" });
        check(mode, Update::Mode("plan".to_owned()));
    }

    #[test]
    fn a_cost_counts_where_it_is_one() {
        let cost = |cost: Value| json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": cost });
        check(cost(json!({ "amount": 0.045, "currency": "USD" })), Update::Cost(45_000));
        check(cost(json!({ "amount": 0.045, "currency": "EUR" })), Update::Other);
        check(cost(json!({ "amount": -1, "currency": "USD" })), Update::Other);
        check(cost(Value::Null), Update::Other);
    }

    #[test]
    fn what_belongs_to_no_session_is_no_news() {
        assert_eq!(Update::read("{}"), None);
        assert_eq!(Update::read(r#"{"sessionId":7,"update":{}}"#), None);
        assert_eq!(Update::read(r#"{"sessionId":"s","update":[]}"#), None);
    }
}
