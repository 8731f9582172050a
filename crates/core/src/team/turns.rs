//! How turns end, and what a reopened log does with those that were running.

use std::collections::{BTreeMap, BTreeSet};

use crate::agent::{Agent, AgentState, Hold, Role, TeamHold};
use crate::budget::Usage;
use crate::event::{DeadLetterReason, Event};
use crate::id::{MessageId, SlotId, TurnId};
use crate::message::{Body, IdleReason, ProtocolMessage, Recipient, Sender, Urgency, shorten};
use crate::permission::{Grant, GrantRule};
use crate::request::{Decision, RequestKind, RequestState, Withdrawal};
use crate::time::Millis;
use crate::turn::{Turn, TurnOutcome, Unavailable};

use super::Team;
use super::draft::Draft;

/// The longest last text in an idle notice, in bytes.
const LAST_TEXT_BYTES: usize = 2_048;

impl Team {
    /// Ends a live turn: its mail, its requests, its notice.
    pub(super) fn end_turn(
        &self,
        d: &mut Draft,
        agent: &Agent,
        turn: &Turn,
        outcome: &TurnOutcome,
        usage: Option<Usage>,
    ) {
        let slot = agent.slot;
        let outcome = match outcome {
            TurnOutcome::Done { last_text: Some(text) } => {
                TurnOutcome::Done { last_text: Some(shorten(text, LAST_TEXT_BYTES)) }
            }
            TurnOutcome::AgentFault { error } => {
                TurnOutcome::AgentFault { error: shorten(error, LAST_TEXT_BYTES) }
            }
            TurnOutcome::Unavailable { why, until, said: Some(text) } => {
                let said = Some(shorten(text, LAST_TEXT_BYTES));
                TurnOutcome::Unavailable { why: *why, until: *until, said }
            }
            other => other.clone(),
        };
        let mail: Vec<MessageId> = turn.mail.keys().copied().collect();
        let (acknowledged, requeued) =
            if outcome.acknowledges() { (mail, Vec::new()) } else { (Vec::new(), mail) };
        d.push(Event::TurnEnded {
            turn: turn.id,
            slot,
            outcome: outcome.clone(),
            acknowledged,
            requeued: requeued.clone(),
            usage,
        });
        self.close_requests_of(d, agent, turn, &outcome);
        let over_budget =
            matches!(outcome, TurnOutcome::Unavailable { why: Unavailable::Budget, .. });
        if !over_budget {
            self.release_after(d, turn, usage.unwrap_or_default());
        }
        match &outcome {
            TurnOutcome::Done { last_text } => {
                self.notice(d, agent, turn, IdleReason::Available, last_text.clone());
            }
            TurnOutcome::Interrupted => self.notice(d, agent, turn, IdleReason::Interrupted, None),
            TurnOutcome::AgentFault { error } => {
                self.dead_letter(d, agent, &requeued, error);
                self.notice(d, agent, turn, IdleReason::Failed, Some(error.clone()));
            }
            TurnOutcome::Unavailable { why, until, .. } => {
                let hold = match why {
                    Unavailable::Budget => Hold::Budget,
                    Unavailable::Login => Hold::Provider { until: None },
                    // A time that has come already would try again without end.
                    Unavailable::Provider | Unavailable::RateLimit => Hold::Provider {
                        until: until.map(|until| until.max(d.now + Millis::seconds(1))),
                    },
                };
                self.hold(d, slot, hold);
            }
            TurnOutcome::Lost => {}
        }
    }

    /// What a turn had reserved and did not use may be what others wait for.
    fn release_after(&self, d: &mut Draft, turn: &Turn, usage: Usage) {
        let mut budget = self.budget.clone();
        budget.settle(turn.id, usage);
        let first = budget.first_call().unwrap_or_default();
        if budget.allows(None, crate::budget::Amount::default(), first) {
            for other in self.agents.values().filter(|a| a.holds.contains(&Hold::Budget)) {
                let event = Event::AgentReleased { slot: other.slot, hold: Hold::Budget };
                // Several turns may end at once.
                if !d.events.contains(&event) {
                    d.push(event);
                }
            }
        }
    }

    /// Mail with which as many turns failed as are allowed.
    fn dead_letter(&self, d: &mut Draft, agent: &Agent, requeued: &[MessageId], error: &str) {
        let exhausted: Vec<MessageId> = requeued
            .iter()
            .copied()
            .filter(|id| {
                agent
                    .mailbox
                    .entries()
                    .get(id)
                    .is_some_and(|e| e.attempts + 1 >= self.settings.limits.attempts)
            })
            .collect();
        for message in &exhausted {
            d.push(Event::MessageDeadLettered {
                message: *message,
                slot: agent.slot,
                reason: DeadLetterReason::Attempts { error: shorten(error, LAST_TEXT_BYTES) },
            });
        }
        self.tell_senders(d, agent, &exhausted, &format!("its turns failed with it: {error}"));
    }

