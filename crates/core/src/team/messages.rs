//! Sending mail, and reading it in the middle of a turn.

use std::collections::BTreeSet;

use crate::agent::{Agent, Hold, Role};
use crate::command::{Caller, KeyHash, Receipt, SendMessage};
use crate::event::Event;
use crate::id::{MessageId, RequestId, SlotId, TurnId};
use crate::message::{Body, Envelope, ProtocolMessage, Recipient, Sender, Urgency};
use crate::rejection::Rejection;
use crate::request::{Decision, RequestKind, RequestState};
use crate::shutdown::compatible_answer;

use super::agents::interrupt;
use super::checks::{FILES, within};
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
        let bytes = weight(message);
        within("message_bytes", limits.message_bytes.into(), bytes)?;
        within("files", FILES, message.files.len() as u64)?;
        if message.urgency == Urgency::Interrupt && matches!(authority, Authority::Teammate(_)) {
            return Err(Rejection::NotAllowed {
                what: "interrupt with a message",
                who: "the person or the lead",
            });
        }
        let recipients = self.recipients(caller, message.to)?;
        let key = message.key.as_ref().map(|key| KeyHash::new(caller, key, message));
        if let Some((request, decision)) = self.answer_in_text(caller, message) {
            self.decide_request(d, caller, request, &decision)?;
            if let Some(key) = key {
                let receipt = Receipt { request: Some(request), ..Receipt::default() };
                d.push(Event::KeyUsed { key, receipt });
            }
            return Ok(());
        }
        self.check_mail(d.now, caller, &recipients, bytes)?;
        let envelope = Envelope {
            id: d.next_message(),
            from: caller.into(),
            to: message.to,
            body: Body::Text(message.text.clone()),
            summary: message.summary.clone(),
            urgency: message.urgency,
            files: message.files.clone(),
            again: None,
            sent_at: d.now,
        };
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

    /// What was given up, or was for somebody who is gone, is sent once more: a message of its own,
    /// in the name of whoever wrote it.
    pub(super) fn send_again(
        &self,
        d: &mut Draft,
        caller: Caller,
        slot: SlotId,
        message: &Envelope,
    ) -> Result<(), Rejection> {
        self.person(caller, "send a message again")?;
        if matches!(message.body, Body::Protocol(_)) {
            // Its meaning was of its moment: the request behind it is decided or gone.
            return Err(Rejection::NotAllowed {
                what: "send a notice of the team again",
                who: "the rule that made it",
            });
        }
        let agent = self.member(slot)?;
        if agent.mailbox.entries().contains_key(&message.id) {
            return Err(Rejection::WrongState { slot, needs: "to be done with the message" });
        }
        let bytes = message.body.len() as u64;
        self.check_mail(d.now, caller, &[slot], bytes)?;
        let again = Envelope {
            id: d.next_message(),
            to: Recipient::Agent(slot),
            urgency: message.urgency.min(Urgency::Wake),
            again: Some(message.id),
            sent_at: d.now,
            ..message.clone()
        };
        d.push(Event::MessageSent {
            message: again,
            recipients: vec![slot],
            held: false,
            key: None,
        });
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

    /// The one place where text answers a request (DESIGN 5.4): exactly one word of the member that
    /// a shutdown names, or of the lead about a member's own wish, to whoever asked.
    fn answer_in_text(
        &self,
        caller: Caller,
        message: &SendMessage,
    ) -> Option<(RequestId, Decision)> {
        let Caller::Agent(from) = caller else { return None };
        let answer = compatible_answer(&message.text)?;
        let to = match message.to {
            Recipient::Agent(slot) => Sender::Agent(slot),
            Recipient::Lead => Sender::Agent(SlotId::LEAD),
            Recipient::User => Sender::User,
            Recipient::Everyone => return None,
        };
        let (id, _) = self.requests.iter().find(|(_, open)| {
            let RequestKind::Shutdown(s) = &open.request.kind else { return false };
            let own_wish = s.by == Sender::Agent(s.slot);
            let answers = if own_wish { from == SlotId::LEAD } else { s.slot == from };
            matches!(open.state, RequestState::Open) && s.by == to && answers
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

/// Bytes that a message takes in a mailbox.
fn weight(message: &SendMessage) -> u64 {
    let files: usize = message.files.iter().map(|f| f.name.len() + f.sha256.len()).sum();
    (message.text.len() + message.summary.as_deref().map_or(0, str::len) + files) as u64
}
