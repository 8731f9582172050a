//! Opening and deciding requests: one inbox, one decision, nobody decides his own.

use crate::agent::{AgentState, Hold, PermissionMode, RemovalReason, Role};
use crate::budget::{Amount, Cap};
use crate::command::{Caller, Rejection};
use crate::consent::{BudgetRaise, TeamProposal};
use crate::event::Event;
use crate::id::{RequestId, SlotId, TeamId};
use crate::message::{Body, ProtocolMessage, Recipient, Sender, Urgency};
use crate::permission::{Grant, GrantRule, GrantScope};
use crate::plan::PlanSubmission;
use crate::question::Question;
use crate::request::{Decision, Request, RequestKind, RequestState, Withdrawal};
use crate::shutdown::{ShutdownHandshake, ShutdownStage};

use super::decide::Draft;
use super::{Authority, OpenRequest, Team};

impl Team {
    fn check_open_requests(&self, slot: SlotId) -> Result<(), Rejection> {
        let asked = self.open_requests_of(slot) as u64 + 1;
        let allowed = u64::from(self.settings.limits.open_requests);
        if asked > allowed {
            return Err(Rejection::Limit {
                limit: "open_requests",
                allowed,
                asked,
            });
        }
        Ok(())
    }

    fn check_text(&self, what: &'static str, text: &str) -> Result<(), Rejection> {
        if text.trim().is_empty() {
            return Err(Rejection::Empty { what });
        }
        let (allowed, asked) = (
            u64::from(self.settings.limits.text_bytes),
            text.len() as u64,
        );
        if asked > allowed {
            return Err(Rejection::Limit {
                limit: "text_bytes",
                allowed,
                asked,
            });
        }
        Ok(())
    }

    fn asking_member(&self, caller: Caller, what: &'static str) -> Result<SlotId, Rejection> {
        match caller {
            Caller::Agent(slot) => {
                self.member(slot)?;
                Ok(slot)
            }
            Caller::User | Caller::System => Err(Rejection::NotAllowed {
                what,
                who: "a member",
            }),
        }
    }

    pub(super) fn submit_plan(
        &self,
        d: &mut Draft,
        caller: Caller,
        text: &str,
    ) -> Result<(), Rejection> {
        let slot = self.asking_member(caller, "submit a plan")?;
        self.check_text("a plan", text)?;
        let agent = self.member(slot)?;
        let from = Sender::Agent(slot);
        // A changed plan is a new one: the earlier version cannot be approved any more.
        let earlier = self.requests.values().filter(|r| {
            r.request.from == from
                && matches!(r.request.kind, RequestKind::Plan(_))
                && matches!(r.state, RequestState::Open)
        });
        let mut replaced = 0;
        for open in earlier {
            replaced += 1;
            d.push(Event::RequestWithdrawn {
                request: open.request.id,
                why: Withdrawal::ByAsker,
            });
        }
        if replaced == 0 {
            self.check_open_requests(slot)?;
        }
        let plan = PlanSubmission::new(text.to_owned());
        let hash = plan.hash;
        let delegated = agent.role == Role::Teammate && self.settings.delegation.plans;
        let request = d.open(from, None, RequestKind::Plan(plan), delegated);
        let body = Body::Protocol(ProtocolMessage::PlanApprovalRequest {
            request,
            hash,
            plan: text.to_owned(),
        });
        self.address_request(d, agent, body, delegated);
        Ok(())
    }

    pub(super) fn ask_user(
        &self,
        d: &mut Draft,
        caller: Caller,
        text: &str,
        options: &[String],
    ) -> Result<(), Rejection> {
        let slot = self.asking_member(caller, "ask the person")?;
        self.check_text("a question", text)?;
        self.check_open_requests(slot)?;
        let asked = options.iter().map(String::len).sum::<usize>() as u64;
        if options.len() > 20 || asked > u64::from(self.settings.limits.text_bytes) {
            return Err(Rejection::Limit {
                limit: "options",
                allowed: 20,
                asked: options.len() as u64,
            });
        }
        let question = Question {
            text: text.to_owned(),
            options: options.to_vec(),
        };
        d.open(
            Sender::Agent(slot),
            None,
            RequestKind::Question(question),
            false,
        );
        Ok(())
    }

