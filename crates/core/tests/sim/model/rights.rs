//! Requests, grants, tool calls and the budget in the model: who may decide what, and how often.

use aion_core::agent::PermissionMode;
use aion_core::budget::{Amount, Cap, Usage};
use aion_core::command::Caller;
use aion_core::id::{GrantId, RequestId, SlotId, TurnId};
use aion_core::message::Sender;
use aion_core::permission::{Delegation, Grant, GrantRule, GrantScope, ToolClass};
use aion_core::request::{ActionHash, Decision, Request, RequestKind, Withdrawal};
use aion_core::rule::RuleWord;
use aion_core::shutdown::{ShutdownHandshake, ShutdownStage};
use aion_core::time::Timestamp;
use aion_core::turn::ToolVerdict;

use super::{Asked, Call, Model, Proposed, Standing};

/// What mode and rules say: run, only with a permission (`None`), or refuse.
pub(crate) fn judge(
    mode: PermissionMode,
    class: ToolClass,
    says: Option<RuleWord>,
) -> Option<bool> {
    let changes = matches!(class, ToolClass::Edit | ToolClass::Execute);
    match says {
        Some(RuleWord::Deny) => Some(false),
        _ if changes && mode == PermissionMode::Plan => Some(false),
        Some(RuleWord::Allow) => Some(true),
        None if !changes || mode == PermissionMode::BypassPermissions => Some(true),
        None if mode == PermissionMode::AcceptEdits && class == ToolClass::Edit => Some(true),
        Some(RuleWord::Ask) | None => None,
    }
}

fn deadline(handshake: &ShutdownHandshake) -> Option<Timestamp> {
    match handshake.stage {
        ShutdownStage::Member { until } | ShutdownStage::Decider { until } => Some(until),
        ShutdownStage::Person => None,
    }
}

impl Model {
    pub(super) fn tool_proposed(
        &mut self,
        turn: TurnId,
        slot: SlotId,
        (call, tool, class, action): Proposed<'_>,
        says: Option<RuleWord>,
        verdict: &ToolVerdict,
        grant: Option<GrantId>,
    ) {
        self.in_live_turn(slot, turn);
        let mode = self.members.get(&slot).map_or(PermissionMode::Plan, |m| m.mode);
        let by_mode = judge(mode, class, says);
        let denied = self.denials.contains(&action);
        match verdict {
            ToolVerdict::Run => {
                let granted = self.use_grant(grant, slot, tool, action);
                self.check(by_mode == Some(true) || granted.is_some(), "INV-14", || {
                    format!("{tool} of {slot} runs in mode {mode:?} without a permission")
                });
                // What was denied runs through nobody else; only a permission for exactly it helps.
                let harmless = matches!(class, ToolClass::Read | ToolClass::Team);
                let exact_alone = says == Some(RuleWord::Ask);
                self.check(!exact_alone || granted == Some(true), "INV-14", || {
                    format!("{tool} of {slot} runs, and a rule wants it to be asked for")
                });
                self.check(!denied || harmless || granted == Some(true), "INV-14", || {
                    format!("{tool} of {slot} runs, and it was denied before")
                });
            }
            ToolVerdict::Ask { request } => {
                // The request follows in the same command; afterwards it has to be there.
                let known = self.requests.contains_key(request) || request.0 > self.last_request;
                self.check(known, "INV-13", || {
                    format!("a call waits for {request}, which is closed")
                });
                // A call that waits already goes on waiting, whatever the mode has become.
                let waits = self.requests.contains_key(request);
                let never = by_mode == Some(false) || mode == PermissionMode::DontAsk;
                self.check(!never || waits, "INV-14", || {
                    format!("{tool} of {slot} is asked for in mode {mode:?}")
                });
            }
            ToolVerdict::Refused { .. } => {}
        }
        let Some(live) = self.live_turn(slot, turn) else { return };
        let next = match verdict {
            ToolVerdict::Run => Some(Call::Started),
            ToolVerdict::Ask { request } => Some(Call::Asked { request: *request, action }),
            ToolVerdict::Refused { .. } => None,
        };
        // A turn that was taken up again proposes the call that waits a second time.
        let twice = next.clone().and_then(|next| live.calls.insert(call.to_owned(), next));
        let same = twice.is_none() || (twice == next && twice != Some(Call::Started));
        self.check(same, "INV-14", || format!("{call} of {turn} begins twice"));
    }

