//! One member's life: role, state, holds, permission mode and restart intensity.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::id::{AgentName, ConversationId, RequestId, SlotId, TaskId};
use crate::limits::Limits;
use crate::mailbox::Mailbox;
pub use crate::mode::PermissionMode;
use crate::time::{Millis, Timestamp};
use crate::turn::Turn;

/// What a member is in its team.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Coordinates; exactly one per team.
    Lead,
    /// Works on tasks.
    Teammate,
    /// The only member of a conversation.
    Solo,
}

/// Where a member stands. Set only by `Team::evolve`.
// Tagged from outside: an inner tag would turn the numbers that key a turn's maps into text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    /// Registered; its process is starting.
    Pending,
    /// Ready for a turn.
    Idle,
    /// In a turn.
    Active {
        /// The turn.
        turn: Box<Turn>,
    },
    /// Asked to end; its turn, if any, is being ended.
    Stopping {
        /// The shutdown request that led here, if one did.
        request: Option<RequestId>,
        /// The turn that is being ended.
        turn: Option<Box<Turn>>,
        /// Ended at once, without waiting for the turn.
        kill: bool,
    },
    /// Dead.
    Failed {
        /// Why.
        cause: String,
        /// When it is started again by itself.
        retry_at: Option<Timestamp>,
    },
}

/// Why a member gets mail but starts no turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "hold", rename_all = "snake_case")]
pub enum Hold {
    /// The person paused it.
    User,
    /// The budget is used up.
    Budget,
    /// Its provider cannot answer.
    Provider {
        /// When to try again; without a time a person has to act.
        until: Option<Timestamp>,
    },
    /// Two members talked without getting anywhere.
    NoProgress,
}

/// Why no member of a team starts a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TeamHold {
    /// The person paused it.
    User,
    /// The lead is past its restart limit.
    LeadDown,
    /// It was closed for long, and waits for one "resume".
    Downtime,
    /// It is being stopped.
    Stopping,
}

/// Why a member was taken out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum RemovalReason {
    /// It agreed to leave.
    ShutdownApproved {
        /// The handshake.
        request: RequestId,
    },
    /// The person ended it.
    Killed,
    /// The team ended.
    TeamEnded,
}

/// What a new member is made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberSpec {
    /// Its name.
    pub name: AgentName,
    /// A label to show instead of the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Which agent it is: a key of the catalogue.
    pub agent_type: String,
    /// Which model, if not the agent's own choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// A colour to show, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
    /// What it is told to be and do: its first message.
    pub prompt: String,
    /// The mode it begins in.
    pub mode: PermissionMode,
    /// Where its transcript is kept; drawn by the shell.
    pub conversation: ConversationId,
    /// The tool call that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_call: Option<String>,
    /// The conversation that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_conversation: Option<ConversationId>,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "agent_type is the field's name in the field")]
pub struct Agent {
    pub(crate) slot: SlotId,
    pub(crate) role: Role,
    pub(crate) name: AgentName,
    pub(crate) label: Option<String>,
    pub(crate) agent_type: String,
    pub(crate) model: Option<String>,
    pub(crate) color: String,
    pub(crate) conversation: ConversationId,
    pub(crate) mode: PermissionMode,
    pub(crate) state: AgentState,
    pub(crate) generation: u32,
    pub(crate) restarts: VecDeque<Timestamp>,
    /// No turn before this: grows with each turn that failed in a row.
    pub(crate) not_before: Timestamp,
    pub(crate) faults_in_a_row: u32,
    pub(crate) holds: BTreeSet<Hold>,
    pub(crate) mailbox: Mailbox,
    /// The task versions this member was offered and did not take.
    pub(crate) offered: BTreeMap<TaskId, u32>,
    pub(crate) bucket: TokenBucket,
}

