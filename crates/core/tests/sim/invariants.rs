//! What holds when a whole command, a whole commit, or a whole seed is in; checked against the model
//! and, where the two must agree, against `Team`.

use aion_core::Effect;
use aion_core::agent::{AgentState, Hold, TeamHold};
use aion_core::event::DeadLetterReason;
use aion_core::id::{MessageId, SlotId, TurnId};
use aion_core::mailbox::Place;
use aion_core::message::{Recipient, Sender, Urgency};
use aion_core::request::{RequestKind, RequestState};
use aion_core::shutdown::ShutdownStage;
use aion_core::task::TaskStatus;
use aion_core::team::{Progress, Reason, Team};
use aion_core::time::Timestamp;
use aion_core::turn::{TurnOutcome, Unavailable};

use crate::model::{Call, Home, Model, Phase, Standing};

/// After all events of one command.
pub(crate) fn after_command(model: &mut Model) {
    nobody_is_left_waiting(model);
    shutdowns_are_watched(model);
    requests_have_somebody(model);
    failures_are_told(model);
    dead_letters_are_told(model);
    ended_turns_have_consequences(model);
    openings_are_complete(model);
    circles_are_cut(model);
    the_gone_have_nothing(model);
}

/// INV-08: wake is level-triggered.
fn nobody_is_left_waiting(model: &mut Model) {
    if model.ended || !model.team_holds.is_empty() {
        return;
    }
    let at = model.at;
    // What running turns have reserved may come back, and then the turn starts.
    let delayed = model.fits_cap(0) && !model.fits_cap(model.reserved_tokens());
    let waiting = model
        .present()
        .filter(|(_, m)| m.phase == Phase::Idle && m.holds.is_empty() && m.not_before <= at)
        .map(|(slot, _)| slot)
        .filter(|_| !delayed)
        .find(|slot| model.has_waking_mail(*slot) || model.next_offer(*slot).is_some());
    if let Some(slot) = waiting {
        let offer = model.next_offer(slot);
        model.fail(
            "INV-08",
            format!("{slot} has a reason to start (offer {offer:?}), and does not"),
        );
    }
    let overdue = model.present().find_map(|(slot, m)| {
        let hold =
            m.holds.iter().any(|h| matches!(h, Hold::Provider { until: Some(t) } if *t <= at));
        let restart = m.phase == Phase::Failed && m.retry_at.is_some_and(|t| t <= at);
        let detached = m.phase == Phase::Active
            && m.turn.as_ref().and_then(|t| t.detached).is_some_and(|t| t <= at);
        (hold || restart || detached).then_some(slot)
    });
    if let Some(slot) = overdue {
        model.fail("INV-08", format!("a wait of {slot} is over, and nothing follows"));
    }
}

/// INV-12: a handshake that nobody answered in time is before the person.
fn shutdowns_are_watched(model: &mut Model) {
    let at = model.at;
    let stuck = model.requests.iter().find_map(|(id, asked)| {
        let RequestKind::Shutdown(handshake) = &asked.request.kind else { return None };
        let until = match handshake.stage {
            ShutdownStage::Member { until } | ShutdownStage::Decider { until } => until,
            ShutdownStage::Person => return None,
        };
        let silent = asked.standing == Standing::Open && !asked.escalated && until <= at;
        let about_nobody = asked.standing == Standing::Open && !model.is_present(handshake.slot);
        (silent || about_nobody).then_some(*id)
    });
    if let Some(id) = stuck {
        model.fail("INV-12", format!("{id} hangs: its time is over, or its member is gone"));
    }
}

/// INV-13: no open request whose asker is gone, none that waits for a turn that is over.
fn requests_have_somebody(model: &mut Model) {
    let hanging = model.requests.iter().find_map(|(id, asked)| {
        let Sender::Agent(slot) = asked.request.from else { return None };
        if asked.is_closed() {
            return None;
        }
        let live = model.members.get(&slot).and_then(|m| m.turn.as_ref()).map(|t| t.id);
        let turn_over = asked.request.turn.is_some() && asked.request.turn != live;
        let waits =
            matches!(asked.request.kind, RequestKind::Permission(_) | RequestKind::Network(_));
        match asked.standing {
            Standing::Open => {
                let lost = !model.is_present(slot) || (waits && turn_over && !asked.orphaned);
                (lost || model.ended).then_some(*id)
            }
            Standing::Decided(_) => {
                (waits && turn_over && !asked.orphaned && !model.ended).then_some(*id)
            }
            Standing::Withdrawn => None,
        }
    });
    if let Some(id) = hanging {
        model.fail("INV-13", format!("{id} hangs: nobody takes its answer"));
    }
    let unasked = model.present().find_map(|(_, m)| {
        m.turn.as_ref()?.calls.values().find_map(|call| match call {
            Call::Asked { request, .. } => match model.requests.get(request) {
                Some(asked) if !asked.is_closed() => None,
                _ => Some(*request),
            },
            Call::Started => None,
        })
    });
    if let Some(id) = unasked {
        model.fail("INV-13", format!("a call waits for {id}, which nobody can decide"));
    }
}