    /// Whether the grant that a call cites covers it, and whether it names exactly this action;
    /// a single-use one is spent with it.
    fn use_grant(
        &mut self,
        grant: Option<GrantId>,
        slot: SlotId,
        tool: &str,
        action: ActionHash,
    ) -> Option<bool> {
        let id = grant?;
        let spent = self.spent_grants.contains(&id);
        self.check(!spent, "INV-14", || format!("the single-use permission {id} is used again"));
        let Some(grant) = self.grants.get(&id) else {
            self.check(spent, "INV-14", || format!("a call cites {id}, which does not stand"));
            return None;
        };
        let exact = matches!(grant.rule, GrantRule::Action { .. });
        let covers = grant.slot.is_none_or(|s| s == slot)
            && match &grant.rule {
                GrantRule::Action { action: granted, .. } => *granted == action,
                GrantRule::Tool(granted) => granted == tool,
                GrantRule::Pattern(_) | GrantRule::Host(_) => false,
            };
        let once = matches!(grant.rule, GrantRule::Action { once: true, .. });
        if once {
            self.grants.remove(&id);
            self.spent_grants.insert(id);
        }
        self.check(covers, "INV-14", || format!("{id} does not cover {tool} of {slot}"));
        covers.then_some(exact)
    }

    pub(super) fn tool_answered(
        &mut self,
        turn: TurnId,
        slot: SlotId,
        call: &str,
        request: RequestId,
        runs: bool,
    ) {
        let Some(live) = self.live_turn(slot, turn) else { return };
        let was = live.calls.get(call).cloned();
        let interrupted = live.interrupted;
        if runs {
            live.calls.insert(call.to_owned(), Call::Started);
        } else {
            live.calls.remove(call);
        }
        let proposed = match was {
            Some(Call::Asked { request: waits, action }) if waits == request => Some(action),
            Some(Call::Asked { .. } | Call::Started) | None => None,
        };
        self.check(proposed.is_some(), "INV-13", || {
            format!("{call} of {turn} is answered by {request}, but it is {was:?}")
        });
        let Some(asked) = self.requests.get_mut(&request) else { return };
        let same = match &asked.request.kind {
            RequestKind::Permission(ask) => Some(ask.action) == proposed && ask.call == call,
            _ => false,
        };
        let used = std::mem::replace(&mut asked.used, true);
        let allowed = match &asked.standing {
            Standing::Decided(Decision::Allow { .. }) => Some(true),
            Standing::Decided(Decision::Deny { .. }) => Some(false),
            Standing::Decided(_) | Standing::Open | Standing::Withdrawn => None,
        };
        self.check(!used, "INV-13", || format!("the answer of {request} is used twice"));
        self.check(same || !runs, "INV-14", || {
            format!("{call} of {turn} runs by {request}, which was about another action")
        });
        let refused_anyway = !runs && interrupted && allowed.is_some();
        self.check(allowed == Some(runs) || refused_anyway, "INV-13", || {
            format!("{call} of {turn} goes on ({runs}) against the decision of {request}")
        });
    }

    pub(super) fn tool_finished(&mut self, turn: TurnId, slot: SlotId, call: &str, changed: bool) {
        if changed {
            self.progress_by(Sender::Agent(slot));
        }
        let Some(live) = self.live_turn(slot, turn) else { return };
        let was = live.calls.remove(call);
        self.check(was == Some(Call::Started), "INV-14", || {
            format!("{call} of {turn} finished, but it was {was:?}")
        });
    }

    pub(super) fn request_opened(&mut self, actor: Caller, request: &Request) {
        let id = request.id;
        let last = self.last_request;
        self.check(id.0 > last, "INV-13", || format!("request {id} follows r{last}"));
        self.last_request = last.max(id.0);
        if let Sender::Agent(slot) = request.from {
            self.touch(slot);
            let own = matches!(actor, Caller::Agent(by) if by == slot) || actor == Caller::System;
            self.check(own, "INV-14", || format!("{actor:?} asks {id} in the name of {slot}"));
        }
        let limit = self.settings.limits.open_requests as usize;
        let limited = !matches!(request.kind, RequestKind::Shutdown(_) | RequestKind::DeleteTeam);
        if let (Sender::Agent(_), true) = (request.from, limited) {
            let open = self
                .requests
                .values()
                .filter(|a| {
                    a.request.from == request.from && a.standing == Standing::Open && !a.orphaned
                })
                .filter(|a| {
                    !matches!(a.request.kind, RequestKind::Shutdown(_) | RequestKind::DeleteTeam)
                })
                .count();
            let replaced = self.scope.replaced;
            self.check(open < limit || replaced, "INV-31", || {
                format!("{:?} asks {id}, its open request {} of {limit}", request.from, open + 1)
            });
        }
        self.requests.insert(
            id,
            Asked {
                request: request.clone(),
                standing: Standing::Open,
                orphaned: false,
                escalated: false,
                used: false,
            },
        );
    }