impl Agent {
    /// Its place.
    pub fn slot(&self) -> SlotId {
        self.slot
    }
    /// What it is in the team.
    pub fn role(&self) -> Role {
        self.role
    }
    /// Its name.
    pub fn name(&self) -> &AgentName {
        &self.name
    }
    /// What to show for it.
    pub fn label(&self) -> &str {
        match (&self.label, self.role) {
            (Some(label), _) => label,
            (None, Role::Lead) => "Team Lead",
            (None, Role::Teammate | Role::Solo) => self.name.as_str(),
        }
    }
    /// Which agent it is.
    pub fn agent_type(&self) -> &str {
        &self.agent_type
    }
    /// Its model, if one was chosen.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }
    /// Its colour, by name.
    pub fn color(&self) -> &str {
        &self.color
    }
    /// Where its transcript is kept.
    pub fn conversation(&self) -> &ConversationId {
        &self.conversation
    }
    /// Its permission mode.
    pub fn mode(&self) -> PermissionMode {
        self.mode
    }
    /// Where it stands.
    pub fn state(&self) -> &AgentState {
        &self.state
    }
    /// How often it was started.
    pub fn generation(&self) -> u32 {
        self.generation
    }
    /// Why it starts no turn, if anything keeps it.
    pub fn holds(&self) -> impl Iterator<Item = Hold> + '_ {
        self.holds.iter().copied()
    }
    /// Its mailbox.
    pub fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// The turn it is in, also while it is being stopped.
    pub fn turn(&self) -> Option<&Turn> {
        match &self.state {
            AgentState::Active { turn } | AgentState::Stopping { turn: Some(turn), .. } => {
                Some(turn)
            }
            AgentState::Pending
            | AgentState::Idle
            | AgentState::Stopping { turn: None, .. }
            | AgentState::Failed { .. } => None,
        }
    }

    pub(crate) fn turn_mut(&mut self) -> Option<&mut Turn> {
        match &mut self.state {
            AgentState::Active { turn } | AgentState::Stopping { turn: Some(turn), .. } => {
                Some(turn)
            }
            AgentState::Pending
            | AgentState::Idle
            | AgentState::Stopping { turn: None, .. }
            | AgentState::Failed { .. } => None,
        }
    }

    /// Whether its process is meant to be alive.
    pub fn is_running(&self) -> bool {
        matches!(self.state, AgentState::Idle | AgentState::Active { .. })
    }

    /// Whether another restart is within the allowed intensity.
    pub(crate) fn may_restart(&self, now: Timestamp, limits: &Limits) -> bool {
        let recent = self.restarts.iter().filter(|at| now - **at < limits.restart_window).count();
        recent < limits.restarts_in_window as usize
    }

    /// How long to wait before the next restart: doubles with each recent one.
    pub(crate) fn restart_delay(&self, now: Timestamp, limits: &Limits) -> Millis {
        let recent = self.restarts.iter().filter(|at| now - **at < limits.restart_window).count();
        match recent {
            0 => Millis(0),
            n => Millis(limits.restart_backoff.0 << (n - 1).min(10)),
        }
    }
}

/// A rate limit that refills evenly. Counts in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenBucket {
    used_milli: u64,
    at: Timestamp,
}

impl TokenBucket {
    fn used_at(&self, now: Timestamp, per_minute: u32) -> u64 {
        let refill = (now - self.at).0.saturating_mul(u64::from(per_minute)) / 60;
        self.used_milli.saturating_sub(refill)
    }

    /// Whether `n` more fit.
    pub(crate) fn allows(&self, now: Timestamp, n: u32, per_minute: u32) -> bool {
        per_minute == 0
            || self.used_at(now, per_minute) + u64::from(n) * 1_000 <= u64::from(per_minute) * 1_000
    }

    /// Takes `n`.
    pub(crate) fn take(&mut self, now: Timestamp, n: u32, per_minute: u32) {
        if per_minute != 0 {
            self.used_milli = self.used_at(now, per_minute) + u64::from(n) * 1_000;
            self.at = now;
        }
    }
}
