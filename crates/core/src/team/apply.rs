//! The changes of state that events are made of; used by `evolve` alone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::agent::{Agent, AgentState, MemberSpec, Role, TokenBucket};
use crate::command::{KeyHash, Receipt};
use crate::id::{MessageId, RequestId, SlotId, TaskId, TurnId};
use crate::mailbox::{Entry, Mailbox, Place};
use crate::message::{Envelope, Sender};
use crate::request::{Decision, RequestKind, RequestState};
use crate::task::Task;
use crate::time::Timestamp;
use crate::turn::{ToolCallState, ToolVerdict, Turn, TurnOutcome};

use super::{OpenMessage, Team, UsedKey};

/// Colours given out by slot, in order.
const COLORS: [&str; 8] =
    ["indigo", "umber", "teal", "magenta", "olive", "violet", "brick", "slate"];

impl Team {
    pub(super) fn with(&mut self, slot: SlotId, change: impl FnOnce(&mut Agent)) {
        if let Some(agent) = self.agents.get_mut(&slot) {
            change(agent);
        }
    }

    pub(super) fn add_agent(&mut self, slot: SlotId, role: Role, spec: &MemberSpec) {
        self.last.slot = self.last.slot.max(slot.0);
        let color = spec
            .color
            .clone()
            .unwrap_or_else(|| COLORS[(slot.0.max(1) as usize - 1) % COLORS.len()].to_owned());
        self.agents.insert(
            slot,
            Agent {
                slot,
                role,
                name: spec.name.clone(),
                label: spec.label.clone(),
                agent_type: spec.agent_type.clone(),
                model: spec.model.clone(),
                color,
                conversation: spec.conversation.clone(),
                mode: spec.mode,
                state: AgentState::Pending,
                generation: 1,
                restarts: VecDeque::new(),
                not_before: Timestamp::default(),
                faults_in_a_row: 0,
                holds: BTreeSet::new(),
                mailbox: Mailbox::default(),
                offered: BTreeMap::new(),
                bucket: TokenBucket::default(),
            },
        );
    }

    pub(super) fn drop_agent(&mut self, slot: SlotId) {
        let Some(agent) = self.agents.remove(&slot) else {
            return;
        };
        if let Some(turn) = agent.turn() {
            self.budget.reserved.remove(&turn.id);
        }
        for id in agent.mailbox.entries().keys() {
            self.forget_copy(*id);
        }
        self.standstill.forget(slot);
        self.grants.retain(|_, grant| grant.slot != Some(slot));
    }

    pub(super) fn accept(
        &mut self,
        at: Timestamp,
        message: &Envelope,
        recipients: &[SlotId],
        held: bool,
        key: Option<&KeyHash>,
    ) {
        self.last.message = self.last.message.max(message.id.0);
        let bytes = u32::try_from(message.body.len()).unwrap_or(u32::MAX);
        let mut mailboxes = 0;
        for slot in recipients {
            if let Some(agent) = self.agents.get_mut(slot) {
                mailboxes += 1;
                agent.mailbox.accept(
                    message.id,
                    Entry {
                        urgency: message.urgency,
                        bytes,
                        accepted_at: at,
                        held,
                        attempts: 0,
                        redelivered: false,
                        place: Place::Queued,
                    },
                );
            }
        }
        if mailboxes > 0 {
            self.messages.insert(message.id, OpenMessage { envelope: message.clone(), mailboxes });
        }
        match message.from {
            Sender::Agent(slot) if message.again.is_none() && is_counted(&message.body) => {
                let limit = self.settings.limits.messages_per_minute;
                let n = u32::try_from(recipients.len().max(1)).unwrap_or(u32::MAX);
                self.with(slot, |a| a.bucket.take(at, n.min(limit.max(1)), limit));
            }
            Sender::User if matches!(message.body, crate::message::Body::Text(_)) => {
                self.standstill.clear();
            }
            Sender::Agent(_) | Sender::User | Sender::System => {}
        }
        if let Some(key) = key {
            let receipt = Receipt { message: Some(message.id), ..Receipt::default() };
            self.use_key(at, key, receipt);
        }
    }

    pub(super) fn use_key(&mut self, at: Timestamp, key: &KeyHash, receipt: Receipt) {
        let used = UsedKey { content: key.content.clone(), receipt, at };
        if self.keys.used.insert(key.key.clone(), used).is_some() {
            self.keys.order.retain(|k| *k != key.key);
        }
        self.keys.order.push_back(key.key.clone());
        let limits = &self.settings.limits;
        while let Some(oldest) = self.keys.order.front() {
            let old =
                self.keys.used.get(oldest).is_none_or(|used| at - used.at > limits.keys_kept_for);
            if !old && self.keys.order.len() <= limits.keys_kept as usize {
                break;
            }
            self.keys.used.remove(oldest);
            self.keys.order.pop_front();
        }
    }

