//! Tool calls: judged before they run, journalled as they run, refused by turn when they are late.

use crate::agent::{Agent, AgentState, Role};
use crate::command::{Caller, ToolProposal};
use crate::event::Event;
use crate::hash::ActionHash;
use crate::id::CallId;
use crate::id::{GrantId, MessageId, RequestId, SlotId, TurnId};
use crate::message::{Body, ProtocolMessage, Recipient, Sender, Urgency, shorten};
use crate::mode::PermissionMode;
use crate::permission::{
    GrantRule, Judgement, NetworkAsk, PermissionAsk, ToolClass, judge, unasked,
};
use crate::rejection::Rejection;
use crate::request::{Decision, RequestKind, RequestState};
use crate::rule::{Finding, RuleScope, RuleWord};
use crate::sandbox::ViolationKind;
use crate::turn::{ToolCallState, ToolVerdict, Turn};

use super::Team;
use super::checks;
use super::draft::Draft;

/// The most parts of one call that are told apart.
const KIN: u64 = 64;
/// The longest rule that is cited, or reason why none could be asked, in bytes.
const FINDING_BYTES: u64 = 2 * 1024;
/// The longest input that a person is shown with a permission request, in bytes.
const INPUT_BYTES: usize = 16 * 1024;
/// The longest words about a violation, in bytes.
const VIOLATION_BYTES: usize = 512;

impl Team {
    pub(super) fn propose_tool(
        &self,
        d: &mut Draft,
        caller: Caller,
        p: &ToolProposal,
    ) -> Result<(), Rejection> {
        let (agent, turn) = self.own_turn(caller, p.turn)?;
        checks::word("call_bytes", &p.call)?;
        checks::word("tool_bytes", &p.tool)?;
        checks::path("cwd_bytes", &p.cwd)?;
        checks::within("kin", KIN, p.kin.len() as u64)?;
        let finding = self.standing(agent, p.finding.as_ref())?;
        let (verdict, grant) = self.judge_tool(d, agent, turn, p, finding);
        let new_request = match &verdict {
            ToolVerdict::Ask { request } if !self.requests.contains_key(request) => Some(*request),
            ToolVerdict::Ask { .. } | ToolVerdict::Run | ToolVerdict::Refused { .. } => None,
        };
        d.push(Event::ToolProposed {
            turn: turn.id,
            slot: agent.slot,
            call: p.call.clone(),
            tool: p.tool.clone(),
            class: p.class,
            action: p.action,
            description: shorten(&p.description, 1_024),
            verdict,
            grant,
            finding: finding.cloned(),
        });
        if let Some(request) = new_request {
            self.ask_permission(d, agent, turn, p, finding, request);
        }
        Ok(())
    }

