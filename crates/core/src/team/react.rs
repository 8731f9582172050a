//! What follows from the state as it is: level-triggered, so that no wake is ever lost.

use crate::agent::{Agent, AgentState, Hold, Role};
use crate::event::Event;
use crate::id::TaskId;
use crate::message::Sender;
use crate::request::{RequestKind, RequestState};
use crate::time::Timestamp;
use crate::turn::TurnOutcome;

use super::draft::Draft;
use super::{Phase, Team, is_idle};

impl Team {
    /// The events that are due in this state at this time; none once everything has followed.
    pub fn react(&self, now: Timestamp) -> Vec<Event> {
        let mut draft = Draft::new(self, now);
        if matches!(self.phase, Phase::Live | Phase::Conversation) {
            self.end_waits(&mut draft);
            if draft.events.is_empty() {
                self.start_turns(&mut draft);
            }
        }
        draft.events
    }

    /// Waits whose time has come.
    fn end_waits(&self, d: &mut Draft) {
        for agent in self.agents.values() {
            for hold in agent.holds() {
                if matches!(hold, Hold::Provider { until: Some(until) } if until <= d.now) {
                    d.push(Event::AgentReleased { slot: agent.slot, hold });
                }
            }
            match &agent.state {
                AgentState::Failed { retry_at: Some(at), .. } if *at <= d.now => {
                    d.push(Event::AgentRestarting {
                        slot: agent.slot,
                        generation: agent.generation + 1,
                        by: Sender::System,
                    });
                }
                AgentState::Pending
                | AgentState::Idle
                | AgentState::Active { .. }
                | AgentState::Stopping { .. }
                | AgentState::Failed { .. } => {}
            }
            if let Some(turn) = agent.turn()
                && turn.detached_until.is_some_and(|until| until <= d.now)
            {
                self.end_turn(d, agent, turn, &TurnOutcome::Lost, None);
            }
        }
        for open in self.requests.values() {
            if let RequestKind::Shutdown(handshake) = &open.request.kind
                && matches!(open.state, RequestState::Open)
                && handshake.deadline().is_some_and(|until| until <= d.now)
            {
                d.push(Event::RequestEscalated { request: open.request.id });
            }
        }
        let most = self.settings.limits.turns_without_progress;
        if most == 0 {
            return;
        }
        for slot in self.standstill.reaching(most) {
            self.hold(d, slot, Hold::NoProgress);
        }
    }

    fn start_turns(&self, d: &mut Draft) {
        if !self.holds.is_empty() {
            return;
        }
        let mut offered = None;
        let mut budget = None;
        for agent in self.agents.values() {
            if !self.may_start(agent, d.now) {
                continue;
            }
            let due = agent.role == Role::Lead && self.notices_due(d.now);
            let offered = offered.get_or_insert_with(|| self.offers_under_way());
            let offer = self.offer_for(agent, offered);
            if !agent.mailbox.wakes(due) && offer.is_none() {
                continue;
            }
            let budget = budget.get_or_insert_with(|| self.budget.clone());
            let reserved = budget.first_call();
            if !budget.allows(None, crate::budget::Amount::default(), reserved.unwrap_or_default())
            {
                // What running turns have reserved may come back; what is used does not.
                if !self.budget.has_room(reserved.unwrap_or_default()) {
                    self.hold(d, agent.slot, Hold::Budget);
                }
                continue;
            }
            let limits = &self.settings.limits;
            let batch =
                agent.mailbox.batch(due, limits.batch_messages as usize, limits.batch_bytes);
            let turn = d.next_turn();
            if let Some(amount) = reserved {
                budget.reserve(turn, amount);
            }
            offered.extend(offer);
            d.push(Event::TurnStarted { turn, slot: agent.slot, batch, offer, reserved });
        }
    }

    /// Whether nothing but the lack of a reason keeps a member from a turn.
    fn may_start(&self, agent: &Agent, now: Timestamp) -> bool {
        is_idle(agent) && agent.holds.is_empty() && agent.not_before <= now && self.holds.is_empty()
    }

    fn offer_for(&self, agent: &Agent, taken: &[TaskId]) -> Option<TaskId> {
        if agent.role == Role::Solo || self.board.open().is_empty() {
            return None;
        }
        let unowned = self.settings.auto_claim && agent.role == Role::Teammate;
        self.board.offer_for(agent.slot, unowned, |task| {
            agent.offered.get(&task.id) != Some(&task.version)
                && !(task.owner.is_none() && taken.contains(&task.id))
        })
    }

    /// Whether a member has a reason for a turn, whatever keeps it from one.
    pub(super) fn has_reason(&self, agent: &Agent, now: Timestamp) -> bool {
        let due = agent.role == Role::Lead && self.notices_due(now);
        agent.mailbox.wakes(due)
            || (!self.board.open().is_empty()
                && self.offer_for(agent, &self.offers_under_way()).is_some())
    }

    fn offers_under_way(&self) -> Vec<TaskId> {
        if self.board.open().is_empty() {
            return Vec::new();
        }
        self.agents.values().filter_map(|a| a.turn().and_then(|t| t.offer)).collect()
    }

    /// Whether the lead's idle notices are to be delivered: all teammates are settled, or the
    /// oldest notice has waited long enough.
    pub(super) fn notices_due(&self, now: Timestamp) -> bool {
        let Some(lead) = self.lead() else {
            return false;
        };
        if !lead.mailbox.holds_notices() {
            return false;
        }
        self.teammates().all(|a| self.is_settled(a, now))
            || lead
                .mailbox
                .oldest_held()
                .is_some_and(|at| at + self.settings.limits.notices_wait <= now)
    }

    /// Idle without a reason to go on, failed, held, or waiting for a person.
    pub(super) fn is_settled(&self, agent: &Agent, now: Timestamp) -> bool {
        match &agent.state {
            AgentState::Idle => !agent.holds.is_empty() || !self.has_reason(agent, now),
            AgentState::Active { turn } => self.waits_for_people(turn),
            AgentState::Failed { retry_at, .. } => retry_at.is_none(),
            AgentState::Pending | AgentState::Stopping { .. } => false,
        }
    }
}
