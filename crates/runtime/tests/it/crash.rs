//! The house falls without a word, and is opened again on the same store.

use aion_agent::host::{HostError, Permit};
use aion_core::command::{Caller, Command};
use aion_core::event::Event;
use aion_core::message::Recipient;
use aion_core::time::Millis;
use aion_core::turn::{ToolCallState, Turn};
use aion_runtime::{OpenError, SubmitError, TeamHandle};
use aion_store::EventStore;
use aion_testkit::backend::Seen;
use aion_testkit::faults::Fault;

use crate::house::{BOB, LEAD, TestHouse, count, log, member, message, until};
use crate::turns::{allow, proposal};

/// Opens the team of a fallen house in a new one. The old one is fenced off by it.
async fn after_the_fall(house: &TestHouse, handle: &TeamHandle) -> (TestHouse, TeamHandle) {
    let again = house.again();
    let handle = again.service.open(handle.team()).await.unwrap();
    (again, handle)
}

#[tokio::test]
async fn before_the_turn_began_it_begins() {
    let mut house = TestHouse::new();
    let (handle, _lead) = house.team().await;
    // Stored, and the house falls before the answer: the store says it does not know, and nobody
    // is left to look.
    house.fail(Fault::UnknownApplied);
    house.store.fail_next(aion_testkit::faults::Operation::Open, Fault::Unavailable);
    handle.submit(Caller::User, None, message(Recipient::Lead, "kept")).await.unwrap_err();
    let (mut house, handle) = after_the_fall(&house, &handle).await;
    let (agent, input) = house.stage.turn().await;
    assert!(input.opening.contains("kept"));
    assert!(input.resume.is_some());
    agent.done(input.turn, "done").await;
    until(&handle, |event| matches!(event, Event::TurnEnded { .. })).await;
    let log = log(&*house.store, handle.team()).await;
    assert_eq!(count(&log, |event| matches!(event, Event::TurnStarted { .. })), 1);
}

#[tokio::test]
async fn in_a_turn_it_is_taken_up_from_its_journal() {
    let mut house = TestHouse::new();
    let (handle, lead) = house.team().await;
    handle.submit(Caller::User, None, message(Recipient::Lead, "go")).await.unwrap();
    let (_, input) = house.stage.turn().await;
    let turn = input.turn;
    let Permit::Ask(first) = lead.host.propose(proposal(turn, "began")).await.unwrap() else {
        panic!("it is asked for")
    };
    lead.host.propose(proposal(turn, "asked")).await.unwrap();
    handle.submit(Caller::User, None, allow(first)).await.unwrap();
    lead.host.start(turn, &"began".to_owned()).await.unwrap();

    let fallen = handle.clone();
    let (mut house, handle) = after_the_fall(&house, &handle).await;
    let (agent, input) = house.stage.turn().await;
    assert_eq!((agent.slot, input.turn), (LEAD, turn));
    let journal = input.resume.unwrap();
    assert!(matches!(journal["began"], ToolCallState::Started { .. }));
    let ToolCallState::Asked { request, .. } = journal["asked"] else { panic!("it still waits") };
    // The answer finds the turn again.
    handle.submit(Caller::User, None, allow(request)).await.unwrap();
    assert!(
        matches!(house.stage.next().await, Seen::Answered(LEAD, answered, _) if answered == request)
    );
    agent.host.start(turn, &"asked".to_owned()).await.unwrap();
    agent.done(turn, "done").await;
    let ended = until(&handle, |event| matches!(event, Event::TurnEnded { .. })).await;
    let Event::TurnEnded { acknowledged, .. } = ended.event else { unreachable!() };
    // The message, and the two decisions.
    assert_eq!(acknowledged.len(), 3);
    // A house that only seemed to have fallen is fenced off.
    let late = fallen.submit(Caller::User, None, message(Recipient::Lead, "late")).await;
    assert!(matches!(late, Err(SubmitError::Unavailable(_))));
    assert!(matches!(
        lead.host.propose(proposal(turn, "late")).await,
        Err(HostError::Unavailable(_))
    ));
}

#[tokio::test]
async fn a_decision_that_was_on_its_way_arrives() {
    let mut house = TestHouse::new();
    let (handle, lead) = house.team().await;
    handle.submit(Caller::User, None, message(Recipient::Lead, "go")).await.unwrap();
    let (_, input) = house.stage.turn().await;
    let Permit::Ask(request) = lead.host.propose(proposal(input.turn, "a")).await.unwrap() else {
        panic!("it is asked for")
    };
    handle.submit(Caller::User, None, allow(request)).await.unwrap();
    let (mut house, _handle) = after_the_fall(&house, &handle).await;
    house.stage.turn().await;
    assert!(
        matches!(house.stage.next().await, Seen::Answered(LEAD, answered, _) if answered == request)
    );
}