/// INV-15 and INV-16: a death that stays is told once; a lead that stays down holds the team.
fn failures_are_told(model: &mut Model) {
    for slot in std::mem::take(&mut model.scope.failed) {
        let Some(member) = model.members.get(&slot) else { continue };
        let name = member.name.as_str();
        let to = if member.lead { Recipient::User } else { Recipient::Lead };
        let told = model
            .scope
            .told
            .iter()
            .filter(|(recipient, text)| {
                *recipient == to && text.contains(name) && text.contains("failed and")
            })
            .count();
        model.check(told == 1, "INV-15", || format!("the death of {slot} was told {told} times"));
        model.check_owners(&[slot]);
    }
    model.check_owners(&[]);
    let down = model
        .members
        .get(&SlotId::LEAD)
        .is_some_and(|m| m.phase == Phase::Failed && m.retry_at.is_none());
    let solo = model.solo;
    let held = model.team_holds.contains(&TeamHold::LeadDown);
    model.check(!down || held || solo || model_ended(model), "INV-16", || {
        "the lead is down, and the team is not held".to_owned()
    });
    let leads = model.present().filter(|(_, m)| m.lead).count();
    let ended = model.ended;
    model.check(leads == 1 || ended, "INV-16", || format!("the team has {leads} leads"));
}

fn model_ended(model: &Model) -> bool {
    model.ended
}

/// INV-03: what failed too often is a dead letter, its sender and the lead know.
fn dead_letters_are_told(model: &mut Model) {
    for dead in std::mem::take(&mut model.scope.dead) {
        if !dead.text || !matches!(dead.reason, DeadLetterReason::Attempts { .. }) {
            continue;
        }
        let about =
            |to: Recipient| {
                model.scope.told.iter().any(|(recipient, text)| {
                    *recipient == to && text.contains(&dead.id.to_string())
                })
            };
        let sender = match dead.from {
            Sender::User => about(Recipient::User),
            Sender::Agent(slot) if model.is_present(slot) && slot != dead.slot => {
                about(Recipient::Agent(slot)) || (slot == SlotId::LEAD && about(Recipient::Lead))
            }
            Sender::Agent(_) | Sender::System => true,
        };
        let to_lead = dead.slot == SlotId::LEAD
            || dead.from == Sender::Agent(SlotId::LEAD)
            || dead.from == Sender::System
            || about(Recipient::Lead);
        model.check(sender && to_lead, "INV-03", || {
            format!("{} of {:?} to {} died, and that was not told", dead.id, dead.from, dead.slot)
        });
    }
}

/// INV-03: an outage holds the agent; a fault that was one too many leaves no mail behind.
fn ended_turns_have_consequences(model: &mut Model) {
    for (slot, outcome, requeued) in std::mem::take(&mut model.scope.ended_turns) {
        if !model.is_present(slot) || model.ended {
            continue;
        }
        let Some(member) = model.members.get(&slot) else { continue };
        match outcome {
            TurnOutcome::Unavailable { why, until, .. } => {
                let held = match why {
                    Unavailable::Budget => member.holds.contains(&Hold::Budget),
                    Unavailable::Login => member.holds.contains(&Hold::Provider { until: None }),
                    Unavailable::Provider | Unavailable::RateLimit => {
                        member.holds.contains(&Hold::Provider { until })
                            || until.is_some_and(|t| t <= model.at)
                    }
                };
                model.check(held, "INV-03", || {
                    format!("{slot} cannot reach its provider, and is not held")
                });
            }
            TurnOutcome::AgentFault { .. } => {
                let most = model.settings.limits.attempts;
                let left = requeued
                    .iter()
                    .find(|id| member.mail.get(id).is_some_and(|m| m.attempts >= most));
                model.check(left.is_none(), "INV-03", || {
                    format!("{left:?} failed as often as is allowed, and is tried again")
                });
            }
            TurnOutcome::Done { .. } | TurnOutcome::Interrupted | TurnOutcome::Lost => {}
        }
    }
}

