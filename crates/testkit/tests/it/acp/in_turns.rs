//! What goes wrong in a turn: it ends, with a reason, and the next one goes well.

use std::sync::Arc;

use aion_agent::host::Delta;
use aion_core::id::TurnId;
use aion_core::request::Decision;
use aion_testkit::contract::Bench;
use aion_testkit::house::{Act, Judgement};
use futures::StreamExt;

use super::fixture::{Fake, SHORT, in_a_house, in_short, lives};

/// A turn ends so, and another one after it goes well.
async fn check(fake: &Fake, opening: &str, end: &str) -> Bench {
    let mut bench = fake.start().await;
    bench.turn(1, opening).unwrap();
    assert_eq!(bench.signal().await, end);
    goes_on(&mut bench).await;
    bench
}

async fn goes_on(bench: &mut Bench) {
    bench.turn(2, "say hello").unwrap();
    assert_eq!(bench.signal().await, "t2 done: hello");
}

#[tokio::test]
async fn odd_ends_are_understood() {
    let plain = Fake::new(&[]);
    let silence = "(it ended its turn without a word and without a tool call; its model may be out \
                   of reach)";
    check(&plain, "silence", &format!("t1 done: {silence}")).await;
    check(&plain, "two ends", "t1 done: one end").await;
    let unknown = |reason: &str| {
        let error = format!("the agent ended its turn for the unknown reason {reason}");
        format!("t1 AgentFault {{ error: {error:?} }}")
    };
    check(&plain, "unknown stop", &unknown("\"error\": something broke")).await;
    check(&plain, "no stop", &unknown("\"nothing\"")).await;
}

#[tokio::test]
async fn refusals_hold_the_agent_or_count_against_it() {
    let plain = Fake::new(&[]);
    check(
        &plain,
        "refuse -32000",
        "t1 Unavailable { why: Login, until: None, said: Some(\"login needed: run fake login; it \
         says: the model said no (code -32000)\") }",
    )
    .await;
    check(
        &plain,
        "refuse 429",
        "t1 Unavailable { why: RateLimit, until: Some(Timestamp(61000)), said: Some(\"the model said \
         no (code 429)\") }",
    )
    .await;
    check(
        &plain,
        "refuse -32603",
        "t1 AgentFault { error: \"the agent could not run the turn: the model said no (code -32603)\" }",
    )
    .await;
}

#[tokio::test]
async fn noise_is_passed_over() {
    let plain = Fake::new(&[]);
    check(&plain, "noise", "t1 done: after the noise").await;
    check(&plain, "bad bytes", "t1 done: caf\u{fffd}").await;
    check(&plain, "strange requests", "t1 done: -32601 -32601 \"decline\"").await;
}

#[tokio::test]
async fn a_line_that_is_too_long_is_passed_over() {
    check(&Fake::new(&[]), "huge line", "t1 done: after the line").await;
}

#[tokio::test]
async fn late_words_belong_to_the_turn_that_they_are_late_for() {
    let fake = Fake::new(&[]).limited(|limits| limits.drain = SHORT);
    let bench = check(&fake, "late words", "t1 done: late words").await;
    let items = bench.house.transcript();
    assert_eq!(
        in_short(&items),
        ["given late words", "said late words", "given say hello", "said hello"]
    );
}

#[tokio::test]
async fn words_after_the_end_are_kept_all_the_same() {
    let mut bench = Fake::new(&[]).start().await;
    bench.turn(1, "too late words").unwrap();
    assert_eq!(bench.signal().await, "t1 done: in time");
    bench.session.stop("done");
    assert_eq!(bench.signal().await, "exited: done");
    let last = bench.house.transcript().pop().unwrap();
    // Whether they came before the end is the machine's affair; they belong to that turn.
    assert_eq!(last.turn, TurnId(1));
}

#[tokio::test]
async fn an_agent_that_does_not_stop_is_replaced() {
    let fake = Fake::new(&["ignores-cancel"]).limited(|limits| limits.cancel = SHORT);
    let mut bench = fake.start().await;
    bench.turn(1, "hang").unwrap();
    bench.session.interrupt(TurnId(1));
    assert_eq!(bench.signal().await, "t1 Interrupted");
    goes_on(&mut bench).await;
}

#[tokio::test]
async fn a_cancelled_turn_that_calls_itself_ended_was_interrupted() {
    let mut bench = Fake::new(&["cancel-is-end"]).start().await;
    bench.turn(1, "hang").unwrap();
    bench.session.interrupt(TurnId(1));
    assert_eq!(bench.signal().await, "t1 Interrupted");
    goes_on(&mut bench).await;
}

#[tokio::test]
async fn an_agent_that_gives_no_sign_of_life() {
    for odd in [&[][..], &["ignores-cancel"]] {
        let fake = Fake::new(odd).limited(|limits| (limits.quiet, limits.cancel) = (SHORT, SHORT));
        let end = "t1 AgentFault { error: \"the agent gave no sign of life for 0 s\" }";
        check(&fake, "hang", end).await;
    }
}