    /// A request that the turn waited for outlives it only if the agent did not end it itself.
    fn close_requests_of(&self, d: &mut Draft, agent: &Agent, turn: &Turn, outcome: &TurnOutcome) {
        let by_itself = outcome.acknowledges();
        for open in self.requests.values() {
            let request = &open.request;
            let waits =
                matches!(request.kind, RequestKind::Permission(_) | RequestKind::Network(_));
            if request.turn != Some(turn.id) || !waits {
                continue;
            }
            match &open.state {
                RequestState::Open if by_itself => d.push(Event::RequestWithdrawn {
                    request: request.id,
                    why: Withdrawal::TurnEnded,
                }),
                RequestState::Open => d.push(Event::RequestOrphaned { request: request.id }),
                RequestState::Decided { decision, by } => {
                    if let (false, Decision::Allow { .. }, RequestKind::Permission(ask)) =
                        (by_itself, decision, &request.kind)
                    {
                        let rule = GrantRule::Action { action: ask.action, once: true };
                        let slot = Some(agent.slot);
                        let kept = |g: &Grant| g.slot == slot && g.rule == rule;
                        if !self.grants.values().any(kept) {
                            let id = d.next_grant();
                            d.push(Event::GrantAdded { grant: Grant { id, slot, rule, by: *by } });
                        }
                    }
                    d.push(Event::RequestWithdrawn {
                        request: request.id,
                        why: Withdrawal::TurnEnded,
                    });
                }
                RequestState::Orphaned => {}
            }
        }
    }

    /// Tells the lead that a teammate is free; a newer notice takes the place of an unread one.
    fn notice(
        &self,
        d: &mut Draft,
        agent: &Agent,
        turn: &Turn,
        reason: IdleReason,
        last_text: Option<String>,
    ) {
        if agent.role != Role::Teammate || matches!(agent.state, AgentState::Stopping { .. }) {
            return;
        }
        let own = Sender::Agent(agent.slot);
        let open_tasks = self
            .board
            .open()
            .values()
            .filter(|t| t.owner == Some(agent.slot))
            .map(|t| t.id)
            .collect();
        let open_requests = self
            .requests
            .values()
            .filter(|r| {
                r.request.from == own
                    && r.request.turn != Some(turn.id)
                    && matches!(r.state, RequestState::Open)
            })
            .map(|r| r.request.id)
            .collect();
        let body = Body::Protocol(ProtocolMessage::IdleNotification {
            reason,
            last_text: last_text.map(|text| shorten(&text, LAST_TEXT_BYTES)),
            open_tasks,
            open_requests,
        });
        let earlier: Vec<MessageId> = self
            .lead()
            .into_iter()
            .flat_map(|lead| lead.mailbox.entries())
            .filter(|(id, e)| {
                e.held
                    && e.place == crate::mailbox::Place::Queued
                    && self.message(**id).is_some_and(|m| m.from == own)
            })
            .map(|(id, _)| *id)
            .collect();
        let id = d.send_as(own, Recipient::Lead, vec![SlotId::LEAD], body, Urgency::Wake, true);
        for message in earlier {
            d.push(Event::MessageSuperseded { message, slot: SlotId::LEAD, by: id });
        }
    }

    /// The log was opened again. Turns that cannot go on are lost, uncounted.
    pub(super) fn opened(
        &self,
        d: &mut Draft,
        downtime_ms: u64,
        resumable: &BTreeSet<TurnId>,
        detached: &BTreeMap<TurnId, Millis>,
    ) {
        d.push(Event::TeamOpened { downtime_ms });
        let limits = &self.settings.limits;
        let allowed = if self.budget.cap.is_some() {
            limits.long_downtime
        } else {
            limits.long_downtime_uncapped
        };
        if downtime_ms > allowed.0 && !self.holds.contains(&TeamHold::Downtime) {
            d.push(Event::TeamHeld { hold: TeamHold::Downtime });
        }
        for agent in self.agents.values() {
            let Some(turn) = agent.turn() else { continue };
            let stopping = matches!(agent.state, AgentState::Stopping { .. });
            if let Some(wait) = detached.get(&turn.id) {
                d.push(Event::TurnDetached {
                    turn: turn.id,
                    slot: agent.slot,
                    until: d.now + *wait,
                });
            } else if resumable.contains(&turn.id) && !stopping {
                d.push(Event::TurnResumed { turn: turn.id, slot: agent.slot });
            } else {
                self.end_turn(d, agent, turn, &TurnOutcome::Lost, None);
            }
        }
    }
}