    pub(super) fn propose_team(
        &self,
        d: &mut Draft,
        caller: Caller,
        proposal: &TeamProposal,
    ) -> Result<(), Rejection> {
        if self.authority(caller)? != Authority::Solo {
            return Err(Rejection::NotAllowed {
                what: "propose a team",
                who: "the agent of a conversation",
            });
        }
        self.check_text("a team's summary", &proposal.summary)?;
        self.check_open_requests(SlotId::LEAD)?;
        let kind = RequestKind::CreateTeam(Box::new(proposal.clone()));
        d.open(caller.into(), None, kind, false);
        Ok(())
    }

    pub(super) fn request_budget(
        &self,
        d: &mut Draft,
        caller: Caller,
        cap: Amount,
        reason: &str,
    ) -> Result<(), Rejection> {
        match self.authority(caller)? {
            Authority::Lead | Authority::Solo | Authority::System => {}
            Authority::User | Authority::Teammate(_) => {
                return Err(Rejection::NotAllowed {
                    what: "ask for more budget",
                    who: "the lead",
                });
            }
        }
        self.check_text("a reason", reason)?;
        let kind = RequestKind::RaiseBudget(BudgetRaise {
            cap,
            reason: reason.to_owned(),
        });
        d.open(caller.into(), None, kind, false);
        Ok(())
    }

    pub(super) fn end_team(&self, d: &mut Draft, caller: Caller) -> Result<(), Rejection> {
        match self.authority(caller)? {
            Authority::User | Authority::System => {
                self.end_now(d);
                Ok(())
            }
            Authority::Lead => {
                if let Some(busy) = self.teammates().find(|a| a.turn().is_some()) {
                    return Err(Rejection::WrongState {
                        slot: busy.slot,
                        needs: "idle, so that the team can end",
                    });
                }
                let open = self.requests.values().find(|r| {
                    matches!(r.request.kind, RequestKind::DeleteTeam)
                        && matches!(r.state, RequestState::Open)
                });
                if let Some(open) = open {
                    return Err(Rejection::AlreadyAsked {
                        request: open.request.id,
                    });
                }
                d.open(caller.into(), None, RequestKind::DeleteTeam, false);
                Ok(())
            }
            Authority::Teammate(_) | Authority::Solo => Err(Rejection::NotAllowed {
                what: "end the team",
                who: "the person or the lead",
            }),
        }
    }

    pub(super) fn request_shutdown(
        &self,
        d: &mut Draft,
        caller: Caller,
        slot: SlotId,
        reason: Option<&str>,
    ) -> Result<(), Rejection> {
        let agent = self.member(slot)?;
        if agent.role != Role::Teammate {
            return Err(Rejection::LeadStays);
        }
        if let Some(reason) = reason.filter(|r| !r.is_empty()) {
            self.check_text("a reason", reason)?;
        }
        let own = match self.authority(caller)? {
            Authority::User | Authority::System | Authority::Lead => false,
            Authority::Teammate(caller) if caller == slot => true,
            Authority::Teammate(_) | Authority::Solo => {
                return Err(Rejection::NotAllowed {
                    what: "ask another member to leave",
                    who: "the person or the lead",
                });
            }
        };
        let open = self.requests.values().find(|r| {
            matches!(&r.request.kind, RequestKind::Shutdown(s) if s.slot == slot)
                && matches!(r.state, RequestState::Open)
        });
        if let Some(open) = open {
            return Err(Rejection::AlreadyAsked {
                request: open.request.id,
            });
        }
        match agent.state {
            AgentState::Stopping { .. } => {
                return Err(Rejection::WrongState {
                    slot,
                    needs: "still in the team",
                });
            }
            AgentState::Failed { .. } => {
                self.remove(d, agent, RemovalReason::Killed);
                return Ok(());
            }
            AgentState::Pending | AgentState::Idle | AgentState::Active { .. } => {}
        }
        let until = d.now + self.settings.limits.shutdown_wait;
        let stage = if own {
            ShutdownStage::Decider { until }
        } else {
            ShutdownStage::Member { until }
        };
        let reason = reason.map(str::to_owned);
        let handshake = ShutdownHandshake {
            slot,
            by: caller.into(),
            reason: reason.clone(),
            stage,
        };
        let request = d.open(caller.into(), None, RequestKind::Shutdown(handshake), own);
        let body = Body::Protocol(ProtocolMessage::ShutdownRequest {
            request,
            slot,
            reason,
        });
        let (to, recipients) = if own {
            (Recipient::Lead, vec![SlotId::LEAD])
        } else {
            (Recipient::Agent(slot), vec![slot])
        };
        d.send(caller.into(), to, recipients, body, Urgency::Wake);
        Ok(())
    }

