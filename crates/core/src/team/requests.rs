//! Opening and deciding requests: one inbox, one decision, nobody decides his own.

use crate::agent::{AgentState, RemovalReason, Role};
use crate::budget::Amount;
use crate::command::Caller;
use crate::consent::{BudgetRaise, TeamProposal};
use crate::event::Event;
use crate::id::{RequestId, SlotId, TeamId};
use crate::message::{Body, ProtocolMessage, Recipient, Sender, Urgency};
use crate::plan::PlanSubmission;
use crate::question::Question;
use crate::rejection::Rejection;
use crate::request::{Decision, RequestKind, RequestState, Withdrawal};
use crate::shutdown::{ShutdownHandshake, ShutdownStage};

use super::checks;
use super::decisions::raised;
use super::draft::Draft;
use super::tools::address_request;
use super::{Authority, OpenRequest, Team};

impl Team {
    pub(super) fn check_open_requests(&self, slot: SlotId) -> Result<(), Rejection> {
        let asked = self.open_requests_of(slot) as u64 + 1;
        let allowed = u64::from(self.settings.limits.open_requests);
        if asked > allowed {
            return Err(Rejection::Limit { limit: "open_requests", allowed, asked });
        }
        Ok(())
    }

    fn check_text(&self, what: &'static str, text: &str) -> Result<(), Rejection> {
        if text.trim().is_empty() {
            return Err(Rejection::Empty { what });
        }
        let (allowed, asked) = (u64::from(self.settings.limits.text_bytes), text.len() as u64);
        if asked > allowed {
            return Err(Rejection::Limit { limit: "text_bytes", allowed, asked });
        }
        Ok(())
    }

    fn asking_member(&self, caller: Caller, what: &'static str) -> Result<SlotId, Rejection> {
        match caller {
            Caller::Agent(slot) => {
                self.member(slot)?;
                Ok(slot)
            }
            Caller::User | Caller::System => Err(Rejection::NotAllowed { what, who: "a member" }),
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
        let earlier: Vec<RequestId> = earlier.map(|open| open.request.id).collect();
        for request in &earlier {
            d.push(Event::RequestWithdrawn { request: *request, why: Withdrawal::ByAsker });
        }
        if earlier.is_empty() {
            self.check_open_requests(slot)?;
        }
        self.check_mail(d.now, caller, &[], text.len() as u64)?;
        let plan = PlanSubmission::new(text.to_owned());
        let hash = plan.hash;
        let delegated = agent.role == Role::Teammate && self.settings.delegation.plans;
        let request = d.open(from, None, RequestKind::Plan(plan), delegated);
        let body = Body::Protocol(ProtocolMessage::PlanApprovalRequest {
            request,
            hash,
            plan: text.to_owned(),
        });
        let id = address_request(d, agent, body, delegated);
        self.supersede(d, id, |message| {
            matches!(message, ProtocolMessage::PlanApprovalRequest { request, .. }
                if earlier.contains(request))
        });
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
        let question = Question { text: text.to_owned(), options: options.to_vec() };
        d.open(Sender::Agent(slot), None, RequestKind::Question(question), false);
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
        checks::team_name(&proposal.name)?;
        let line_up: usize = proposal
            .members
            .iter()
            .map(|m| {
                m.name.len()
                    + m.agent_type.len()
                    + m.task.len()
                    + m.model.as_deref().map_or(0, str::len)
            })
            .sum();
        let asked = (proposal.summary.len() + proposal.why.len() + line_up) as u64;
        checks::within("text_bytes", self.settings.limits.text_bytes.into(), asked)?;
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
                return Err(Rejection::NotAllowed { what: "ask for more budget", who: "the lead" });
            }
        }
        self.check_text("a reason", reason)?;
        self.check_open_requests(SlotId::LEAD)?;
        let standing = self.budget.cap.ok_or(Rejection::NoRaise)?;
        let cap = raised(standing, cap).most;
        if cap == standing.most {
            return Err(Rejection::NoRaise);
        }
        let kind = RequestKind::RaiseBudget(BudgetRaise { cap, reason: reason.to_owned() });
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
                    return Err(Rejection::AlreadyAsked { request: open.request.id });
                }
                d.open(caller.into(), None, RequestKind::DeleteTeam, false);
                Ok(())
            }
            Authority::Teammate(_) | Authority::Solo => {
                Err(Rejection::NotAllowed { what: "end the team", who: "the person or the lead" })
            }
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
            return Err(Rejection::AlreadyAsked { request: open.request.id });
        }
        match agent.state {
            AgentState::Stopping { .. } => {
                return Err(Rejection::WrongState { slot, needs: "still in the team" });
            }
            // It is dead and nobody starts it again: nobody is left to ask.
            AgentState::Failed { retry_at: None, .. } => {
                self.remove(d, agent, RemovalReason::Killed, None);
                return Ok(());
            }
            AgentState::Pending
            | AgentState::Idle
            | AgentState::Active { .. }
            | AgentState::Failed { retry_at: Some(_), .. } => {}
        }
        let until = d.now + self.settings.limits.shutdown_wait;
        let stage =
            if own { ShutdownStage::Decider { until } } else { ShutdownStage::Member { until } };
        let reason = reason.map(str::to_owned);
        let handshake =
            ShutdownHandshake { slot, by: caller.into(), reason: reason.clone(), stage };
        let request = d.open(caller.into(), None, RequestKind::Shutdown(handshake), own);
        let body = Body::Protocol(ProtocolMessage::ShutdownRequest { request, slot, reason });
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
        // The person decides what members ask for; what it takes back is a shutdown that waits.
        let shutdown = matches!(open.request.kind, RequestKind::Shutdown(_));
        let may = own || (shutdown && matches!(caller, Caller::User | Caller::System));
        if !may {
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
        d.push(Event::RequestWithdrawn { request: id, why: Withdrawal::ByAsker });
        if !own && let RequestKind::Shutdown(handshake) = &open.request.kind {
            // Who asked would wait for an answer that nobody gives.
            let stays = self.agents.get(&handshake.slot).map_or("it", |agent| agent.name.as_str());
            self.tell(d, &open.request, format!("the person took {id} back: {stays} stays"));
        }
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
            return Err(Rejection::NotAllowed { what: "link a team", who: "the system" });
        }
        match self.requests.get(&id) {
            Some(open)
                if matches!(open.request.kind, RequestKind::CreateTeam(_))
                    && matches!(open.state, RequestState::Decided { .. }) =>
            {
                d.push(Event::TeamLinked { request: id, team: team.clone() });
                Ok(())
            }
            _ => Err(Rejection::UnknownRequest { request: id }),
        }
    }

    /// A request that still waits.
    pub(super) fn open_request(&self, id: RequestId) -> Result<&OpenRequest, Rejection> {
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
}
