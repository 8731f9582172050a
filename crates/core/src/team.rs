//! The aggregate: one team's whole state, the door for commands, and nothing that acts by itself.
//!
//! [`Team::decide`] turns a command into events, [`Team::evolve`] applies one, [`Team::react`] says
//! what follows from the state as it is. [`Team::handle`] is the three together, as a session uses
//! them. State is O(open): what is acknowledged, closed or finished leaves it.

mod agents;
mod apply;
mod checks;
mod decide;
mod decisions;
mod draft;
mod evolve;
mod messages;
mod outstanding;
mod react;
mod requests;
mod standstill;
mod status;
mod tasks;
mod tools;
mod turns;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use litemap::LiteMap;
use serde::{Deserialize, Serialize};

use crate::agent::{Agent, AgentState, Role, TeamHold};
use crate::budget::Budget;
use crate::command::{Caller, Command, KeyHash, Receipt, Settings};
use crate::event::Event;
use crate::hash::ActionHash;
use crate::id::{AgentName, GrantId, MessageId, RequestId, SlotId, TeamId, TurnId};
use crate::message::Envelope;
use crate::permission::{Delegation, Grant};
use crate::rejection::Rejection;
use crate::request::{Request, RequestState};
use crate::task::TaskBoard;
use crate::time::Timestamp;

use standstill::Standstill;

pub use outstanding::TimerReason;
pub use status::{Progress, Reason, Status};

/// One team.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Team {
    phase: Phase,
    id: Option<TeamId>,
    name: String,
    owner: String,
    workspace: String,
    settings: Settings,
    holds: BTreeSet<TeamHold>,
    /// Looked through after every event: flat.
    agents: LiteMap<SlotId, Agent>,
    messages: BTreeMap<MessageId, OpenMessage>,
    board: TaskBoard,
    requests: BTreeMap<RequestId, OpenRequest>,
    grants: BTreeMap<GrantId, Grant>,
    denials: VecDeque<ActionHash>,
    budget: Budget,
    keys: Keys,
    standstill: Standstill,
    spawns_left: u32,
    last: Counters,
    at: Timestamp,
}

/// Where a team is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    #[default]
    New,
    Live,
    Conversation,
    Ended,
}

/// The last number given out of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Counters {
    slot: u32,
    message: u64,
    turn: u64,
    request: u64,
    grant: u64,
}

/// A message that some mailbox still owes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OpenMessage {
    envelope: Envelope,
    mailboxes: u32,
}

/// A request that is not closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OpenRequest {
    request: Request,
    state: RequestState,
}

/// The idempotency keys still kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Keys {
    used: BTreeMap<String, UsedKey>,
    order: VecDeque<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct UsedKey {
    content: String,
    receipt: Receipt,
    at: Timestamp,
}

impl Team {
    /// The version of the state's serialised form; a snapshot of another version is ignored.
    pub const STATE_VERSION: u32 = 2;

    /// An empty log.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Decides a command, applies what it leads to, and returns it: what a session calls on its
    /// working state. On a rejection the state is as it was.
    pub fn handle(
        &mut self,
        now: Timestamp,
        caller: Caller,
        command: &Command,
    ) -> Result<Vec<Event>, Rejection> {
        let now = now.max(self.at);
        let mut events = self.decide(now, caller, command)?;
        for event in &events {
            self.evolve(now, event);
        }
        loop {
            let follow_ups = self.react(now);
            if follow_ups.is_empty() {
                return Ok(events);
            }
            for event in &follow_ups {
                self.evolve(now, event);
            }
            events.extend(follow_ups);
        }
    }

    /// What an earlier use of the command's idempotency key made. The command is then not decided
    /// again. A key used for other content is left to [`Team::decide`], which refuses it.
    pub fn receipt(&self, now: Timestamp, caller: Caller, command: &Command) -> Option<Receipt> {
        let key = key_of(caller, command)?;
        let used = self.keys.used.get(&key.key)?;
        let kept = now - used.at <= self.settings.limits.keys_kept_for;
        (kept && used.content == key.content).then(|| used.receipt.clone())
    }