    pub(super) fn withdraw(
        &self,
        d: &mut Draft,
        caller: Caller,
        id: RequestId,
    ) -> Result<(), Rejection> {
        let open = self.open_request(id)?;
        let own = open.request.from == Sender::from(caller);
        if !own && !matches!(caller, Caller::User | Caller::System) {
            return Err(Rejection::NotAllowed {
                what: "take a request back",
                who: "its asker or the person",
            });
        }
        if open.request.turn.is_some() {
            return Err(Rejection::WrongDecision {
                kind: open.request.kind.name(),
                choices: Decision::choices(&open.request.kind),
            });
        }
        d.push(Event::RequestWithdrawn {
            request: id,
            why: Withdrawal::ByAsker,
        });
        Ok(())
    }

    pub(super) fn link_team(
        &self,
        d: &mut Draft,
        caller: Caller,
        id: RequestId,
        team: &TeamId,
    ) -> Result<(), Rejection> {
        if caller != Caller::System {
            return Err(Rejection::NotAllowed {
                what: "link a team",
                who: "the system",
            });
        }
        match self.requests.get(&id) {
            Some(open)
                if matches!(open.request.kind, RequestKind::CreateTeam(_))
                    && matches!(open.state, RequestState::Decided { .. }) =>
            {
                d.push(Event::TeamLinked {
                    request: id,
                    team: team.clone(),
                });
                Ok(())
            }
            _ => Err(Rejection::UnknownRequest { request: id }),
        }
    }

    /// A request that still waits.
    fn open_request(&self, id: RequestId) -> Result<&OpenRequest, Rejection> {
        match self.requests.get(&id) {
            Some(open) if matches!(open.state, RequestState::Decided { .. }) => {
                Err(Rejection::AlreadyDecided { request: id })
            }
            Some(open) => Ok(open),
            None if id.0 >= 1 && id.0 <= self.last.request => {
                Err(Rejection::AlreadyDecided { request: id })
            }
            None => Err(Rejection::UnknownRequest { request: id }),
        }
    }