    /// What the rules said, as far as it stands: a rule of this team that is gone allows nothing.
    fn standing<'p>(
        &self,
        agent: &Agent,
        finding: Option<&'p Finding>,
    ) -> Result<Option<&'p Finding>, Rejection> {
        let Some(finding) = finding else { return Ok(None) };
        checks::within("rule_bytes", FINDING_BYTES, finding.rule.len() as u64)?;
        let stands = match (finding.says, finding.scope, finding.grant) {
            (RuleWord::Allow, _, Some(grant)) => self.grants.get(&grant).is_some_and(|grant| {
                grant.slot.is_none_or(|slot| slot == agent.slot)
                    && matches!(&grant.rule, GrantRule::Pattern(rule) if rule.to_string() == finding.rule)
            }),
            (RuleWord::Allow, RuleScope::Session, None) => {
                self.settings.rules.allow.iter().any(|rule| rule.to_string() == finding.rule)
            }
            (RuleWord::Allow | RuleWord::Ask | RuleWord::Deny, _, _) => true,
        };
        Ok(Some(finding).filter(|_| stands))
    }

    /// Whether somebody said "no" to this, or to a part of it in other words.
    pub(super) fn is_denied(&self, action: ActionHash, kin: &[ActionHash]) -> bool {
        self.denials.contains(&action) || kin.iter().any(|part| self.denials.contains(part))
    }

    fn judge_tool(
        &self,
        d: &Draft,
        agent: &Agent,
        turn: &Turn,
        p: &ToolProposal,
        finding: Option<&Finding>,
    ) -> (ToolVerdict, Option<GrantId>) {
        let refused = |reason: &str| (ToolVerdict::Refused { reason: reason.to_owned() }, None);
        match turn.calls.get(&p.call) {
            Some(ToolCallState::Asked { request, action, .. }) if *action == p.action => {
                return (ToolVerdict::Ask { request: *request }, None);
            }
            Some(ToolCallState::Asked { .. }) => {
                return refused("this call id was used for another call");
            }
            Some(ToolCallState::Started { .. }) => {
                return refused(
                    "this call was begun before and may have run; look before you repeat it",
                );
            }
            None => {}
        }
        if matches!(agent.state, AgentState::Stopping { .. }) || turn.interrupted_by.is_some() {
            return refused("the turn is being ended");
        }
        let denied = self.is_denied(p.action, &p.kin);
        let harmless = matches!(p.class, ToolClass::Read | ToolClass::Team);
        let by_rule = match judge(agent.mode, p.class, finding) {
            Judgement::Refuse(reason) => return (ToolVerdict::Refused { reason }, None),
            // What the person denied once, neither a mode nor a rule lets run.
            Judgement::Run if denied && !harmless => false,
            Judgement::Run => return (ToolVerdict::Run, finding.and_then(|f| f.grant)),
            Judgement::Ask { by_rule } => by_rule,
        };
        let exact_alone = denied || by_rule;
        let exact = self.grants.values().find(|g| {
            g.covers(agent.slot, &p.tool, p.action)
                && (!exact_alone || (g.is_exact() && g.by == Sender::User))
        });
        if let Some(grant) = exact {
            return (ToolVerdict::Run, Some(grant.id));
        }
        if agent.mode == PermissionMode::DontAsk {
            return (ToolVerdict::Refused { reason: unasked(finding.filter(|_| by_rule)) }, None);
        }
        if self.open_requests_of(agent.slot) >= self.settings.limits.open_requests as usize {
            return refused("too many of your requests wait for an answer; wait for one of them");
        }
        (ToolVerdict::Ask { request: d.peek_request() }, None)
    }

    pub(super) fn open_requests_of(&self, slot: SlotId) -> usize {
        self.requests
            .values()
            .filter(|r| {
                r.request.from == Sender::Agent(slot) && matches!(r.state, RequestState::Open)
            })
            .count()
    }

    fn ask_permission(
        &self,
        d: &mut Draft,
        agent: &Agent,
        turn: &Turn,
        p: &ToolProposal,
        finding: Option<&Finding>,
        expected: RequestId,
    ) {
        let input = shorten(&p.input, INPUT_BYTES);
        let description = shorten(&p.description, 1_024);
        // What was denied once, or what a rule wants to be asked for, is decided by the person alone.
        let finding = finding.filter(|finding| finding.says == RuleWord::Ask);
        let delegated = agent.role == Role::Teammate
            && finding.is_none()
            && self.settings.delegation.tools.contains(&p.tool)
            && !self.is_denied(p.action, &p.kin);
        let kind = RequestKind::Permission(PermissionAsk {
            call: p.call.clone(),
            tool: p.tool.clone(),
            class: p.class,
            action: p.action,
            description: description.clone(),
            input: input.clone(),
            cwd: p.cwd.clone(),
            kin: p.kin.clone(),
            finding: finding.cloned(),
            suggestion: p.suggestion.clone(),
        });
        let request = d.open(Sender::Agent(agent.slot), Some(turn.id), kind, delegated);
        debug_assert_eq!(request, expected, "the verdict names the request that is opened");
        let body = Body::Protocol(ProtocolMessage::PermissionRequest {
            request,
            tool: p.tool.clone(),
            description,
            input,
        });
        address_request(d, agent, body, delegated);
    }

    pub(super) fn start_tool(
        &self,
        d: &mut Draft,
        caller: Caller,
        turn: TurnId,
        call: &CallId,
    ) -> Result<(), Rejection> {
        let (agent, turn) = self.own_turn(caller, turn)?;
        let Some(ToolCallState::Asked { request, action, .. }) = turn.calls.get(call) else {
            return Err(Rejection::NoSuchCall { call: call.clone() });
        };
        let open =
            self.requests.get(request).ok_or(Rejection::UnknownRequest { request: *request })?;
        let RequestState::Decided { decision, .. } = &open.state else {
            return Err(Rejection::NotDecided { request: *request });
        };
        if let Some(message) = self.response_to(agent, *request) {
            let step = turn.mail.values().copied().max().unwrap_or(0);
            d.push(Event::MessageDelivered { message, slot: agent.slot, turn: turn.id, step });
        }
        let same =
            matches!(&open.request.kind, RequestKind::Permission(ask) if ask.action == *action);
        match decision {
            Decision::Allow { .. } if same && turn.interrupted_by.is_none() => {
                d.push(Event::ToolStarted {
                    turn: turn.id,
                    slot: agent.slot,
                    call: call.clone(),
                    request: *request,
                });
            }
            other => {
                let reason = match other {
                    Decision::Deny { reason } if reason.is_empty() => {
                        "permission was denied".to_owned()
                    }
                    Decision::Deny { reason } => format!("permission was denied: {reason}"),
                    _ => "the turn is being ended".to_owned(),
                };
                d.push(Event::ToolRefused {
                    turn: turn.id,
                    slot: agent.slot,
                    call: call.clone(),
                    request: *request,
                    reason,
                });
            }
        }
        Ok(())
    }

    pub(super) fn finish_tool(
        &self,
        d: &mut Draft,
        caller: Caller,
        turn: TurnId,
        call: &CallId,
        ok: bool,
        changed: bool,
    ) -> Result<(), Rejection> {
        let (agent, turn) = self.own_turn(caller, turn)?;
        match turn.calls.get(call) {
            Some(ToolCallState::Started { .. }) => {
                d.push(Event::ToolFinished {
                    turn: turn.id,
                    slot: agent.slot,
                    call: call.clone(),
                    ok,
                    changed,
                });
                Ok(())
            }
            Some(ToolCallState::Asked { .. }) | None => {
                Err(Rejection::NoSuchCall { call: call.clone() })
            }
        }
    }

    /// What a wall refused is kept; it changes nothing else.
    pub(super) fn report_violation(
        &self,
        d: &mut Draft,
        caller: Caller,
        turn: TurnId,
        call: &CallId,
        kind: ViolationKind,
        what: &str,
    ) -> Result<(), Rejection> {
        let (agent, turn) = self.own_turn(caller, turn)?;
        let Some(ToolCallState::Started { .. }) = turn.calls.get(call) else {
            return Err(Rejection::NoSuchCall { call: call.clone() });
        };
        d.push(Event::SandboxViolation {
            turn: turn.id,
            slot: agent.slot,
            call: call.clone(),
            kind,
            what: shorten(what, VIOLATION_BYTES),
        });
        Ok(())
    }

    /// A running command wants to reach a host. No event means that it may.
    pub(super) fn request_network(
        &self,
        d: &mut Draft,
        caller: Caller,
        turn: TurnId,
        call: &CallId,
        host: &str,
        finding: Option<&Finding>,
    ) -> Result<(), Rejection> {
        let (agent, turn) = self.own_turn(caller, turn)?;
        let Some(ToolCallState::Started { .. }) = turn.calls.get(call) else {
            return Err(Rejection::NoSuchCall { call: call.clone() });
        };
        let finding = self.standing(agent, finding)?;
        if host.is_empty()
            || host.len() > 253
            || !host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':'))
        {
            return Err(Rejection::BadName(crate::id::InvalidName::BadCharacter(
                host.chars().find(|c| !c.is_ascii_alphanumeric()).unwrap_or(' '),
            )));
        }
        let host = host.to_ascii_lowercase();
        let action = ActionHash::of_host(&host);
        let denied = self.denials.contains(&action);
        let granted = self
            .grants
            .values()
            .any(|g| g.covers_host(agent.slot, &host) && (!denied || g.by == Sender::User));
        let says = finding.map(|finding| finding.says);
        let asks = says == Some(RuleWord::Ask);
        if let Some(finding) = finding.filter(|finding| finding.says == RuleWord::Deny) {
            return Err(Rejection::DeniedByRule { reason: finding.refusal() });
        }
        match agent.mode {
            PermissionMode::Plan => {}
            _ if says == Some(RuleWord::Allow) && !denied => return Ok(()),
            PermissionMode::BypassPermissions if !denied && !asks => return Ok(()),
            PermissionMode::Default
            | PermissionMode::AcceptEdits
            | PermissionMode::DontAsk
            | PermissionMode::BypassPermissions => {}
        }
        match agent.mode {
            _ if granted && !asks => return Ok(()),
            PermissionMode::Plan | PermissionMode::DontAsk => {
                return Err(Rejection::NotAllowed {
                    what: "reach that host in this mode",
                    who: "a member that may ask",
                });
            }
            PermissionMode::Default
            | PermissionMode::AcceptEdits
            | PermissionMode::BypassPermissions => {}
        }
        let asked = self.open_requests_of(agent.slot) as u64 + 1;
        let allowed = u64::from(self.settings.limits.open_requests);
        if asked > allowed {
            return Err(Rejection::Limit { limit: "open_requests", allowed, asked });
        }
        let delegated = agent.role == Role::Teammate
            && self.settings.delegation.hosts.contains(&host)
            && !asks
            && !denied;
        let kind =
            RequestKind::Network(NetworkAsk { call: call.clone(), host: host.clone(), action });
        let request = d.open(Sender::Agent(agent.slot), Some(turn.id), kind, delegated);
        let body = Body::Protocol(ProtocolMessage::SandboxPermissionRequest { request, host });
        address_request(d, agent, body, delegated);
        Ok(())
    }

    /// Takes the decision on a connection; the request closes with it.
    pub(super) fn take_answer(
        &self,
        d: &mut Draft,
        caller: Caller,
        turn: TurnId,
        request: RequestId,
    ) -> Result<(), Rejection> {
        let (agent, turn) = self.own_turn(caller, turn)?;
        let open = self.requests.get(&request).ok_or(Rejection::UnknownRequest { request })?;
        if open.request.turn != Some(turn.id)
            || !matches!(open.request.kind, RequestKind::Network(_))
        {
            return Err(Rejection::UnknownRequest { request });
        }
        if !matches!(open.state, RequestState::Decided { .. }) {
            return Err(Rejection::NotDecided { request });
        }
        let message = self.response_to(agent, request).ok_or(Rejection::NotDecided { request })?;
        let step = turn.mail.values().copied().max().unwrap_or(0);
        d.push(Event::MessageDelivered { message, slot: agent.slot, turn: turn.id, step });
        Ok(())
    }
}

/// Every request is in the person's inbox; a delegated one is the lead's mail too.
pub(super) fn address_request(
    d: &mut Draft,
    agent: &Agent,
    body: Body,
    delegated: bool,
) -> MessageId {
    let from = Sender::Agent(agent.slot);
    if delegated {
        d.send(from, Recipient::Lead, vec![SlotId::LEAD], body, Urgency::Wake)
    } else {
        d.send(from, Recipient::User, Vec::new(), body, Urgency::Wake)
    }
}
