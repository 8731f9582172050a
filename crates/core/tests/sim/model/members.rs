//! Members in the model: who is there, in which start, and what keeps them.

use std::collections::{BTreeMap, BTreeSet};

use aion_core::agent::{Hold, MemberSpec, PermissionMode, RemovalReason, TeamHold};
use aion_core::command::{Caller, Settings};
use aion_core::id::{AgentName, RequestId, SlotId};
use aion_core::message::Sender;
use aion_core::request::{Decision, RequestKind};
use aion_core::time::Timestamp;

use super::{Member, Model, Phase, Standing};

impl Model {
    pub(super) fn team_created(&mut self, lead: &MemberSpec, settings: &Settings, solo: bool) {
        self.check(!self.created, "INV-16", || "a team was created twice".to_owned());
        self.created = true;
        self.solo = solo;
        self.settings = settings.clone();
        self.delegation = settings.delegation.clone();
        self.cap = settings.cap;
        self.add_member(SlotId::LEAD, lead, true);
        self.check(solo || lead.name == AgentName::lead(), "INV-28", || {
            format!("the lead is called {}", lead.name)
        });
    }

    pub(super) fn settings_changed(&mut self, settings: &Settings) {
        for member in self.members.values_mut() {
            member.sent.clear();
        }
        if settings.spawn_allowance != self.settings.spawn_allowance {
            self.spawned_by_lead = 0;
        }
        self.settings = settings.clone();
        self.delegation = settings.delegation.clone();
        self.cap = settings.cap;
    }

    pub(super) fn team_held(&mut self, hold: TeamHold) {
        let fresh = self.team_holds.insert(hold);
        self.check(fresh, "INV-16", || format!("the team was held twice: {hold:?}"));
        if hold == TeamHold::LeadDown {
            let down = self.members.get(&SlotId::LEAD).is_some_and(|m| m.phase == Phase::Failed);
            self.check(down, "INV-16", || "held for a lead that is not down".to_owned());
        }
    }

    pub(super) fn team_released(&mut self, hold: TeamHold) {
        let was = self.team_holds.remove(&hold);
        self.check(was, "INV-16", || {
            format!("the team was released from {hold:?} it did not have")
        });
    }

    pub(super) fn team_ended(&mut self) {
        self.ended = true;
    }

    pub(super) fn agent_spawned(
        &mut self,
        by: Sender,
        slot: SlotId,
        spec: &MemberSpec,
        consent: Option<RequestId>,
    ) {
        let last = self.last_slot;
        self.check(slot.0 == last + 1, "INV-28", || format!("slot {slot} follows {last}"));
        self.check(
            matches!(by, Sender::User | Sender::Agent(SlotId::LEAD) | Sender::System),
            "INV-31",
            || format!("{by:?} brought in a member"),
        );
        let present = self.present().count();
        let limit = self.settings.limits.members as usize;
        self.check(present < limit, "INV-31", || {
            format!("member {} with a limit of {limit}", present + 1)
        });
        if let Some(request) = consent {
            let granted = self.requests.get(&request).is_some_and(|asked| {
                asked.standing == Standing::Decided(Decision::Consent)
                    && matches!(asked.request.kind, RequestKind::Spawn(_))
                    && !asked.used
            });
            self.check(granted, "INV-14", || format!("a spawn cites {request}, no fresh consent"));
            if let Some(asked) = self.requests.get_mut(&request) {
                asked.used = true;
            }
            self.scope.consented = true;
        } else if by == Sender::Agent(SlotId::LEAD) {
            self.spawned_by_lead += 1;
            let (by, allowed) = (self.spawned_by_lead, self.settings.spawn_allowance);
            self.check(by <= allowed, "INV-31", || {
                format!("spawn {by} by the lead with an allowance of {allowed}")
            });
        }
        let lead_mode = self.members.get(&SlotId::LEAD).map(|m| m.mode);
        let shrinks =
            by != Sender::Agent(SlotId::LEAD) || consent.is_some() || Some(spec.mode) <= lead_mode;
        self.check(shrinks, "INV-14", || {
            format!("the lead in mode {lead_mode:?} brought {slot} in with {:?}", spec.mode)
        });
        self.scope.brought_in = true;
        self.unique_name(slot, &spec.name);
        self.add_member(slot, spec, false);
    }

