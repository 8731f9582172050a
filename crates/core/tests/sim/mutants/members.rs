//! Planted faults in members, tasks and limits.

use aion_core::Caller;
use aion_core::agent::{Hold, RemovalReason};
use aion_core::event::Event;
use aion_core::id::{AgentName, SlotId, TaskId};
use aion_core::message::Sender;
use aion_core::task::{TaskChange, TaskStatus};
use aion_core::team::Team;
use aion_core::time::{Millis, Timestamp};

use super::Mutant;
use crate::model::Model;
use crate::rng::Rng;

impl Mutant {
    pub(super) fn in_members(
        self,
        events: &mut Vec<Event>,
        before: &Team,
        model: &Model,
        caller: Caller,
        rng: &mut Rng,
    ) -> bool {
        match self {
            Self::StealTask => {
                let Caller::Agent(thief) = caller else { return false };
                if thief == SlotId::LEAD || !rng.percent(20) || !model.is_present(thief) {
                    return false;
                }
                let Some(task) =
                    before.board().open().values().find(|t| t.owner().is_some_and(|o| o != thief))
                else {
                    return false;
                };
                let change = TaskChange { owner: Some(Some(thief)), ..TaskChange::default() };
                events.insert(
                    0,
                    Event::TaskChanged { task: task.id(), change, by: Sender::Agent(thief) },
                );
                true
            }
            Self::KeepDeadOwner => {
                if !events.iter().any(|e| {
                    matches!(
                        e,
                        Event::AgentFailed { retry_at: None, .. } | Event::AgentRemoved { .. }
                    )
                }) {
                    return false;
                }
                let count = events.len();
                events.retain(|e| {
                    !matches!(e, Event::TaskChanged { change, by: Sender::System, .. } if change.owner == Some(None))
                });
                events.len() != count
            }
            Self::BeginBlocked => {
                let blocked = before.board().open().values().find(|t| {
                    !before.board().waits_for(t).is_empty() && t.status() == TaskStatus::Pending
                });
                let Some(task) = blocked.filter(|_| rng.percent(20)) else { return false };
                let owner = task.owner().unwrap_or(SlotId::LEAD);
                let change = TaskChange {
                    owner: Some(Some(owner)),
                    status: Some(TaskStatus::InProgress),
                    ..TaskChange::default()
                };
                events.push(Event::TaskChanged { task: task.id(), change, by: Sender::User });
                true
            }
            Self::Circle => {
                let pair = before
                    .board()
                    .open()
                    .values()
                    .find_map(|t| before.board().waits_for(t).first().map(|on| (t.id(), *on)));
                let Some((task, on)) = pair.filter(|_| rng.percent(20)) else { return false };
                let add: std::collections::BTreeSet<TaskId> = [task].into();
                let change = TaskChange { add_blocked_by: add, ..TaskChange::default() };
                events.push(Event::TaskChanged { task: on, change, by: Sender::User });
                true
            }
            Self::ForgetFailure => {
                if !events.iter().any(|e| matches!(e, Event::AgentFailed { retry_at: None, .. })) {
                    return false;
                }
                let count = events.len();
                events.retain(|e| {
                    !matches!(e, Event::MessageSent { message, .. } if message.from == Sender::System)
                });
                events.len() != count
            }
            Self::SecondLead => {
                if !rng.permille(5) || !model.created || model.ended {
                    return false;
                }
                events.push(Event::AgentRemoved {
                    slot: SlotId::LEAD,
                    reason: RemovalReason::Killed,
                });
                true
            }
            Self::EarlyRelease => {
                let held = model.present().find_map(|(slot, m)| {
                    m.holds.iter().find(|h| matches!(h, Hold::Provider { until: Some(t) } if *t > model.at + Millis(60_000))).map(|h| (slot, *h))
                });
                let Some((slot, hold)) = held.filter(|_| caller != Caller::User) else {
                    return false;
                };
                events.push(Event::AgentReleased { slot, hold });
                true
            }
            Self::TwinName => {
                let taken = model.present().map(|(_, m)| m.name.clone()).last();
                events.iter_mut().any(|event| match (event, &taken) {
                    (Event::AgentSpawned { member, .. }, Some(taken)) => {
                        match AgentName::parse(&taken.as_str().replace('o', "0")) {
                            Ok(twin) => {
                                member.name = twin;
                                true
                            }
                            Err(_) => false,
                        }
                    }
                    _ => false,
                })
            }
            Self::TooManyMembers => {
                let full = model.present().count() >= model.settings.limits.members as usize;
                if !full || model.ended {
                    return false;
                }
                let number = model.last_slot + 1;
                events.push(Event::AgentSpawned {
                    slot: SlotId(number),
                    member: aion_core::agent::MemberSpec {
                        name: AgentName::parse(&format!("extra-{number}")).expect("a slug"),
                        label: None,
                        agent_type: "scripted".to_owned(),
                        model: None,
                        color: None,
                        prompt: String::new(),
                        mode: aion_core::agent::PermissionMode::Default,
                        conversation: aion_core::id::ConversationId::new("extra").expect("a slug"),
                        parent_call: None,
                        parent_conversation: None,
                    },
                    consent: None,
                    by: Sender::User,
                });
                true
            }
            Self::RestartForEver => events.iter_mut().any(|event| match event {
                Event::AgentFailed { retry_at, slot, .. }
                    if retry_at.is_none() && *slot != SlotId::LEAD =>
                {
                    let Some(member) = model.members.get(slot) else { return false };
                    if member.restarts.len() < model.settings.limits.restarts_in_window as usize {
                        return false;
                    }
                    *retry_at = Some(Timestamp(model.at.0 + 1_000));
                    true
                }
                _ => false,
            }),
            Self::OverBudget => events.iter_mut().any(|event| match event {
                Event::TurnStarted { reserved: Some(amount), .. } if model.cap.is_some() => {
                    amount.tokens = 1_000_000;
                    true
                }
                _ => false,
            }),
            Self::NoCircleCut => {
                let count = events.len();
                events.retain(|e| !matches!(e, Event::AgentHeld { hold: Hold::NoProgress, .. }));
                events.len() != count
            }
            _ => false,
        }
    }
}
