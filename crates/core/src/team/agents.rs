//! Members coming, changing, failing and going.

use crate::agent::{Agent, AgentState, MemberSpec, RemovalReason, Role, TeamHold};
use crate::command::Caller;
use crate::event::{DeadLetterReason, Event};
use crate::id::{AgentName, MessageId, RequestId, SlotId, check_label};
use crate::message::{Body, ProtocolMessage, Recipient, Sender, Urgency, shorten};
use crate::mode::PermissionMode;
use crate::rejection::Rejection;
use crate::request::{RequestKind, RequestState, Withdrawal};
use crate::task::TaskChange;
use crate::turn::{Turn, TurnOutcome};

use super::checks::{member_words, within};
use super::draft::Draft;
use super::{Authority, Team};

/// The longest cause of a failure that is kept, in bytes.
const CAUSE_BYTES: usize = 2_000;

impl Team {
    pub(super) fn spawn(
        &self,
        d: &mut Draft,
        caller: Caller,
        member: &MemberSpec,
    ) -> Result<(), Rejection> {
        let authority = self.authority(caller)?;
        if matches!(authority, Authority::Teammate(_) | Authority::Solo) || self.is_conversation() {
            return Err(Rejection::NotAllowed {
                what: "bring members in",
                who: "the person or the lead of a team",
            });
        }
        self.check_member(member)?;
        let mut member = member.clone();
        if member.mode == PermissionMode::Default {
            member.mode = self.settings.member_mode.unwrap_or_default();
        }
        if authority == Authority::Lead
            && let Some(lead) = self.lead()
        {
            // Rights only shrink along delegation.
            member.mode = member.mode.min(lead.mode);
            if self.spawns_left == 0 {
                self.check_open_requests(SlotId::LEAD)?;
                let kind = RequestKind::Spawn(Box::new(crate::consent::SpawnProposal { member }));
                d.open(caller.into(), None, kind, false);
                return Ok(());
            }
        }
        register(d, caller.into(), member, None);
        Ok(())
    }

    /// Whether a member can be made from this, here and now.
    pub(super) fn check_member(&self, member: &MemberSpec) -> Result<(), Rejection> {
        let limits = &self.settings.limits;
        self.check_name(&member.name, None)?;
        if let Some(label) = &member.label {
            check_label(label).map_err(Rejection::BadName)?;
        }
        let asked = self.agents.len() as u64 + 1;
        within("members", limits.members.into(), asked)?;
        member_words(member)?;
        within("message_bytes", limits.message_bytes.into(), member.prompt.len() as u64)?;
        Ok(())
    }

    fn check_name(&self, name: &AgentName, except: Option<SlotId>) -> Result<(), Rejection> {
        let look = name.look_alike();
        match self.agents.values().find(|a| Some(a.slot) != except && a.name.look_alike() == look) {
            Some(other) => {
                Err(Rejection::NameTaken { name: name.clone(), taken: other.name.clone() })
            }
            None => Ok(()),
        }
    }

    pub(super) fn ready(
        &self,
        d: &mut Draft,
        slot: SlotId,
        generation: u32,
    ) -> Result<(), Rejection> {
        let agent = self.member(slot)?;
        if agent.generation != generation {
            return Err(Rejection::StaleGeneration { slot, current: agent.generation });
        }
        if matches!(agent.state, AgentState::Pending) {
            d.push(Event::AgentReady { slot, generation });
        }
        Ok(())
    }