    pub(super) fn decide_request(
        &self,
        d: &mut Draft,
        caller: Caller,
        id: RequestId,
        decision: &Decision,
    ) -> Result<(), Rejection> {
        let open = self.open_request(id)?;
        let request = &open.request;
        if !decision.fits(&request.kind) {
            return Err(Rejection::WrongDecision {
                kind: request.kind.name(),
                choices: Decision::choices(&request.kind),
            });
        }
        self.may_decide(caller, request, decision)?;
        let by = Sender::from(caller);
        let delegated = matches!(caller, Caller::Agent(SlotId::LEAD)) && request.delegated;
        d.push(Event::RequestDecided {
            request: id,
            by,
            decision: decision.clone(),
            delegated,
        });
        let orphaned = matches!(open.state, RequestState::Orphaned);
        match &request.kind {
            RequestKind::Permission(_) | RequestKind::Network(_) => {
                self.permission_decided(d, request, decision, by, orphaned);
            }
            RequestKind::Plan(_) => self.plan_decided(d, request, decision, by),
            RequestKind::Shutdown(handshake) => {
                self.shutdown_decided(d, request, handshake, decision, by);
            }
            RequestKind::Spawn(proposal) => {
                let name = &proposal.member.name;
                match decision {
                    Decision::Consent => {
                        self.check_member(&proposal.member)?;
                        self.register(d, request.from, proposal.member.clone(), Some(id));
                        self.tell_lead(d, format!("the person agreed: {name} has been brought in"));
                    }
                    other => self.tell_lead(d, declined(&format!("bringing in {name}"), other)),
                }
            }
            RequestKind::CreateTeam(proposal) => {
                if !matches!(decision, Decision::Consent) {
                    self.tell(
                        d,
                        request,
                        declined(&format!("the team {:?}", proposal.name), decision),
                    );
                }
            }
            RequestKind::RaiseBudget(raise) => match decision {
                Decision::Consent => {
                    let per_call = self.budget.cap.unwrap_or_default().per_call;
                    let cap = Cap {
                        most: raise.cap,
                        per_call,
                    };
                    d.push(Event::CapChanged { cap: Some(cap) });
                    for agent in self
                        .agents
                        .values()
                        .filter(|a| a.holds.contains(&Hold::Budget))
                    {
                        d.push(Event::AgentReleased {
                            slot: agent.slot,
                            hold: Hold::Budget,
                        });
                    }
                }
                other => self.tell(d, request, declined("a higher budget", other)),
            },
            RequestKind::DeleteTeam => match decision {
                Decision::Consent => self.end_rest(d, id),
                other => self.tell(d, request, declined("ending the team", other)),
            },
            RequestKind::Question(question) => match decision {
                Decision::Answer { text } => self.answer(d, request, &question.text, text),
                other => self.tell(d, request, declined("to answer", other)),
            },
        }
        Ok(())
    }

    /// Nobody decides his own request; the lead decides only what is delegated, and never more
    /// than once per decision; the rest is the person's.
    fn may_decide(
        &self,
        caller: Caller,
        request: &Request,
        decision: &Decision,
    ) -> Result<(), Rejection> {
        let authority = self.authority(caller)?;
        if let RequestKind::Shutdown(s) = &request.kind {
            return may_answer_shutdown(authority, s, decision);
        }
        let lead_may = match authority {
            Authority::User => return Ok(()),
            Authority::System => false,
            _ if request.from == Sender::from(caller) => return Err(Rejection::OwnRequest),
            Authority::Lead => match (&request.kind, decision) {
                (RequestKind::Permission(_) | RequestKind::Network(_), Decision::Deny { .. }) => {
                    true
                }
                (
                    RequestKind::Permission(_) | RequestKind::Network(_),
                    Decision::Allow {
                        scope: GrantScope::Once,
                    },
                ) => request.delegated,
                (RequestKind::Plan(_), Decision::ReturnPlan { .. }) => request.delegated,
                // Approving a plan widens no permission.
                (RequestKind::Plan(_), Decision::ApprovePlan { mode }) => {
                    request.delegated && mode.is_none_or(|m| m <= PermissionMode::Default)
                }
                _ => false,
            },
            Authority::Teammate(_) | Authority::Solo => false,
        };
        if lead_may {
            Ok(())
        } else {
            Err(Rejection::NotAllowed {
                what: "decide this request",
                who: "the person, or the lead inside what was delegated,",
            })
        }
    }

