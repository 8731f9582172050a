//! What a person is told: a status word with its reason for each member, and how far the team is.

use serde::{Deserialize, Serialize};

use crate::agent::{Agent, AgentState, Hold, TeamHold};
use crate::id::{RequestId, SlotId};
use crate::message::Sender;
use crate::request::{RequestKind, RequestState};
use crate::shutdown::ShutdownStage;
use crate::turn::Turn;

use super::{Phase, Team};

/// The status words on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Registered, starting.
    Pending,
    /// Ready.
    Idle,
    /// In a turn.
    Active,
    /// Dead.
    Failed,
    /// Out of the team.
    Removed,
}

/// Why a member has its status, so that a person never guesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It works.
    Working,
    /// It waits for the person.
    NeedsYou,
    /// It waits for another member.
    WaitingForPeer,
    /// It has nothing to do.
    NoTask,
    /// Its provider asks for a pause.
    RateLimited,
    /// Something keeps it from starting turns.
    Held,
    /// It is gone and a person has to act, or its turn is out of sight.
    Stalled,
    /// It is being started.
    Starting,
    /// It is being ended.
    Stopping,
}

/// How far a team is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Somebody works, or time will bring somebody to work.
    Working,
    /// Only a person can go on.
    Waiting {
        /// Requests that wait for a decision.
        requests: Vec<RequestId>,
        /// Members that something holds, or the whole team if it is empty and no request waits.
        held: Vec<SlotId>,
    },
    /// Nothing is left to do.
    Settled {
        /// Whether no open task is left.
        all_tasks_completed: bool,
    },
}

impl Team {
    /// A member's status word and its reason. A slot that is out of the team is `removed`.
    pub fn status(&self, slot: SlotId) -> Option<(Status, Reason)> {
        let Some(agent) = self.agents.get(&slot) else {
            return (slot.0 >= 1 && slot.0 <= self.last.slot)
                .then_some((Status::Removed, Reason::NoTask));
        };
        Some(match &agent.state {
            AgentState::Pending => (Status::Pending, Reason::Starting),
            AgentState::Failed { retry_at: Some(_), .. } => (Status::Failed, Reason::Starting),
            AgentState::Failed { retry_at: None, .. } => (Status::Failed, Reason::Stalled),
            AgentState::Stopping { turn: Some(_), .. } => (Status::Active, Reason::Stopping),
            AgentState::Stopping { turn: None, .. } => (Status::Idle, Reason::Stopping),
            AgentState::Active { turn } => (Status::Active, self.active_reason(turn)),
            AgentState::Idle => (Status::Idle, self.idle_reason(agent)),
        })
    }

    fn active_reason(&self, turn: &Turn) -> Reason {
        if turn.detached_until.is_some() {
            Reason::Stalled
        } else if !self.waits_for_people(turn) {
            Reason::Working
        } else if turn.blocked_on.iter().all(|id| self.is_delegated(*id)) {
            Reason::WaitingForPeer
        } else {
            Reason::NeedsYou
        }
    }

    fn is_delegated(&self, id: RequestId) -> bool {
        self.requests.get(&id).is_some_and(|r| r.request.delegated)
    }

    fn idle_reason(&self, agent: &Agent) -> Reason {
        if agent.holds().any(|h| matches!(h, Hold::Provider { until: Some(_) })) {
            return Reason::RateLimited;
        }
        if agent.holds().next().is_some() || !self.holds.is_empty() {
            return Reason::Held;
        }
        let mut asks = self.requests.values().filter(|r| {
            r.request.from == Sender::Agent(agent.slot)
                && !matches!(r.state, RequestState::Decided { .. })
        });
        if let Some(open) = asks.next() {
            let peer = open.request.delegated && asks.all(|r| r.request.delegated);
            return if peer { Reason::WaitingForPeer } else { Reason::NeedsYou };
        }
        let owns = self
            .board
            .open()
            .values()
            .any(|t| t.owner == Some(agent.slot) && !self.board.is_ready(t));
        if owns { Reason::WaitingForPeer } else { Reason::NoTask }
    }

    /// How far the team is. `aion run` ends when this is no longer [`Progress::Working`].
    pub fn progress(&self) -> Progress {
        if !matches!(self.phase, Phase::Live | Phase::Conversation) {
            return Progress::Settled { all_tasks_completed: self.board.open().is_empty() };
        }
        let stopped = !self.holds.is_empty();
        let mut held = Vec::new();
        for agent in self.agents.values() {
            match &agent.state {
                AgentState::Pending | AgentState::Stopping { .. } => return Progress::Working,
                AgentState::Failed { retry_at, .. } => {
                    if retry_at.is_some() {
                        return Progress::Working;
                    }
                    // Somebody was promised that it would be read.
                    if agent.mailbox.unread() > 0 {
                        held.push(agent.slot);
                    }
                }
                AgentState::Active { turn } => {
                    if !self.waits_for_people(turn) {
                        return Progress::Working;
                    }
                }
                AgentState::Idle => {
                    let wants = self.has_reason(agent, self.at) || agent.mailbox.holds_notices();
                    if !wants {
                        continue;
                    }
                    let waits_for_time =
                        agent.holds().all(|h| matches!(h, Hold::Provider { until: Some(_) }));
                    if !stopped && waits_for_time {
                        return Progress::Working;
                    }
                    held.push(agent.slot);
                }
            }
        }
        let mut requests = Vec::new();
        for open in self.requests.values() {
            match (&open.request.kind, &open.state) {
                (_, RequestState::Decided { .. }) => return Progress::Working,
                (RequestKind::Shutdown(s), _) if s.stage != ShutdownStage::Person && !stopped => {
                    return Progress::Working;
                }
                _ => requests.push(open.request.id),
            }
        }
        let team_waits =
            self.holds.iter().any(|h| *h != TeamHold::Stopping) || (stopped && !held.is_empty());
        if requests.is_empty() && held.is_empty() && !team_waits {
            return Progress::Settled { all_tasks_completed: self.board.open().is_empty() };
        }
        Progress::Waiting { requests, held }
    }
}