    /// The team's id; none before it is created.
    pub fn id(&self) -> Option<&TeamId> {
        self.id.as_ref()
    }
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The user who owns it.
    pub fn owner(&self) -> &str {
        &self.owner
    }
    /// Its directory.
    pub fn workspace(&self) -> &str {
        &self.workspace
    }
    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
    /// Why no member starts a turn, if anything keeps them all.
    pub fn holds(&self) -> impl Iterator<Item = TeamHold> + '_ {
        self.holds.iter().copied()
    }
    /// Whether it has ended.
    pub fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }
    /// Whether it is a conversation: a team of one.
    pub fn is_conversation(&self) -> bool {
        self.phase == Phase::Conversation
    }
    /// Its members, by slot.
    pub fn agents(&self) -> impl Iterator<Item = &Agent> {
        self.agents.values()
    }
    /// One member.
    pub fn agent(&self, slot: SlotId) -> Option<&Agent> {
        self.agents.get(&slot)
    }
    /// The member with a name.
    pub fn agent_named(&self, name: &str) -> Option<&Agent> {
        self.agents.values().find(|a| a.name.as_str() == name)
    }
    /// The lead, or the only member of a conversation.
    pub fn lead(&self) -> Option<&Agent> {
        self.agents.get(&SlotId::LEAD)
    }
    /// The task board.
    pub fn board(&self) -> &TaskBoard {
        &self.board
    }
    /// A message that some mailbox still owes.
    pub fn message(&self, id: MessageId) -> Option<&Envelope> {
        self.messages.get(&id).map(|m| &m.envelope)
    }
    /// Requests that are not closed, with where they stand.
    pub fn requests(&self) -> impl Iterator<Item = (&Request, &RequestState)> {
        self.requests.values().map(|r| (&r.request, &r.state))
    }
    /// One of them.
    pub fn request(&self, id: RequestId) -> Option<(&Request, &RequestState)> {
        self.requests.get(&id).map(|r| (&r.request, &r.state))
    }
    /// Standing permissions.
    pub fn grants(&self) -> impl Iterator<Item = &Grant> {
        self.grants.values()
    }
    /// What the lead may decide.
    pub fn delegation(&self) -> &Delegation {
        &self.settings.delegation
    }
    /// The spending.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }
    /// How many more members the lead may bring in without asking.
    pub fn spawns_left(&self) -> u32 {
        self.spawns_left
    }
    /// The time of the last event: where the running clock starts after a pause.
    pub fn now_floor(&self) -> Timestamp {
        self.at
    }

    fn known_names(&self) -> Vec<AgentName> {
        self.agents.values().map(|a| a.name.clone()).collect()
    }

    /// The member, or why there is none.
    fn member(&self, slot: SlotId) -> Result<&Agent, Rejection> {
        match self.agents.get(&slot) {
            Some(agent) => Ok(agent),
            None if slot.0 >= 1 && slot.0 <= self.last.slot => {
                Err(Rejection::RecipientGone { slot })
            }
            None => Err(Rejection::UnknownAgent { slot, known: self.known_names() }),
        }
    }

    /// The live turn with that number, and who is in it.
    fn live_turn(&self, id: TurnId) -> Result<(&Agent, &crate::turn::Turn), Rejection> {
        self.agents
            .values()
            .find_map(|a| a.turn().filter(|t| t.id == id).map(|t| (a, t)))
            .ok_or(Rejection::NoSuchTurn { turn: id })
    }

    /// The caller's own live turn with that number.
    fn own_turn(
        &self,
        caller: Caller,
        id: TurnId,
    ) -> Result<(&Agent, &crate::turn::Turn), Rejection> {
        match caller {
            Caller::Agent(slot) => self
                .agents
                .get(&slot)
                .and_then(|agent| agent.turn().filter(|turn| turn.id == id).map(|t| (agent, t)))
                .ok_or(Rejection::NoSuchTurn { turn: id }),
            Caller::User => {
                self.live_turn(id)?;
                Err(Rejection::NotAllowed { what: "report on a turn", who: "its agent" })
            }
            Caller::System => self.live_turn(id),
        }
    }

    fn teammates(&self) -> impl Iterator<Item = &Agent> {
        self.agents.values().filter(|a| a.role == Role::Teammate)
    }
}

/// What a caller may do, known from the credential and the team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Authority {
    User,
    System,
    Lead,
    Teammate(SlotId),
    Solo,
}

impl Team {
    fn authority(&self, caller: Caller) -> Result<Authority, Rejection> {
        Ok(match caller {
            Caller::User => Authority::User,
            Caller::System => Authority::System,
            Caller::Agent(slot) => match self.member(slot)?.role {
                Role::Lead => Authority::Lead,
                Role::Teammate => Authority::Teammate(slot),
                Role::Solo => Authority::Solo,
            },
        })
    }

    /// For what only the person may do. The system acts for the person.
    fn person(&self, caller: Caller, what: &'static str) -> Result<(), Rejection> {
        match self.authority(caller)? {
            Authority::User | Authority::System => Ok(()),
            Authority::Lead | Authority::Teammate(_) | Authority::Solo => {
                Err(Rejection::NotAllowed { what, who: "the person" })
            }
        }
    }

    /// For what the person may do to any member and the lead to its teammates.
    fn coordinator(
        &self,
        caller: Caller,
        slot: SlotId,
        what: &'static str,
    ) -> Result<(), Rejection> {
        match self.authority(caller)? {
            Authority::User | Authority::System => Ok(()),
            Authority::Lead if slot != SlotId::LEAD => Ok(()),
            Authority::Lead | Authority::Teammate(_) | Authority::Solo => {
                Err(Rejection::NotAllowed {
                    what,
                    who: "the person, or the lead for its teammates,",
                })
            }
        }
    }
}

/// The idempotency key that a command carries, hashed.
fn key_of(caller: Caller, command: &Command) -> Option<KeyHash> {
    match command {
        Command::SendMessage(message) => {
            message.key.as_ref().map(|key| KeyHash::new(caller, key, message))
        }
        Command::Keyed { key, command } => Some(KeyHash::new(caller, key, command)),
        _ => None,
    }
}

/// Whether a state is one in which a member may be given a turn.
fn is_idle(agent: &Agent) -> bool {
    matches!(agent.state, AgentState::Idle)
}
