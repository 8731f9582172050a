//! Tokens and money: reserved before a call, settled after it, never above the cap.

use aion_core::agent::Hold;
use aion_core::budget::{Amount, Cap, Usage};
use aion_core::turn::{TurnOutcome, Unavailable};
use aion_core::{Caller, Command, Rejection};

use crate::world::{ANN, BOB, USER, World};

fn tokens(tokens: u64) -> Amount {
    Amount { tokens, micro_usd: 0 }
}

fn used(output: u64) -> Usage {
    Usage { output, ..Usage::default() }
}

fn capped() -> World {
    World::with(|s| {
        s.auto_claim = false;
        s.cap = Some(Cap { most: tokens(100), per_call: tokens(40) });
    })
}

#[test]
fn what_is_reserved_and_used_never_passes_the_cap() {
    let mut w = capped();
    let ann = w.wake(ANN);
    w.wake(BOB);
    assert_eq!(w.team.budget().reserved(), tokens(80));
    let more =
        |usage, worst| Command::ReserveCall { turn: ann, usage: used(usage), worst: tokens(worst) };
    assert_eq!(w.no(Caller::Agent(ANN), &more(30, 31)), Rejection::OverBudget);
    w.ok(Caller::Agent(ANN), &more(30, 30));
    assert_eq!((w.team.budget().used(), w.team.budget().reserved()), (tokens(30), tokens(70)));
    let outcome = TurnOutcome::Unavailable { why: Unavailable::Budget, until: None, said: None };
    w.ok(Caller::System, &Command::EndTurn { turn: ann, outcome, usage: Some(used(30)) });
    assert_eq!(w.team.agent(ANN).unwrap().holds().next(), Some(Hold::Budget));
    assert_eq!((w.team.budget().used(), w.team.budget().reserved()), (tokens(60), tokens(40)));
}

#[test]
fn without_room_for_a_call_a_member_is_held_and_a_higher_cap_frees_it() {
    let mut w = capped();
    w.ok(Caller::System, &Command::RecordUsage { slot: ANN, usage: used(70) });
    w.say(USER, ANN, "go on");
    assert!(!w.is_active(ANN));
    assert_eq!(w.team.agent(ANN).unwrap().holds().next(), Some(Hold::Budget));
    let cap = Some(Cap { most: tokens(200), per_call: tokens(40) });
    assert_eq!(w.no(Caller::Agent(ANN), &Command::SetCap { cap }).code(), "not_allowed");
    w.ok(USER, &Command::SetCap { cap });
    assert!(w.is_active(ANN));
    assert!(w.team.agent(ANN).unwrap().turn().unwrap().budgeted());
}

#[test]
fn without_a_cap_nothing_is_reserved_and_all_is_counted() {
    let mut w = World::new();
    let turn = w.wake(ANN);
    assert!(!w.team.agent(ANN).unwrap().turn().unwrap().budgeted());
    let outcome = TurnOutcome::Done { last_text: None };
    w.ok(Caller::System, &Command::EndTurn { turn, outcome, usage: Some(used(7)) });
    assert_eq!(w.team.budget().used(), tokens(7));
}

#[test]
fn what_others_have_reserved_delays_a_turn_and_holds_nobody() {
    let mut w = World::with(|s| {
        s.auto_claim = false;
        s.cap = Some(Cap { most: tokens(100), per_call: tokens(60) });
    });
    let ann = w.wake(ANN);
    w.say(USER, BOB, "you too");
    assert!(!w.is_active(BOB));
    assert_eq!(w.team.agent(BOB).unwrap().holds().next(), None);
    let outcome = TurnOutcome::Done { last_text: None };
    w.ok(Caller::System, &Command::EndTurn { turn: ann, outcome, usage: Some(used(10)) });
    assert!(w.is_active(BOB));
}

#[test]
fn a_raise_leaves_the_other_cap_standing_and_raises() {
    let mut w = World::with(|s| {
        let most = Amount { tokens: 100, micro_usd: 50 };
        s.cap = Some(Cap { most, per_call: tokens(10) });
    });
    let ask = |tokens, micro_usd| Command::RequestBudget {
        cap: Amount { tokens, micro_usd },
        reason: "more".to_owned(),
    };
    let lead = Caller::Agent(aion_core::id::SlotId::LEAD);
    for nothing in [ask(0, 0), ask(100, 50), ask(10, 0)] {
        assert_eq!(w.no(lead, &nothing), Rejection::NoRaise);
    }
    w.ok(lead, &ask(200, 0));
    let request = w.open_request();
    w.ok(USER, &Command::Decide { request, decision: aion_core::request::Decision::Consent });
    assert_eq!(w.team.budget().cap().unwrap().most, Amount { tokens: 200, micro_usd: 50 });
    let mut free = World::new();
    assert_eq!(free.no(lead, &ask(200, 0)), Rejection::NoRaise);
}

#[test]
fn room_that_comes_back_frees_who_waited_for_it() {
    let mut w = capped();
    let ann = w.wake(ANN);
    let bob = w.wake(BOB);
    let more = Command::ReserveCall { turn: ann, usage: used(30), worst: tokens(31) };
    assert_eq!(w.no(Caller::Agent(ANN), &more), Rejection::OverBudget);
    let outcome = TurnOutcome::Unavailable { why: Unavailable::Budget, until: None, said: None };
    w.ok(Caller::System, &Command::EndTurn { turn: ann, outcome, usage: Some(used(10)) });
    assert!(!w.is_active(ANN));
    let outcome = TurnOutcome::Done { last_text: None };
    w.ok(Caller::System, &Command::EndTurn { turn: bob, outcome, usage: Some(used(1)) });
    assert!(w.is_active(ANN), "Bob's reservation came back");
}
