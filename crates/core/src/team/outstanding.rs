//! What the world still owes the team, derived from state alone; and when time itself is due.

use crate::agent::{AgentState, Hold, Role};
use crate::budget::Amount;
use crate::effect::Effect;
use crate::message::Sender;
use crate::request::{RequestKind, RequestState};
use crate::time::Timestamp;

use super::{Phase, Team, is_idle};

/// Why the session has to come back at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimerReason {
    /// A provider may be tried again.
    ProviderHold,
    /// A failed member is started again.
    Restart,
    /// A member whose turn failed may try again.
    BackOff,
    /// A turn that went on outside the house has not come back.
    Detached,
    /// A shutdown was not answered.
    Shutdown,
    /// Idle notices have waited long enough.
    Notices,
}

impl Team {
    /// Everything that the world still has to do. The only source of effects.
    pub fn outstanding(&self) -> Vec<Effect> {
        let mut effects = Vec::new();
        if !matches!(self.phase, Phase::Live | Phase::Conversation) {
            return effects;
        }
        for agent in self.agents.values() {
            let (slot, generation) = (agent.slot, agent.generation);
            match &agent.state {
                AgentState::Pending => effects.push(Effect::Spawn { slot, generation }),
                AgentState::Stopping { kill, .. } => {
                    effects.push(Effect::Stop { slot, generation, kill: *kill });
                }
                AgentState::Idle | AgentState::Active { .. } | AgentState::Failed { .. } => {}
            }
            if let Some(turn) = agent.turn().filter(|t| t.detached_until.is_none()) {
                effects.push(Effect::RunTurn { slot, turn: turn.id });
                if turn.interrupted_by.is_some() {
                    effects.push(Effect::Interrupt { slot, turn: turn.id });
                }
            }
        }
        for open in self.requests.values() {
            let RequestState::Decided { decision, .. } = &open.state else {
                continue;
            };
            let request = open.request.id;
            match (&open.request.kind, open.request.turn, open.request.from) {
                (RequestKind::CreateTeam(_), ..) => effects.push(Effect::CreateTeam { request }),
                (_, Some(turn), Sender::Agent(slot)) => {
                    effects.push(Effect::Answer {
                        slot,
                        turn,
                        request,
                        decision: decision.clone(),
                    });
                }
                _ => {}
            }
        }
        effects
    }

    /// The next time at which [`Team::react`] has something to do although nobody asks.
    pub fn poll_timeout(&self) -> Option<(Timestamp, TimerReason)> {
        if !matches!(self.phase, Phase::Live | Phase::Conversation) {
            return None;
        }
        // A turn that waits for what others have reserved begins with their settlement, not with
        // time; without any room, time brings the hold that a person sees.
        let first = self.budget.first_call().unwrap_or_default();
        let may_begin =
            self.budget.allows(None, Amount::default(), first) || !self.budget.has_room(first);
        let mut next: Option<(Timestamp, TimerReason)> = None;
        let mut at = |time: Timestamp, reason: TimerReason| {
            if next.is_none_or(|soonest| (time, reason) < soonest) {
                next = Some((time, reason));
            }
        };
        for agent in self.agents.values() {
            for hold in agent.holds() {
                if let Hold::Provider { until: Some(until) } = hold {
                    at(until, TimerReason::ProviderHold);
                }
            }
            match &agent.state {
                AgentState::Failed { retry_at: Some(time), .. } => at(*time, TimerReason::Restart),
                AgentState::Idle
                    if agent.not_before > self.at
                        && may_begin
                        && agent.holds.is_empty()
                        && self.holds.is_empty()
                        && self.has_reason(agent, self.at) =>
                {
                    at(agent.not_before, TimerReason::BackOff);
                }
                AgentState::Pending
                | AgentState::Idle
                | AgentState::Active { .. }
                | AgentState::Stopping { .. }
                | AgentState::Failed { .. } => {}
            }
            if let Some(until) = agent.turn().and_then(|turn| turn.detached_until) {
                at(until, TimerReason::Detached);
            }
        }
        for open in self.requests.values() {
            if let RequestKind::Shutdown(handshake) = &open.request.kind
                && matches!(open.state, RequestState::Open)
                && let Some(until) = handshake.deadline()
            {
                at(until, TimerReason::Shutdown);
            }
        }
        if let Some(lead) = self.lead().filter(|l| l.role == Role::Lead)
            && is_idle(lead)
            && may_begin
            && lead.holds.is_empty()
            && self.holds.is_empty()
            && let Some(oldest) = lead.mailbox.oldest_held()
        {
            at(
                (oldest + self.settings.limits.notices_wait).max(lead.not_before),
                TimerReason::Notices,
            );
        }
        next
    }
}
