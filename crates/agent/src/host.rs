//! What a running turn asks of the house around it; implemented by the runtime, never here.

use std::fmt;
use std::sync::Arc;

use aion_core::budget::{Amount, Usage};
use aion_core::command::ToolProposal;
use aion_core::id::{RequestId, TurnId};
use aion_core::rule::Finding;
use aion_core::time::Timestamp;
use aion_core::transcript::{Image, Item};
use aion_core::turn::CallId;
use futures::future::BoxFuture;

use crate::mcp::Wanted;
use crate::permission::Layer;
use crate::sandbox::Violation;

/// What became of a proposed tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permit {
    /// It may run now; it is journalled as started.
    Run,
    /// It waits for the decision of a request, which the session puts into the turn's
    /// [`Answers`](crate::runtime::Answers). Then call [`Host::start`].
    Ask(RequestId),
    /// It does not run; the reason is for the model.
    Refused(String),
}

/// A team tool as the model sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Its input, as a strict JSON schema.
    pub input_schema: serde_json::Value,
}

impl ToolSpec {
    /// The fields of its input, in words, for the model that used others.
    pub fn fields(&self) -> String {
        fields(&self.input_schema)
    }
}

/// The fields of an input's schema, in words.
pub fn fields(schema: &serde_json::Value) -> String {
    let required = |name: &str| {
        schema["required"].as_array().is_some_and(|all| all.iter().any(|needed| needed == name))
    };
    let describe =
        |name: &String| if required(name) { format!("{name} (required)") } else { name.clone() };
    let all: Vec<String> = schema["properties"]
        .as_object()
        .into_iter()
        .flat_map(|all| all.keys().map(describe))
        .collect();
    if all.is_empty() {
        "this tool takes no fields".to_owned()
    } else {
        format!("the fields are: {}", all.join(", "))
    }
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOutput {
    /// The text for the model.
    pub text: String,
    /// Whether the tool did what it was asked to.
    pub ok: bool,
    /// Whether it changed something in the world.
    pub changed: bool,
    /// The agent's turn ends with this answer: it has nothing more to do until mail arrives.
    pub ends_turn: bool,
    /// Images for the model, beside the text.
    pub images: Vec<Image>,
}

impl ToolOutput {
    /// A tool looked, and changed nothing.
    pub fn read(text: impl Into<String>) -> Self {
        Self { text: text.into(), ok: true, changed: false, ends_turn: false, images: Vec::new() }
    }

    /// A tool did what it was asked to, and the world is different.
    pub fn changed(text: impl Into<String>) -> Self {
        Self { text: text.into(), ok: true, changed: true, ends_turn: false, images: Vec::new() }
    }

    /// A tool did not do what it was asked to.
    pub fn failed(text: impl Into<String>) -> Self {
        Self { text: text.into(), ok: false, changed: false, ends_turn: false, images: Vec::new() }
    }
}

/// A piece of a running turn for those who watch; lossy, never stored.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// Text as it is written.
    Text {
        /// The model step.
        step: u32,
        /// The piece.
        text: String,
    },
    /// Thinking as it is written.
    Thought {
        /// The model step.
        step: u32,
        /// The piece.
        text: String,
    },
    /// A tool call, complete.
    Called {
        /// The model step.
        step: u32,
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// One line that says what it does.
        description: String,
    },
    /// A tool's answer.
    Got {
        /// The model step.
        step: u32,
        /// The call.
        call: CallId,
        /// Whether it did what it was asked to.
        ok: bool,
        /// The beginning of the answer.
        text: String,
    },
}

/// Why the house could not do what a turn asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// The turn is over for the house; stop without a word.
    #[error("the turn is over")]
    TurnOver,
    /// The budget does not allow another call.
    #[error("the budget does not allow another model call")]
    OverBudget,
    /// The house cannot store anything at present; the turn cannot go on.
    #[error("the team's store is not available: {0}")]
    Unavailable(String),
    /// The house stands, and cannot keep or read the agent's transcript at present.
    #[error("the transcript is not available: {0}")]
    NoTranscript(String),
    /// The house refuses this for good, and not because the turn is over: it would refuse it again.
    #[error("the house refuses it: {0}")]
    Refused(String),
}

/// The rules that count for an agent's calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Every one.
    pub layers: Vec<Layer>,
    /// Why some of them are missing, where they are.
    pub fault: Option<String>,
}