    /// A member's process ended. Nothing of an older start counts.
    pub(super) fn exited(
        &self,
        d: &mut Draft,
        slot: SlotId,
        generation: u32,
        cause: &str,
    ) -> Result<(), Rejection> {
        let agent = self.member(slot)?;
        if agent.generation != generation {
            return Ok(());
        }
        match &agent.state {
            AgentState::Stopping { request, turn, .. } => {
                if let Some(turn) = turn {
                    self.end_turn(d, agent, turn, &TurnOutcome::Lost, None);
                }
                let reason = match request {
                    Some(request) => RemovalReason::ShutdownApproved { request: *request },
                    None => RemovalReason::Killed,
                };
                self.remove(d, agent, reason, None);
            }
            AgentState::Active { turn } => {
                let fault = TurnOutcome::AgentFault { error: shorten(cause, CAUSE_BYTES) };
                self.end_turn(d, agent, turn, &fault, None);
                self.failed(d, agent, cause, true);
            }
            AgentState::Idle => self.failed(d, agent, cause, true),
            // It was never ready: starting it again would end the same way.
            AgentState::Pending => self.failed(d, agent, cause, false),
            AgentState::Failed { .. } => {}
        }
        Ok(())
    }

    fn failed(&self, d: &mut Draft, agent: &Agent, cause: &str, restartable: bool) {
        let limits = &self.settings.limits;
        let cause = shorten(cause, CAUSE_BYTES);
        let retry_at = (restartable && agent.may_restart(d.now, limits))
            .then(|| d.now + agent.restart_delay(d.now, limits));
        d.push(Event::AgentFailed { slot: agent.slot, cause: cause.clone(), retry_at });
        if retry_at.is_some() {
            return;
        }
        self.release_tasks(d, agent.slot);
        let text = format!("{} has failed and is not restarted by itself: {cause}", agent.name);
        match agent.role {
            Role::Teammate => tell_lead(d, text),
            Role::Lead => {
                if !self.holds.contains(&TeamHold::LeadDown) {
                    d.push(Event::TeamHeld { hold: TeamHold::LeadDown });
                }
                tell_user(d, text);
            }
            Role::Solo => tell_user(d, text),
        }
    }

    pub(super) fn release_tasks(&self, d: &mut Draft, slot: SlotId) {
        for task in self.board.open().values().filter(|t| t.owner == Some(slot)) {
            let change = TaskChange { owner: Some(None), ..TaskChange::default() };
            d.push(Event::TaskChanged { task: task.id, change, by: Sender::System });
        }
    }

    pub(super) fn restart(
        &self,
        d: &mut Draft,
        caller: Caller,
        slot: SlotId,
    ) -> Result<(), Rejection> {
        self.coordinator(caller, slot, "restart a member")?;
        let agent = self.member(slot)?;
        if !matches!(agent.state, AgentState::Failed { .. }) {
            return Err(Rejection::WrongState { slot, needs: "failed" });
        }
        restart_failed(d, agent, caller);
        if agent.role == Role::Lead && self.holds.contains(&TeamHold::LeadDown) {
            d.push(Event::TeamReleased { hold: TeamHold::LeadDown });
        }
        Ok(())
    }

    pub(super) fn rename(
        &self,
        d: &mut Draft,
        caller: Caller,
        slot: SlotId,
        name: &AgentName,
        label: Option<&str>,
    ) -> Result<(), Rejection> {
        self.coordinator(caller, slot, "rename a member")?;
        let agent = self.member(slot)?;
        if agent.role == Role::Lead && *name != agent.name {
            return Err(Rejection::NotAllowed { what: "change the lead's name", who: "nobody" });
        }
        self.check_name(name, Some(slot))?;
        if let Some(label) = label {
            check_label(label).map_err(Rejection::BadName)?;
        }
        d.push(Event::AgentRenamed { slot, name: name.clone(), label: label.map(str::to_owned) });
        Ok(())
    }

