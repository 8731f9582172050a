//! One tool call on its way: who calls, whom a text names, and how a refusal reads.

use aion_agent::host::{HostError, ToolOutput};
use aion_core::Rejection;
use aion_core::command::{Caller, Command, Receipt};
use aion_core::event::Event;
use aion_core::id::{AgentName, SlotId, TurnId};
use aion_core::prompt::quote;
use aion_core::team::Team;

use super::catalogue::Agents;
use crate::handle::{Committed, SubmitError, TeamHandle};
use crate::host::host_error;

/// Who calls a tool, and from where.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// The caller, known from its credential alone.
    pub caller: Caller,
    /// Which credential was used; never the credential itself.
    pub credential: Option<String>,
    /// The caller's running turn, where the call is part of one.
    pub turn: Option<TurnId>,
    /// The model step the call belongs to; 0 where that is not known.
    pub step: u32,
    /// Unique for the call: its repetition has no second effect.
    pub key: String,
}

/// A call that is being carried out.
#[derive(Clone)]
pub(super) struct Call<'a> {
    pub(super) handle: &'a TeamHandle,
    pub(super) context: &'a CallContext,
    pub(super) catalogue: &'a dyn Agents,
}

/// Why a call has no good answer.
pub(super) enum Failure {
    /// The model is told.
    Say(String),
    /// The turn cannot go on.
    Host(HostError),
}

impl From<SubmitError> for Failure {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Rejected(Rejection::NoSuchTurn { .. }) => Self::Host(HostError::TurnOver),
            SubmitError::Rejected(rejection) => Self::Say(rejection.to_string()),
            other => Self::Host(host_error(other)),
        }
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Say(text)
    }
}

pub(super) type Answer = Result<ToolOutput, Failure>;

/// An answer after which the world is as before.
pub(super) fn told(text: impl Into<String>) -> ToolOutput {
    ToolOutput { text: text.into(), ok: true, changed: false, ends_turn: false, images: Vec::new() }
}

/// An answer after which something is different.
pub(super) fn done(text: impl Into<String>) -> ToolOutput {
    ToolOutput { changed: true, ..told(text) }
}

/// Whom a text addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Member(SlotId, AgentName),
    User,
    /// With how many others that are.
    Everyone(usize),
}

impl Call<'_> {
    /// Submits a command; the same call with the same part of it has its effect once.
    pub(super) async fn submit_part(
        &self,
        part: usize,
        command: Command,
    ) -> Result<Committed, Failure> {
        let key = match part {
            0 => self.context.key.clone(),
            part => format!("{}:{part}", self.context.key),
        };
        let command = match command {
            Command::SendMessage(mut message) => {
                message.key = Some(key);
                Command::SendMessage(message)
            }
            other => Command::Keyed { key, command: Box::new(other) },
        };
        let CallContext { caller, credential, .. } = self.context;
        Ok(self.handle.submit(*caller, credential.clone(), command).await?)
    }

    pub(super) async fn submit(&self, command: Command) -> Result<Committed, Failure> {
        self.submit_part(0, command).await
    }

    pub(super) async fn query<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Team) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        Ok(self.handle.query(read).await?)
    }

    /// The caller's own place.
    pub(super) fn own_slot(&self) -> Result<SlotId, Failure> {
        match self.context.caller {
            Caller::Agent(slot) => Ok(slot),
            Caller::User | Caller::System => {
                Err(Failure::Say("only a member of the team can do this for itself".to_owned()))
            }
        }
    }

    /// Whom `to` addresses; where that is nobody, the answer lists everybody.
    pub(super) async fn address(&self, to: &str) -> Result<Address, Failure> {
        let (to, caller) = (to.to_owned(), self.context.caller);
        Ok(self.query(move |team| address(team, caller, &to)).await??)
    }

    /// The member that a text names.
    pub(super) async fn member(&self, name: &str) -> Result<(SlotId, AgentName), Failure> {
        match self.address(name).await? {
            Address::Member(slot, name) => Ok((slot, name)),
            Address::User | Address::Everyone(_) => {
                let members = self.query(members).await?;
                Err(Failure::Say(format!("{name:?} is not one member; the members are {members}")))
            }
        }
    }
}

/// What a command made, also where it was made by an earlier try of the same call.
pub(super) fn receipt(committed: &Committed) -> Receipt {
    committed.receipt.clone().unwrap_or_else(|| {
        let made = committed.events.iter().find_map(|recorded| match &recorded.event {
            Event::KeyUsed { receipt, .. } => Some(receipt.clone()),
            _ => None,
        });
        made.unwrap_or_default()
    })
}

fn address(team: &Team, caller: Caller, to: &str) -> Result<Address, String> {
    let text = to.trim();
    let bare = text.strip_prefix('@').unwrap_or(text);
    if bare == "*" {
        let others = team.agents().filter(|agent| caller != Caller::Agent(agent.slot())).count();
        return Ok(Address::Everyone(others));
    }
    let name = match (bare.split_once('@'), team.id()) {
        (Some((name, at)), Some(id)) if at == id.as_str() => name,
        _ => bare,
    };
    let name = name.to_ascii_lowercase();
    if name == "user" {
        return Ok(Address::User);
    }
    let slot = || name.parse().ok().and_then(|slot: SlotId| team.agent(slot));
    let label = || team.agents().find(|agent| agent.label().eq_ignore_ascii_case(bare));
    match team.agent_named(&name).or_else(slot).or_else(label) {
        Some(agent) => Ok(Address::Member(agent.slot(), agent.name().clone())),
        None => Err(format!(
            "nobody here is called {text:?}; the members are {}; \"user\" is the person, \"*\" is everybody else",
            members(team)
        )),
    }
}

/// All members, for an answer that names the choices.
pub(super) fn members(team: &Team) -> String {
    let all: Vec<String> =
        team.agents().map(|agent| format!("{} ({})", agent.name(), agent.slot())).collect();
    all.join(", ")
}

/// What somebody else wrote, as a part of one line: it is neither a fence nor a line of ours.
pub(super) fn in_line(text: &str) -> String {
    quote(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// What somebody else wrote, in as many lines as it has, each marked as theirs.
pub(super) fn in_lines(text: &str) -> String {
    let lines: Vec<String> = quote(text).lines().map(|line| format!("> {line}")).collect();
    lines.join("\n")
}

/// A member's name for a text.
pub(super) fn name_of(team: &Team, slot: SlotId) -> String {
    team.agent(slot).map_or_else(|| slot.to_string(), |agent| agent.name().to_string())
}
