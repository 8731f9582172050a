//! A store that fails: the state that was not stored is dropped, and nobody is told otherwise.

use std::collections::{BTreeMap, BTreeSet};

use aion_agent::host::HostError;
use aion_core::command::Caller;
use aion_core::event::Event;
use aion_core::id::Seq;
use aion_core::message::Recipient;
use aion_core::team::Progress;
use aion_core::time::Millis;
use aion_core::transcript::{Content, Item};
use aion_runtime::SubmitError;
use aion_store::EventStore;
use aion_testkit::backend::Seen;
use aion_testkit::faults::{Fault, FaultPlan, Operation};

use crate::house::{BOB, LEAD, TestHouse, count, keyed, log, message, until};

fn said(turn: aion_core::id::TurnId, text: &str) -> Item {
    Item { turn, step: 0, content: Content::Said { text: text.to_owned() } }
}

#[tokio::test]
async fn a_failed_append_drops_the_state_and_answers_unavailable() {
    let mut house = TestHouse::new();
    let (handle, _lead) = house.team().await;
    house.fail(Fault::Unavailable);
    let lost = handle.submit(Caller::User, None, message(Recipient::Lead, "lost")).await;
    assert!(matches!(lost, Err(SubmitError::Unavailable(_))));
    assert!(house.stage.try_next().is_none());
    let unread = handle.query(|team| team.lead().map(|lead| lead.mailbox().len())).await.unwrap();
    assert_eq!(unread, Some(0));

    // The same numbers are given out again: nothing of the lost command is left anywhere.
    handle.submit(Caller::User, None, message(Recipient::Lead, "kept")).await.unwrap();
    let (_, input) = house.stage.turn().await;
    assert!(input.opening.contains("kept") && !input.opening.contains("lost"));
    let log = log(&*house.store, handle.team()).await;
    let seqs: Vec<_> = log.iter().map(|recorded| recorded.seq.0).collect();
    assert_eq!(seqs, (1..=log.len() as u64).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_unknown_commit_that_was_applied_is_answered_as_accepted() {
    let mut house = TestHouse::new();
    let (handle, _lead) = house.team().await;
    let mut events = handle.subscribe(Seq(0));
    house.fail(Fault::UnknownApplied);
    let sent =
        handle.submit(Caller::User, None, keyed(Recipient::Lead, "once", "k")).await.unwrap();
    assert_eq!(sent.events[0].event.name(), "message_sent");
    let (_, input) = house.stage.turn().await;
    assert!(input.opening.contains("once"));
    // Watchers hear of it, once.
    loop {
        let recorded = events.next().await.unwrap().unwrap();
        if recorded.event.name() == "turn_started" {
            break;
        }
    }
    let again =
        handle.submit(Caller::User, None, keyed(Recipient::Lead, "once", "k")).await.unwrap();
    assert!(again.receipt.is_some());
    let log = log(&*house.store, handle.team()).await;
    assert_eq!(count(&log, |event| matches!(event, Event::MessageSent { .. })), 1);
}

#[tokio::test]
async fn an_unknown_commit_that_was_lost_is_answered_as_unavailable() {
    let mut house = TestHouse::new();
    let (handle, _lead) = house.team().await;
    house.fail(Fault::UnknownNotApplied);
    let sent = handle.submit(Caller::User, None, keyed(Recipient::Lead, "once", "k")).await;
    assert!(matches!(sent, Err(SubmitError::Unavailable(_))));
    let again =
        handle.submit(Caller::User, None, keyed(Recipient::Lead, "once", "k")).await.unwrap();
    assert!(again.receipt.is_none());
    let (_, input) = house.stage.turn().await;
    assert!(input.opening.contains("once"));
}

#[tokio::test]
async fn while_the_store_is_away_everybody_is_told_so_and_afterwards_all_goes_on() {
    let mut house = TestHouse::new();
    let (handle, _lead) = house.team().await;
    house.fail(Fault::Unavailable);
    house.store.fail_next(Operation::Open, Fault::Unavailable);
    let first = handle.submit(Caller::User, None, message(Recipient::Lead, "a")).await;
    assert!(matches!(first, Err(SubmitError::Unavailable(_))));
    let second = handle.submit(Caller::User, None, message(Recipient::Lead, "b")).await;
    assert!(matches!(second, Err(SubmitError::Unavailable(_))));
    assert!(matches!(handle.query(|_| ()).await, Err(SubmitError::Unavailable(_))));
    house.clock.advance(Millis(100));
    loop {
        // The clock has moved; the session tries again as soon as it runs.
        if handle.submit(Caller::User, None, message(Recipient::Lead, "third")).await.is_ok() {
            break;
        }
        tokio::task::yield_now().await;
    }
    let (_, input) = house.stage.turn().await;
    assert!(input.opening.contains("third"));
}

#[tokio::test]
async fn the_end_of_a_turn_is_reported_again_until_it_is_stored() {
    let mut house = TestHouse::new();
    let (handle, lead) = house.team().await;
    handle.submit(Caller::User, None, message(Recipient::Lead, "work")).await.unwrap();
    let (_, input) = house.stage.turn().await;
    house.fail(Fault::Unavailable);
    lead.done(input.turn, "done").await;
    let ended = tokio::spawn({
        let handle = handle.clone();
        async move { until(&handle, |event| matches!(event, Event::TurnEnded { .. })).await }
    });
    while !ended.is_finished() {
        tokio::task::yield_now().await;
        house.clock.advance(Millis(100));
    }
    let log = log(&*house.store, handle.team()).await;
    assert_eq!(count(&log, |event| matches!(event, Event::TurnEnded { .. })), 1);
}

#[tokio::test]
async fn transcript_items_are_stored_once_whatever_the_store_says() {
    let mut house = TestHouse::new();
    let (handle, lead) = house.team().await;
    handle.submit(Caller::User, None, message(Recipient::Lead, "work")).await.unwrap();
    let (_, input) = house.stage.turn().await;
    let turn = input.turn;
    house.store.fail_next(Operation::AppendItems, Fault::UnknownApplied);
    lead.host.record(vec![said(turn, "one")]).await.unwrap();
    house.store.fail_next(Operation::AppendItems, Fault::UnknownApplied);
    lead.host.record(vec![said(turn, "two"), said(turn, "three")]).await.unwrap();
    house.store.fail_next(Operation::AppendItems, Fault::UnknownNotApplied);
    lead.host.record(vec![said(turn, "four")]).await.unwrap();
    house.store.fail_next(Operation::AppendItems, Fault::Unavailable);
    let refused = lead.host.record(vec![said(turn, "five")]).await;
    assert!(matches!(refused, Err(HostError::NoTranscript(_))), "{refused:?}");
    let expected: Vec<_> = ["one", "two", "three", "four"].map(|text| said(turn, text)).into();
    assert_eq!(lead.host.history().await.unwrap(), expected);
    let conversation =
        handle.query(|team| team.agent(LEAD).map(|a| a.conversation().clone())).await.unwrap();
    let stored = house.store.items(&conversation.unwrap(), 0, 100).await.unwrap();
    assert_eq!(stored, expected);
}

#[tokio::test]
async fn results_that_are_too_large_together_are_stored_one_after_the_other() {
    let mut house = TestHouse::new();
    let (handle, lead) = house.team().await;
    handle.submit(Caller::User, None, message(Recipient::Lead, "read")).await.unwrap();
    let (_, input) = house.stage.turn().await;
    let got = |n: u32| {
        let (call, output) = (n.to_string(), "x".repeat(58 * 1024));
        Item {
            turn: input.turn,
            step: 0,
            content: Content::Got { call, output, ok: true, images: Vec::new() },
        }
    };
    let results: Vec<_> = (0..40).map(got).collect();
    house.store.fail_next(Operation::AppendItems, Fault::UnknownApplied);
    lead.host.record(results.clone()).await.unwrap();
    assert!(lead.host.history().await.unwrap() == results);
    let many: Vec<_> = (0..2_500).map(|n| said(input.turn, &n.to_string())).collect();
    lead.host.record(many.clone()).await.unwrap();
    assert!(lead.host.history().await.unwrap()[40..] == many);
}

#[tokio::test]
async fn a_session_that_falls_is_opened_again_and_not_for_ever() {
    let mut house = TestHouse::new();
    let (handle, _lead) = house.team().await;
    for n in 0..2 {
        house.gate.panic_next();
        let fell = handle.submit(Caller::User, None, message(Recipient::Lead, "x")).await;
        assert!(matches!(fell, Err(SubmitError::Unavailable(_))), "fall {n}");
        // The same handle reaches the session that took its place.
        assert_eq!(handle.query(|team| team.name().to_owned()).await.unwrap(), "Crew");
    }
    house.gate.panic_next();
    handle.submit(Caller::User, None, message(Recipient::Lead, "x")).await.unwrap_err();
    let refused = handle.submit(Caller::User, None, message(Recipient::Lead, "y")).await;
    let Err(SubmitError::Unavailable(reason)) = refused else { panic!("it stays down") };
    assert!(reason.contains("a panic that a test planned"), "{reason}");

    // A person may open it again.
    house.service.close(handle.team()).await;
    let handle = house.service.open(handle.team()).await.unwrap();
    handle.submit(Caller::User, None, message(Recipient::Lead, "z")).await.unwrap();
}

/// Plays every agent: takes its mail, and ends its turn.
fn play(seen: Seen) {
    if let Seen::Turn(agent, input) = seen {
        tokio::spawn(async move {
            // The store may fail here too; the turn then ends without new mail.
            let _ = agent.host.take_mail(input.turn, 1).await;
            agent.done(input.turn, "done").await;
        });
    }
}

#[tokio::test]
async fn whatever_the_store_does_nothing_accepted_is_lost_or_doubled() {
    for seed in 0..40 {
        let mut house = TestHouse::new();
        let (handle, _lead, _bob) = house.pair().await;
        house.store.set_plan(FaultPlan::none().seeded(seed, 200));
        let sending = tokio::spawn({
            let handle = handle.clone();
            async move {
                for n in 0..40 {
                    let to = Recipient::Agent(BOB);
                    let send = || keyed(to, &format!("message {n}"), &n.to_string());
                    while let Err(error) = handle.submit(Caller::User, None, send()).await {
                        assert!(matches!(error, SubmitError::Unavailable(_)), "{error}");
                        tokio::task::yield_now().await;
                    }
                }
            }
        });
        loop {
            while let Some(seen) = house.stage.try_next() {
                play(seen);
            }
            house.clock.advance(Millis(20));
            tokio::task::yield_now().await;
            if sending.is_finished() {
                house.store.set_plan(FaultPlan::none());
                let progress = handle.query(aion_core::team::Team::progress).await;
                if matches!(progress, Ok(Progress::Settled { .. })) {
                    break;
                }
            }
        }
        sending.await.unwrap();
        assert!(!house.store.injected().is_empty(), "seed {seed}: nothing went wrong");
        let log = log(&*house.store, handle.team()).await;
        let mut sent = BTreeMap::new();
        let mut acknowledged = Vec::new();
        for recorded in &log {
            match &recorded.event {
                Event::MessageSent { message, recipients, .. } if recipients == &[BOB] => {
                    sent.insert(message.id, message.body.clone());
                }
                Event::TurnEnded { slot: BOB, acknowledged: mail, .. } => {
                    acknowledged.extend(mail.iter().copied());
                }
                _ => {}
            }
        }
        let bodies: BTreeSet<_> = sent.values().map(|body| format!("{body:?}")).collect();
        assert_eq!((sent.len(), bodies.len()), (40, 40), "seed {seed}");
        let accepted: Vec<_> = sent.into_keys().collect();
        assert_eq!(acknowledged, accepted, "seed {seed}: once each, in the order of acceptance");
    }
}
