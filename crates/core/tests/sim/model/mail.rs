//! Mail and turns in the model: one home for each message, one live turn for each member.

use std::collections::{BTreeMap, BTreeSet};

use aion_core::budget::Amount;
use aion_core::command::Caller;
use aion_core::event::DeadLetterReason;
use aion_core::id::{MessageId, SlotId, TaskId, TurnId};
use aion_core::message::{Body, Envelope, ProtocolMessage, Recipient, Sender, Urgency};
use aion_core::time::{Millis, Timestamp};
use aion_core::turn::TurnOutcome;

use super::{Call, Dead, Home, LiveTurn, Mail, Model, Phase, Standing};

impl Model {
    pub(super) fn message_sent(
        &mut self,
        actor: Caller,
        message: &Envelope,
        recipients: &[SlotId],
        held: bool,
    ) {
        let id = message.id;
        let last = self.last_message;
        self.check(id.0 > last, "INV-04", || format!("message {id} follows m{last}"));
        self.last_message = last.max(id.0);
        self.check_recipients(message, recipients);
        if let (Body::Text(text), Sender::Agent(slot)) = (&message.body, message.from) {
            let wrote = |id| self.written.get(&id).is_some_and(|was| *was == (slot, text.clone()));
            let own = actor == Caller::Agent(slot)
                || actor == Caller::System
                || self.scope.consented
                || (actor == Caller::User && message.again.is_some_and(wrote));
            self.written.insert(id, (slot, text.clone()));
            self.check(own, "INV-14", || format!("{actor:?} wrote {id} in the name of {slot}"));
        }
        let most = u64::from(self.settings.limits.message_bytes);
        let written = matches!(message.body, Body::Text(_)) && message.from != Sender::System;
        let bytes = message.body.len() as u64;
        self.check(!written || bytes <= most, "INV-31", || format!("{id} has {bytes} bytes"));
        let told = match &message.body {
            Body::Text(text) => text.clone(),
            Body::Protocol(protocol) => protocol.kind().to_owned(),
        };
        if message.from == Sender::System {
            self.scope.told.push((message.to, told));
        }
        if message.from == Sender::User && matches!(message.body, Body::Text(_)) {
            self.stale.clear();
        }
        let answers = match &message.body {
            Body::Protocol(
                ProtocolMessage::PermissionResponse { request, .. }
                | ProtocolMessage::SandboxPermissionResponse { request, .. },
            ) => Some(*request),
            Body::Protocol(_) | Body::Text(_) => None,
        };
        if written && message.from != Sender::System && actor != Caller::System {
            self.check_flood(message, recipients);
        }
        for slot in recipients {
            let Some(member) = self.member(*slot) else { continue };
            member.mail.insert(
                id,
                Mail {
                    home: Home::Queued,
                    urgency: message.urgency,
                    held,
                    bytes,
                    from: message.from,
                    answers,
                    accepted_at: message.sent_at,
                    step: 0,
                    attempts: 0,
                    redelivered: false,
                    text: matches!(message.body, Body::Text(_)),
                    gives_way_to: gives_way_to(&message.body),
                },
            );
            self.counts.accepted += 1;
            *self.open_mail.entry(id).or_default() += 1;
        }
    }

    /// INV-31: nobody floods a mailbox, and no member the team.
    fn check_flood(&mut self, message: &Envelope, recipients: &[SlotId]) {
        let limits = self.settings.limits.clone();
        let full = recipients.iter().copied().find(|slot| {
            self.members.get(slot).is_some_and(|m| {
                let queued = m.mail.values().filter(|m| m.home == Home::Queued).count();
                // A tenth is kept for the person.
                let own = message.from == Sender::User || message.again.is_some();
                let room = limits.unread + if own { limits.unread / 10 + 1 } else { 0 };
                queued >= room as usize
            })
        });
        let prompt = self.scope.brought_in || self.scope.decided;
        self.check(full.is_none() || prompt, "INV-31", || {
            format!("{} goes into the full mailbox of {full:?}", message.id)
        });
        let (Sender::Agent(from), at) = (message.from, self.at) else { return };
        if message.again.is_some() {
            return;
        }
        if limits.messages_per_minute == 0 || prompt {
            return;
        }
        // Everything at once and then what refills: twice the allowance in any minute.
        let most = 2 * u64::from(limits.messages_per_minute);
        let count = (recipients.len().max(1) as u64).min(u64::from(limits.messages_per_minute));
        let Some(member) = self.members.get_mut(&from) else { return };
        member.sent.retain(|(when, _)| at - *when < Millis::minutes(1));
        member.sent.push((at, count));
        let sent: u64 = member.sent.iter().map(|(_, n)| n).sum();
        self.check(sent <= most, "INV-31", || format!("{from} sent {sent} messages in a minute"));
    }