    fn unique_name(&mut self, slot: SlotId, name: &AgentName) {
        let look = name.look_alike();
        let twin = self
            .present()
            .find(|(other, m)| *other != slot && m.name.look_alike() == look)
            .map(|(other, _)| other);
        self.check(twin.is_none(), "INV-28", || format!("{name} looks like the name of {twin:?}"));
    }

    fn add_member(&mut self, slot: SlotId, spec: &MemberSpec, lead: bool) {
        self.touch(slot);
        self.last_slot = self.last_slot.max(slot.0);
        self.members.insert(
            slot,
            Member {
                lead,
                name: spec.name.clone(),
                phase: Phase::Pending,
                generation: 1,
                restarts: Vec::new(),
                retry_at: None,
                faults_in_a_row: 0,
                not_before: Timestamp(0),
                holds: BTreeSet::new(),
                mail: BTreeMap::new(),
                turn: None,
                offered: BTreeMap::new(),
                mode: spec.mode,
                stop_request: None,
                sent: Vec::new(),
            },
        );
    }

    pub(super) fn agent_ready(&mut self, slot: SlotId, generation: u32) {
        let Some(member) = self.member(slot) else { return };
        let (phase, current) = (member.phase, member.generation);
        if phase == Phase::Pending {
            member.phase = Phase::Idle;
        }
        self.check(phase == Phase::Pending && current == generation, "INV-09", || {
            format!("start {generation} of {slot} is ready, but it is {phase:?} at start {current}")
        });
    }

    pub(super) fn agent_failed(&mut self, slot: SlotId, retry_at: Option<Timestamp>) {
        let at = self.at;
        let limits = self.settings.limits.clone();
        if retry_at.is_none() {
            self.scope.failed.push(slot);
        }
        let Some(member) = self.member(slot) else { return };
        let live = member.turn.is_some();
        let recent = member.restarts.iter().filter(|r| at - **r < limits.restart_window).count();
        member.phase = Phase::Failed;
        member.retry_at = retry_at;
        self.check(!live, "INV-03", || format!("{slot} failed, and its turn is still open"));
        self.check(
            retry_at.is_none() || recent < limits.restarts_in_window as usize,
            "INV-31",
            || format!("restart {} of {slot} within the window is planned", recent + 1),
        );
    }

    pub(super) fn agent_restarting(&mut self, slot: SlotId, generation: u32, by: Sender) {
        let at = self.at;
        self.counts.restarts += 1;
        self.scope.restarted.push(slot);
        let Some(member) = self.member(slot) else { return };
        let (before, live, phase) = (member.generation, member.turn.is_some(), member.phase);
        let retry_at = member.retry_at.take();
        member.generation = generation;
        member.phase = Phase::Pending;
        let counted = by == Sender::System;
        if counted {
            member.restarts.push(at);
        } else {
            member.restarts.clear();
            member.faults_in_a_row = 0;
            member.not_before = Timestamp(0);
        }
        self.check(generation == before + 1, "INV-09", || {
            format!("start {generation} of {slot} follows start {before}")
        });
        self.check(phase == Phase::Failed && !live, "INV-09", || {
            format!("{slot} is started again while it is {phase:?}")
        });
        self.check(!counted || retry_at.is_some_and(|t| at >= t), "INV-23", || {
            format!("{slot} is started again at {at}, it was to wait until {retry_at:?}")
        });
    }

    pub(super) fn agent_renamed(&mut self, slot: SlotId, name: &AgentName) {
        self.unique_name(slot, name);
        let solo = self.solo;
        let Some(member) = self.member(slot) else { return };
        member.name = name.clone();
        let lead = member.lead && !solo && *name != AgentName::lead();
        self.check(!lead, "INV-28", || "the lead got another name".to_owned());
    }

