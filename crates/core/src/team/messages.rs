//! Sending mail, and reading it in the middle of a turn.

use std::collections::BTreeSet;

use crate::agent::{Agent, Hold, Role};
use crate::command::{Caller, KeyHash, SendMessage};
use crate::event::Event;
use crate::id::{MessageId, RequestId, SlotId, TurnId};
use crate::message::{Body, Envelope, ProtocolMessage, Recipient, Sender, Urgency};
use crate::rejection::Rejection;
use crate::request::{Decision, RequestKind, RequestState};
use crate::shutdown::{ShutdownStage, compatible_answer};

use super::agents::interrupt;
use super::draft::Draft;
use super::{Authority, Team};

impl Team {
    pub(super) fn send_message(
        &self,
        d: &mut Draft,
        caller: Caller,
        message: &SendMessage,
    ) -> Result<(), Rejection> {
        let limits = &self.settings.limits;
        let authority = self.authority(caller)?;
        if authority == Authority::Solo {
            return Err(Rejection::NotAllowed { what: "send messages", who: "a member of a team" });
        }
        if message.text.trim().is_empty() && message.files.is_empty() {
            return Err(Rejection::Empty { what: "a message" });
        }
        let asked =
            message.text.len() as u64 + message.summary.as_deref().map_or(0, str::len) as u64;
        if asked > u64::from(limits.message_bytes) {
            return Err(Rejection::Limit {
                limit: "message_bytes",
                allowed: limits.message_bytes.into(),
                asked,
            });
        }
        if message.urgency == Urgency::Interrupt && matches!(authority, Authority::Teammate(_)) {
            return Err(Rejection::NotAllowed {
                what: "interrupt with a message",
                who: "the person or the lead",
            });
        }
        let recipients = self.recipients(caller, message.to)?;
        if let Some((request, decision)) = self.answer_in_text(caller, &recipients, &message.text) {
            return self.decide_request(d, caller, request, &decision);
        }
        if let Caller::Agent(slot) = caller {
            let agent = self.member(slot)?;
            let n = u32::try_from(recipients.len().max(1)).unwrap_or(u32::MAX);
            // A broadcast larger than the whole allowance goes through a full bucket.
            let n = n.min(limits.messages_per_minute.max(1));
            if !agent.bucket.allows(d.now, n, limits.messages_per_minute) {
                return Err(Rejection::Limit {
                    limit: "messages_per_minute",
                    allowed: limits.messages_per_minute.into(),
                    asked: u64::from(limits.messages_per_minute) + u64::from(n),
                });
            }
        }
        for slot in &recipients {
            self.check_room(self.member(*slot)?, asked)?;
        }
        let envelope = Envelope {
            id: d.next_message(),
            from: caller.into(),
            to: message.to,
            body: Body::Text(message.text.clone()),
            summary: message.summary.clone(),
            urgency: message.urgency,
            files: message.files.clone(),
            sent_at: d.now,
        };
        let key = message.key.as_ref().map(|key| KeyHash::new(caller, key, message));
        let interrupts = message.urgency == Urgency::Interrupt;
        d.push(Event::MessageSent {
            message: envelope,
            recipients: recipients.clone(),
            held: false,
            key,
        });
        if interrupts {
            for slot in recipients {
                interrupt(d, self.member(slot)?, caller.into());
            }
        }
        if caller == Caller::User {
            for agent in self.agents.values().filter(|a| a.holds.contains(&Hold::NoProgress)) {
                d.push(Event::AgentReleased { slot: agent.slot, hold: Hold::NoProgress });
            }
        }
        Ok(())
    }

    /// The mailboxes behind an address.
    fn recipients(&self, caller: Caller, to: Recipient) -> Result<Vec<SlotId>, Rejection> {
        let own = match caller {
            Caller::Agent(slot) => Some(slot),
            Caller::User | Caller::System => None,
        };
        let one = |slot: SlotId| {
            if own == Some(slot) { Err(Rejection::ToSelf) } else { Ok(vec![slot]) }
        };
        match to {
            Recipient::Agent(slot) => one(self.member(slot)?.slot),
            Recipient::Lead => one(SlotId::LEAD),
            Recipient::User if caller == Caller::User => Err(Rejection::ToSelf),
            Recipient::User => Ok(Vec::new()),
            Recipient::Everyone => {
                let all: Vec<SlotId> =
                    self.agents.keys().copied().filter(|s| own != Some(*s)).collect();
                if all.is_empty() {
                    return Err(Rejection::Empty { what: "the list of recipients" });
                }
                Ok(all)
            }
        }
    }