#[tokio::test]
async fn a_turn_that_cannot_go_on_is_lost_and_its_mail_comes_again() {
    let mut house = TestHouse::new();
    let (handle, _lead) = house.team().await;
    handle.submit(Caller::User, None, message(Recipient::Lead, "go")).await.unwrap();
    let (_, first) = house.stage.turn().await;
    let again = house.again();
    again.backend.resumes(false);
    let handle = again.service.open(handle.team()).await.unwrap();
    let mut house = again;
    let (_, second) = house.stage.turn().await;
    assert_ne!(first.turn, second.turn);
    assert!(second.opening.contains("go"));
    assert!(second.resume.is_none());
    let log = log(&*house.store, handle.team()).await;
    assert_eq!(count(&log, |event| matches!(event, Event::MessageDeadLettered { .. })), 0);
}

#[tokio::test]
async fn a_start_that_was_on_its_way_is_made() {
    let mut house = TestHouse::new();
    let (handle, _lead) = house.team().await;
    house.backend.ready_at_once(false);
    let spawn = Command::SpawnAgent { member: Box::new(member("bob", "work")) };
    handle.submit(Caller::User, None, spawn).await.unwrap();
    house.stage.spawned().await;
    let (mut house, handle) = after_the_fall(&house, &handle).await;
    let bob = house.stage.spawned().await;
    assert_eq!((bob.slot, bob.generation), (BOB, 1));
    let (_, input) = house.stage.turn().await;
    assert!(input.opening.contains("work"));
    bob.done(input.turn, "done").await;
    until(&handle, |event| matches!(event, Event::TurnEnded { slot: BOB, .. })).await;
}

#[tokio::test]
async fn mail_of_the_middle_of_a_turn_is_still_in_its_input() {
    let mut house = TestHouse::new();
    let (handle, _lead, bob) = house.pair().await;
    handle.submit(Caller::User, None, message(Recipient::Agent(BOB), "begin")).await.unwrap();
    let (_, input) = house.stage.turn().await;
    handle.submit(Caller::User, None, message(Recipient::Agent(BOB), "more")).await.unwrap();
    bob.host.take_mail(input.turn, 1).await.unwrap().unwrap();
    // It was delivered, and the house falls before the transcript has it.
    let (mut house, _handle) = after_the_fall(&house, &handle).await;
    let (bob, again) = house.stage.turn().await;
    assert_eq!(again.turn, input.turn);
    let mail = bob.host.take_mail(again.turn, 1).await.unwrap().unwrap();
    assert!(mail.contains("more"));
}

#[tokio::test]
async fn a_long_downtime_waits_for_the_person() {
    let mut house = TestHouse::new();
    let (handle, _lead) = house.team().await;
    house.service.stop_all().await;
    let again = house.again();
    // The memory store stamps appends with the machine's time, the new house's clock is far ahead.
    let ahead = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let ahead = u64::try_from(ahead.as_millis()).unwrap() + Millis::hours(48).0;
    again.clock.advance_wall(Millis(ahead));
    let handle = again.service.open(handle.team()).await.unwrap();
    let mut house = again;
    handle.submit(Caller::User, None, message(Recipient::Lead, "go")).await.unwrap();
    assert!(house.stage.try_next().is_none());
    handle.submit(Caller::User, None, Command::ResumeTeam).await.unwrap();
    let (_, input) = house.stage.turn().await;
    assert!(input.opening.contains("go"));
}

#[tokio::test]
async fn what_does_not_exist_cannot_be_opened_and_what_was_erased_is_gone() {
    let mut house = TestHouse::new();
    let nobody = aion_core::id::TeamId::new("nobody").unwrap();
    assert!(matches!(house.service.open(&nobody).await, Err(OpenError::NoTeam(_))));
    let (handle, _lead) = house.team().await;
    let team = handle.team().clone();
    assert_eq!(house.service.list().await.unwrap().len(), 1);
    house.service.erase(&team).await.unwrap();
    assert!(house.service.list().await.unwrap().is_empty());
    assert!(matches!(house.service.open(&team).await, Err(OpenError::NoTeam(_))));
}

#[tokio::test]
async fn a_log_with_a_snapshot_opens_to_the_same_state() {
    let mut house = TestHouse::new();
    let (handle, lead) = house.team().await;
    for n in 0..800 {
        let sent = message(Recipient::Lead, &n.to_string());
        handle.submit(Caller::User, None, sent).await.unwrap();
        if n % 20 == 0 {
            let turn = handle.query(|team| team.lead().and_then(|l| l.turn().map(Turn::id))).await;
            if let Ok(Some(turn)) = turn {
                lead.done(turn, "done").await;
                until(
                    &handle,
                    |event| matches!(event, Event::TurnEnded { turn: ended, .. } if *ended == turn),
                )
                .await;
            }
        }
    }
    for n in 0..1_300 {
        let rename = Command::RenameTeam { name: format!("name {n}") };
        handle.submit(Caller::User, None, rename).await.unwrap();
    }
    // The snapshot is kept beside the commands, by a task of its own.
    let end = log(&*house.store, handle.team()).await.last().unwrap().seq;
    while house.store.snapshot_before(handle.team(), end).await.unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    let whole = handle.query(Clone::clone).await.unwrap();
    house.service.stop_all().await;
    let (house, handle) = after_the_fall(&house, &handle).await;
    let again = handle.query(Clone::clone).await.unwrap();
    assert_eq!(again.lead().unwrap().mailbox().len(), whole.lead().unwrap().mailbox().len());
    assert_eq!(again.name(), whole.name());
    drop(house);
}
