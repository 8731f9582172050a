//! Tool calls: judged before they run, decided once, bound to one action.

use aion_core::mode::PermissionMode;
use aion_core::permission::{Delegation, GrantScope, ToolClass};
use aion_core::request::{Decision, RequestState};
use aion_core::sandbox::ViolationKind;
use aion_core::turn::{ToolVerdict, TurnOutcome};
use aion_core::{Caller, Command, Effect, Event, Rejection};

use crate::world::{ANN, BOB, LEAD, USER, World, names, proposal};

fn verdict(events: &[Event]) -> ToolVerdict {
    match &events[0] {
        Event::ToolProposed { verdict, .. } => verdict.clone(),
        other => panic!("{other:?}"),
    }
}

fn decide(w: &World, decision: Decision) -> Command {
    Command::Decide { request: w.open_request(), decision }
}

fn allow(scope: GrantScope) -> Decision {
    Decision::Allow { scope, rule: None }
}

fn deny() -> Decision {
    Decision::Deny { reason: "not here".to_owned() }
}

#[test]
fn each_mode_judges_each_class() {
    use PermissionMode::{AcceptEdits, BypassPermissions, Default, DontAsk, Plan};
    use ToolClass::{Edit, Execute, Read, Team};
    for (mode, class, expect) in [
        (Default, Read, "run"),
        (Default, Team, "run"),
        (Default, Edit, "ask"),
        (Default, Execute, "ask"),
        (AcceptEdits, Edit, "run"),
        (AcceptEdits, Execute, "ask"),
        (Plan, Read, "run"),
        (Plan, Edit, "refused"),
        (Plan, Execute, "refused"),
        (DontAsk, Edit, "refused"),
        (DontAsk, Execute, "refused"),
        (BypassPermissions, Execute, "run"),
    ] {
        let mut w = World::new();
        w.ok(USER, &Command::SetMode { slot: ANN, mode });
        let turn = w.wake(ANN);
        let events = w.ok(Caller::Agent(ANN), &proposal(turn, "c", "Tool", class));
        let got = match verdict(&events) {
            ToolVerdict::Run => "run",
            ToolVerdict::Ask { .. } => "ask",
            ToolVerdict::Refused { .. } => "refused",
        };
        assert_eq!(got, expect, "{mode:?} {class:?}");
    }
}

#[test]
fn an_allowed_call_starts_once_and_its_answer_is_read_with_it() {
    let mut w = World::new();
    let turn = w.wake(ANN);
    w.ok(Caller::Agent(ANN), &proposal(turn, "c1", "Bash", ToolClass::Execute));
    let start = Command::StartTool { turn, call: "c1".to_owned() };
    assert_eq!(w.no(Caller::Agent(ANN), &start).code(), "not_decided");
    assert_eq!(
        w.no(Caller::Agent(ANN), &decide(&w, allow(GrantScope::Once))),
        Rejection::OwnRequest
    );
    assert_eq!(
        w.no(Caller::Agent(BOB), &decide(&w, allow(GrantScope::Once))).code(),
        "not_allowed"
    );
    assert_eq!(
        w.no(Caller::Agent(LEAD), &decide(&w, allow(GrantScope::Once))).code(),
        "not_allowed"
    );
    let request = w.open_request();
    w.ok(USER, &decide(&w, allow(GrantScope::Once)));
    assert!(
        w.team
            .outstanding()
            .iter()
            .any(|e| matches!(e, Effect::Answer { request: r, .. } if *r == request))
    );
    let late = Command::Decide { request, decision: deny() };
    assert_eq!(w.no(USER, &late), Rejection::AlreadyDecided { request });
    let events = w.ok(Caller::Agent(ANN), &start);
    assert_eq!(names(&events), ["message_delivered", "tool_started"]);
    assert_eq!(w.no(Caller::Agent(ANN), &start).code(), "no_such_call");
    assert!(w.team.request(request).is_none());
    assert_eq!(w.no(USER, &late), Rejection::AlreadyDecided { request });
    let finish = |changed| Command::FinishTool { turn, call: "c1".to_owned(), ok: true, changed };
    w.ok(Caller::Agent(ANN), &finish(true));
    assert_eq!(w.no(Caller::Agent(ANN), &finish(true)).code(), "no_such_call");
}