    pub(super) fn deliver(&mut self, slot: SlotId, message: MessageId, turn: TurnId, step: u32) {
        self.with(slot, |a| {
            a.mailbox.deliver(message, turn);
            if let Some(live) = a.turn_mut().filter(|t| t.id == turn) {
                live.mail.insert(message, step);
            }
        });
    }

    /// Takes a message out of one mailbox for good.
    pub(super) fn settle(&mut self, slot: SlotId, message: MessageId) {
        let mut was_there = false;
        self.with(slot, |a| {
            was_there = a.mailbox.entries().contains_key(&message);
            a.mailbox.settle(message);
        });
        if was_there {
            self.forget_copy(message);
        }
    }

    pub(super) fn forget_copy(&mut self, message: MessageId) {
        if let Some(open) = self.messages.get_mut(&message) {
            open.mailboxes = open.mailboxes.saturating_sub(1);
            if open.mailboxes == 0 {
                self.messages.remove(&message);
            }
        }
    }

    pub(super) fn begin_turn(
        &mut self,
        at: Timestamp,
        id: TurnId,
        slot: SlotId,
        batch: &[MessageId],
        offer: Option<TaskId>,
    ) {
        self.last.turn = self.last.turn.max(id.0);
        let version = offer.and_then(|t| self.board.open.get(&t)).map(Task::version);
        let budgeted = self.budget.cap.is_some();
        self.with(slot, |a| {
            for message in batch {
                a.mailbox.deliver(*message, id);
            }
            if let (Some(task), Some(version)) = (offer, version) {
                a.offered.insert(task, version);
            }
            a.state = AgentState::Active {
                turn: Box::new(Turn {
                    id,
                    started_at: at,
                    mail: batch.iter().map(|m| (*m, 0)).collect(),
                    offer,
                    calls: BTreeMap::new(),
                    blocked_on: BTreeSet::new(),
                    interrupted_by: None,
                    detached_until: None,
                    resumed: 0,
                    progress: false,
                    budgeted,
                }),
            };
        });
    }

    pub(super) fn finish_turn(
        &mut self,
        at: Timestamp,
        id: TurnId,
        slot: SlotId,
        outcome: &TurnOutcome,
        acknowledged: &[MessageId],
        requeued: &[MessageId],
    ) {
        let peers: BTreeSet<SlotId> = acknowledged
            .iter()
            .filter_map(|m| self.messages.get(m))
            .filter_map(|m| match m.envelope.from {
                Sender::Agent(peer) => Some(peer),
                Sender::User | Sender::System => None,
            })
            .collect();
        let limits = self.settings.limits.clone();
        let mut progress = true;
        self.with(slot, |a| {
            let Some(turn) = a.turn().filter(|t| t.id == id) else {
                return;
            };
            progress = turn.progress;
            let offer = turn.offer;
            a.state = match std::mem::replace(&mut a.state, AgentState::Idle) {
                AgentState::Stopping { request, kill, .. } => {
                    AgentState::Stopping { request, turn: None, kill }
                }
                AgentState::Active { .. }
                | AgentState::Pending
                | AgentState::Idle
                | AgentState::Failed { .. } => AgentState::Idle,
            };
            let counted = matches!(outcome, TurnOutcome::AgentFault { .. });
            let redelivered = matches!(outcome, TurnOutcome::Lost);
            for message in requeued {
                a.mailbox.requeue(*message, counted, redelivered);
            }
            a.faults_in_a_row = if counted { a.faults_in_a_row + 1 } else { 0 };
            if counted {
                let shift = (a.faults_in_a_row - 1).min(6);
                a.not_before = at + crate::time::Millis(limits.restart_backoff.0 << shift);
            }
            // An offer that the turn could not consider is made again, a failing one not for ever.
            let considered = outcome.acknowledges() || a.faults_in_a_row >= limits.attempts;
            if let Some(task) = offer.filter(|_| !considered) {
                a.offered.remove(&task);
            }
        });
        for message in acknowledged {
            self.settle(slot, *message);
        }
        if outcome.acknowledges() && !progress {
            for peer in peers {
                self.standstill.count(slot, peer);
            }
        }
    }

