//! Store first, then answer, publish and act.

use aion_core::Rejection;
use aion_core::command::{Caller, Command};
use aion_core::event::Event;
use aion_core::id::{Seq, SlotId};
use aion_core::message::Recipient;
use aion_runtime::SubmitError;
use aion_testkit::backend::Seen;
use aion_testkit::faults::Fault;
use futures::FutureExt;

use crate::house::{LEAD, TestHouse, keyed, log, message, settings};

#[tokio::test]
async fn nothing_is_answered_published_or_done_before_the_commit() {
    let mut house = TestHouse::new();
    let (handle, _lead) = house.team().await;
    let mut events = handle.subscribe(Seq(0));
    while events.next().now_or_never().is_some() {}

    house.gate.hold();
    let sending = tokio::spawn({
        let handle = handle.clone();
        async move { handle.submit(Caller::User, None, message(Recipient::Lead, "go")).await }
    });
    house.gate.is_held().await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!sending.is_finished());
    assert!(events.next().now_or_never().is_none());
    assert!(house.stage.try_next().is_none());

    house.gate.release();
    let committed = sending.await.unwrap().unwrap();
    let names: Vec<_> = committed.events.iter().map(|r| r.event.name()).collect();
    assert_eq!(names, ["message_sent", "turn_started"]);
    assert_eq!(events.next().await.unwrap().unwrap().event.name(), "message_sent");
    let (_, input) = house.stage.turn().await;
    assert!(input.opening.contains("go"));
    assert!(input.resume.is_none());
}

#[tokio::test]
async fn a_rejection_says_why_and_stores_nothing() {
    let mut house = TestHouse::new();
    let (handle, _lead) = house.team().await;
    let before = house.appends();
    let nobody = SlotId(77);
    let refused = handle.submit(Caller::User, None, message(Recipient::Agent(nobody), "x")).await;
    assert!(matches!(
        refused,
        Err(SubmitError::Rejected(Rejection::UnknownAgent { slot, .. })) if slot == nobody
    ));
    assert_eq!(house.appends(), before);
}

#[tokio::test]
async fn what_waits_together_is_stored_together() {
    let mut house = TestHouse::new();
    let (handle, _lead) = house.team().await;
    house.gate.hold();
    let first = tokio::spawn({
        let handle = handle.clone();
        async move { handle.submit(Caller::User, None, message(Recipient::Lead, "first")).await }
    });
    house.gate.is_held().await;
    let before = house.appends();
    let many: Vec<_> = (0..100)
        .map(|n| {
            let handle = handle.clone();
            tokio::spawn(async move {
                handle.submit(Caller::User, None, message(Recipient::Lead, &n.to_string())).await
            })
        })
        .collect();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    house.gate.release();
    first.await.unwrap().unwrap();
    let mut seqs = Vec::new();
    for one in many {
        seqs.push(one.await.unwrap().unwrap().seq);
    }
    // One append for the first, one for all the others.
    assert_eq!(house.appends() - before, 2);
    seqs.sort();
    seqs.dedup();
    assert_eq!(seqs.len(), 100);
}

#[tokio::test]
async fn a_key_that_was_used_answers_the_same_and_stores_nothing() {
    let mut house = TestHouse::new();
    let (handle, _lead) = house.team().await;
    let send = |text: &str| handle.submit(Caller::User, None, keyed(Recipient::Lead, text, "k"));
    let first = send("hello").await.unwrap();
    let before = house.appends();
    let again = send("hello").await.unwrap();
    let sent = first.events.iter().find_map(|r| match &r.event {
        Event::MessageSent { message, .. } => Some(message.id),
        _ => None,
    });
    assert_eq!(again.receipt.unwrap().message, sent);
    assert!(again.events.is_empty());
    assert_eq!(house.appends(), before);
    let other = send("something else").await;
    assert!(matches!(other, Err(SubmitError::Rejected(Rejection::KeyReused))));
}

#[tokio::test]
async fn queries_see_committed_state_only() {
    let mut house = TestHouse::new();
    let (handle, _lead) = house.team().await;
    house.gate.hold();
    let renaming = tokio::spawn({
        let handle = handle.clone();
        async move {
            let rename = Command::RenameTeam { name: "Other".to_owned() };
            handle.submit(Caller::User, None, rename).await
        }
    });
    house.gate.is_held().await;
    let asking = tokio::spawn({
        let handle = handle.clone();
        async move { handle.query(|team| team.name().to_owned()).await }
    });
    house.fail(Fault::Unavailable);
    house.gate.release();
    assert!(matches!(renaming.await.unwrap(), Err(SubmitError::Unavailable(_))));
    assert_eq!(asking.await.unwrap().unwrap(), "Crew");
}

#[tokio::test]
async fn an_agent_is_registered_before_it_starts_and_idle_after_it_said_so() {
    let mut house = TestHouse::new();
    let (handle, _lead) = house.team().await;
    house.backend.ready_at_once(false);
    let spawn = Command::SpawnAgent { member: Box::new(crate::house::member("bob", "work")) };
    let committed = handle.submit(Caller::Agent(LEAD), None, spawn).await.unwrap();
    assert_eq!(committed.events[0].event.name(), "agent_spawned");
    let bob = house.stage.spawned().await;
    let starts = handle
        .query(|team| team.agent(crate::house::BOB).map(|a| a.state().clone()))
        .await
        .unwrap();
    assert_eq!(starts, Some(aion_core::agent::AgentState::Pending));
    bob.report(aion_backends::Signal::Ready).await;
    let Seen::Turn(_, input) = house.stage.next().await else { panic!("a turn follows") };
    assert!(input.opening.contains("work"));
}

#[tokio::test]
async fn a_command_that_makes_more_than_fits_is_stored_in_parts() {
    let mut house = TestHouse::new();
    let mut settings = settings();
    settings.limits.unread = 10_000;
    let (handle, _lead) = house.team_with(settings).await;
    handle.submit(Caller::User, None, Command::PauseTeam).await.unwrap();
    for _ in 0..9_900 {
        handle.submit(Caller::User, None, message(Recipient::Lead, "x")).await.unwrap();
    }
    let before = house.appends();
    let ended = handle.submit(Caller::User, None, Command::EndTeam).await.unwrap();
    assert!(house.appends() - before > 1);
    assert_eq!(ended.events.last().unwrap().event, Event::TeamEnded);
    let log = log(&*house.store, handle.team()).await;
    let seqs: Vec<_> = log.iter().map(|recorded| recorded.seq.0).collect();
    assert_eq!(seqs, (1..=log.len() as u64).collect::<Vec<_>>());
}