#[test]
fn a_denied_call_does_not_run_and_nobody_else_runs_it_either() {
    let mut w = World::new();
    w.ok(USER, &Command::SetMode { slot: BOB, mode: PermissionMode::BypassPermissions });
    let turn = w.wake(ANN);
    w.ok(Caller::Agent(ANN), &proposal(turn, "c1", "Bash", ToolClass::Execute));
    w.ok(USER, &decide(&w, deny()));
    let events = w.ok(Caller::Agent(ANN), &Command::StartTool { turn, call: "c1".to_owned() });
    assert!(matches!(&events[1], Event::ToolRefused { reason, .. } if reason.contains("not here")));
    let turn = w.wake(BOB);
    let same = w.ok(Caller::Agent(BOB), &proposal(turn, "x", "Bash", ToolClass::Execute));
    assert!(matches!(verdict(&same), ToolVerdict::Ask { .. }), "bypass does not launder a denial");
    let other = w.ok(Caller::Agent(BOB), &proposal(turn, "y", "Make", ToolClass::Execute));
    assert_eq!(verdict(&other), ToolVerdict::Run);
}

#[test]
fn grants_reach_as_far_as_they_say() {
    for (scope, ann_same, ann_tool, bob_tool) in [
        (GrantScope::Once, false, false, false),
        (GrantScope::Action, true, false, false),
        (GrantScope::Member, true, true, false),
        (GrantScope::Team, true, true, true),
    ] {
        let mut w = World::new();
        let turn = w.wake(ANN);
        let ask = proposal(turn, "c1", "Bash", ToolClass::Execute);
        w.ok(Caller::Agent(ANN), &ask);
        w.ok(USER, &decide(&w, allow(scope)));
        w.ok(Caller::Agent(ANN), &Command::StartTool { turn, call: "c1".to_owned() });
        let mut runs = |caller, turn, call: &str, other: bool| {
            let mut command = proposal(turn, call, "Bash", ToolClass::Execute);
            if let (Command::ProposeTool(p), true) = (&mut command, other) {
                p.action = aion_core::hash::ActionHash::of_text("another input");
            }
            verdict(&w.ok(Caller::Agent(caller), &command)) == ToolVerdict::Run
        };
        assert_eq!(runs(ANN, turn, "c2", false), ann_same, "{scope:?}");
        assert_eq!(runs(ANN, turn, "c3", true), ann_tool, "{scope:?}");
        let bobs = w.wake(BOB);
        let events = w.ok(Caller::Agent(BOB), &proposal(bobs, "c4", "Bash", ToolClass::Execute));
        assert_eq!(verdict(&events) == ToolVerdict::Run, bob_tool, "{scope:?}");
    }
}

#[test]
fn the_lead_decides_only_what_is_delegated_and_only_once() {
    let mut w = World::new();
    let delegation = Delegation { tools: ["Bash".to_owned()].into(), ..Delegation::default() };
    w.ok(USER, &Command::Delegate { delegation });
    let turn = w.wake(ANN);
    let events = w.ok(Caller::Agent(ANN), &proposal(turn, "c1", "Bash", ToolClass::Execute));
    assert!(names(&events).contains(&"turn_started"), "the lead is woken: {events:?}");
    assert_eq!(
        w.no(Caller::Agent(LEAD), &decide(&w, allow(GrantScope::Team))).code(),
        "not_allowed"
    );
    let events = w.ok(Caller::Agent(LEAD), &decide(&w, allow(GrantScope::Once)));
    assert!(matches!(events[0], Event::RequestDecided { delegated: true, .. }));
    let turn = w.turn(LEAD);
    w.ok(Caller::Agent(LEAD), &proposal(turn, "l1", "Bash", ToolClass::Execute));
    assert_eq!(
        w.no(Caller::Agent(LEAD), &decide(&w, allow(GrantScope::Once))),
        Rejection::OwnRequest
    );
}

