//! One turn of one agent: the mail in its input, its tool journal, and how it ends.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::hash::ActionHash;
pub use crate::id::CallId;
use crate::id::{MessageId, RequestId, TaskId, TurnId};
use crate::message::Sender;
use crate::time::Timestamp;

/// One live turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    pub(crate) id: TurnId,
    pub(crate) started_at: Timestamp,
    /// The mail in its input, with the step before which it was read (0 = the opening).
    pub(crate) mail: BTreeMap<MessageId, u32>,
    pub(crate) offer: Option<TaskId>,
    pub(crate) calls: BTreeMap<CallId, ToolCallState>,
    pub(crate) blocked_on: BTreeSet<RequestId>,
    pub(crate) interrupted_by: Option<Sender>,
    pub(crate) detached_until: Option<Timestamp>,
    pub(crate) resumed: u32,
    pub(crate) progress: bool,
    pub(crate) budgeted: bool,
}

impl Turn {
    /// Its number.
    pub fn id(&self) -> TurnId {
        self.id
    }
    /// When it began.
    pub fn started_at(&self) -> Timestamp {
        self.started_at
    }
    /// The mail in its input, with the step before which it was read.
    pub fn mail(&self) -> &BTreeMap<MessageId, u32> {
        &self.mail
    }
    /// The task offered with it.
    pub fn offer(&self) -> Option<TaskId> {
        self.offer
    }
    /// Its tool calls so far that have not finished, by call id.
    pub fn calls(&self) -> &BTreeMap<CallId, ToolCallState> {
        &self.calls
    }
    /// The requests it waits for.
    pub fn blocked_on(&self) -> &BTreeSet<RequestId> {
        &self.blocked_on
    }
    /// Who asked to interrupt it.
    pub fn interrupted_by(&self) -> Option<Sender> {
        self.interrupted_by
    }
    /// Until when it may come back by itself after a restart.
    pub fn detached_until(&self) -> Option<Timestamp> {
        self.detached_until
    }
    /// How often it was taken up again after a crash of the house.
    pub fn resumed(&self) -> u32 {
        self.resumed
    }
    /// Whether every further model call has to be reserved first.
    pub fn budgeted(&self) -> bool {
        self.budgeted
    }
}

/// The journal of one unfinished tool call. A finished call leaves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ToolCallState {
    /// Waits for a decision.
    Asked {
        /// The request.
        request: RequestId,
        /// What would run.
        action: ActionHash,
        /// The tool.
        tool: String,
    },
    /// Began to run; if the house falls now, it may have run.
    Started {
        /// The tool.
        tool: String,
    },
}

/// What became of a proposed tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum ToolVerdict {
    /// It runs, and counts as started.
    Run,
    /// It waits for a decision.
    Ask {
        /// The request.
        request: RequestId,
    },
    /// It does not run.
    Refused {
        /// Why, for the model.
        reason: String,
    },
}

/// How a turn ended. This decides what becomes of its mail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum TurnOutcome {
    /// By itself; its mail is acknowledged.
    Done {
        /// The last text, for the idle notice.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_text: Option<String>,
    },
    /// By an interrupt; its mail is acknowledged.
    Interrupted,
    /// The provider could not answer; its mail is requeued, uncounted, and the agent held.
    Unavailable {
        /// Why.
        why: Unavailable,
        /// When to try again; without a time a person has to act.
        until: Option<Timestamp>,
        /// What the provider says of it, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said: Option<String>,
    },
    /// The house fell; its mail is requeued and marked redelivered, uncounted.
    Lost,
    /// The agent failed; its mail is requeued and counted.
    AgentFault {
        /// What happened.
        error: String,
    },
}

impl TurnOutcome {
    /// Whether the turn's mail is acknowledged by this end.
    pub fn acknowledges(&self) -> bool {
        matches!(self, Self::Done { .. } | Self::Interrupted)
    }
}

/// Why a provider cannot answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unavailable {
    /// It is down or out of reach.
    Provider,
    /// It asks for a pause.
    RateLimit,
    /// It wants a login.
    Login,
    /// The budget does not allow another call.
    Budget,
}