    pub(super) fn request_decided(
        &mut self,
        actor: Caller,
        id: RequestId,
        by: Sender,
        decision: &Decision,
        delegated: bool,
    ) {
        self.counts.decided += 1;
        self.scope.decided = true;
        let Some(asked) = self.requests.get_mut(&id) else {
            self.fail("INV-12", format!("{id} is decided, and was never asked"));
            return;
        };
        let standing = std::mem::replace(&mut asked.standing, Standing::Decided(decision.clone()));
        let request = asked.request.clone();
        self.check(standing == Standing::Open, "INV-13", || {
            format!("{id} is decided by {by:?}, but it is {standing:?}")
        });
        let fits = answers(decision, &request.kind);
        self.check(fits, "INV-13", || {
            format!("{decision:?} does not answer {:?}", request.kind.name())
        });
        let speaks = Sender::from(actor) == by || by == Sender::System;
        self.check(speaks, "INV-14", || format!("{actor:?} decides {id} in the name of {by:?}"));
        self.check_authority(&request, by, decision, delegated);
        if let Decision::Allow { scope, .. } = decision {
            let orphaned = self.requests.get(&id).is_some_and(|a| a.orphaned);
            self.scope.allowed = Some((*scope, orphaned));
        }
        let action = match &request.kind {
            RequestKind::Permission(ask) => Some(ask.action),
            RequestKind::Network(ask) => Some(ask.action),
            _ => None,
        };
        match (action, decision) {
            (Some(action), Decision::Deny { .. }) => {
                self.denials.insert(action);
                self.drop_grants(
                    |g| matches!(&g.rule, GrantRule::Action { action: a, .. } if *a == action),
                );
            }
            (Some(action), Decision::Allow { .. }) if by == Sender::User => {
                self.denials.remove(&action);
            }
            _ => {}
        }
    }

    /// Nobody decides his own; a teammate decides only about its own leaving; the lead by delegation.
    fn check_authority(
        &mut self,
        request: &Request,
        by: Sender,
        decision: &Decision,
        delegated: bool,
    ) {
        let id = request.id;
        if let RequestKind::Shutdown(handshake) = &request.kind {
            let allowed = match by {
                // The person speaks for no member that somebody else would see leave.
                Sender::User => {
                    *decision == Decision::ForceShutdown
                        || handshake.by == Sender::Agent(handshake.slot)
                }
                Sender::Agent(slot) if handshake.by == Sender::Agent(handshake.slot) => {
                    slot == SlotId::LEAD && slot != handshake.slot
                }
                Sender::Agent(slot) => {
                    slot == handshake.slot && *decision != Decision::ForceShutdown
                }
                Sender::System => false,
            };
            self.check(allowed, "INV-12", || {
                format!("{by:?} answers {id}, which is not its to answer")
            });
            return;
        }
        self.check(by != request.from, "INV-14", || {
            format!("{by:?} decides {id}, its own request")
        });
        if let Sender::Agent(slot) = by {
            let denies = matches!(decision, Decision::Deny { .. });
            let may = slot == SlotId::LEAD && (denies || (delegated && request.delegated));
            self.check(may, "INV-14", || format!("{slot} decides {id} without a delegation"));
            let within = match &request.kind {
                RequestKind::Plan(_) => self.delegation.plans,
                RequestKind::Permission(ask) => {
                    self.delegation.tools.contains(&ask.tool)
                        || !matches!(decision, Decision::Allow { .. })
                }
                RequestKind::Network(ask) => {
                    self.delegation.hosts.contains(&ask.host)
                        || !matches!(decision, Decision::Allow { .. })
                }
                _ => false,
            };
            self.check(within, "INV-14", || format!("{slot} decides {id} beyond its delegation"));
        }
    }