/// INV-22: an opening takes care of every turn that was live.
fn openings_are_complete(model: &mut Model) {
    if !std::mem::take(&mut model.scope.opened) {
        return;
    }
    let forgotten = model.live_at_opening.iter().copied().find(|turn| {
        !model.scope.cared_for.contains(turn)
            && model.present().any(|(_, m)| m.turn.as_ref().is_some_and(|t| t.id == *turn))
    });
    if let Some(turn) = forgotten {
        model.fail(
            "INV-22",
            format!("{turn} was live when the house fell, and nobody cares for it"),
        );
    }
}

/// INV-31: two members that go in circles are held.
fn circles_are_cut(model: &mut Model) {
    let most = model.settings.limits.turns_without_progress;
    if most == 0 || model.ended {
        return;
    }
    let circle = model.stale.iter().find(|(_, n)| **n >= most).map(|(pair, n)| (*pair, *n));
    if let Some(((low, high), n)) = circle {
        model.fail("INV-31", format!("{low} and {high} spent {n} turns on each other for nothing"));
    }
}

/// INV-01 and INV-15: who is gone has no mail, and an ended team has none at all.
fn the_gone_have_nothing(model: &mut Model) {
    let ended = model.ended;
    let left = model
        .members
        .iter()
        .find(|(_, m)| {
            (ended || m.phase == Phase::Removed) && (!m.mail.is_empty() || m.turn.is_some())
        })
        .map(|(slot, _)| *slot);
    if let Some(slot) = left {
        model.fail("INV-01", format!("{slot} is gone, and its mail has no home"));
    }
}

/// After a commit: the state that the session holds agrees with the model where events touched it.
pub(crate) fn after_commit(model: &mut Model, team: &Team) {
    for slot in std::mem::take(&mut model.dirty) {
        compare_member(model, team, slot);
    }
    for id in std::mem::take(&mut model.closed_mail) {
        model.check(team.message(id).is_none(), "STATE", || {
            format!("{id} has no mailbox left, and is still in the state")
        });
    }
    if !model.ended && model.created {
        timer_is_set(model, team);
    }
}

fn compare_member(model: &mut Model, team: &Team, slot: SlotId) {
    let Some(member) = model.members.get(&slot) else { return };
    let Some(agent) = team.agent(slot) else {
        let gone = member.phase == Phase::Removed;
        return model.check(gone, "STATE", || format!("{slot} is missing in the state"));
    };
    let phase = match agent.state() {
        AgentState::Pending => Phase::Pending,
        AgentState::Idle => Phase::Idle,
        AgentState::Active { .. } => Phase::Active,
        AgentState::Stopping { .. } => Phase::Stopping,
        AgentState::Failed { .. } => Phase::Failed,
    };
    let turn = agent.turn().map(aion_core::turn::Turn::id);
    let mut told = Vec::new();
    if phase != member.phase || turn != member.turn.as_ref().map(|t| t.id) {
        told.push((
            "STATE",
            format!("{slot} is {phase:?} in {turn:?}, by its events {:?}", member.phase),
        ));
    }
    if agent.generation() != member.generation
        || agent.mode() != member.mode
        || *agent.name() != member.name
    {
        told.push(("STATE", format!("{slot} differs from its events in start, mode or name")));
    }
    if !agent.holds().eq(member.holds.iter().copied()) {
        told.push(("STATE", format!("{slot} is held otherwise than its events say")));
    }
    let entries = agent.mailbox().entries();
    if !entries.keys().eq(member.mail.keys()) {
        told.push(("INV-01", format!("the mailbox of {slot} differs from its events")));
    }
    for (id, entry) in entries {
        let Some(mail) = member.mail.get(id) else { continue };
        let home = match entry.place() {
            Place::Queued => Home::Queued,
            Place::InTurn(turn) => Home::InTurn(turn),
        };
        if home != mail.home {
            told.push((
                "INV-01",
                format!("{id} of {slot} is {home:?}, by its events {:?}", mail.home),
            ));
        }
        if entry.attempts() != mail.attempts {
            told.push((
                "INV-03",
                format!(
                    "{id} of {slot} counts {} attempts, its events {}",
                    entry.attempts(),
                    mail.attempts
                ),
            ));
        }
        if entry.held() != mail.held
            || entry.redelivered() != (mail.redelivered || mail.attempts > 0)
        {
            told.push(("STATE", format!("{id} of {slot} is marked otherwise than its events say")));
        }
        if team.message(*id).is_none() {
            told.push(("INV-01", format!("{id} waits for {slot}, and its text is gone")));
        }
    }
    for (rule, text) in told {
        model.fail(rule, text);
    }
}

