//! Planted faults in requests and permissions.

use aion_core::event::Event;
use aion_core::id::SlotId;
use aion_core::message::Sender;
use aion_core::request::{ActionHash, Decision, RequestKind};
use aion_core::turn::ToolVerdict;

use super::Mutant;
use crate::model::{Model, Standing};

impl Mutant {
    pub(super) fn in_rights(self, events: &mut Vec<Event>, model: &Model) -> bool {
        match self {
            Self::ForgetDeadline => {
                let count = events.len();
                events.retain(|e| !matches!(e, Event::RequestEscalated { .. }));
                events.len() != count
            }
            Self::StrangerAnswers => {
                let open = model.requests.iter().find(|(_, a)| {
                    a.standing == Standing::Open
                        && matches!(&a.request.kind, RequestKind::Shutdown(_))
                });
                let Some((id, asked)) = open else { return false };
                let RequestKind::Shutdown(handshake) = &asked.request.kind else { return false };
                let stranger = model
                    .present()
                    .map(|(s, _)| s)
                    .find(|s| *s != handshake.slot && *s != SlotId::LEAD);
                let Some(stranger) = stranger else { return false };
                events.push(Event::RequestDecided {
                    request: *id,
                    by: Sender::Agent(stranger),
                    decision: Decision::RejectShutdown { reason: "no".to_owned() },
                    delegated: false,
                });
                true
            }
            Self::PersonSpeaks => events.iter_mut().any(|event| match event {
                Event::RequestDecided {
                    request,
                    by: Sender::User,
                    decision: decision @ Decision::ForceShutdown,
                    ..
                } => {
                    let of_others = model.requests.get(request).is_some_and(|a| {
                        matches!(&a.request.kind, RequestKind::Shutdown(handshake)
                            if handshake.by != Sender::Agent(handshake.slot))
                    });
                    if of_others {
                        *decision = Decision::ApproveShutdown;
                    }
                    of_others
                }
                _ => false,
            }),
            Self::DecideTwice => {
                let decided =
                    events.iter().find(|e| matches!(e, Event::RequestDecided { .. })).cloned();
                let Some(decided) = decided else { return false };
                if events.iter().any(|e| matches!(e, Event::TeamEnded)) {
                    return false;
                }
                events.push(decided);
                true
            }
            Self::HangingRequest => {
                let count = events.len();
                events.retain(|e| {
                    !matches!(e, Event::RequestOrphaned { .. } | Event::RequestWithdrawn { .. })
                });
                events.len() != count
            }
            Self::AskerDecides => {
                let Some(open) = events.iter().find_map(|e| match e {
                    Event::RequestOpened { request }
                        if matches!(request.from, Sender::Agent(_)) =>
                    {
                        Some(request.clone())
                    }
                    _ => None,
                }) else {
                    return false;
                };
                if !matches!(open.kind, RequestKind::Plan(_)) {
                    return false;
                }
                events.push(Event::RequestDecided {
                    request: open.id,
                    by: open.from,
                    decision: Decision::ApprovePlan { mode: None },
                    delegated: false,
                });
                true
            }
            Self::ReuseGrant => {
                let Some(spent) = model.spent_grants.iter().next().copied() else { return false };
                events.iter_mut().any(|event| match event {
                    Event::ToolProposed { verdict: ToolVerdict::Run, grant, .. } => {
                        *grant = Some(spent);
                        true
                    }
                    _ => false,
                })
            }
            Self::RunUnasked => events.iter_mut().any(|event| match event {
                Event::ToolProposed { verdict, .. }
                    if matches!(verdict, ToolVerdict::Refused { .. }) =>
                {
                    *verdict = ToolVerdict::Run;
                    true
                }
                _ => false,
            }),
            Self::LeakInput => events.iter_mut().any(|event| match event {
                Event::ToolProposed {
                    description,
                    class: aion_core::permission::ToolClass::Read,
                    ..
                } => {
                    description.push_str(crate::world::SECRET_INPUT);
                    true
                }
                _ => false,
            }),
            Self::SwapAction => events.iter_mut().any(|event| match event {
                Event::RequestOpened { request } => match &mut request.kind {
                    RequestKind::Permission(ask) => {
                        ask.action = ActionHash::of_text("something else");
                        true
                    }
                    _ => false,
                },
                Event::ToolRefused { turn, slot, call, request, .. } => {
                    let allowed = model.requests.get(request).is_some_and(|asked| {
                        matches!(asked.standing, Standing::Decided(Decision::Allow { .. }))
                    });
                    if allowed {
                        *event = Event::ToolStarted {
                            turn: *turn,
                            slot: *slot,
                            call: call.clone(),
                            request: *request,
                        };
                    }
                    allowed
                }
                _ => false,
            }),
            _ => false,
        }
    }
}