    pub(super) fn set_mode(
        &self,
        d: &mut Draft,
        caller: Caller,
        slot: SlotId,
        mode: PermissionMode,
    ) -> Result<(), Rejection> {
        let agent = self.member(slot)?;
        // Plan mode ends in asking, which a member that never asks was not given.
        let asks_again = agent.mode == PermissionMode::DontAsk && mode == PermissionMode::Plan;
        let tighter = mode <= agent.mode && !asks_again;
        let allowed = match self.authority(caller)? {
            Authority::User | Authority::System => true,
            Authority::Lead | Authority::Solo => tighter,
            Authority::Teammate(own) => tighter && own == slot,
        };
        if !allowed {
            return Err(Rejection::NotAllowed {
                what: "widen a member's permission mode",
                who: "the person",
            });
        }
        if mode == agent.mode {
            return Ok(());
        }
        d.push(Event::ModeChanged { slot, mode });
        if caller != Caller::Agent(slot) {
            d.send(
                caller.into(),
                Recipient::Agent(slot),
                vec![slot],
                Body::Protocol(ProtocolMessage::ModeSetRequest { mode }),
                Urgency::Queue,
            );
        }
        Ok(())
    }

    pub(super) fn kill(
        &self,
        d: &mut Draft,
        caller: Caller,
        slot: SlotId,
    ) -> Result<(), Rejection> {
        self.person(caller, "end a member without asking it")?;
        let agent = self.member(slot)?;
        if agent.role != Role::Teammate {
            return Err(Rejection::LeadStays);
        }
        match &agent.state {
            AgentState::Failed { .. } => self.remove(d, agent, RemovalReason::Killed, None),
            AgentState::Stopping { kill: true, .. } => {}
            AgentState::Stopping { request, kill: false, .. } => {
                d.push(Event::AgentStopping { slot, request: *request, kill: true });
            }
            AgentState::Pending | AgentState::Idle | AgentState::Active { .. } => {
                d.push(Event::AgentStopping { slot, request: None, kill: true });
            }
        }
        Ok(())
    }

    /// Takes a member out: its requests, tasks and mail each get their end, by name. A request
    /// that this very decision closes is passed as `decided`.
    pub(super) fn remove(
        &self,
        d: &mut Draft,
        agent: &Agent,
        reason: RemovalReason,
        decided: Option<RequestId>,
    ) {
        let slot = agent.slot;
        for open in self.requests.values() {
            let about = matches!(&open.request.kind, RequestKind::Shutdown(s) if s.slot == slot);
            let live = !matches!(open.state, RequestState::Decided { .. })
                && Some(open.request.id) != decided;
            if (about || open.request.from == Sender::Agent(slot)) && live {
                d.push(Event::RequestWithdrawn {
                    request: open.request.id,
                    why: Withdrawal::AgentRemoved(slot),
                });
            }
        }
        self.release_tasks(d, slot);
        let undelivered: Vec<MessageId> = agent.mailbox.entries().keys().copied().collect();
        for message in &undelivered {
            d.push(Event::MessageDeadLettered {
                message: *message,
                slot,
                reason: DeadLetterReason::RecipientGone,
            });
        }
        let killed = reason == RemovalReason::Killed;
        d.push(Event::AgentRemoved { slot, reason });
        self.tell_senders(d, agent, &undelivered, "it has left the team");
        if killed {
            tell_lead(d, format!("{} has been taken out of the team", agent.name));
        }
    }

    /// Tells whoever wrote text that did not arrive, and the lead where it was somebody else.
    pub(super) fn tell_senders(
        &self,
        d: &mut Draft,
        to: &Agent,
        messages: &[MessageId],
        why: &str,
    ) {
        let mut by_sender: std::collections::BTreeMap<Sender, Vec<MessageId>> =
            std::collections::BTreeMap::new();
        for id in messages {
            // Notices that nobody wrote are owed to nobody, but the lead's mail is the person's concern.
            let concerns = |m: &crate::message::Envelope| {
                needs_a_reader(&m.body) && (m.from != Sender::System || to.slot == SlotId::LEAD)
            };
            if let Some(message) = self.message(*id).filter(|m| concerns(m)) {
                by_sender.entry(message.from).or_default().push(*id);
            }
        }
        for (sender, ids) in by_sender {
            let list: Vec<String> = ids.iter().map(ToString::to_string).collect();
            let text = format!("{} to {} could not be delivered: {why}", list.join(", "), to.name);
            match sender {
                Sender::Agent(slot) if slot != to.slot && self.agents.contains_key(&slot) => {
                    d.send(
                        Sender::System,
                        Recipient::Agent(slot),
                        vec![slot],
                        Body::Text(text.clone()),
                        Urgency::Wake,
                    );
                    if slot != SlotId::LEAD && to.slot != SlotId::LEAD {
                        tell_lead(d, text);
                    } else if to.slot == SlotId::LEAD {
                        tell_user(d, text);
                    }
                }
                Sender::User => {
                    tell_user(d, text.clone());
                    if to.slot != SlotId::LEAD {
                        tell_lead(d, text);
                    }
                }
                Sender::Agent(_) => tell_lead(d, text),
                Sender::System => tell_user(d, text),
            }
        }
    }