    pub(super) fn agent_held(&mut self, slot: SlotId, hold: Hold) {
        let Some(member) = self.member(slot) else { return };
        let fresh = member.holds.insert(hold);
        if hold == Hold::NoProgress {
            self.stale.retain(|(low, high), _| *low != slot && *high != slot);
        }
        self.check(fresh, "INV-08", || format!("{slot} was held twice: {hold:?}"));
    }

    pub(super) fn agent_released(&mut self, slot: SlotId, hold: Hold) {
        let at = self.at;
        let by_person = self.scope.user_acted;
        let Some(member) = self.member(slot) else { return };
        let was = member.holds.remove(&hold);
        self.check(was, "INV-08", || format!("{slot} was released from {hold:?} it did not have"));
        if let Hold::Provider { until: Some(until) } = hold {
            self.check(by_person || at >= until, "INV-23", || {
                format!("{slot} was released at {at}, its provider asked to wait until {until}")
            });
        }
        if hold == Hold::User {
            self.check(by_person, "INV-08", || format!("nobody resumed {slot}"));
        }
    }

    pub(super) fn mode_changed(&mut self, actor: Caller, slot: SlotId, mode: PermissionMode) {
        let lead_mode = self.members.get(&SlotId::LEAD).map(|m| m.mode);
        let Some(member) = self.member(slot) else { return };
        let before = member.mode;
        member.mode = mode;
        let allowed = match actor {
            Caller::User | Caller::System => true,
            // The lead may tighten; approving a plan ends plan mode, inside the lead's own rights.
            Caller::Agent(SlotId::LEAD) => {
                mode <= before
                    || (before == PermissionMode::Plan
                        && mode <= PermissionMode::Default
                        && Some(mode) <= lead_mode)
            }
            Caller::Agent(by) => by == slot && mode <= before,
        };
        self.check(allowed, "INV-14", || {
            format!("{actor:?} set {slot} from {before:?} to {mode:?}")
        });
    }

    pub(super) fn agent_stopping(&mut self, slot: SlotId, request: Option<RequestId>, kill: bool) {
        let user = self.scope.user_acted;
        let Some(member) = self.member(slot) else { return };
        let (phase, lead) = (member.phase, member.lead);
        member.phase = Phase::Stopping;
        member.stop_request = request;
        self.check(!lead, "INV-16", || "the lead is being ended".to_owned());
        self.check(phase != Phase::Stopping || kill, "INV-12", || {
            format!("{slot} is stopped twice")
        });
        if let Some(request) = request {
            self.agreed_shutdown(slot, request);
        } else {
            self.check(user, "INV-12", || {
                format!("{slot} is ended, and the person did not ask for it")
            });
        }
    }

    fn agreed_shutdown(&mut self, slot: SlotId, request: RequestId) {
        let agreed = self.requests.get(&request).is_some_and(|asked| {
            matches!(&asked.request.kind, RequestKind::Shutdown(h) if h.slot == slot)
                && matches!(
                    asked.standing,
                    Standing::Decided(Decision::ApproveShutdown | Decision::ForceShutdown)
                )
        });
        self.check(agreed, "INV-12", || {
            format!("{slot} leaves by {request}, which nobody agreed to")
        });
    }

    pub(super) fn agent_removed(&mut self, slot: SlotId, reason: &RemovalReason) {
        self.scope.removed.push(slot);
        if let RemovalReason::ShutdownApproved { request } = reason {
            self.agreed_shutdown(slot, *request);
        }
        let Some(member) = self.member(slot) else { return };
        let live = member.turn.is_some();
        let lead = member.lead;
        member.phase = Phase::Removed;
        member.holds.clear();
        self.stale.retain(|(low, high), _| *low != slot && *high != slot);
        self.drop_grants(|grant| grant.slot == Some(slot));
        self.check(!live, "INV-03", || format!("{slot} left, and its turn is still open"));
        let fits = !lead || *reason == RemovalReason::TeamEnded;
        self.check(fits, "INV-16", || format!("the lead was removed: {reason:?}"));
    }
}
