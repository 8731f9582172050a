//! What each decision leads to, and who may make it: nobody decides his own request.

use crate::agent::{Agent, AgentState, Hold, RemovalReason};
use crate::budget::{Amount, Cap};
use crate::command::Caller;
use crate::event::Event;
use crate::id::{RequestId, SlotId};
use crate::message::{Body, ProtocolMessage, Recipient, Sender, Urgency};
use crate::mode::PermissionMode;
use crate::permission::{Grant, GrantRule, GrantScope, Judgement, ToolClass, judge};
use crate::rejection::Rejection;
use crate::request::{Decision, Request, RequestKind, RequestState};
use crate::rule::Rule;
use crate::shutdown::ShutdownHandshake;

use super::agents::{register, tell_lead};
use super::checks::within;
use super::draft::Draft;
use super::{Authority, Team};

impl Team {
    pub(super) fn decide_request(
        &self,
        d: &mut Draft,
        caller: Caller,
        id: RequestId,
        decision: &Decision,
    ) -> Result<(), Rejection> {
        let open = self.open_request(id)?;
        let request = &open.request;
        self.check_words(decision)?;
        if !decision.fits(&request.kind) {
            return Err(Rejection::WrongDecision {
                kind: request.kind.name(),
                choices: Decision::choices(&request.kind),
            });
        }
        self.may_decide(caller, request, decision)?;
        check_rule(&request.kind, decision)?;
        let by = Sender::from(caller);
        let delegated = matches!(caller, Caller::Agent(SlotId::LEAD)) && request.delegated;
        d.push(Event::RequestDecided { request: id, by, decision: decision.clone(), delegated });
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
                        register(d, request.from, proposal.member.clone(), Some(id));
                        tell_lead(d, format!("the person agreed: {name} has been brought in"));
                    }
                    other => tell_lead(d, declined(&format!("bringing in {name}"), other)),
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
                    let cap = raised(self.budget.cap.unwrap_or_default(), raise.cap);
                    d.push(Event::CapChanged { cap: Some(cap) });
                    for agent in self.agents.values().filter(|a| a.holds.contains(&Hold::Budget)) {
                        d.push(Event::AgentReleased { slot: agent.slot, hold: Hold::Budget });
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

    /// A decision's words become mail.
    fn check_words(&self, decision: &Decision) -> Result<(), Rejection> {
        let words = match decision {
            Decision::Deny { reason } | Decision::RejectShutdown { reason } => reason.as_str(),
            Decision::ReturnPlan { feedback } => feedback,
            Decision::Answer { text } => text,
            Decision::Decline { reason } => reason.as_deref().unwrap_or_default(),
            Decision::Allow { .. }
            | Decision::ApprovePlan { .. }
            | Decision::ApproveShutdown
            | Decision::ForceShutdown
            | Decision::Consent => "",
        };
        within("text_bytes", self.settings.limits.text_bytes.into(), words.len() as u64)
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
                    Decision::Allow { scope: GrantScope::Once, rule: None },
                ) => self.is_delegated_still(request) && self.lead_may_itself(&request.kind),
                (RequestKind::Plan(_), Decision::ReturnPlan { .. }) => {
                    self.is_delegated_still(request)
                }
                // Approving a plan widens no permission.
                (RequestKind::Plan(_), Decision::ApprovePlan { mode }) => {
                    self.is_delegated_still(request)
                        && mode.is_none_or(|m| m <= PermissionMode::Default)
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

    /// Whether the lead may decide it: it was delegated when it was asked, and still is.
    fn is_delegated_still(&self, request: &Request) -> bool {
        let delegation = &self.settings.delegation;
        request.delegated
            && match &request.kind {
                // What was denied since is the person's alone.
                RequestKind::Permission(ask) => {
                    delegation.tools.contains(&ask.tool) && !self.is_denied(ask.action, &ask.kin)
                }
                RequestKind::Network(ask) => {
                    delegation.hosts.contains(&ask.host) && !self.denials.contains(&ask.action)
                }
                RequestKind::Plan(_) => delegation.plans,
                RequestKind::Shutdown(_)
                | RequestKind::Spawn(_)
                | RequestKind::CreateTeam(_)
                | RequestKind::RaiseBudget(_)
                | RequestKind::DeleteTeam
                | RequestKind::Question(_) => false,
            }
    }

    /// Whether the lead's own mode would let it do, or at least ask for, what it is to allow.
    fn lead_may_itself(&self, kind: &RequestKind) -> bool {
        let Some(mode) = self.lead().map(|lead| lead.mode) else { return false };
        let class = match kind {
            RequestKind::Permission(ask) => ask.class,
            _ => ToolClass::Execute,
        };
        let unasked = mode == PermissionMode::DontAsk && class != ToolClass::Read;
        !unasked && !matches!(judge(mode, class, None), Judgement::Refuse(_))
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
        if let Decision::Allow { scope, rule } = decision {
            self.remember(d, request, slot, *scope, rule.as_ref(), by, orphaned);
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
        let urgency = if orphaned { Urgency::Wake } else { Urgency::Queue };
        if self.agents.contains_key(&slot) {
            d.send(by, Recipient::Agent(slot), vec![slot], Body::Protocol(body), urgency);
        }
    }

    /// Keeps an "allow" as far as it reaches.
    #[expect(clippy::too_many_arguments, reason = "they are one decision and what it is about")]
    fn remember(
        &self,
        d: &mut Draft,
        request: &Request,
        slot: SlotId,
        scope: GrantScope,
        pattern: Option<&Rule>,
        by: Sender,
        orphaned: bool,
    ) {
        let (tool_rule, action, words) = match &request.kind {
            RequestKind::Permission(ask) => {
                let (rule, words) = match pattern {
                    Some(rule) => (GrantRule::Pattern(rule.clone()), rule.to_string()),
                    None => (GrantRule::Tool(ask.tool.clone()), ask.tool.clone()),
                };
                (rule, Some(ask.action), words)
            }
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
        d.push(Event::GrantAdded { grant: Grant { id, slot, rule, by } });
        if scope == GrantScope::Team {
            let all: Vec<SlotId> = self.agents.keys().copied().collect();
            let body = ProtocolMessage::TeamPermissionUpdate {
                tool: words.clone(),
                rule: format!("{words} is allowed for every member without asking"),
            };
            d.send(Sender::System, Recipient::Everyone, all, Body::Protocol(body), Urgency::Queue);
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
            Decision::ApprovePlan { mode } => (true, None, self.mode_after_plan(agent, *mode, by)),
            Decision::ReturnPlan { feedback } => (false, Some(feedback.clone()), None),
            _ => return,
        };
        if let Some(mode) = mode.filter(|m| *m != agent.mode) {
            d.push(Event::ModeChanged { slot, mode });
        }
        let body =
            ProtocolMessage::PlanApprovalResponse { request: request.id, approved, feedback, mode };
        d.send(by, Recipient::Agent(slot), vec![slot], Body::Protocol(body), Urgency::Wake);
    }

    /// The mode that an approved plan leads to. The person may set any; from the lead an approval
    /// only ends plan mode, and gives no more than the lead has itself.
    fn mode_after_plan(
        &self,
        agent: &Agent,
        asked: Option<PermissionMode>,
        by: Sender,
    ) -> Option<PermissionMode> {
        let planning = agent.mode == PermissionMode::Plan;
        let mode = asked.or(planning.then_some(PermissionMode::Default));
        match by {
            Sender::User | Sender::System => mode,
            Sender::Agent(decider) => {
                let own = self.agents.get(&decider)?.mode;
                mode.filter(|_| planning).map(|m| m.min(own))
            }
        }
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
            _ => ProtocolMessage::ShutdownApproved { request: request.id, slot },
        };
        let body = Body::Protocol(body);
        let leaving = self
            .agents
            .get(&slot)
            .filter(|_| matches!(decision, Decision::ApproveShutdown | Decision::ForceShutdown));
        match handshake.by {
            Sender::Agent(asker)
                if self.agents.contains_key(&asker) && leaving.is_none_or(|a| a.slot != asker) =>
            {
                d.send(by, Recipient::Agent(asker), vec![asker], body, Urgency::Wake);
            }
            // Who leaves by its own wish may be gone before its next turn: the answer goes on record
            // where nothing is lost.
            Sender::User | Sender::System | Sender::Agent(_) => {
                d.send(by, Recipient::User, Vec::new(), body, Urgency::Wake);
            }
        }
        let Some(agent) = leaving else { return };
        let kill = matches!(decision, Decision::ForceShutdown);
        match agent.state {
            AgentState::Failed { .. } => {
                let reason = RemovalReason::ShutdownApproved { request: request.id };
                self.remove(d, agent, reason, Some(request.id));
            }
            AgentState::Stopping { .. } => {}
            AgentState::Pending | AgentState::Idle | AgentState::Active { .. } => {
                d.push(Event::AgentStopping { slot, request: Some(request.id), kill });
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
            d.send(Sender::User, Recipient::Agent(slot), vec![slot], body, Urgency::Wake);
        }
    }

    /// Tells the asker how its request ended.
    pub(super) fn tell(&self, d: &mut Draft, request: &Request, text: String) {
        if let Sender::Agent(slot) = request.from
            && self.agents.contains_key(&slot)
        {
            let to = Recipient::Agent(slot);
            d.send(Sender::System, to, vec![slot], Body::Text(text), Urgency::Wake);
        }
    }
}

/// A rule that goes with an "allow" is about the tool that was asked for, and reaches further than
/// the one call.
fn check_rule(kind: &RequestKind, decision: &Decision) -> Result<(), Rejection> {
    let Decision::Allow { scope, rule: Some(rule) } = decision else { return Ok(()) };
    let fits = matches!(kind, RequestKind::Permission(ask) if rule.concerns(&ask.tool))
        && matches!(scope, GrantScope::Member | GrantScope::Team);
    if fits { Ok(()) } else { Err(Rejection::UnfitRule { rule: rule.to_string() }) }
}

/// A cap with a higher most. A field that is not asked for stays as it is.
pub(super) fn raised(cap: Cap, asked: Amount) -> Cap {
    let field = |standing: u64, asked: u64| if standing == 0 { 0 } else { standing.max(asked) };
    let most = Amount {
        tokens: field(cap.most.tokens, asked.tokens),
        micro_usd: field(cap.most.micro_usd, asked.micro_usd),
    };
    Cap { most, per_call: cap.per_call }
}

fn declined(what: &str, decision: &Decision) -> String {
    match decision {
        Decision::Decline { reason: Some(reason) } if !reason.is_empty() => {
            format!("the person declined {what}: {reason}")
        }
        _ => format!("the person declined {what}"),
    }
}

/// The member answers for itself, or the lead about a member's own wish. The person answers such a
/// wish too; about any other shutdown it speaks for nobody: it ends the member, or takes it back.
fn may_answer_shutdown(
    authority: Authority,
    handshake: &ShutdownHandshake,
    decision: &Decision,
) -> Result<(), Rejection> {
    let forced = matches!(decision, Decision::ForceShutdown);
    let itself = authority == Authority::Teammate(handshake.slot);
    let asked_itself = handshake.by == Sender::Agent(handshake.slot);
    let allowed = match authority {
        Authority::User => forced || asked_itself,
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
            who: "the member that was asked (the person may end the member, or take the request back)",
        })
    }
}