/// The house around one agent. Identity is the host's own: no argument names the caller.
pub trait Host: Send + Sync + fmt::Debug + 'static {
    /// The team's running time, so that "try again in a minute" becomes a point of it.
    fn now(&self) -> Timestamp;
    /// The team's tools for this agent, by its role at this moment.
    fn team_tools(&self) -> Vec<Arc<ToolSpec>>;
    /// Calls one of them. The same call of the same turn has its effect once.
    fn call_team_tool<'a>(
        &'a self,
        turn: TurnId,
        call: &'a CallId,
        tool: &'a str,
        input: &'a serde_json::Value,
    ) -> BoxFuture<'a, Result<ToolOutput, HostError>>;
    /// Whether a call of a team tool that did what it was asked to ended its turn. Asked where a turn
    /// is taken up again whose transcript holds the answer already.
    fn ended_turn<'a>(
        &'a self,
        turn: TurnId,
        tool: &'a str,
        input: &'a serde_json::Value,
    ) -> BoxFuture<'a, Result<bool, HostError>>;
    /// The rules that count for the agent's calls at this moment.
    fn rules(&self) -> BoxFuture<'_, Result<Rules, HostError>>;
    /// Whether the person trusts the workspace: its own instructions and programs count only then.
    fn trusted(&self) -> BoxFuture<'_, Result<bool, HostError>>;
    /// The MCP servers that the team may have, by the person's settings at this moment.
    fn servers(&self) -> BoxFuture<'_, Result<Wanted, HostError>>;
    /// Has a coding tool's call judged, and journalled as started where it may run.
    fn propose(&self, proposal: ToolProposal) -> BoxFuture<'_, Result<Permit, HostError>>;
    /// Begins a call whose request was decided: [`Permit::Run`] or [`Permit::Refused`].
    fn start<'a>(
        &'a self,
        turn: TurnId,
        call: &'a CallId,
    ) -> BoxFuture<'a, Result<Permit, HostError>>;
    /// Has a connection of a running call's command judged: [`Permit::Run`] lets it go on. Where a
    /// request was opened, its decision comes by the turn's [`Answers`](crate::runtime::Answers), and
    /// is then [taken](Host::take_answer).
    fn reach<'a>(
        &'a self,
        turn: TurnId,
        call: &'a CallId,
        host: &'a str,
        finding: Option<Finding>,
    ) -> BoxFuture<'a, Result<Permit, HostError>>;
    /// Takes the decision on a connection, which closes its request.
    fn take_answer(&self, turn: TurnId, request: RequestId)
    -> BoxFuture<'_, Result<(), HostError>>;
    /// Keeps what the wall around a running call's command refused.
    fn refused<'a>(
        &'a self,
        turn: TurnId,
        call: &'a CallId,
        violation: Violation,
    ) -> BoxFuture<'a, Result<(), HostError>>;
    /// Journals that a call ended. Its output is durable by then.
    fn finish<'a>(
        &'a self,
        turn: TurnId,
        call: &'a CallId,
        ok: bool,
        changed: bool,
    ) -> BoxFuture<'a, Result<(), HostError>>;
    /// The mail that counts as delivered before `step`, rendered: what was delivered before this
    /// step already and what is new. Asked again for the same step, it shows the same mail again, so
    /// that a fall of the house between delivery and transcript loses nothing.
    fn take_mail(
        &self,
        turn: TurnId,
        step: u32,
    ) -> BoxFuture<'_, Result<Option<String>, HostError>>;
    /// What the agent may not forget when its conversation is made shorter: the team's open tasks,
    /// rendered. The roster stands in its system prompt, and the turn's mail stays as it is.
    fn standing(&self) -> BoxFuture<'_, Result<String, HostError>>;
    /// Settles the last model call and reserves the next; only for turns that are budgeted.
    fn reserve(
        &self,
        turn: TurnId,
        usage: Usage,
        worst: Amount,
    ) -> BoxFuture<'_, Result<(), HostError>>;
    /// The agent's transcript so far.
    fn history(&self) -> BoxFuture<'_, Result<Vec<Item>, HostError>>;
    /// Appends to the transcript, and answers when the items are durable.
    fn record(&self, items: Vec<Item>) -> BoxFuture<'_, Result<(), HostError>>;
    /// Shows a piece to those who watch. Never waits.
    fn delta(&self, turn: TurnId, delta: Delta);
}