    /// A change by an agent in its turn is progress of that turn; any change ends a standstill.
    pub(super) fn progress_by(&mut self, by: Sender) {
        self.standstill.clear();
        if let Sender::Agent(slot) = by {
            self.with(slot, |a| {
                if let Some(turn) = a.turn_mut() {
                    turn.progress = true;
                }
            });
        }
    }

    pub(super) fn journal(
        &mut self,
        slot: SlotId,
        call: &str,
        tool: &str,
        action: crate::hash::ActionHash,
        verdict: &ToolVerdict,
    ) {
        self.with(slot, |a| {
            let Some(turn) = a.turn_mut() else { return };
            match verdict {
                ToolVerdict::Run => {
                    turn.calls
                        .insert(call.to_owned(), ToolCallState::Started { tool: tool.to_owned() });
                }
                ToolVerdict::Ask { request } => {
                    turn.calls.entry(call.to_owned()).or_insert_with(|| ToolCallState::Asked {
                        request: *request,
                        action,
                        tool: tool.to_owned(),
                    });
                }
                ToolVerdict::Refused { .. } => {}
            }
        });
    }

    pub(super) fn decided(&mut self, id: RequestId, by: Sender, decision: &Decision) {
        let Some(open) = self.requests.get_mut(&id) else {
            return;
        };
        let waiting = matches!(open.state, RequestState::Open)
            && match &open.request.kind {
                RequestKind::Permission(_) | RequestKind::Network(_) => true,
                RequestKind::CreateTeam(_) => matches!(decision, Decision::Consent),
                RequestKind::Plan(_)
                | RequestKind::Shutdown(_)
                | RequestKind::Spawn(_)
                | RequestKind::RaiseBudget(_)
                | RequestKind::DeleteTeam
                | RequestKind::Question(_) => false,
            };
        let action = match &open.request.kind {
            RequestKind::Permission(ask) => Some(ask.action),
            RequestKind::Network(ask) => Some(ask.action),
            RequestKind::Plan(_)
            | RequestKind::Shutdown(_)
            | RequestKind::Spawn(_)
            | RequestKind::CreateTeam(_)
            | RequestKind::RaiseBudget(_)
            | RequestKind::DeleteTeam
            | RequestKind::Question(_) => None,
        };
        let kin = match &open.request.kind {
            RequestKind::Permission(ask) => ask.kin.as_slice(),
            _ => &[],
        };
        match (action, decision) {
            (Some(action), Decision::Deny { .. }) => {
                // A "no" outlives every earlier "yes" to the same action.
                self.grants.retain(|_, grant| !grant.names(action));
                for denied in [action].iter().chain(kin) {
                    if !self.denials.contains(denied) {
                        self.denials.push_back(*denied);
                    }
                }
                while self.denials.len() > self.settings.limits.denials_kept as usize {
                    self.denials.pop_front();
                }
            }
            // The person has judged the action anew.
            (Some(action), Decision::Allow { .. }) if by == Sender::User => {
                self.denials.retain(|denied| *denied != action && !kin.contains(denied));
            }
            _ => {}
        }
        if waiting {
            open.state = RequestState::Decided { by, decision: decision.clone() };
        } else {
            self.close_request(id);
        }
    }

    /// The request whose decision a message hands over, if a turn was waiting for exactly that.
    pub(super) fn answered_by(&self, message: MessageId) -> Option<RequestId> {
        use crate::message::{Body, ProtocolMessage};
        match &self.messages.get(&message)?.envelope.body {
            Body::Protocol(ProtocolMessage::SandboxPermissionResponse { request, .. }) => {
                Some(*request)
            }
            Body::Protocol(_) | Body::Text(_) => None,
        }
    }

    pub(super) fn close_request(&mut self, id: RequestId) {
        let Some(open) = self.requests.remove(&id) else {
            return;
        };
        if let Sender::Agent(slot) = open.request.from {
            self.with(slot, |a| {
                if let Some(turn) = a.turn_mut() {
                    turn.blocked_on.remove(&id);
                }
            });
        }
    }
}

/// Whether a message counts against its sender's rate: what a member writes, or has written by a
/// plan or a wish to leave, and not what the rules say in its name.
fn is_counted(body: &crate::message::Body) -> bool {
    use crate::message::{Body, ProtocolMessage};
    matches!(
        body,
        Body::Text(_)
            | Body::Protocol(
                ProtocolMessage::PlanApprovalRequest { .. }
                    | ProtocolMessage::ShutdownRequest { .. }
            )
    )
}