    fn check_recipients(&mut self, message: &Envelope, recipients: &[SlotId]) {
        let from = match message.from {
            Sender::Agent(slot) => Some(slot),
            Sender::User | Sender::System => None,
        };
        let expected: Vec<SlotId> = match message.to {
            Recipient::Agent(slot) => vec![slot],
            Recipient::Lead => vec![SlotId::LEAD],
            Recipient::Everyone => {
                self.present().map(|(slot, _)| slot).filter(|slot| Some(*slot) != from).collect()
            }
            Recipient::User => Vec::new(),
        };
        self.check(expected == recipients, "INV-06", || {
            format!(
                "{} from {:?} to {:?} went to {recipients:?}, not {expected:?}",
                message.id, message.from, message.to
            )
        });
    }

    /// Takes a message out of a mailbox for good.
    fn close(&mut self, id: MessageId, slot: SlotId) -> Option<Mail> {
        self.touch(slot);
        let mail = self.members.get_mut(&slot).and_then(|m| m.mail.remove(&id));
        if mail.is_none() {
            self.fail("INV-01", format!("{id} leaves the mailbox of {slot}, where it is not"));
            return None;
        }
        if let Some(open) = self.open_mail.get_mut(&id) {
            *open -= 1;
            if *open == 0 {
                self.open_mail.remove(&id);
                self.closed_mail.push(id);
            }
        }
        mail
    }

    pub(super) fn message_delivered(
        &mut self,
        id: MessageId,
        slot: SlotId,
        turn: TurnId,
        step: u32,
    ) {
        self.in_live_turn(slot, turn);
        let Some(member) = self.member(slot) else { return };
        // The answer that a call waits for is taken by that call, past everything else; notices
        // have an order of their own.
        let older = member
            .mail
            .iter()
            .find(|(_, m)| m.home == Home::Queued && !m.held && m.answers.is_none())
            .map(|(id, _)| *id)
            .filter(|oldest| *oldest < id);
        let apart = member.mail.get(&id).is_some_and(|m| m.held || m.answers.is_some());
        let answers = member.mail.get(&id).and_then(|m| m.answers);
        let attempts = member.mail.get(&id).map_or(0, |m| m.attempts);
        self.check(older.is_none() || apart, "INV-04", || {
            format!("{slot} reads {id} before {older:?}")
        });
        self.check(attempts == 0 || apart, "INV-03", || {
            format!("{id} failed {attempts} times, and {slot} reads it together with other mail")
        });
        self.put_in_turn(id, slot, turn, step);
        if let Some(request) = answers {
            self.answer_taken(slot, turn, request);
        }
    }

    fn put_in_turn(&mut self, id: MessageId, slot: SlotId, turn: TurnId, step: u32) {
        let Some(member) = self.member(slot) else { return };
        let home = member.mail.get(&id).map(|m| m.home);
        if let Some(mail) = member.mail.get_mut(&id) {
            mail.home = Home::InTurn(turn);
            mail.step = step;
        }
        self.check(home == Some(Home::Queued), "INV-01", || {
            format!("{id} is delivered to {slot}, but its home is {home:?}")
        });
    }

    pub(super) fn message_returned(&mut self, id: MessageId, slot: SlotId, turn: TurnId) {
        self.in_live_turn(slot, turn);
        let Some(member) = self.member(slot) else { return };
        let step = member.mail.get(&id).map_or(0, |m| m.step);
        let home = member.mail.get(&id).map(|m| m.home);
        if let Some(mail) = member.mail.get_mut(&id) {
            mail.home = Home::Queued;
        }
        self.check(home == Some(Home::InTurn(turn)), "INV-01", || {
            format!("{id} is returned from {turn}, but its home is {home:?}")
        });
        self.check(step > 0, "INV-01", || format!("{id} is returned, and was in the opening"));
    }