    pub(super) fn request_escalated(&mut self, id: RequestId) {
        let at = self.at;
        let Some(asked) = self.requests.get_mut(&id) else {
            return self.fail("INV-12", format!("{id} is escalated, and was never asked"));
        };
        let twice = std::mem::replace(&mut asked.escalated, true);
        let open = asked.standing == Standing::Open;
        let until = match &asked.request.kind {
            RequestKind::Shutdown(handshake) => deadline(handshake),
            _ => None,
        };
        self.check(open && !twice, "INV-12", || format!("{id} is escalated twice, or is not open"));
        self.check(until.is_some_and(|until| at >= until), "INV-23", || {
            format!("{id} is escalated at {at}, it had until {until:?}")
        });
    }

    pub(super) fn request_orphaned(&mut self, id: RequestId) {
        let open = self.requests.get_mut(&id).is_some_and(|asked| {
            asked.orphaned = true;
            asked.standing == Standing::Open
        });
        self.check(open, "INV-13", || format!("{id} is orphaned, but it is not open"));
    }

    /// An open request closes; a decided one may, when the turn that was to take it is gone.
    pub(super) fn request_withdrawn(&mut self, id: RequestId, why: &Withdrawal) {
        self.scope.replaced |= *why == Withdrawal::ByAsker;
        let Some(asked) = self.requests.get_mut(&id) else {
            return self.fail("INV-13", format!("{id} is withdrawn, and was never asked"));
        };
        let standing = std::mem::replace(&mut asked.standing, Standing::Withdrawn);
        let used = asked.used;
        let waited = matches!(
            asked.request.kind,
            RequestKind::Permission(_) | RequestKind::Network(_) | RequestKind::CreateTeam(_)
        );
        let late = waited
            && matches!(standing, Standing::Decided(_))
            && !used
            && *why != Withdrawal::ByAsker;
        self.check(standing == Standing::Open || late, "INV-13", || {
            format!("{id} is withdrawn ({why:?}), but it is {standing:?}")
        });
    }

    /// The mail with a decision on a connection was taken by the turn that waits for it.
    pub(super) fn answer_taken(&mut self, slot: SlotId, turn: TurnId, id: RequestId) {
        let Some(asked) = self.requests.get_mut(&id) else { return };
        let network = matches!(asked.request.kind, RequestKind::Network(_));
        let own = asked.request.from == Sender::Agent(slot) && asked.request.turn == Some(turn);
        if network && own && matches!(asked.standing, Standing::Decided(_)) {
            let used = std::mem::replace(&mut asked.used, true);
            self.check(!used, "INV-13", || format!("the answer of {id} is taken twice"));
        }
    }

    pub(super) fn team_linked(&mut self, id: RequestId) {
        let fresh = self.requests.get_mut(&id).is_some_and(|asked| {
            let fresh = !std::mem::replace(&mut asked.used, true);
            fresh && asked.standing == Standing::Decided(Decision::Consent)
        });
        self.check(fresh, "INV-14", || format!("{id} became a team without a fresh consent"));
    }

    pub(super) fn grant_added(&mut self, actor: Caller, grant: &Grant) {
        let by_person = grant.by == Sender::User;
        let wide = grant.slot.is_none() || !matches!(grant.rule, GrantRule::Action { .. });
        self.check(by_person || !wide, "INV-14", || {
            format!("{:?} gave {:?} through {actor:?}", grant.by, grant.rule)
        });
        let allowed = self.scope.allowed;
        let exact_once = matches!(grant.rule, GrantRule::Action { once: true, .. });
        let fits = match allowed {
            // An "allow" whose turn ended before it was taken.
            None => exact_once && !self.scope.ended_turns.is_empty(),
            Some((GrantScope::Once, orphaned)) => exact_once && orphaned,
            Some((GrantScope::Action, _)) => grant.slot.is_some(),
            Some((GrantScope::Member, _)) => grant.slot.is_some() && wide,
            Some((GrantScope::Team, _)) => grant.slot.is_none(),
        };
        self.check(fits, "INV-14", || {
            format!("{} ({:?}) is wider than the decision {:?}", grant.id, grant.rule, allowed)
        });
        let known = self.spent_grants.contains(&grant.id)
            || self.grants.insert(grant.id, grant.clone()).is_some();
        self.check(!known, "INV-14", || format!("{} is given twice", grant.id));
    }

    /// Permissions that end with something else.
    pub(super) fn drop_grants(&mut self, gone: impl Fn(&Grant) -> bool) {
        let ids: Vec<GrantId> =
            self.grants.iter().filter(|(_, g)| gone(g)).map(|(id, _)| *id).collect();
        for id in ids {
            self.grants.remove(&id);
            self.spent_grants.insert(id);
        }
    }

