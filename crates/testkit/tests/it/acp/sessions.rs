//! An agent's session over the end of its process: opened again where that is certain, else told what
//! was said.

use std::sync::Arc;

use aion_testkit::house::{Act, Judgement};
use tempfile::TempDir;

use super::fixture::{Fake, SHORT, in_a_house, in_short};

/// An agent learns a word, its process ends, and another one of the kind `then` is asked for it.
async fn remembers(odd: &[&str], then: &[&str]) -> (String, Vec<String>) {
    let fake = Fake::new(odd);
    let (house, _requests) = in_a_house(Judgement::Run);
    let workspace = Arc::new(TempDir::new().unwrap());
    let mut bench = fake.start_in(&house, &workspace).await;
    bench.turn(1, "The word is swordfish. say hello").unwrap();
    assert_eq!(bench.signal().await, "t1 done: hello");
    bench.session.kill();
    assert_eq!(bench.signal().await, "exited: killed");
    let fake = fake.now(then);
    let mut bench = fake.start_in(&house, &workspace).await;
    bench.turn(2, "recall swordfish").unwrap();
    let known = bench.signal().await;
    bench.turn(3, "recall <earlier-session>").unwrap();
    let primed = bench.signal().await;
    (format!("{known}, {primed}"), in_short(&house.transcript()))
}

const AGAIN: &str = "t2 done: swordfish is known, t3 done: <earlier-session> is unknown";
const TOLD: &str = "t2 done: swordfish is known, t3 done: <earlier-session> is known";

#[tokio::test]
async fn a_session_is_opened_again() {
    for odd in [&["loads"][..], &["resumes"], &["loads", "resumes"]] {
        let (known, transcript) = remembers(odd, odd).await;
        assert_eq!(known, AGAIN, "{odd:?}");
        // What was replayed is not said again.
        assert_eq!(transcript.len(), 6, "{transcript:?}");
    }
}

#[tokio::test]
async fn in_any_doubt_a_new_one_is_told_what_was_said() {
    let doubts = [
        (&[][..], &[][..]),
        (&["loads"], &["loads", "loads-nothing"]),
        (&["resumes"], &["resumes", "dies-when-it-resumes"]),
    ];
    for (odd, then) in doubts {
        let (known, transcript) = remembers(odd, then).await;
        assert_eq!(known, TOLD, "{then:?}");
        assert_eq!(transcript.len(), 6, "{transcript:?}");
    }
}

#[tokio::test]
async fn an_agent_that_was_replaced_knows_what_it_knew() {
    let fake = Fake::new(&["loads", "ignores-cancel"]).limited(|limits| limits.cancel = SHORT);
    let mut bench = fake.start().await;
    bench.turn(1, "The word is swordfish. hang").unwrap();
    bench.session.interrupt(aion_core::id::TurnId(1));
    assert_eq!(bench.signal().await, "t1 Interrupted");
    bench.turn(2, "recall swordfish").unwrap();
    assert_eq!(bench.signal().await, "t2 done: swordfish is known");
}

#[tokio::test]
async fn what_was_said_before_is_told_again_where_the_prompt_was_refused() {
    let fake = Fake::new(&[]);
    let (house, _requests) = in_a_house(Judgement::Run);
    let workspace = Arc::new(TempDir::new().unwrap());
    let mut bench = fake.start_in(&house, &workspace).await;
    bench.turn(1, "The word is swordfish. say hello").unwrap();
    assert_eq!(bench.signal().await, "t1 done: hello");
    bench.session.kill();
    assert_eq!(bench.signal().await, "exited: killed");
    let fake = fake.now(&["forgets-refused"]);
    let mut bench = fake.start_in(&house, &workspace).await;
    bench.turn(2, "refuse -32000").unwrap();
    assert!(bench.signal().await.starts_with("t2 Unavailable { why: Login"));
    for (turn, needle) in [(3, "swordfish"), (4, "You are bob.")] {
        bench.turn(turn, &format!("recall {needle}")).unwrap();
        assert_eq!(bench.signal().await, format!("t{turn} done: {needle} is known"));
    }
}

#[tokio::test]
async fn a_turn_that_cannot_be_kept_is_no_fault_of_the_agent() {
    let mut bench = Fake::new(&[]).start().await;
    let full = aion_agent::host::HostError::NoTranscript("the disk is full".to_owned());
    bench.house.refuse_to_record(full);
    bench.turn(1, "say hello").unwrap();
    let end = bench.signal().await;
    assert!(
        end.starts_with("t1 Unavailable { why: Provider") && end.contains("disk is full"),
        "{end}"
    );
    bench.turn(2, "say hello").unwrap();
    assert_eq!(bench.signal().await, "t2 done: hello");
    assert!(bench.house.acts().iter().all(|act| matches!(act, Act::Recorded(_))));
}