    pub(super) fn message_superseded(&mut self, id: MessageId, slot: SlotId, by: MessageId) {
        let replaced = self
            .members
            .get(&slot)
            .and_then(|m| m.mail.get(&id))
            .is_some_and(|m| m.gives_way_to.is_some());
        let there = self.members.get(&slot).is_some_and(|m| m.mail.contains_key(&by));
        let newer = by > id && (there || replaced);
        self.check(newer, "INV-01", || {
            format!("{id} gives way to {by}, which {slot} does not have")
        });
        if let Some(mail) = self.close(id, slot) {
            self.counts.superseded += 1;
            let newer = self.members.get(&slot).and_then(|m| m.mail.get(&by));
            let replaced = mail.gives_way_to.is_some()
                && newer.is_none_or(|m| m.gives_way_to == mail.gives_way_to);
            self.check((mail.held || replaced) && mail.home == Home::Queued, "INV-01", || {
                format!("{id} gives way, but it is neither a waiting notice nor replaced")
            });
        }
    }

    pub(super) fn message_dead(&mut self, id: MessageId, slot: SlotId, reason: &DeadLetterReason) {
        let attempts = self.settings.limits.attempts;
        let Some(mail) = self.close(id, slot) else { return };
        self.counts.dead += 1;
        self.check(mail.home == Home::Queued, "INV-01", || format!("{id} died in a live turn"));
        let fits = match reason {
            DeadLetterReason::Attempts { .. } => mail.attempts >= attempts,
            DeadLetterReason::RecipientGone => {
                self.members.get(&slot).is_some_and(|m| {
                    matches!(m.phase, Phase::Removed | Phase::Stopping | Phase::Failed)
                }) || self.scope.removed.contains(&slot)
            }
            DeadLetterReason::TeamEnded => true,
        };
        self.check(fits, "INV-03", || {
            format!("{id} is a dead letter for {reason:?} after {} attempts", mail.attempts)
        });
        self.scope.dead.push(Dead {
            id,
            slot,
            from: mail.from,
            text: mail.text,
            reason: reason.clone(),
        });
    }

    pub(super) fn turn_started(
        &mut self,
        turn: TurnId,
        slot: SlotId,
        batch: &[MessageId],
        offer: Option<TaskId>,
        reserved: Option<Amount>,
    ) {
        let last = self.last_turn;
        self.check(turn.0 > last, "INV-09", || format!("turn {turn} follows t{last}"));
        self.last_turn = last.max(turn.0);
        let at = self.at;
        if let Some(task) = offer {
            self.check_offer(slot, task);
        }
        self.check_batch(slot, batch, offer.is_some());
        let Some(member) = self.member(slot) else { return };
        let (phase, live, holds) = (member.phase, member.turn.is_some(), member.holds.clone());
        let not_before = member.not_before;
        member.phase = Phase::Active;
        member.turn = Some(LiveTurn {
            id: turn,
            calls: BTreeMap::new(),
            detached: None,
            interrupted: false,
            offer,
            progress: false,
        });
        self.check(phase == Phase::Idle && !live, "INV-09", || {
            format!("{slot} begins {turn} while it is {phase:?}")
        });
        self.check(holds.is_empty(), "INV-08", || {
            format!("{slot} begins {turn} while held: {holds:?}")
        });
        let held = self.team_holds.clone();
        self.check(held.is_empty(), "INV-16", || {
            format!("{slot} begins {turn}, the team is held: {held:?}")
        });
        self.check(!batch.is_empty() || offer.is_some(), "NO-INPUT", || {
            format!("{slot} begins {turn} without anything new")
        });
        self.check(at >= not_before, "INV-23", || {
            format!("{slot} begins {turn} at {at}, it was to wait until {not_before}")
        });
        for id in batch {
            self.put_in_turn(*id, slot, turn, 0);
        }
        self.reserve_first(turn, reserved);
    }

