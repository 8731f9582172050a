//! What goes wrong before an agent is ready: it fails, with a reason that a person understands.

use std::sync::Arc;

use aion_backends::acp::try_agent;
use aion_testkit::contract::Bench;
use aion_testkit::house::Judgement;

use super::fixture::{Fake, SHORT, in_a_house, leash};

async fn check(fake: Fake, reason: &str) {
    let failure = fake.failure().await;
    assert!(failure.contains(reason), "{failure:?} does not say {reason:?}");
}

fn impatient(odd: &[&str]) -> Fake {
    Fake::new(odd).limited(|limits| (limits.start, limits.open) = (SHORT, SHORT))
}

#[tokio::test]
async fn an_agent_that_says_nothing() {
    check(impatient(&["silent"]), "exited: the agent did not answer within 0.4 s (initialize)")
        .await;
}

#[tokio::test]
async fn an_agent_that_opens_no_session() {
    let fake = Fake::new(&["never-opens"]).limited(|limits| limits.open = SHORT);
    check(fake, "did not answer within 0.4 s (session/new)").await;
}

#[tokio::test]
async fn an_agent_that_ends_at_once_is_quoted() {
    check(
        Fake::new(&["exits"]),
        "the agent's process ended by itself with exit code 7; its last words were: cannot find \
         module 'left-pad'",
    )
    .await;
}

#[tokio::test]
async fn an_agent_that_is_not_there() {
    let mut fake = Fake::new(&[]);
    fake.launch.program = "/nonexistent/agent".into();
    check(fake, "exit code 127; its last words were: No such file or directory").await;
}

#[tokio::test]
async fn an_agent_that_writes_garbage_is_quoted() {
    check(
        impatient(&["garbage"]),
        "1 lines of its output were no messages of ACP, the last of them: Error: something is on fire",
    )
    .await;
}

#[tokio::test]
async fn an_agent_whose_line_does_not_end() {
    check(impatient(&["endless-line"]), "did not answer within").await;
}

#[tokio::test]
async fn an_agent_that_answers_another_question() {
    check(impatient(&["wrong-ids"]), "did not answer within").await;
}

#[tokio::test]
async fn an_agent_that_closes_its_output() {
    check(impatient(&["closes-stdout"]), "did not answer within").await;
}

#[tokio::test]
async fn an_agent_of_another_version() {
    check(Fake::new(&["version-2"]), "the agent speaks version 2 of ACP, and only 1").await;
}

#[tokio::test]
async fn an_agent_whose_session_has_no_name() {
    check(Fake::new(&["no-session-id"]), "the agent opened a session without an id").await;
}

#[tokio::test]
async fn an_agent_without_the_mode_that_asks() {
    check(Fake::new(&["no-modes"]), "the agent has no mode \"ask\"; it offers none").await;
}

#[tokio::test]
async fn a_login_that_is_missing_says_what_to_run() {
    check(Fake::new(&["wants-login"]), "exited: login needed: run fake login").await;
    let hopeless = Fake::new(&["wants-login", "has-a-way-in", "never-lets-in"]);
    check(hopeless, "exited: login needed: run fake login").await;
}

#[tokio::test]
async fn an_agent_that_lets_us_in_when_it_is_asked_to() {
    assert_eq!(
        Fake::new(&["wants-login", "has-a-way-in"]).turn("say hello").await,
        "t1 done: hello"
    );
}

#[tokio::test]
async fn noise_and_haste_at_the_start_harm_nobody() {
    for odd in [&["banner"], &["answers-twice"], &["early-updates"], &["stderr-flood"]] {
        assert_eq!(Fake::new(odd).turn("say hello").await, "t1 done: hello", "{odd:?}");
    }
}

#[tokio::test]
async fn a_stop_and_a_kill_reach_an_agent_that_is_not_ready() {
    for kill in [false, true] {
        let fake = Fake::new(&["silent"]);
        let (house, requests) = in_a_house(Judgement::Run);
        let workspace = Arc::new(tempfile::tempdir().unwrap());
        let mut bench = Bench::begin(&fake.backend(), "bob", house, requests, workspace).await;
        if kill {
            bench.session.kill();
            assert_eq!(bench.signal().await, "exited: killed");
        } else {
            bench.session.stop("the team ended");
            assert_eq!(bench.signal().await, "exited: the team ended");
        }
    }
}

#[tokio::test]
async fn an_agent_is_tried_without_a_prompt() {
    let fake = Fake::new(&["loads", "steers"]);
    let workspace = tempfile::tempdir().unwrap();
    let leash = leash();
    let handshake = try_agent(&fake.launch, workspace.path(), &leash, &fake.limits).await.unwrap();
    assert_eq!(handshake.name.as_deref(), Some("Fake"));
    assert_eq!(handshake.version.as_deref(), Some("1.2.3"));
    assert_eq!(handshake.modes, ["free", "ask", "plan"]);
    assert_eq!(handshake.models, ["small", "large"]);
    assert!(handshake.reopens && handshake.steers && handshake.calls_http);
    let fake = Fake::new(&["wants-login"]);
    let refused = try_agent(&fake.launch, workspace.path(), &leash, &fake.limits).await;
    assert_eq!(refused, Err("login needed: run fake login".to_owned()));
}