/// INV-08: the timer is never later than the next thing that time alone brings.
fn timer_is_set(model: &mut Model, team: &Team) {
    let Some(due) = next_deadline(model) else { return };
    let timer = team.poll_timeout().map(|(at, _)| at);
    model.check(timer.is_some_and(|at| at <= due), "INV-08", || {
        format!("something is due at {due}, and the timer says {timer:?}")
    });
}

fn next_deadline(model: &Model) -> Option<Timestamp> {
    let mut due: Option<Timestamp> = None;
    let mut at = |time: Timestamp| due = Some(due.map_or(time, |due| due.min(time)));
    let delayed = model.fits_cap(0) && !model.fits_cap(model.reserved_tokens());
    let free = model.team_holds.is_empty() && !delayed;
    for (slot, member) in model.present() {
        for hold in &member.holds {
            if let Hold::Provider { until: Some(until) } = hold {
                at(*until);
            }
        }
        if let (Phase::Failed, Some(time)) = (member.phase, member.retry_at) {
            at(time);
        }
        if let (Phase::Active, Some(until)) =
            (member.phase, member.turn.as_ref().and_then(|t| t.detached))
        {
            at(until);
        }
        if member.phase == Phase::Idle && member.holds.is_empty() && free {
            if member.not_before > model.at
                && (model.has_waking_mail(slot) || model.next_offer(slot).is_some())
            {
                at(member.not_before);
            }
            if let (true, Some(oldest)) = (member.lead, model.oldest_notice(slot)) {
                at((oldest + model.settings.limits.notices_wait).max(member.not_before));
            }
        }
    }
    for asked in model.requests.values() {
        if let (RequestKind::Shutdown(handshake), Standing::Open, false) =
            (&asked.request.kind, &asked.standing, asked.escalated)
        {
            match handshake.stage {
                ShutdownStage::Member { until } | ShutdownStage::Decider { until } => at(until),
                ShutdownStage::Person => {}
            }
        }
    }
    due
}

/// Before an effect meets the world: its event is durable.
pub(crate) fn before_effect(model: &mut Model, effect: &Effect) {
    let member = |slot: &SlotId| model.members.get(slot).filter(|m| m.phase != Phase::Removed);
    let known =
        match effect {
            Effect::Spawn { slot, generation } => member(slot)
                .is_some_and(|m| m.generation == *generation && m.phase == Phase::Pending),
            Effect::RunTurn { slot, turn } => member(slot).is_some_and(|m| {
                m.turn.as_ref().is_some_and(|t| t.id == *turn && t.detached.is_none())
            }),
            Effect::Interrupt { slot, turn } => member(slot)
                .is_some_and(|m| m.turn.as_ref().is_some_and(|t| t.id == *turn && t.interrupted)),
            Effect::Answer { request, decision, .. } => model
                .requests
                .get(request)
                .is_some_and(|a| a.standing == Standing::Decided(decision.clone()) && !a.used),
            Effect::Stop { slot, generation, .. } => member(slot)
                .is_some_and(|m| m.generation == *generation && m.phase == Phase::Stopping),
            Effect::CreateTeam { request } => {
                model.requests.get(request).is_some_and(|a| !a.is_closed())
            }
        };
    model.check(known, "EFFECT", || {
        format!("{} is performed before its event is durable", effect.key())
    });
}

