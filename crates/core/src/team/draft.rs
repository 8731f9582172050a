//! The events of one decision while it is being made; gives out the numbers.

use crate::event::Event;
use crate::id::{GrantId, MessageId, RequestId, SlotId, TurnId};
use crate::message::{Body, Envelope, Recipient, Sender, Urgency};
use crate::request::{Request, RequestKind};
use crate::time::Timestamp;

use super::{Counters, Team};

/// The events of one decision while it is being made; gives out the numbers.
pub(super) struct Draft {
    pub(super) now: Timestamp,
    pub(super) events: Vec<Event>,
    last: Counters,
}

impl Draft {
    pub(super) fn new(team: &Team, now: Timestamp) -> Self {
        Self { now, events: Vec::new(), last: team.last }
    }

    pub(super) fn push(&mut self, event: Event) {
        self.events.push(event);
    }

    pub(super) fn next_slot(&mut self) -> SlotId {
        self.last.slot += 1;
        SlotId(self.last.slot)
    }

    pub(super) fn next_grant(&mut self) -> GrantId {
        self.last.grant += 1;
        GrantId(self.last.grant)
    }

    pub(super) fn next_turn(&mut self) -> TurnId {
        self.last.turn += 1;
        TurnId(self.last.turn)
    }

    /// A message that a rule produces.
    pub(super) fn send(
        &mut self,
        from: Sender,
        to: Recipient,
        recipients: Vec<SlotId>,
        body: Body,
        urgency: Urgency,
    ) -> MessageId {
        self.send_as(from, to, recipients, body, urgency, false)
    }

    /// The same, perhaps held as an idle notice.
    pub(super) fn send_as(
        &mut self,
        from: Sender,
        to: Recipient,
        recipients: Vec<SlotId>,
        body: Body,
        urgency: Urgency,
        held: bool,
    ) -> MessageId {
        let id = self.next_message();
        let message = Envelope {
            id,
            from,
            to,
            body,
            summary: None,
            urgency,
            files: Vec::new(),
            again: None,
            sent_at: self.now,
        };
        self.push(Event::MessageSent { message, recipients, held, key: None });
        id
    }

    pub(super) fn next_message(&mut self) -> MessageId {
        self.last.message += 1;
        MessageId(self.last.message)
    }

    /// A new request.
    pub(super) fn open(
        &mut self,
        from: Sender,
        turn: Option<TurnId>,
        kind: RequestKind,
        delegated: bool,
    ) -> RequestId {
        let id = self.peek_request();
        self.last.request = id.0;
        let request = Request { id, from, turn, kind, delegated, asked_at: self.now };
        self.push(Event::RequestOpened { request });
        id
    }

    /// The number that the next request gets.
    pub(super) fn peek_request(&self) -> RequestId {
        RequestId(self.last.request + 1)
    }
}