#[test]
fn a_request_outlives_a_crash_and_becomes_a_single_grant_when_its_asker_is_gone() {
    let mut w = World::new();
    let turn = w.wake(ANN);
    w.ok(Caller::Agent(ANN), &proposal(turn, "c1", "Bash", ToolClass::Execute));
    let request = w.open_request();
    w.crash(true);
    assert!(matches!(w.team.request(request), Some((_, RequestState::Open))));
    w.crash(false);
    assert!(matches!(w.team.request(request), Some((_, RequestState::Orphaned))));
    w.ok(USER, &Command::Decide { request, decision: allow(GrantScope::Once) });
    let turn = w.turn(ANN);
    let first = w.ok(Caller::Agent(ANN), &proposal(turn, "c2", "Bash", ToolClass::Execute));
    assert_eq!(verdict(&first), ToolVerdict::Run);
    let second = w.ok(Caller::Agent(ANN), &proposal(turn, "c3", "Bash", ToolClass::Execute));
    assert!(matches!(verdict(&second), ToolVerdict::Ask { .. }), "used once");
}

#[test]
fn a_turn_that_ends_by_itself_takes_its_requests_back() {
    let mut w = World::new();
    let turn = w.wake(ANN);
    w.ok(Caller::Agent(ANN), &proposal(turn, "c1", "Bash", ToolClass::Execute));
    let request = w.open_request();
    w.end_as(ANN, TurnOutcome::Interrupted);
    assert_eq!(
        w.no(USER, &Command::Decide { request, decision: deny() }),
        Rejection::AlreadyDecided { request }
    );
}

#[test]
fn a_call_that_may_have_run_is_not_run_again() {
    let mut w = World::new();
    w.ok(USER, &Command::SetMode { slot: ANN, mode: PermissionMode::BypassPermissions });
    let turn = w.wake(ANN);
    let call = proposal(turn, "c1", "Bash", ToolClass::Execute);
    assert_eq!(verdict(&w.ok(Caller::Agent(ANN), &call)), ToolVerdict::Run);
    w.crash(true);
    assert!(matches!(verdict(&w.ok(Caller::Agent(ANN), &call)), ToolVerdict::Refused { .. }));
}

#[test]
fn late_results_of_a_dead_turn_are_refused() {
    let mut w = World::new();
    let turn = w.wake(ANN);
    w.crash(false);
    assert_ne!(w.turn(ANN), turn);
    let late =
        Command::EndTurn { turn, outcome: TurnOutcome::Done { last_text: None }, usage: None };
    assert_eq!(w.no(Caller::System, &late), Rejection::NoSuchTurn { turn });
    let tool = proposal(turn, "c", "Bash", ToolClass::Execute);
    assert_eq!(w.no(Caller::Agent(ANN), &tool), Rejection::NoSuchTurn { turn });
    let other = proposal(w.turn(ANN), "c", "Bash", ToolClass::Execute);
    assert_eq!(w.no(Caller::Agent(BOB), &other).code(), "no_such_turn");
}

#[test]
fn too_many_open_requests_are_refused() {
    let mut w = World::with(|s| s.limits.open_requests = 2);
    let turn = w.wake(ANN);
    for n in 0..2 {
        w.ok(Caller::Agent(ANN), &proposal(turn, &format!("c{n}"), "Bash", ToolClass::Execute));
    }
    let events = w.ok(Caller::Agent(ANN), &proposal(turn, "c3", "Bash", ToolClass::Execute));
    assert!(matches!(verdict(&events), ToolVerdict::Refused { .. }));
    let question = Command::AskUser { text: "may I?".to_owned(), options: Vec::new() };
    assert_eq!(w.no(Caller::Agent(ANN), &question).code(), "limit");
}

#[test]
fn a_denial_reaches_requests_that_were_open_before_it() {
    let mut w = World::new();
    let delegation = Delegation { tools: ["Bash".to_owned()].into(), ..Delegation::default() };
    w.ok(USER, &Command::Delegate { delegation });
    let ann = w.wake(ANN);
    w.ok(Caller::Agent(ANN), &proposal(ann, "a", "Bash", ToolClass::Execute));
    let first = w.open_request();
    let bob = w.wake(BOB);
    w.ok(Caller::Agent(BOB), &proposal(bob, "b", "Bash", ToolClass::Execute));
    w.ok(USER, &decide(&w, deny()));
    let allow_first = Command::Decide { request: first, decision: allow(GrantScope::Once) };
    assert_eq!(w.no(Caller::Agent(LEAD), &allow_first).code(), "not_allowed");
    w.ok(USER, &allow_first);
}