    fn check_room(&self, agent: &Agent, bytes: u64) -> Result<(), Rejection> {
        let limits = &self.settings.limits;
        if agent.mailbox.unread() as u64 >= u64::from(limits.unread)
            || agent.mailbox.bytes() + bytes > limits.unread_bytes
        {
            return Err(Rejection::InboxFull {
                name: agent.name.clone(),
                allowed: limits.unread.into(),
            });
        }
        Ok(())
    }

    /// The one place where text answers a request (DESIGN 5.4).
    fn answer_in_text(
        &self,
        caller: Caller,
        recipients: &[SlotId],
        text: &str,
    ) -> Option<(RequestId, Decision)> {
        let Caller::Agent(from) = caller else {
            return None;
        };
        let answer = compatible_answer(text)?;
        let [to] = recipients else { return None };
        let (id, _) = self.requests.iter().find(|(_, open)| {
            let RequestKind::Shutdown(s) = &open.request.kind else {
                return false;
            };
            let asks =
                matches!(open.state, RequestState::Open) && open.request.from == Sender::Agent(*to);
            match s.stage {
                ShutdownStage::Member { .. } => asks && s.slot == from,
                ShutdownStage::Decider { .. } => asks && from == SlotId::LEAD && s.slot == *to,
                ShutdownStage::Person => false,
            }
        })?;
        Some((
            *id,
            match answer {
                Ok(()) => Decision::ApproveShutdown,
                Err(reason) => Decision::RejectShutdown { reason },
            },
        ))
    }

    /// New mail between two model steps.
    pub(super) fn take_mail(
        &self,
        d: &mut Draft,
        caller: Caller,
        turn: TurnId,
        step: u32,
    ) -> Result<(), Rejection> {
        let (agent, turn) = self.own_turn(caller, turn)?;
        let due = agent.role == Role::Lead && self.notices_due(d.now);
        let limits = &self.settings.limits;
        let batch = agent.mailbox.batch(due, limits.batch_messages as usize, limits.batch_bytes);
        for message in batch {
            let again = agent.mailbox.entries().get(&message).is_some_and(|e| e.attempts > 0);
            if again || self.is_awaited_answer(message) {
                continue;
            }
            d.push(Event::MessageDelivered { message, slot: agent.slot, turn: turn.id, step });
        }
        Ok(())
    }

    /// Whether a message is a decision that a waiting tool call takes by itself.
    fn is_awaited_answer(&self, message: MessageId) -> bool {
        match self.message(message).map(|m| &m.body) {
            Some(Body::Protocol(
                ProtocolMessage::PermissionResponse { request, .. }
                | ProtocolMessage::SandboxPermissionResponse { request, .. },
            )) => self.requests.contains_key(request),
            Some(Body::Protocol(_) | Body::Text(_)) | None => false,
        }
    }

    /// The queued message that carries the decision of a request to its asker.
    pub(super) fn response_to(&self, agent: &Agent, id: RequestId) -> Option<MessageId> {
        agent.mailbox.entries().keys().copied().find(|message| {
            matches!(
                self.message(*message).map(|m| &m.body),
                Some(Body::Protocol(
                    ProtocolMessage::PermissionResponse { request, .. }
                    | ProtocolMessage::SandboxPermissionResponse { request, .. },
                )) if *request == id
            )
        })
    }

    pub(super) fn return_mail(
        &self,
        d: &mut Draft,
        caller: Caller,
        turn: TurnId,
        messages: &[MessageId],
    ) -> Result<(), Rejection> {
        let (agent, turn) = self.own_turn(caller, turn)?;
        // Named twice is returned once.
        for message in BTreeSet::from_iter(messages) {
            if turn.mail.get(message).is_some_and(|step| *step > 0) {
                d.push(Event::MessageReturned {
                    message: *message,
                    slot: agent.slot,
                    turn: turn.id,
                });
            }
        }
        Ok(())
    }
}