    fn permission_decided(
        &self,
        d: &mut Draft,
        request: &Request,
        decision: &Decision,
        by: Sender,
        orphaned: bool,
    ) {
        let Sender::Agent(slot) = request.from else {
            return;
        };
        let allowed = matches!(decision, Decision::Allow { .. });
        if let Decision::Allow { scope } = decision {
            self.remember(d, request, slot, *scope, by, orphaned);
        }
        let body = match &request.kind {
            RequestKind::Network(ask) => ProtocolMessage::SandboxPermissionResponse {
                request: request.id,
                host: ask.host.clone(),
                allow: allowed,
            },
            _ => ProtocolMessage::PermissionResponse {
                request: request.id,
                allowed,
                reason: match decision {
                    Decision::Deny { reason } if !reason.is_empty() => Some(reason.clone()),
                    _ => None,
                },
            },
        };
        // A waiting turn takes the answer itself; without one it is a reason to go on.
        let urgency = if orphaned {
            Urgency::Wake
        } else {
            Urgency::Queue
        };
        if self.agents.contains_key(&slot) {
            d.send(
                by,
                Recipient::Agent(slot),
                vec![slot],
                Body::Protocol(body),
                urgency,
            );
        }
    }

    /// Keeps an "allow" as far as it reaches.
    fn remember(
        &self,
        d: &mut Draft,
        request: &Request,
        slot: SlotId,
        scope: GrantScope,
        by: Sender,
        orphaned: bool,
    ) {
        let (tool_rule, action, words) = match &request.kind {
            RequestKind::Permission(ask) => (
                GrantRule::Tool(ask.tool.clone()),
                Some(ask.action),
                ask.tool.clone(),
            ),
            RequestKind::Network(ask) => {
                (GrantRule::Host(ask.host.clone()), None, ask.host.clone())
            }
            _ => return,
        };
        let exact = |once: bool| match action {
            Some(action) => GrantRule::Action { action, once },
            None => tool_rule.clone(),
        };
        let (slot, rule) = match scope {
            GrantScope::Once if orphaned && action.is_some() => (Some(slot), exact(true)),
            GrantScope::Once => return,
            GrantScope::Action => (Some(slot), exact(false)),
            GrantScope::Member => (Some(slot), tool_rule.clone()),
            GrantScope::Team => (None, tool_rule.clone()),
        };
        let id = d.next_grant();
        d.push(Event::GrantAdded {
            grant: Grant { id, slot, rule, by },
        });
        if scope == GrantScope::Team {
            let all: Vec<SlotId> = self.agents.keys().copied().collect();
            let body = ProtocolMessage::TeamPermissionUpdate {
                tool: words.clone(),
                rule: format!("{words} is allowed for every member without asking"),
            };
            d.send(
                Sender::System,
                Recipient::Everyone,
                all,
                Body::Protocol(body),
                Urgency::Queue,
            );
        }
    }

    fn plan_decided(&self, d: &mut Draft, request: &Request, decision: &Decision, by: Sender) {
        let Sender::Agent(slot) = request.from else {
            return;
        };
        let Some(agent) = self.agents.get(&slot) else {
            return;
        };
        let (approved, feedback, mode) = match decision {
            Decision::ApprovePlan { mode } => {
                let planning = agent.mode == PermissionMode::Plan;
                let mode = mode.or(planning.then_some(PermissionMode::Default));
                (true, None, mode)
            }
            Decision::ReturnPlan { feedback } => (false, Some(feedback.clone()), None),
            _ => return,
        };
        if let Some(mode) = mode.filter(|m| *m != agent.mode) {
            d.push(Event::ModeChanged { slot, mode });
        }
        let body = ProtocolMessage::PlanApprovalResponse {
            request: request.id,
            approved,
            feedback,
            mode,
        };
        d.send(
            by,
            Recipient::Agent(slot),
            vec![slot],
            Body::Protocol(body),
            Urgency::Wake,
        );
    }