#[test]
fn a_no_outlives_an_earlier_yes_to_the_same_action() {
    let mut w = World::new();
    let turn = w.wake(ANN);
    w.ok(Caller::Agent(ANN), &proposal(turn, "c1", "Bash", ToolClass::Execute));
    w.ok(USER, &decide(&w, allow(GrantScope::Action)));
    w.ok(Caller::Agent(ANN), &Command::StartTool { turn, call: "c1".to_owned() });
    let bob = w.wake(BOB);
    w.ok(Caller::Agent(BOB), &proposal(bob, "b", "Bash", ToolClass::Execute));
    w.ok(USER, &decide(&w, deny()));
    let again = w.ok(Caller::Agent(ANN), &proposal(turn, "c2", "Bash", ToolClass::Execute));
    assert!(matches!(verdict(&again), ToolVerdict::Ask { .. }));
}

#[test]
fn a_denied_host_is_asked_for_again_even_in_bypass() {
    let mut w = World::new();
    w.ok(USER, &Command::SetMode { slot: ANN, mode: PermissionMode::AcceptEdits });
    w.ok(USER, &Command::SetMode { slot: BOB, mode: PermissionMode::BypassPermissions });
    let delegation = Delegation { hosts: ["h.org".to_owned()].into(), ..Delegation::default() };
    w.ok(USER, &Command::Delegate { delegation });
    let reach = |turn| Command::RequestNetwork {
        turn,
        call: "c".to_owned(),
        host: "h.org".to_owned(),
        finding: None,
    };
    let ann = w.wake(ANN);
    w.ok(Caller::Agent(ANN), &proposal(ann, "c", "Write", ToolClass::Edit));
    w.ok(Caller::Agent(ANN), &reach(ann));
    w.ok(USER, &decide(&w, deny()));
    let bob = w.wake(BOB);
    w.ok(Caller::Agent(BOB), &proposal(bob, "c", "Bash", ToolClass::Execute));
    assert!(!w.ok(Caller::Agent(BOB), &reach(bob)).is_empty(), "bypass does not launder it");
    assert_eq!(
        w.no(Caller::Agent(LEAD), &decide(&w, allow(GrantScope::Once))).code(),
        "not_allowed"
    );
}

#[test]
fn the_lead_allows_nothing_that_its_own_mode_refuses() {
    let mut w = World::new();
    let delegation = Delegation { tools: ["Bash".to_owned()].into(), ..Delegation::default() };
    w.ok(USER, &Command::Delegate { delegation });
    w.ok(USER, &Command::SetMode { slot: LEAD, mode: PermissionMode::Plan });
    let turn = w.wake(ANN);
    w.ok(Caller::Agent(ANN), &proposal(turn, "c", "Bash", ToolClass::Execute));
    assert_eq!(
        w.no(Caller::Agent(LEAD), &decide(&w, allow(GrantScope::Once))).code(),
        "not_allowed"
    );
}

#[test]
fn a_member_that_never_asks_is_not_led_around_by_plan_mode() {
    let mut w = World::new();
    w.ok(USER, &Command::SetMode { slot: ANN, mode: PermissionMode::DontAsk });
    let plan = Command::SetMode { slot: ANN, mode: PermissionMode::Plan };
    assert_eq!(w.no(Caller::Agent(LEAD), &plan).code(), "not_allowed");
    assert_eq!(w.no(Caller::Agent(ANN), &plan).code(), "not_allowed");
    w.ok(USER, &plan);
}

#[test]
fn a_violation_is_kept_of_a_members_own_running_call_and_changes_nothing() {
    let mut w = World::new();
    w.ok(USER, &Command::SetMode { slot: ANN, mode: PermissionMode::AcceptEdits });
    let turn = w.wake(ANN);
    let report = |turn, call: &str| Command::ReportViolation {
        turn,
        call: call.to_owned(),
        kind: ViolationKind::Refused,
        what: "x".repeat(10_000),
    };
    assert_eq!(w.no(Caller::Agent(ANN), &report(turn, "c")).code(), "no_such_call");
    w.ok(Caller::Agent(ANN), &proposal(turn, "c", "Write", ToolClass::Edit));
    assert_eq!(w.no(Caller::Agent(BOB), &report(turn, "c")).code(), "no_such_turn");
    let events = w.ok(Caller::Agent(ANN), &report(turn, "c"));
    let [Event::SandboxViolation { slot, call, what, .. }] = &events[..] else {
        panic!("one event: {events:?}");
    };
    assert_eq!((*slot, call.as_str()), (ANN, "c"));
    assert!(what.len() <= 512);
}
