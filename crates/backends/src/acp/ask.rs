//! An agent's request for permission: who proves to be a tool of the team is let through, everything
//! else is the house's to judge; what an agent could keep for good is never given to it.

use aion_core::id::{CallId, RequestId};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::deed::Deed;
use super::profile::ToolProof;

/// The parameters of a request for permission, as far as they are needed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    #[serde(borrow)]
    tool_call: &'a RawValue,
    #[serde(default)]
    options: Value,
}

/// A request for permission.
#[derive(Debug)]
pub(super) struct Ask {
    /// Its id, as the agent wrote it.
    pub(super) id: Box<RawValue>,
    options: Value,
}

/// One that waits for a decision.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) ask: Ask,
    /// The agent's own id of the call.
    pub(super) call: String,
    /// The call in the journal of the turn.
    pub(super) journal: CallId,
    pub(super) deed: Deed,
    /// What is waited for.
    pub(super) request: RequestId,
}

impl Ask {
    /// Reads one; answers it with what it tells of its call.
    pub(super) fn read(
        id: Box<RawValue>,
        params: &RawValue,
    ) -> Result<(Self, String), Box<RawValue>> {
        // A list would be read as the fields of an object in order.
        let read = serde_json::from_str::<Params<'_>>(params.get());
        match read.ok().filter(|_| params.get().starts_with('{')) {
            Some(Params { tool_call, options }) => {
                Ok((Self { id, options }, tool_call.get().to_owned()))
            }
            None => Err(id),
        }
    }

    /// The answer that lets the call run this once; none where the agent offers no such one.
    pub(super) fn allowed(&self) -> Option<Value> {
        self.option("allow_once").map(selected)
    }

    /// The answer that refuses it.
    pub(super) fn refused(&self) -> Value {
        let refusal = self.option("reject_once").or_else(|| self.option("reject_always"));
        refusal.map_or_else(cancelled, selected)
    }

    fn option(&self, kind: &str) -> Option<&str> {
        let options = self.options.as_array()?;
        options.iter().find(|option| option["kind"] == kind)?["optionId"].as_str()
    }
}

/// The answer to a request whose turn is being cancelled.
pub(super) fn cancelled() -> Value {
    json!({ "outcome": { "outcome": "cancelled" } })
}

fn selected(option: &str) -> Value {
    json!({ "outcome": { "outcome": "selected", "optionId": option } })
}

/// The tool of the team that a request proves to be about.
pub(super) fn proven<'a>(
    proofs: &[ToolProof],
    params: &RawValue,
    told_before: &Map<String, Value>,
    tools: &'a [String],
) -> Option<&'a str> {
    if proofs.is_empty() {
        return None;
    }
    let request: Value = serde_json::from_str(params.get()).ok()?;
    let evidence = json!({ "request": request, "call": told_before });
    proofs.iter().find_map(|proof| proof.proven(&evidence, tools))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(kinds: &[&str]) -> Ask {
        let options: Value = kinds
            .iter()
            .map(|kind| json!({ "optionId": format!("the {kind}"), "kind": kind }))
            .collect();
        let params =
            json!({ "sessionId": "s", "toolCall": { "toolCallId": "c" }, "options": options });
        let params: Box<RawValue> = serde_json::from_str(&params.to_string()).unwrap();
        Ask::read(RawValue::NULL.to_owned(), &params).unwrap().0
    }

    fn option(answer: Option<Value>) -> Option<String> {
        answer?["outcome"]["optionId"].as_str().map(str::to_owned)
    }

    #[test]
    fn nothing_is_allowed_for_good() {
        let all = ask(&["allow_always", "allow_once", "reject_always", "reject_once"]);
        assert_eq!(option(all.allowed()).as_deref(), Some("the allow_once"));
        assert_eq!(option(Some(all.refused())).as_deref(), Some("the reject_once"));
        let always = ask(&["allow_always", "reject_always"]);
        assert_eq!(always.allowed(), None);
        assert_eq!(option(Some(always.refused())).as_deref(), Some("the reject_always"));
        assert_eq!(ask(&["allow_once"]).refused(), cancelled());
    }

    #[test]
    fn a_request_that_is_none_is_known() {
        let odd: Box<RawValue> = serde_json::from_str("[1]").unwrap();
        assert!(Ask::read(RawValue::NULL.to_owned(), &odd).is_err());
    }
}
