//! How an agent is met that behaves.

use std::sync::Arc;

use aion_backends::{Backend, BackendKind};
use aion_core::id::TurnId;
use aion_core::request::Decision;
use aion_testkit::contract::{Bench, keeps_the_contract};
use aion_testkit::house::{Act, Judgement};
use futures::StreamExt;

use super::fixture::{Fake, in_a_house, in_short};

#[tokio::test]
async fn acp_agents_keep_the_contract() {
    let backend = Fake::new(&[]).backend();
    assert_eq!((backend.kind(), backend.resumes_turns()), (BackendKind::Acp, false));
    assert!(backend.connects() && backend.runs("scripted") && !backend.runs("other"));
    keeps_the_contract(&backend).await;
}

#[tokio::test]
async fn what_it_does_is_in_our_transcript_and_journal() {
    let fake = Fake::new(&[]);
    let (house, requests) = in_a_house(Judgement::Run);
    let workspace = Arc::new(tempfile::tempdir().unwrap());
    let mut bench = Bench::begin(&fake.backend(), "bob", house, requests, workspace).await;
    assert_eq!(bench.signal().await, "ready");
    bench.turn(1, "work").unwrap();
    assert_eq!(bench.signal().await, "t1 done: work: allowed");
    assert_eq!(
        in_short(&bench.house.transcript()),
        [
            "given work",
            "called Build it {\"command\":\"make all\"}",
            "got true built",
            "said work: allowed",
        ]
    );
    let call = || "call-1".to_owned();
    let journal: Vec<Act> =
        bench.house.acts().into_iter().filter(|act| !matches!(act, Act::Recorded(_))).collect();
    assert_eq!(
        journal,
        [
            Act::Proposed(call()),
            Act::Started(call()),
            Act::Finished { call: call(), ok: true, changed: true },
        ]
    );
}

#[tokio::test]
async fn a_tool_of_the_team_is_let_through_when_it_is_proven() {
    let mut bench = Fake::new(&[]).start().await;
    bench.turn(1, "team tool").unwrap();
    assert_eq!(bench.signal().await, "t1 done: the answer was \"allow_once\"");
    assert!(!bench.house.acts().iter().any(|act| matches!(act, Act::Proposed(_))));
    let called = in_short(&bench.house.transcript())[1].clone();
    assert!(called.starts_with("called mcp.team.SendMessage"), "{called}");
    // Without a proof it is asked for like everything else.
    let mut bench = Fake::new(&[]).known_as(|profile| profile.team_tools.clear()).start().await;
    bench.turn(1, "team tool").unwrap();
    assert!(bench.requests.next().await.is_some());
}

#[tokio::test]
async fn its_role_is_told_once_and_when_it_changes() {
    let mut bench = Fake::new(&[]).start().await;
    bench.turn(1, "recall You are bob.").unwrap();
    assert_eq!(bench.signal().await, "t1 done: You are bob. is known");
    bench.turn(2, "recall Your role has changed.").unwrap();
    assert_eq!(bench.signal().await, "t2 done: Your role has changed. is unknown");
    let mut bench = Fake::new(&["takes-roles"]).start().await;
    bench.turn(1, "recall <your-role>").unwrap();
    assert_eq!(bench.signal().await, "t1 done: <your-role> is unknown");
    bench.turn(2, "recall You are bob.").unwrap();
    assert_eq!(bench.signal().await, "t2 done: You are bob. is known");
}

#[tokio::test]
async fn it_is_in_the_mode_that_its_profile_says() {
    assert_eq!(Fake::new(&[]).turn("mode?").await, "t1 done: ask");
    let free = Fake::new(&[]).known_as(|profile| profile.modes.default = None);
    assert_eq!(free.turn("mode?").await, "t1 done: free");
}

#[tokio::test]
async fn mail_in_the_middle_of_a_turn_is_steered_where_that_is_known() {
    let mut bench = Fake::new(&["steers"]).start().await;
    bench.house.send("the tests are red");
    bench.turn(1, "be steered").unwrap();
    assert_eq!(bench.signal().await, "t1 done: steered: the tests are red");
    assert!(in_short(&bench.house.transcript()).contains(&"given the tests are red".to_owned()));
}

#[tokio::test]
async fn elsewhere_it_is_the_next_prompt_of_the_turn() {
    let mut bench = Fake::new(&[]).start().await;
    bench.turn(1, "work").unwrap();
    let request = bench.requests.next().await.unwrap();
    bench.session.deliver(TurnId(1), "mail one".to_owned()).unwrap();
    let decision = Decision::ONCE;
    bench.session.answer(TurnId(1), request, decision).unwrap();
    assert_eq!(bench.signal().await, "t1 done: mail one");
}

#[tokio::test]
async fn what_was_refused_is_told_with_the_next_prompt() {
    let fake = Fake::new(&[]);
    let (house, requests) = in_a_house(Judgement::Refuse("a rule forbids make".to_owned()));
    let workspace = Arc::new(tempfile::tempdir().unwrap());
    let mut bench = Bench::begin(&fake.backend(), "bob", house, requests, workspace).await;
    assert_eq!(bench.signal().await, "ready");
    bench.turn(1, "work").unwrap();
    assert_eq!(bench.signal().await, "t1 done: work: denied");
    bench.turn(2, "recall a rule forbids make").unwrap();
    assert_eq!(bench.signal().await, "t2 done: a rule forbids make is known");
}
