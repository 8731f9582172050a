//! Planted faults in mail and turns.

use aion_core::agent::TeamHold;
use aion_core::event::{DeadLetterReason, Event};
use aion_core::id::{MessageId, TurnId};
use aion_core::message::{Body, Recipient, Sender};
use aion_core::turn::TurnOutcome;

use super::Mutant;
use crate::model::{Home, Model, Phase};
use crate::rng::Rng;

impl Mutant {
    pub(super) fn in_mail(self, events: &mut Vec<Event>, model: &Model, rng: &mut Rng) -> bool {
        let at = |fits: fn(&Event) -> bool| events.iter().position(fits);
        match self {
            Self::DropAcknowledged => {
                for event in events.iter_mut() {
                    if let Event::TurnEnded { acknowledged, requeued, .. } = event {
                        return acknowledged.pop().or_else(|| requeued.pop()).is_some();
                    }
                }
                false
            }
            Self::DeliverTwice => {
                let stolen = model.present().find_map(|(_, m)| {
                    m.mail
                        .iter()
                        .find(|(_, mail)| matches!(mail.home, Home::InTurn(_)))
                        .map(|(id, _)| *id)
                });
                let (Some(id), Some(start)) =
                    (stolen, at(|e| matches!(e, Event::TurnStarted { .. })))
                else {
                    return false;
                };
                if let Event::TurnStarted { batch, .. } = &mut events[start] {
                    batch.push(id);
                    batch.sort_unstable();
                    batch.dedup();
                }
                true
            }
            Self::LoseOnRemoval => {
                let count = events.len();
                events.retain(|e| {
                    !matches!(
                        e,
                        Event::MessageDeadLettered { reason: DeadLetterReason::RecipientGone, .. }
                    )
                });
                events.len() != count
            }
            Self::AcknowledgeFailure => {
                for event in events.iter_mut() {
                    if let Event::TurnEnded { acknowledged, requeued, .. } = event
                        && !requeued.is_empty()
                    {
                        std::mem::swap(acknowledged, requeued);
                        return true;
                    }
                }
                false
            }
            Self::CountLostTurn => {
                if !events.iter().any(|e| matches!(e, Event::TeamOpened { .. })) {
                    return false;
                }
                for event in events.iter_mut() {
                    if let Event::TurnEnded { outcome, .. } = event
                        && *outcome == TurnOutcome::Lost
                    {
                        *outcome = TurnOutcome::AgentFault { error: "the house fell".to_owned() };
                        return true;
                    }
                }
                false
            }
            Self::EarlyDeadLetter => {
                for index in 0..events.len() {
                    if let Event::TurnEnded {
                        slot,
                        requeued,
                        outcome: TurnOutcome::Unavailable { .. },
                        ..
                    } = &events[index]
                        && let Some(message) = requeued.first()
                    {
                        let dead = Event::MessageDeadLettered {
                            message: *message,
                            slot: *slot,
                            reason: DeadLetterReason::Attempts { error: "no answer".to_owned() },
                        };
                        events.insert(index + 1, dead);
                        return true;
                    }
                }
                false
            }
            Self::Reorder => events.iter_mut().any(|event| match event {
                Event::TurnStarted { batch, .. } if batch.len() > 1 => {
                    batch.reverse();
                    true
                }
                _ => false,
            }),
            Self::SkipOldest => events.iter_mut().any(|event| match event {
                Event::TurnStarted { batch, .. } if batch.len() > 1 => {
                    batch.remove(0);
                    true
                }
                _ => false,
            }),
            Self::BroadcastToSender | Self::BroadcastMissing | Self::WrongMailbox => {
                self.misdirect(events, model)
            }
            Self::LostWake => match at(|e| matches!(e, Event::TurnStarted { .. })) {
                Some(index) => {
                    events.remove(index);
                    true
                }
                None => false,
            },
            Self::StartHeld => self.extra_turn(events, model, |m| {
                m.phase == Phase::Idle && !m.holds.is_empty() && !m.mail.is_empty()
            }),
            Self::SecondTurn => self.extra_turn(events, model, |m| {
                m.phase == Phase::Active && m.mail.values().any(|mail| mail.home == Home::Queued)
            }),
            Self::LeadDownGoesOn => {
                model.team_holds.contains(&TeamHold::LeadDown)
                    && self
                        .extra_turn(events, model, |m| m.phase == Phase::Idle && !m.mail.is_empty())
            }
            Self::EmptyTurn => {
                self.extra_turn(events, model, |m| m.phase == Phase::Idle && m.holds.is_empty())
            }
            Self::LateResult => {
                let Some((slot, live)) =
                    model.present().find_map(|(s, m)| m.turn.as_ref().map(|t| (s, t.id)))
                else {
                    return false;
                };
                if live.0 < 2 || !rng.percent(5) {
                    return false;
                }
                events.push(Event::ToolFinished {
                    turn: TurnId(live.0 - 1),
                    slot,
                    call: "call-1-1".to_owned(),
                    ok: true,
                    changed: false,
                });
                true
            }
            Self::ForgetLostTurn => {
                if !events.iter().any(|e| matches!(e, Event::TeamOpened { .. })) {
                    return false;
                }
                let count = events.len();
                events.retain(|e| {
                    !matches!(e, Event::TurnResumed { .. } | Event::TurnDetached { .. })
                });
                events.len() != count
            }
            Self::LeakKey => events.iter_mut().any(|event| match event {
                Event::MessageSent { message, key: Some(_), .. } => {
                    message.summary = Some(crate::world::SECRET_KEY.to_owned());
                    true
                }
                _ => false,
            }),
            Self::OfferAgain => {
                let declined = model.present().find_map(|(slot, m)| {
                    let fits =
                        m.phase == Phase::Idle && m.holds.is_empty() && m.not_before <= model.at;
                    let task = m.offered.iter().find(|(id, version)| {
                        model.tasks.get(id).is_some_and(|t| {
                            t.version == **version && t.owner.is_none() && !t.in_progress
                        })
                    })?;
                    fits.then_some((slot, *task.0))
                });
                let Some((slot, task)) = declined else { return false };
                if !model.team_holds.is_empty()
                    || model.cap.is_some()
                    || events.iter().any(|e| matches!(e, Event::TurnStarted { .. }))
                {
                    return false;
                }
                events.push(Event::TurnStarted {
                    turn: TurnId(model.last_turn + 1),
                    slot,
                    batch: Vec::new(),
                    offer: Some(task),
                    reserved: None,
                });
                true
            }
            Self::Flood => {
                let Some(Event::MessageSent { message, recipients, .. }) = events.last() else {
                    return false;
                };
                let written = matches!(message.body, Body::Text(_))
                    && matches!(message.from, Sender::Agent(_))
                    && model.settings.limits.messages_per_minute > 0;
                if !written {
                    return false;
                }
                let (message, recipients) = (message.clone(), recipients.clone());
                for more in 1..=70 {
                    let mut message = message.clone();
                    message.id = MessageId(message.id.0 + more);
                    let recipients = recipients.clone();
                    events.push(Event::MessageSent { message, recipients, held: false, key: None });
                }
                true
            }
            _ => false,
        }
    }

