//! Runners: starts that fail, agents that die, orders that nobody takes, stops and kills.

use std::sync::Arc;

use aion_agent::host::Permit;
use aion_agent::identity::{self, Identity};
use aion_core::agent::AgentState;
use aion_core::command::{Caller, Command};
use aion_core::event::Event;
use aion_core::id::{AgentName, TurnId};
use aion_core::message::Recipient;
use aion_core::time::Millis;
use aion_testkit::backend::Seen;
use tokio::sync::Barrier;

use crate::house::{BOB, LEAD, TestHouse, member, message, until};
use crate::turns::{allow, proposal};

#[tokio::test]
async fn a_start_that_fails_is_reported_with_its_reason() {
    let mut house = TestHouse::new();
    let (handle, _lead) = house.team().await;
    house.backend.refuse(Some("no such model"));
    let spawn = Command::SpawnAgent { member: Box::new(member("bob", "")) };
    handle.submit(Caller::User, None, spawn).await.unwrap();
    let failed =
        until(&handle, |event| matches!(event, Event::AgentFailed { slot: BOB, .. })).await;
    let Event::AgentFailed { cause, .. } = failed.event else { unreachable!() };
    assert!(cause.contains("no such model"), "{cause}");
}

#[tokio::test]
async fn an_agent_that_dies_is_started_again_and_gets_its_mail_again() {
    let mut house = TestHouse::new();
    let (handle, _lead, bob) = house.pair().await;
    handle.submit(Caller::User, None, message(Recipient::Agent(BOB), "precious")).await.unwrap();
    let (_, first) = house.stage.turn().await;
    bob.exit("it panicked").await;
    until(&handle, |event| matches!(event, Event::AgentFailed { slot: BOB, .. })).await;
    let again = loop {
        house.clock.advance(Millis(1_000));
        tokio::task::yield_now().await;
        match house.stage.try_next() {
            Some(Seen::Spawned(agent)) if agent.slot == BOB => break agent,
            Some(_) | None => {}
        }
    };
    assert_eq!(again.generation, bob.generation + 1);
    let (agent, second) = loop {
        house.clock.advance(Millis(1_000));
        tokio::task::yield_now().await;
        match house.stage.try_next() {
            Some(Seen::Turn(agent, input)) if agent.slot == BOB => break (agent, input),
            Some(_) | None => {}
        }
    };
    assert_eq!(agent.generation, again.generation);
    assert_ne!(first.turn, second.turn);
    assert!(second.opening.contains("precious"));
    // Nothing that the dead start still says counts.
    bob.done(second.turn, "late").await;
    again.done(second.turn, "done").await;
    until(&handle, |event| {
        matches!(event, Event::TurnEnded { slot: BOB, acknowledged, .. } if acknowledged.len() == 1)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_runner_that_takes_no_orders_has_failed() {
    let mut house = TestHouse::new();
    let (handle, _lead, bob) = house.pair().await;
    handle.submit(Caller::User, None, message(Recipient::Agent(BOB), "go")).await.unwrap();
    let (_, input) = house.stage.turn().await;
    house.backend.block(true);
    let mut requests = Vec::new();
    for n in 0..20 {
        match bob.host.propose(proposal(input.turn, &n.to_string())).await.unwrap() {
            Permit::Ask(request) => requests.push(request),
            other => panic!("{other:?}"),
        }
    }
    for request in requests {
        // The last ones find the turn ended.
        let _ = handle.submit(Caller::User, None, allow(request)).await;
    }
    let failed =
        until(&handle, |event| matches!(event, Event::AgentFailed { slot: BOB, .. })).await;
    house.backend.block(false);
    let Event::AgentFailed { cause, .. } = failed.event else { unreachable!() };
    assert!(cause.contains("did not take its orders"), "{cause}");
    // The team itself never stood still.
    handle.submit(Caller::User, None, message(Recipient::Lead, "hello")).await.unwrap();
}

#[tokio::test]
async fn a_stop_waits_for_the_turn_and_a_kill_does_not() {
    let mut house = TestHouse::new();
    let (handle, _lead, bob) = house.pair().await;
    handle.submit(Caller::User, None, message(Recipient::Agent(BOB), "go")).await.unwrap();
    let (_, input) = house.stage.turn().await;
    let ask = Command::RequestShutdown { slot: BOB, reason: None };
    let asked = handle.submit(Caller::User, None, ask).await.unwrap();
    let request = asked
        .events
        .iter()
        .find_map(|r| match &r.event {
            Event::RequestOpened { request } => Some(request.id),
            _ => None,
        })
        .unwrap();
    let decision = aion_core::request::Decision::ApproveShutdown;
    handle.submit(Caller::Agent(BOB), None, Command::Decide { request, decision }).await.unwrap();
    assert!(matches!(house.stage.next().await, Seen::Stopped(BOB)));
    let state = handle.query(|team| team.agent(BOB).map(|a| a.state().clone())).await.unwrap();
    assert!(matches!(state, Some(AgentState::Stopping { .. })));

    // The person has no patience: the same effect, in haste.
    handle.submit(Caller::User, None, Command::KillAgent { slot: BOB }).await.unwrap();
    assert!(matches!(house.stage.next().await, Seen::Killed(BOB)));
    until(&handle, |event| matches!(event, Event::AgentRemoved { slot: BOB, .. })).await;
    bob.done(input.turn, "too late").await;
    assert!(handle.query(|team| team.agent(BOB).is_none()).await.unwrap());
}

#[tokio::test]
async fn closing_a_team_kills_its_agents_and_keeps_its_state() {
    let mut house = TestHouse::new();
    let (handle, _lead, _bob) = house.pair().await;
    house.service.stop_all().await;
    let mut killed = Vec::new();
    while let Some(seen) = house.stage.try_next() {
        if let Seen::Killed(slot) = seen {
            killed.push(slot);
        }
    }
    assert_eq!(killed, [BOB, LEAD]);
    let closed = handle.submit(Caller::User, None, message(Recipient::Lead, "x")).await;
    assert!(matches!(closed, Err(aion_runtime::SubmitError::Closed)));
    let handle = house.service.open(handle.team()).await.unwrap();
    assert_eq!(handle.query(|team| team.agents().count()).await.unwrap(), 2);
    // Nobody is started before there is something to do.
    assert!(house.stage.try_next().is_none());
    handle.submit(Caller::User, None, message(Recipient::Agent(BOB), "go")).await.unwrap();
    let (agent, _) = house.stage.turn().await;
    assert_eq!((agent.slot, agent.generation), (BOB, 1));
}

#[tokio::test]
async fn a_closed_team_has_seen_its_agents_dead() {
    let mut house = TestHouse::new();
    let (handle, lead, bob) = house.pair().await;
    house.backend.lingers(true);
    let closing = tokio::spawn({
        let (service, team) = (house.service.clone(), handle.team().clone());
        async move { service.close(&team).await }
    });
    assert!(matches!(house.stage.next().await, Seen::Killed(BOB)));
    assert!(matches!(house.stage.next().await, Seen::Killed(LEAD)));
    bob.done(TurnId(9), "a last word").await;
    bob.exit("killed").await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!closing.is_finished());
    lead.exit("killed").await;
    closing.await.unwrap();
}

#[tokio::test]
async fn two_agents_on_one_thread_keep_their_identity() {
    let mut house = TestHouse::new();
    let (handle, lead, bob) = house.pair().await;
    handle.submit(Caller::User, None, message(Recipient::Everyone, "go")).await.unwrap();
    let turns = [house.stage.turn().await, house.stage.turn().await];
    let barrier = Arc::new(Barrier::new(2));
    let tasks: Vec<_> = turns
        .into_iter()
        .map(|(agent, input)| {
            let identity = Identity {
                team: handle.team().clone(),
                slot: agent.slot,
                name: agent.name.clone(),
            };
            let barrier = Arc::clone(&barrier);
            identity::spawn_as(identity, async move {
                barrier.wait().await;
                for step in 1..20 {
                    tokio::task::yield_now().await;
                    let here = identity::current().unwrap();
                    assert_eq!((here.slot, &here.name), (agent.slot, &agent.name));
                    agent.host.take_mail(input.turn, step).await.unwrap();
                }
                let call = "whoami".to_owned();
                let nothing = serde_json::json!({});
                let answer = agent
                    .host
                    .call_team_tool(input.turn, &call, "team_whoami", &nothing)
                    .await
                    .unwrap();
                (agent.name, answer.text)
            })
        })
        .collect();
    for task in tasks {
        let (name, text) = task.await.unwrap();
        assert!(text.starts_with(&format!("name: {name}\n")), "{text}");
    }
    assert!(identity::current().is_none());
    assert_eq!((lead.name, bob.name.as_str()), (AgentName::lead(), "bob"));
}

#[tokio::test]
async fn an_agent_that_an_order_finds_gone_is_heard_out() {
    let mut house = TestHouse::new();
    let (handle, lead) = house.team().await;
    handle.submit(Caller::User, None, message(Recipient::Lead, "work")).await.unwrap();
    let (_, input) = house.stage.turn().await;
    let Permit::Ask(request) = lead.host.propose(proposal(input.turn, "a")).await.unwrap() else {
        panic!("it is asked for")
    };
    house.backend.gone(true);
    handle.submit(Caller::User, None, allow(request)).await.unwrap();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    lead.done(input.turn, "all done").await;
    lead.exit("it has left").await;
    let ended = until(&handle, |event| matches!(event, Event::TurnEnded { .. })).await;
    let Event::TurnEnded { outcome, .. } = ended.event else { unreachable!() };
    let last_text = Some("all done".to_owned());
    assert_eq!(outcome, aion_core::turn::TurnOutcome::Done { last_text });
    until(&handle, |event| matches!(event, Event::AgentFailed { .. })).await;
}

#[tokio::test]
async fn the_end_of_a_turn_outlives_the_agent_that_reported_it() {
    let mut house = TestHouse::new();
    let (handle, lead) = house.team().await;
    handle.submit(Caller::User, None, message(Recipient::Lead, "work")).await.unwrap();
    let (_, input) = house.stage.turn().await;
    let Permit::Ask(request) = lead.host.propose(proposal(input.turn, "a")).await.unwrap() else {
        panic!("it is asked for")
    };
    // The end of the turn meets a store that fails, and waits; then an order finds the agent gone.
    house.fail(aion_testkit::faults::Fault::Unavailable);
    let appends = house.appends();
    lead.done(input.turn, "all done").await;
    while house.appends() == appends {
        tokio::task::yield_now().await;
    }
    house.backend.gone(true);
    handle.submit(Caller::User, None, allow(request)).await.unwrap();
    lead.exit("it has left").await;
    let ended = tokio::spawn({
        let handle = handle.clone();
        async move { until(&handle, |event| matches!(event, Event::TurnEnded { .. })).await }
    });
    while !ended.is_finished() {
        tokio::task::yield_now().await;
        house.clock.advance(Millis(100));
    }
    let Event::TurnEnded { outcome, .. } = ended.await.unwrap().event else { unreachable!() };
    let last_text = Some("all done".to_owned());
    assert_eq!(outcome, aion_core::turn::TurnOutcome::Done { last_text });
    let failed = until(&handle, |event| matches!(event, Event::AgentFailed { .. })).await;
    let Event::AgentFailed { slot, .. } = failed.event else { unreachable!() };
    assert_eq!(slot, LEAD);
}