#[tokio::test]
async fn those_who_watch_see_that_nothing_happens() {
    let mut bench = Fake::new(&[]).limited(|limits| limits.notice = SHORT).start().await;
    bench.turn(1, "hang").unwrap();
    let notice = "[nothing has come from the agent for 0 s]\n".to_owned();
    let seen = || bench.house.deltas() == [Delta::Thought { step: 0, text: notice.clone() }];
    while !seen() {
        tokio::task::yield_now().await;
    }
    bench.session.interrupt(TurnId(1));
    assert_eq!(bench.signal().await, "t1 Interrupted");
}

#[tokio::test]
async fn floods_are_stopped() {
    let fake =
        Fake::new(&[]).limited(|limits| (limits.turn_bytes, limits.turn_calls) = (1 << 20, 100));
    let words = "t1 AgentFault { error: \"the agent said more than 1048576 bytes in one turn\" }";
    check(&fake, "flood of words", words).await;
    let calls = "t1 AgentFault { error: \"the agent called more than 100 tools in one turn\" }";
    check(&fake, "flood of calls", calls).await;
}

#[tokio::test]
async fn an_agent_that_does_not_read_is_replaced() {
    let end = "t1 AgentFault { error: \"the agent does not read what it is told\" }";
    let mut bench = Fake::new(&["deaf"]).start().await;
    bench.turn(1, "deaf").unwrap();
    assert_eq!(bench.signal().await, end);
    goes_on(&mut bench).await;
}

#[tokio::test]
async fn an_agent_that_dies_is_quoted() {
    let end = Fake::new(&[]).turn("crash").await;
    assert_eq!(
        end,
        "exited: the agent's process ended by itself with exit code 3; its last words were: thread \
         'main' has run out of ideas"
    );
}

#[tokio::test]
async fn what_an_agent_leaves_behind_goes_with_it() {
    let mut bench = Fake::new(&[]).start().await;
    bench.turn(1, "child").unwrap();
    let end = bench.signal().await;
    let child = end.strip_prefix("t1 done: child ").unwrap().to_owned();
    assert!(lives(&child));
    bench.session.stop("done");
    assert_eq!(bench.signal().await, "exited: done");
    assert!(!lives(&child));
}

#[tokio::test]
async fn an_agent_that_does_not_go_is_made_to() {
    let fake = Fake::new(&["stays"]).limited(|limits| limits.leave = (SHORT, SHORT));
    let mut bench = fake.start().await;
    bench.session.stop("done");
    assert_eq!(bench.signal().await, "exited: done");
}

#[tokio::test]
async fn a_call_that_does_not_end_ends_with_its_turn() {
    let bench = check(&Fake::new(&[]), "open call", "t1 done: done, I think").await;
    let items = in_short(&bench.house.transcript());
    assert_eq!(
        items[1..4],
        [
            "called Forever {\"title\":\"Forever\"}",
            "said done, I think",
            "got false [the turn ended before the call did]",
        ]
    );
}

#[tokio::test]
async fn a_request_without_title_and_input_is_understood_by_its_call() {
    let mut bench = Fake::new(&[]).start().await;
    bench.turn(1, "no title").unwrap();
    let request = bench.requests.next().await.unwrap();
    let decision = Decision::ONCE;
    bench.session.answer(TurnId(1), request, decision).unwrap();
    assert_eq!(bench.signal().await, "t1 done: work: denied");
}

#[tokio::test]
async fn a_request_about_nothing_is_refused() {
    check(&Fake::new(&[]), "no call", "t1 done: the answer was \"reject_once\"").await;
}

#[tokio::test]
async fn a_request_of_a_session_within_the_session_is_judged_like_all() {
    let fake = Fake::new(&[]);
    let (house, requests) = in_a_house(Judgement::Run);
    let workspace = Arc::new(tempfile::tempdir().unwrap());
    let mut bench = Bench::begin(&fake.backend(), "bob", house, requests, workspace).await;
    assert_eq!(bench.signal().await, "ready");
    bench.turn(1, "another session").unwrap();
    assert_eq!(bench.signal().await, "t1 done: work: allowed");
    assert!(bench.house.acts().contains(&Act::Proposed("call-1".to_owned())));
}

#[tokio::test]
async fn a_turn_that_does_not_wait_for_its_answer() {
    check(&Fake::new(&[]), "ends before the answer", "t1 done: never mind").await;
}

#[tokio::test]
async fn a_request_after_the_interrupt_is_cancelled() {
    let mut bench = Fake::new(&["asks-after-cancel"]).start().await;
    bench.turn(1, "hang").unwrap();
    bench.session.interrupt(TurnId(1));
    assert_eq!(bench.signal().await, "t1 Interrupted");
    let said = in_short(&bench.house.transcript());
    assert_eq!(said, ["given hang", "said the answer was \"cancelled\""]);
    assert!(!bench.house.acts().iter().any(|act| matches!(act, Act::Proposed(_))));
}