/// Everything at once: for the end of a seed.
pub(crate) fn compare_all(model: &mut Model, team: &Team) {
    let slots: Vec<SlotId> = model.members.keys().copied().collect();
    for slot in slots {
        compare_member(model, team, slot);
    }
    let mut told: Vec<(&'static str, String)> = Vec::new();
    if !team.agents().map(aion_core::agent::Agent::slot).eq(model.present().map(|(slot, _)| slot)) {
        told.push(("STATE", "the members differ from their events".to_owned()));
    }
    let open = team.board().open();
    if !open.keys().eq(model.tasks.keys()) || !team.board().done().keys().eq(model.done.iter()) {
        told.push(("INV-10", "the board differs from its events".to_owned()));
    }
    for (id, task) in open {
        let Some(by_events) = model.tasks.get(id) else { continue };
        let same = task.owner() == by_events.owner
            && (task.status() == TaskStatus::InProgress) == by_events.in_progress
            && *task.blocked_by() == by_events.blocked_by
            && task.version() == by_events.version;
        if !same {
            told.push(("INV-10", format!("task {id} differs from its events")));
        }
    }
    for (request, state) in team.requests() {
        let same = model.requests.get(&request.id).is_some_and(|asked| match state {
            RequestState::Open => asked.standing == Standing::Open && !asked.orphaned,
            RequestState::Orphaned => asked.standing == Standing::Open && asked.orphaned,
            RequestState::Decided { decision, .. } => {
                asked.standing == Standing::Decided(decision.clone())
            }
        });
        if !same {
            told.push(("INV-13", format!("{} is {state:?}, against its events", request.id)));
        }
    }
    let open = model.requests.values().filter(|a| a.standing == Standing::Open).count();
    let listed =
        team.requests().filter(|(_, s)| !matches!(s, RequestState::Decided { .. })).count();
    if open != listed && !model.ended {
        told.push(("INV-13", format!("{listed} open requests in the state, {open} by the events")));
    }
    if !team.grants().map(|g| g.id).eq(model.grants.keys().copied()) {
        told.push(("INV-14", "the permissions differ from their events".to_owned()));
    }
    let budget = team.budget();
    let live = |turn: &TurnId| {
        model.present().any(|(_, m)| m.turn.as_ref().is_some_and(|t| t.id == *turn))
    };
    if let Some(turn) = model.reserved.keys().find(|turn| !live(turn)) {
        told.push(("INV-31", format!("{turn} is over, and still has something reserved")));
    }
    if budget.used() != model.used
        || budget.reserved().tokens != model.reserved.values().map(|a| a.tokens).sum::<u64>()
    {
        told.push(("INV-31", "the spending differs from its events".to_owned()));
    }
    if team.is_ended() != model.ended {
        told.push(("STATE", "the end of the team differs".to_owned()));
    }
    let c = model.counts;
    let homes: u64 = model.open_mail.values().map(|n| u64::from(*n)).sum();
    if c.accepted != c.acknowledged + c.dead + c.superseded + homes {
        told.push(("INV-01", format!("{} accepted, {c:?}, {homes} open", c.accepted)));
    }
    for (rule, text) in told {
        model.fail(rule, text);
    }
}

/// State is O(open): exactly what somebody still owes is in it.
pub(crate) fn compare_size(model: &mut Model, team: &Team) {
    let state = serde_json::to_value(team).expect("a team is serialised");
    let count = |name: &str| state[name].as_object().map_or(0, serde_json::Map::len);
    let (messages, open) = (count("messages"), model.open_mail.len());
    model.check(messages == open, "STATE", || {
        format!("{messages} messages in the state, {open} open")
    });
    let asked = model.requests.values().filter(|a| !a.is_closed()).count();
    let requests = count("requests");
    model.check(requests <= asked, "STATE", || {
        format!("{requests} requests in the state, {asked} that somebody waits for")
    });
}

/// Once faults have stopped and the person has acted: mail that still waits says why.
pub(crate) fn nothing_is_stuck(model: &mut Model, team: &Team) {
    let mut told = Vec::new();
    for agent in team.agents() {
        let Some(member) = model.members.get(&agent.slot()) else { continue };
        if member.turn.is_some() || matches!(member.phase, Phase::Pending | Phase::Stopping) {
            told.push((
                "LIVE",
                format!("{} does not come to rest: {:?}", agent.slot(), member.phase),
            ));
        }
        let shown = member.phase == Phase::Failed
            || !member.holds.is_empty()
            || !model.team_holds.is_empty();
        let waits: Vec<MessageId> = member
            .mail
            .iter()
            .filter(|(_, m)| m.held || m.urgency >= Urgency::Wake)
            .map(|(id, _)| *id)
            .collect();
        let reason = team.status(agent.slot()).map(|(_, reason)| reason);
        let said = matches!(
            reason,
            Some(Reason::Held | Reason::RateLimited | Reason::Stalled | Reason::NeedsYou)
        );
        if !waits.is_empty() && !said {
            told.push(("LIVE", format!("{} waits, and {reason:?} is shown", agent.slot())));
        }
        if !shown && !waits.is_empty() {
            told.push(("LIVE", format!("{} never reads {waits:?}", agent.slot())));
        }
    }
    for (id, asked) in &model.requests {
        if let (RequestKind::Shutdown(_), Standing::Open) = (&asked.request.kind, &asked.standing) {
            told.push(("INV-12", format!("the shutdown {id} does not end")));
        }
    }
    if matches!(team.progress(), Progress::Working) {
        told.push(("LIVE", "the team says that somebody works, and nobody does".to_owned()));
    }
    for (rule, text) in told {
        model.fail(rule, text);
    }
}
