//! Turns: mail in the middle, interrupts, permissions, budgets, models.

use aion_agent::host::{HostError, Permit};
use aion_core::budget::{Amount, Cap, Usage};
use aion_core::command::{Caller, Command, ToolProposal};
use aion_core::event::Event;
use aion_core::id::{RequestId, TurnId};
use aion_core::message::Recipient;
use aion_core::permission::ToolClass;
use aion_core::request::{ActionHash, Decision};
use aion_core::turn::{Turn, TurnOutcome};
use aion_testkit::backend::Seen;

use crate::house::{BOB, LEAD, TestHouse, count, log, message, settings, until};

pub(crate) fn proposal(turn: TurnId, call: &str) -> ToolProposal {
    ToolProposal {
        turn,
        call: call.to_owned(),
        tool: "Bash".to_owned(),
        class: ToolClass::Execute,
        action: ActionHash::of_text(call),
        description: format!("run {call}"),
        input: "{}".to_owned(),
        cwd: "/work".to_owned(),
        kin: Vec::new(),
        finding: None,
        suggestion: None,
    }
}

pub(crate) fn allow(request: RequestId) -> Command {
    Command::Decide { request, decision: Decision::ONCE }
}

#[tokio::test]
async fn mail_is_delivered_in_the_middle_of_a_turn_and_shown_again_for_the_same_step() {
    let mut house = TestHouse::new();
    let (handle, lead, bob) = house.pair().await;
    handle.submit(Caller::User, None, message(Recipient::Agent(BOB), "begin")).await.unwrap();
    let (_, input) = house.stage.turn().await;
    assert_eq!(bob.host.take_mail(input.turn, 1).await.unwrap(), None);

    handle
        .submit(Caller::Agent(LEAD), None, message(Recipient::Agent(BOB), "also this"))
        .await
        .unwrap();
    let mail = bob.host.take_mail(input.turn, 2).await.unwrap().unwrap();
    assert!(mail.contains("also this") && !mail.contains("begin"));
    let again = bob.host.take_mail(input.turn, 2).await.unwrap().unwrap();
    assert!(again.contains("also this"));
    assert_eq!(bob.host.take_mail(input.turn, 3).await.unwrap(), None);

    bob.done(input.turn, "finished").await;
    let ended = until(&handle, |event| matches!(event, Event::TurnEnded { .. })).await;
    let Event::TurnEnded { acknowledged, .. } = ended.event else { unreachable!() };
    assert_eq!(acknowledged.len(), 2);
    // A late word of a turn that is over is refused.
    assert_eq!(bob.host.take_mail(input.turn, 4).await, Err(HostError::TurnOver));
    drop(lead);
}

#[tokio::test]
async fn an_interrupt_of_the_lead_leaves_its_teammates_at_work() {
    let mut house = TestHouse::new();
    let (handle, lead, bob) = house.pair().await;
    handle.submit(Caller::User, None, message(Recipient::Everyone, "go")).await.unwrap();
    let (first, of_lead) = house.stage.turn().await;
    let (second, of_bob) = house.stage.turn().await;
    assert_eq!((first.slot, second.slot), (LEAD, BOB));

    handle.submit(Caller::User, None, Command::Interrupt { slot: LEAD }).await.unwrap();
    let seen = house.stage.next().await;
    assert!(matches!(seen, Seen::Interrupted(LEAD, turn) if turn == of_lead.turn));
    lead.end(of_lead.turn, TurnOutcome::Interrupted).await;
    until(&handle, |event| matches!(event, Event::TurnEnded { slot: LEAD, .. })).await;
    assert!(house.stage.try_next().is_none());
    let turn = handle.query(|team| team.agent(BOB).and_then(|a| a.turn().map(Turn::id))).await;
    assert_eq!(turn.unwrap(), Some(of_bob.turn));
    bob.done(of_bob.turn, "still here").await;
    until(&handle, |event| matches!(event, Event::TurnEnded { slot: BOB, .. })).await;
}