    /// A batch is the oldest mail that may be read, in order, and not more than is allowed.
    fn check_batch(&mut self, slot: SlotId, batch: &[MessageId], offered: bool) {
        let due = self.notices_due(slot);
        let limits = self.settings.limits.clone();
        let Some(member) = self.members.get(&slot) else { return };
        let readable: Vec<(MessageId, u32, u64)> = member
            .mail
            .iter()
            .filter(|(_, m)| m.home == Home::Queued && (!m.held || due))
            .map(|(id, m)| (*id, m.attempts, m.bytes))
            .collect();
        let prefix: Vec<MessageId> =
            readable.iter().take(batch.len()).map(|(id, ..)| *id).collect();
        let ordered = batch.windows(2).all(|pair| pair[0] < pair[1]);
        let mine = batch.iter().all(|id| member.mail.contains_key(id));
        let suspects = readable.iter().take(batch.len()).filter(|(_, n, _)| *n > 0).count();
        let bytes: u64 = readable.iter().take(batch.len()).map(|(.., bytes)| bytes).sum();
        let wakes = member.mail.iter().any(|(_, m)| {
            m.home == Home::Queued && if m.held { due } else { m.urgency >= Urgency::Wake }
        });
        self.check(mine, "INV-01", || format!("{slot} gets mail of somebody else: {batch:?}"));
        self.check(ordered && (!mine || prefix == batch), "INV-04", || {
            format!("{slot} gets {batch:?}, its oldest mail is {prefix:?}")
        });
        self.check(suspects == 0 || batch.len() == 1, "INV-03", || {
            format!("{slot} gets mail that failed before together with other mail: {batch:?}")
        });
        self.check(batch.len() <= limits.batch_messages as usize, "INV-31", || {
            format!("{slot} gets {} messages at once", batch.len())
        });
        self.check(batch.len() <= 1 || bytes <= limits.batch_bytes, "INV-31", || {
            format!("{slot} gets {bytes} bytes at once")
        });
        self.check(wakes || offered, "NO-INPUT", || {
            format!("{slot} begins a turn with {batch:?}, nothing of which wakes")
        });
    }

    pub(super) fn in_live_turn(&mut self, slot: SlotId, turn: TurnId) -> bool {
        let live = self.members.get(&slot).and_then(|m| m.turn.as_ref()).map(|t| t.id);
        self.touch(slot);
        self.check(live == Some(turn), "INV-09", || {
            format!("something happens in {turn} of {slot}, whose live turn is {live:?}")
        });
        live == Some(turn)
    }

    pub(super) fn live_turn(&mut self, slot: SlotId, turn: TurnId) -> Option<&mut LiveTurn> {
        if !self.in_live_turn(slot, turn) {
            return None;
        }
        self.members.get_mut(&slot).and_then(|m| m.turn.as_mut())
    }

    pub(super) fn turn_resumed(&mut self, turn: TurnId, slot: SlotId) {
        self.scope.cared_for.insert(turn);
        if let Some(live) = self.live_turn(slot, turn) {
            live.detached = None;
        }
    }

    pub(super) fn turn_detached(&mut self, turn: TurnId, slot: SlotId, until: Timestamp) {
        self.scope.cared_for.insert(turn);
        if let Some(live) = self.live_turn(slot, turn) {
            live.detached = Some(until);
        }
    }

    pub(super) fn interrupt_requested(&mut self, turn: TurnId, slot: SlotId, by: Sender) {
        let allowed = matches!(by, Sender::User | Sender::System | Sender::Agent(SlotId::LEAD));
        self.check(allowed, "INV-14", || format!("{by:?} interrupts {slot}"));
        if let Some(live) = self.live_turn(slot, turn) {
            live.interrupted = true;
        }
    }