    fn shutdown_decided(
        &self,
        d: &mut Draft,
        request: &Request,
        handshake: &ShutdownHandshake,
        decision: &Decision,
        by: Sender,
    ) {
        let slot = handshake.slot;
        let body = match decision {
            Decision::RejectShutdown { reason } => ProtocolMessage::ShutdownRejected {
                request: request.id,
                slot,
                reason: reason.clone(),
            },
            _ => ProtocolMessage::ShutdownApproved {
                request: request.id,
                slot,
            },
        };
        let body = Body::Protocol(body);
        match handshake.by {
            Sender::Agent(asker) if self.agents.contains_key(&asker) => {
                d.send(
                    by,
                    Recipient::Agent(asker),
                    vec![asker],
                    body,
                    Urgency::Wake,
                );
            }
            Sender::User | Sender::System | Sender::Agent(_) => {
                d.send(by, Recipient::User, Vec::new(), body, Urgency::Wake);
            }
        }
        match decision {
            Decision::ApproveShutdown => {
                self.begin_stop(d, slot, Some(request.id), false);
            }
            Decision::ForceShutdown => self.begin_stop(d, slot, Some(request.id), true),
            _ => {}
        }
    }

    fn begin_stop(&self, d: &mut Draft, slot: SlotId, request: Option<RequestId>, kill: bool) {
        let Some(agent) = self.agents.get(&slot) else {
            return;
        };
        match agent.state {
            AgentState::Failed { .. } => self.remove(d, agent, RemovalReason::Killed),
            AgentState::Stopping { .. } => {}
            AgentState::Pending | AgentState::Idle | AgentState::Active { .. } => {
                d.push(Event::AgentStopping {
                    slot,
                    request,
                    kill,
                });
            }
        }
    }

    fn end_rest(&self, d: &mut Draft, decided: RequestId) {
        let mut rest = Draft::new(self, d.now);
        self.end_now(&mut rest);
        // The request that led here is closed by its decision.
        rest.events.retain(
            |e| !matches!(e, Event::RequestWithdrawn { request, .. } if *request == decided),
        );
        d.events.append(&mut rest.events);
    }

    fn answer(&self, d: &mut Draft, request: &Request, question: &str, text: &str) {
        let Sender::Agent(slot) = request.from else {
            return;
        };
        if self.agents.contains_key(&slot) {
            let body = Body::Text(format!(
                "Answer to your question {} ({}): {text}",
                request.id,
                crate::message::shorten(question, 200)
            ));
            d.send(
                Sender::User,
                Recipient::Agent(slot),
                vec![slot],
                body,
                Urgency::Wake,
            );
        }
    }

    /// Tells the asker how its request ended.
    fn tell(&self, d: &mut Draft, request: &Request, text: String) {
        if let Sender::Agent(slot) = request.from
            && self.agents.contains_key(&slot)
        {
            let to = Recipient::Agent(slot);
            d.send(
                Sender::System,
                to,
                vec![slot],
                Body::Text(text),
                Urgency::Wake,
            );
        }
    }
}

fn declined(what: &str, decision: &Decision) -> String {
    match decision {
        Decision::Decline {
            reason: Some(reason),
        } if !reason.is_empty() => {
            format!("the person declined {what}: {reason}")
        }
        _ => format!("the person declined {what}"),
    }
}

fn may_answer_shutdown(
    authority: Authority,
    handshake: &ShutdownHandshake,
    decision: &Decision,
) -> Result<(), Rejection> {
    let forced = matches!(decision, Decision::ForceShutdown);
    let itself = authority == Authority::Teammate(handshake.slot);
    let asked_itself = handshake.by == Sender::Agent(handshake.slot);
    let allowed = match authority {
        Authority::User => true,
        _ if forced => false,
        _ if itself && asked_itself => return Err(Rejection::OwnRequest),
        Authority::Teammate(_) => itself,
        Authority::Lead => asked_itself,
        Authority::System | Authority::Solo => false,
    };
    if allowed {
        Ok(())
    } else {
        Err(Rejection::NotAllowed {
            what: "answer this shutdown",
            who: "the member that was asked, or the person,",
        })
    }
}