#[tokio::test]
async fn a_tool_waits_for_its_answer_and_runs_once() {
    let mut house = TestHouse::new();
    let (handle, lead) = house.team().await;
    handle.submit(Caller::User, None, message(Recipient::Lead, "go")).await.unwrap();
    let (_, input) = house.stage.turn().await;
    let turn = input.turn;
    let Permit::Ask(request) = lead.host.propose(proposal(turn, "a")).await.unwrap() else {
        panic!("it is asked for")
    };
    let early = lead.host.start(turn, &"a".to_owned()).await.unwrap();
    assert!(matches!(early, Permit::Refused(_)));
    handle.submit(Caller::User, None, allow(request)).await.unwrap();
    let seen = house.stage.next().await;
    assert!(matches!(seen, Seen::Answered(LEAD, answered, _) if answered == request));
    assert_eq!(lead.host.start(turn, &"a".to_owned()).await.unwrap(), Permit::Run);
    let twice = lead.host.start(turn, &"a".to_owned()).await.unwrap();
    assert!(matches!(twice, Permit::Refused(_)));
    lead.host.finish(turn, &"a".to_owned(), true, true).await.unwrap();
    lead.host.finish(turn, &"a".to_owned(), true, true).await.unwrap();
    let log = log(&*house.store, handle.team()).await;
    assert_eq!(count(&log, |event| matches!(event, Event::ToolStarted { .. })), 1);
    assert_eq!(count(&log, |event| matches!(event, Event::ToolFinished { .. })), 1);

    let Permit::Ask(request) = lead.host.propose(proposal(turn, "b")).await.unwrap() else {
        panic!("it is asked for")
    };
    let deny = Decision::Deny { reason: "not today".to_owned() };
    handle.submit(Caller::User, None, Command::Decide { request, decision: deny }).await.unwrap();
    let refused = lead.host.start(turn, &"b".to_owned()).await.unwrap();
    assert!(matches!(refused, Permit::Refused(reason) if reason.contains("not today")));
}

#[tokio::test]
async fn a_call_over_the_budget_is_not_made() {
    let mut house = TestHouse::new();
    let mut settings = settings();
    let most = Amount { tokens: 1_000, micro_usd: 0 };
    let per_call = Amount { tokens: 100, micro_usd: 0 };
    settings.cap = Some(Cap { most, per_call });
    let (handle, lead) = house.team_with(settings).await;
    handle.submit(Caller::User, None, message(Recipient::Lead, "go")).await.unwrap();
    let (_, input) = house.stage.turn().await;
    assert!(input.budgeted);
    let used = Usage { input: 500, ..Usage::default() };
    lead.host.reserve(input.turn, used, per_call).await.unwrap();
    let over = lead.host.reserve(input.turn, used, per_call).await;
    assert_eq!(over, Err(HostError::OverBudget));
}

#[tokio::test]
async fn a_model_that_was_set_counts_from_the_next_turn() {
    let mut house = TestHouse::new();
    let (handle, _lead) = house.team().await;
    let set = Command::SetModel { slot: LEAD, model: Some("large".to_owned()) };
    handle.submit(Caller::User, None, set).await.unwrap();
    assert!(house.stage.try_next().is_none());
    handle.submit(Caller::User, None, message(Recipient::Lead, "go")).await.unwrap();
    // The agent is started again under the new model, and the team hears nothing of it.
    let again = house.stage.spawned().await;
    assert_eq!(again.generation, 1);
    let (_, input) = house.stage.turn().await;
    again.done(input.turn, "done").await;
    until(&handle, |event| matches!(event, Event::TurnEnded { .. })).await;
    let log = log(&*house.store, handle.team()).await;
    assert_eq!(count(&log, |event| matches!(event, Event::AgentReady { .. })), 1);
    assert_eq!(count(&log, |event| matches!(event, Event::AgentFailed { .. })), 0);
}
