//! The one list of tools, by name and role; it never knows who transports a call.

use std::sync::Arc;

use aion_agent::host::{HostError, ToolOutput, ToolSpec};
use aion_core::agent::Role;
use aion_core::command::Caller;
use futures::future::BoxFuture;
use serde_json::Value;

use super::call::{Answer, Call, CallContext, Failure};
use super::catalogue::{Agents, join};
use super::{members, messages, requests, tasks};
use crate::handle::TeamHandle;

/// Who is offered a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    /// Lead and teammates.
    Members,
    /// The lead.
    Lead,
}

/// What a call does to the team, for clients that ask before some calls and not before others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolEffect {
    /// Nothing: it shows something.
    Reads,
    /// It adds or changes something.
    Changes,
    /// It can end a member or the team.
    Ends,
}

/// A tool as somebody outside of this process is offered it.
#[derive(Clone, Debug)]
pub struct ToolOffer {
    /// Its name, what it is for, its input.
    pub spec: Arc<ToolSpec>,
    /// What a call does.
    pub effect: ToolEffect,
}

/// The names of tools that are offered over a connection begin like this. The others are the names
/// of another client, for models that know them; they mean the same.
const OWN: &str = "team_";

/// One tool.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) audience: Audience,
    pub(super) description: &'static str,
    pub(super) schema: Value,
    pub(super) effect: ToolEffect,
    pub(super) run: for<'a> fn(Call<'a>, &'a Value, &'a Value) -> BoxFuture<'a, Answer>,
}

/// The tools of a team. Cheap to clone. The agent of a conversation is offered none of them: what
/// turns a conversation into a team is not among these tools.
#[derive(Clone)]
pub struct TeamTools {
    tools: Arc<[Tool]>,
    /// Each tool as a model sees it, in the same order: every model call is given them.
    specs: Arc<[Arc<ToolSpec>]>,
    catalogue: Arc<dyn Agents>,
}

impl Tool {
    /// The same, for a tool that only shows something.
    pub(super) fn reads(self) -> Self {
        Self { effect: ToolEffect::Reads, ..self }
    }

    /// The same, for a tool that can end somebody.
    pub(super) fn ends(self) -> Self {
        Self { effect: ToolEffect::Ends, ..self }
    }
}

impl std::fmt::Debug for TeamTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.tools.iter().map(|tool| tool.name)).finish()
    }
}

impl TeamTools {
    /// All tools, over a catalogue.
    #[must_use]
    pub fn new(catalogue: Arc<dyn Agents>) -> Self {
        let all = [messages::tools(), tasks::tools(), requests::tools(), members::tools()];
        let tools: Arc<[Tool]> = all.into_iter().flatten().collect();
        let specs = tools.iter().map(|tool| Arc::new(spec(tool))).collect();
        Self { tools, specs, catalogue }
    }

    /// The tools that a role is offered.
    pub fn specs(&self, role: Role) -> Vec<Arc<ToolSpec>> {
        self.tools
            .iter()
            .zip(&*self.specs)
            .filter(|(tool, _)| offered(tool, role))
            .map(|(_, spec)| Arc::clone(spec))
            .collect()
    }

    /// The tools that a role is offered over a connection, each under one name.
    pub fn offers(&self, role: Role) -> Vec<ToolOffer> {
        self.tools
            .iter()
            .zip(&*self.specs)
            .filter(|(tool, _)| tool.name.starts_with(OWN) && offered(tool, role))
            .map(|(tool, spec)| ToolOffer { spec: Arc::clone(spec), effect: tool.effect })
            .collect()
    }

    /// Calls a tool. What the caller may do is decided by the rules, not by what it was offered.
    pub async fn call(
        &self,
        handle: &TeamHandle,
        context: &CallContext,
        name: &str,
        input: &Value,
    ) -> Result<ToolOutput, HostError> {
        let answer = match self.tools.iter().find(|tool| tool.name == name) {
            Some(tool) => {
                let call = Call { handle, context, catalogue: self.catalogue.as_ref() };
                (tool.run)(call, input, &tool.schema).await
            }
            None => Err(Failure::Say(self.unknown(handle, context.caller, name).await)),
        };
        match answer {
            Ok(output) => Ok(output),
            Err(Failure::Say(text)) => Ok(ToolOutput {
                text,
                ok: false,
                changed: false,
                ends_turn: false,
                images: Vec::new(),
            }),
            Err(Failure::Host(error)) => Err(error),
        }
    }

    async fn unknown(&self, handle: &TeamHandle, caller: Caller, name: &str) -> String {
        let role = match caller {
            Caller::Agent(slot) => handle
                .query(move |team| team.agent(slot).map(aion_core::agent::Agent::role))
                .await
                .ok()
                .flatten()
                .unwrap_or(Role::Teammate),
            Caller::User | Caller::System => Role::Lead,
        };
        let names = self.tools.iter().filter(|tool| offered(tool, role)).map(|tool| tool.name);
        format!("there is no tool {name:?}; the team's tools are: {}", join(names))
    }
}

fn spec(tool: &Tool) -> ToolSpec {
    ToolSpec {
        name: tool.name.to_owned(),
        description: tool.description.to_owned(),
        input_schema: tool.schema.clone(),
    }
}

fn offered(tool: &Tool, role: Role) -> bool {
    match (role, tool.audience) {
        (Role::Lead, Audience::Members | Audience::Lead) | (Role::Teammate, Audience::Members) => {
            true
        }
        (Role::Teammate, Audience::Lead) | (Role::Solo, _) => false,
    }
}

/// Registers a handler: parses the input by its type, then runs it.
macro_rules! tool {
    ($audience:ident, $name:literal, $description:expr, [$($field:expr),* $(,)?], $handler:path) => {
        $crate::tools::registry::Tool {
            name: $name,
            audience: $crate::tools::registry::Audience::$audience,
            description: $description,
            schema: $crate::tools::schema::object(&[$($field),*]),
            effect: $crate::tools::ToolEffect::Changes,
            run: |call, input, schema| {
                Box::pin(async move {
                    let input = $crate::tools::input::parse(input, schema)?;
                    $handler(call, input).await
                })
            },
        }
    };
}
pub(super) use tool;