    pub(super) fn grant_revoked(&mut self, id: GrantId) {
        let stood = self.grants.remove(&id).is_some();
        self.check(stood, "INV-14", || format!("{id} is taken back, and did not stand"));
        self.spent_grants.insert(id);
    }

    pub(super) fn delegation_changed(&mut self, actor: Caller, delegation: &Delegation) {
        self.check(actor == Caller::User, "INV-14", || format!("{actor:?} changed the delegation"));
        self.delegation = delegation.clone();
    }

    pub(super) fn reserve_first(&mut self, turn: TurnId, amount: Option<Amount>) {
        if let Some(amount) = amount {
            self.reserved.insert(turn, amount);
            self.check_cap();
        } else {
            let capped = self.cap.is_some_and(|cap| cap.most != Amount::default());
            self.check(!capped, "INV-31", || {
                format!("{turn} begins under a cap without a reservation")
            });
        }
    }

    pub(super) fn call_reserved(
        &mut self,
        turn: TurnId,
        slot: SlotId,
        amount: Amount,
        usage: Usage,
    ) {
        self.in_live_turn(slot, turn);
        self.reserved.remove(&turn);
        self.spend(usage);
        self.reserved.insert(turn, amount);
        self.check_cap();
    }

    pub(super) fn settle_call(&mut self, turn: TurnId, usage: Option<Usage>) {
        self.reserved.remove(&turn);
        if let Some(usage) = usage {
            self.spend(usage);
        }
    }

    pub(super) fn usage_recorded(&mut self, usage: Usage) {
        self.soft = true;
        self.spend(usage);
    }

    fn spend(&mut self, usage: Usage) {
        self.used.tokens += usage.input + usage.output + usage.cache_read + usage.cache_write;
        self.used.micro_usd += usage.micro_usd;
    }

    pub(super) fn cap_changed(&mut self, actor: Caller, cap: Option<Cap>) {
        self.check(actor == Caller::User, "INV-31", || format!("{actor:?} changed the cap"));
        self.cap = cap;
    }

    pub(crate) fn reserved_tokens(&self) -> u64 {
        self.reserved.values().map(|a| a.tokens).sum()
    }

    /// Whether a first call fits under the cap beside so many reserved tokens.
    pub(crate) fn fits_cap(&self, reserved: u64) -> bool {
        self.cap.is_none_or(|cap| {
            cap.most.tokens == 0
                || self.used.tokens + reserved + cap.per_call.tokens <= cap.most.tokens
        })
    }

    /// A new reservation fits under the cap together with all others.
    fn check_cap(&mut self) {
        let Some(cap) = self.cap else { return };
        let tokens = self.used.tokens + self.reserved.values().map(|a| a.tokens).sum::<u64>();
        let money = self.used.micro_usd + self.reserved.values().map(|a| a.micro_usd).sum::<u64>();
        let fits = (cap.most.tokens == 0 || tokens <= cap.most.tokens)
            && (cap.most.micro_usd == 0 || money <= cap.most.micro_usd);
        self.check(fits, "INV-31", || {
            format!("{tokens} tokens and {money} micro-dollars under {cap:?}")
        });
    }
}

fn answers(decision: &Decision, kind: &RequestKind) -> bool {
    match decision {
        Decision::Allow { .. } | Decision::Deny { .. } => {
            matches!(kind, RequestKind::Permission(_) | RequestKind::Network(_))
        }
        Decision::ApprovePlan { .. } | Decision::ReturnPlan { .. } => {
            matches!(kind, RequestKind::Plan(_))
        }
        Decision::ApproveShutdown | Decision::RejectShutdown { .. } | Decision::ForceShutdown => {
            matches!(kind, RequestKind::Shutdown(_))
        }
        Decision::Consent => matches!(
            kind,
            RequestKind::Spawn(_)
                | RequestKind::CreateTeam(_)
                | RequestKind::RaiseBudget(_)
                | RequestKind::DeleteTeam
        ),
        Decision::Decline { .. } => matches!(
            kind,
            RequestKind::Spawn(_)
                | RequestKind::CreateTeam(_)
                | RequestKind::RaiseBudget(_)
                | RequestKind::DeleteTeam
                | RequestKind::Question(_)
        ),
        Decision::Answer { .. } => matches!(kind, RequestKind::Question(_)),
    }
}