    pub(super) fn turn_ended(
        &mut self,
        turn: TurnId,
        slot: SlotId,
        outcome: &TurnOutcome,
        acknowledged: &[MessageId],
        requeued: &[MessageId],
    ) {
        let at = self.at;
        self.in_live_turn(slot, turn);
        self.counts.turns += 1;
        self.scope.ended_turns.push((slot, outcome.clone(), requeued.to_vec()));
        let opened = self.scope.opened;
        let (backoff, attempts) =
            (self.settings.limits.restart_backoff, self.settings.limits.attempts);
        let Some(member) = self.member(slot) else { return };
        let input: BTreeSet<MessageId> = member
            .mail
            .iter()
            .filter(|(_, m)| m.home == Home::InTurn(turn))
            .map(|(id, _)| *id)
            .collect();
        let named: BTreeSet<MessageId> = acknowledged.iter().chain(requeued).copied().collect();
        let once = named.len() == acknowledged.len() + requeued.len();
        let detached = member.turn.as_ref().and_then(|t| t.detached);
        let progress = member.turn.as_ref().is_none_or(|t| t.progress);
        let offer = member.turn.as_ref().and_then(|t| t.offer);
        let fault = matches!(outcome, TurnOutcome::AgentFault { .. });
        member.faults_in_a_row = if fault { member.faults_in_a_row + 1 } else { 0 };
        if fault {
            let doubled = (member.faults_in_a_row - 1).min(6);
            member.not_before = at + Millis(backoff.0 << doubled);
        }
        // A task that the turn could not look at is offered again.
        let considered = outcome.acknowledges() || member.faults_in_a_row >= attempts;
        if let Some(task) = offer.filter(|_| !considered) {
            member.offered.remove(&task);
        }
        let peers: BTreeSet<SlotId> = acknowledged
            .iter()
            .filter_map(|id| match member.mail.get(id)?.from {
                Sender::Agent(peer) => Some(peer),
                Sender::User | Sender::System => None,
            })
            .collect();
        let stopping = member.phase == Phase::Stopping;
        if member.phase == Phase::Active {
            member.phase = Phase::Idle;
        }
        member.turn = None;
        for id in requeued {
            if let Some(mail) = member.mail.get_mut(id) {
                mail.home = Home::Queued;
                mail.attempts += u32::from(matches!(outcome, TurnOutcome::AgentFault { .. }));
                mail.redelivered |= matches!(outcome, TurnOutcome::Lost);
            }
        }
        self.check(once && input == named, "INV-01", || {
            format!("{turn} had {input:?} and ends with {acknowledged:?} read, {requeued:?} queued again")
        });
        let right =
            if outcome.acknowledges() { requeued.is_empty() } else { acknowledged.is_empty() };
        self.check(right, "INV-03", || {
            format!("{turn} ended by {outcome:?}: {acknowledged:?} read, {requeued:?} queued again")
        });
        if outcome.acknowledges() && !progress {
            for peer in peers {
                *self.stale.entry((peer.min(slot), peer.max(slot))).or_default() += 1;
            }
        }
        self.check(!(opened && fault), "INV-03", || {
            format!("{turn} was cut by the fall of the house and counts as a fault")
        });
        if let (TurnOutcome::Lost, Some(until), false) = (outcome, detached, opened) {
            self.check(at >= until || stopping, "INV-23", || {
                format!("{turn} was given up at {at}, it had until {until}")
            });
        }
        for id in acknowledged {
            if self.close(*id, slot).is_some() {
                self.counts.acknowledged += 1;
            }
        }
    }

    /// Whether a member has something to read that begins a turn.
    pub(crate) fn has_waking_mail(&self, slot: SlotId) -> bool {
        let due = self.notices_due(slot);
        self.members.get(&slot).is_some_and(|member| {
            member.mail.values().any(|m| {
                m.home == Home::Queued && if m.held { due } else { m.urgency >= Urgency::Wake }
            })
        })
    }

    /// Whether the lead's idle notices may be read: all others are settled, or the oldest has
    /// waited long enough.
    pub(crate) fn notices_due(&self, slot: SlotId) -> bool {
        let Some(oldest) = self.oldest_notice(slot) else { return false };
        slot == SlotId::LEAD
            && (oldest + self.settings.limits.notices_wait <= self.at
                || self.present().all(|(slot, m)| m.lead || self.is_settled(slot)))
    }

    fn is_settled(&self, slot: SlotId) -> bool {
        self.members.get(&slot).is_some_and(|m| match m.phase {
            Phase::Idle => {
                !m.holds.is_empty()
                    || !(self.has_waking_mail(slot) || self.next_offer(slot).is_some())
            }
            Phase::Failed => m.retry_at.is_none(),
            Phase::Active => m.turn.as_ref().is_some_and(|t| self.waits_for_people(slot, t)),
            Phase::Pending | Phase::Stopping => false,
            Phase::Removed => true,
        })
    }

    /// Whether a turn does nothing but wait for decisions that nobody has made.
    fn waits_for_people(&self, slot: SlotId, turn: &LiveTurn) -> bool {
        let mut asked = self
            .requests
            .values()
            .filter(|a| {
                a.request.turn == Some(turn.id)
                    && a.request.from == Sender::Agent(slot)
                    && !a.is_closed()
            })
            .peekable();
        asked.peek().is_some()
            && asked.all(|a| a.standing == Standing::Open)
            && !turn.calls.values().any(|c| *c == Call::Started)
    }

    pub(crate) fn oldest_notice(&self, slot: SlotId) -> Option<Timestamp> {
        self.members
            .get(&slot)?
            .mail
            .values()
            .filter(|m| m.held && m.home == Home::Queued)
            .map(|m| m.accepted_at)
            .min()
    }
}

/// What an unread message of the rules is about, so that a newer one may take its place.
fn gives_way_to(body: &Body) -> Option<String> {
    match body {
        Body::Protocol(ProtocolMessage::PlanApprovalRequest { .. }) => Some("plan".to_owned()),
        Body::Protocol(ProtocolMessage::TaskAssignment { task, .. }) => Some(task.to_string()),
        Body::Protocol(_) | Body::Text(_) => None,
    }
}