    fn misdirect(self, events: &mut [Event], model: &Model) -> bool {
        events.iter_mut().any(|event| {
            let Event::MessageSent { message, recipients, .. } = event else { return false };
            match (self, message.to, message.from) {
                (Self::BroadcastToSender, Recipient::Everyone, Sender::Agent(slot)) => {
                    recipients.push(slot);
                    recipients.sort_unstable();
                    true
                }
                (Self::BroadcastMissing, Recipient::Everyone, _) => recipients.pop().is_some(),
                (Self::WrongMailbox, Recipient::Agent(slot), _) => {
                    let other = model.present().map(|(s, _)| s).find(|s| *s != slot);
                    other.is_some_and(|other| {
                        *recipients = vec![other];
                        true
                    })
                }
                _ => false,
            }
        })
    }

    /// Starts a turn that nobody may start.
    fn extra_turn(
        self,
        events: &mut Vec<Event>,
        model: &Model,
        fits: impl Fn(&crate::model::Member) -> bool,
    ) -> bool {
        let touched = events.iter().any(|e| {
            matches!(
                e,
                Event::TurnStarted { .. }
                    | Event::TurnEnded { .. }
                    | Event::AgentReleased { .. }
                    | Event::AgentRemoved { .. }
                    | Event::TeamEnded
                    | Event::MessageDelivered { .. }
                    | Event::AgentFailed { .. }
                    | Event::TeamReleased { .. }
                    | Event::AgentStopping { .. }
            )
        });
        let Some((slot, member)) = model.present().find(|(_, m)| fits(m)) else { return false };
        if touched || model.ended {
            return false;
        }
        let batch: Vec<MessageId> = if self == Self::EmptyTurn {
            Vec::new()
        } else {
            let due = model.notices_due(slot);
            member
                .mail
                .iter()
                .filter(|(_, m)| m.home == Home::Queued && (!m.held || due))
                .map(|(id, _)| *id)
                .take(1)
                .collect()
        };
        if batch.is_empty() && self != Self::EmptyTurn {
            return false;
        }
        events.push(Event::TurnStarted {
            turn: TurnId(model.last_turn + 1),
            slot,
            batch,
            offer: None,
            reserved: None,
        });
        true
    }
}