    /// Whether a turn waits for nothing but people.
    pub(super) fn waits_for_people(&self, turn: &Turn) -> bool {
        !turn.blocked_on.is_empty()
            && turn.blocked_on.iter().all(|id| {
                self.requests
                    .get(id)
                    .is_some_and(|r| !matches!(r.state, RequestState::Decided { .. }))
            })
            && !turn.calls.values().any(|c| matches!(c, crate::turn::ToolCallState::Started { .. }))
    }
}

pub(super) fn tell_user(d: &mut Draft, text: String) {
    d.send(Sender::System, Recipient::User, Vec::new(), Body::Text(text), Urgency::Wake);
}

/// Registers a member and puts its prompt into its mailbox.
pub(super) fn register(
    d: &mut Draft,
    by: Sender,
    mut member: MemberSpec,
    consent: Option<RequestId>,
) -> SlotId {
    let slot = d.next_slot();
    let prompt = std::mem::take(&mut member.prompt);
    d.push(Event::AgentSpawned { slot, member, consent, by });
    if !prompt.is_empty() {
        d.send(by, Recipient::Agent(slot), vec![slot], Body::Text(prompt), Urgency::Wake);
    }
    slot
}

pub(super) fn tell_lead(d: &mut Draft, text: String) {
    d.send(Sender::System, Recipient::Lead, vec![SlotId::LEAD], Body::Text(text), Urgency::Wake);
}

pub(super) fn restart_failed(d: &mut Draft, agent: &Agent, caller: Caller) {
    if matches!(agent.state, AgentState::Failed { .. }) {
        d.push(Event::AgentRestarting {
            slot: agent.slot,
            generation: agent.generation + 1,
            by: caller.into(),
        });
    }
}

pub(super) fn interrupt(d: &mut Draft, agent: &Agent, by: Sender) {
    if let Some(turn) = agent.turn().filter(|turn| turn.interrupted_by.is_none()) {
        d.push(Event::InterruptRequested { turn: turn.id, slot: agent.slot, by });
    }
}

/// Whether somebody should hear when this cannot be delivered: not where it only says how things
/// stand, or answers what is closed.
fn needs_a_reader(body: &Body) -> bool {
    match body {
        Body::Text(_) => true,
        Body::Protocol(protocol) => match protocol {
            ProtocolMessage::PermissionRequest { .. }
            | ProtocolMessage::SandboxPermissionRequest { .. }
            | ProtocolMessage::ShutdownRequest { .. }
            | ProtocolMessage::PlanApprovalRequest { .. }
            | ProtocolMessage::PlanApprovalResponse { .. }
            | ProtocolMessage::TaskAssignment { .. } => true,
            ProtocolMessage::IdleNotification { .. }
            | ProtocolMessage::PermissionResponse { .. }
            | ProtocolMessage::SandboxPermissionResponse { .. }
            | ProtocolMessage::ShutdownApproved { .. }
            | ProtocolMessage::ShutdownRejected { .. }
            | ProtocolMessage::TeamPermissionUpdate { .. }
            | ProtocolMessage::ModeSetRequest { .. } => false,
        },
    }
}
