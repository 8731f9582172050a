//! The house falls at every single call, before it had its effect and after; the turn is taken up.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use aion_agent::runtime::{TurnEnd, TurnInput};
use aion_core::id::TurnId;
use aion_core::transcript::{Content, Item};
use aion_core::turn::TurnOutcome;
use aion_testkit::house::{Act, Fall, House, Judgement};

use crate::fixture::{done, input, lines, play, runtime, scripted};

const SCENARIO: &str = r#"
[[agent.bob.rule]]
when = [{ given_text = "begin" }]
think = "Three things at once."
call = [
    { tool = "SendMessage", input = { n = 1 } },
    { tool = "Write", input = { file_path = "a.txt", content = "a" }, outcome = "any" },
    { tool = "Glob", input = { pattern = "*" }, outcome = "any" },
    { tool = "Grep", input = { pattern = "x" }, outcome = "any" },
]

[[agent.bob.rule]]
name = "second"
when = [{ result_text = "SendMessage: done" }, { given = 'mail (?<word>\w+)' }]
say = "I heard {{word}}."
call = [
    { tool = "Bash", input = { command = "echo x >> b.txt" }, outcome = "any" },
    { tool = "Write", input = { file_path = "no.txt", content = "" }, outcome = "failed" },
    { tool = "SendMessage", input = { n = 2 } },
]
then = "All done with {{word}}."
"#;

/// One turn of the scenario, with a fall at one place; how it ended, and whether the house fell.
async fn run_with_fall(workspace: &Path, fall: Fall) -> (Arc<House>, TurnEnd, bool) {
    let (house, mut requests) = House::new(|proposal| match proposal.tool.as_str() {
        "Bash" => Judgement::Ask(Ok(())),
        "Write" if proposal.input.contains("no.txt") => Judgement::Ask(Err("no".to_owned())),
        _ => Judgement::Run,
    });
    house.send("mail hello");
    house.fall(Some(fall));
    let mut runtime = runtime(scripted(SCENARIO), &house, workspace);
    let first = play(&runtime, &mut requests, input(1, "begin")).await;
    if !house.has_fallen() {
        return (house, first, false);
    }
    assert_eq!(first, TurnEnd::Over);
    house.fall(None);
    // A new process knows nothing but the transcript and the journal.
    runtime.provider = scripted(SCENARIO);
    let again = TurnInput { resume: Some(house.journal()), ..input(1, "begin again") };
    let end = play(&runtime, &mut requests, again).await;
    (house, end, true)
}

#[tokio::test]
async fn a_turn_is_taken_up_from_every_point() {
    let mut falls = 0;
    for applied in [false, true] {
        for at in 0.. {
            let dir = tempfile::tempdir().unwrap();
            let (house, end, fell) = run_with_fall(dir.path(), Fall { at, applied }).await;
            check(&house, &end, dir.path(), &format!("fall at {at}, applied: {applied}"));
            if !fell {
                break;
            }
            falls += 1;
        }
    }
    assert!(falls > 50, "{falls}");
}

fn check(house: &House, end: &TurnEnd, workspace: &Path, context: &str) {
    let transcript = house.transcript();
    let context = format!("{context}\n{}", lines(&transcript).join("\n"));
    assert_eq!(*end, done("All done with hello."), "{context}");

    // Everything was given once, answered once per step, and every call has one result.
    let count = |text: &str| {
        let given =
            |item: &&Item| matches!(&item.content, Content::Given { text: t } if t.contains(text));
        transcript.iter().filter(given).count()
    };
    assert_eq!((count("begin"), count("mail hello")), (1, 1), "{context}");
    let mut calls = BTreeMap::new();
    for item in &transcript {
        match &item.content {
            Content::Called { call, .. } => assert_eq!(calls.insert(call, 0), None, "{context}"),
            Content::Got { call, .. } => *calls.get_mut(call).unwrap() += 1,
            _ => {}
        }
    }
    assert_eq!(calls.len(), 7, "{context}");
    assert!(calls.values().all(|results| *results == 1), "{context}");

    // Nothing had its effect twice, and what did not run says that it may have.
    let acts = house.acts();
    for call in calls.keys() {
        let started = acts.iter().filter(|act| **act == Act::Started((*call).clone())).count();
        assert!(started <= 1, "{call} started {started} times: {context}");
    }
    let messages = acts.iter().filter(|act| matches!(act, Act::TeamTool { .. })).count();
    assert_eq!(messages, 2, "{context}");
    let result = |id: &str| {
        transcript.iter().find_map(|item| match &item.content {
            Content::Got { call, output, ok, .. } if call == id => Some((*ok, output.as_str())),
            _ => None,
        })
    };
    let bytes = std::fs::read_to_string(workspace.join("b.txt")).unwrap_or_default();
    match result("c1-1").unwrap() {
        (true, _) => assert_eq!(bytes, "x\n", "{context}"),
        (false, told) => {
            assert!(told.contains("It may have run"), "{context}");
            assert!(bytes.len() <= 2, "{context}");
        }
    }
    assert_eq!(result("c1-2"), Some((false, "no")), "{context}");
    assert!(house.journal().is_empty(), "{context}");
}

#[tokio::test]
async fn a_crash_that_the_scenario_plays_happens_once() {
    let scenario = r#"
        [[agent.bob.rule]]
        when = [{ given_text = "begin" }]
        fail = "fault"
        [[agent.bob.rule]]
        when = [{ given_text = "begin" }]
        say = "I begin again."
    "#;
    let dir = tempfile::tempdir().unwrap();
    let (house, mut requests) = House::new(|_| Judgement::Run);
    let play_turn = async |turn: u64, requests: &mut _| {
        let runtime = runtime(scripted(scenario), &house, dir.path());
        play(&runtime, requests, input(turn, "begin")).await
    };
    let first = play_turn(1, &mut requests).await;
    let error = "rule 1 of the scenario says so".to_owned();
    let expected = TurnOutcome::AgentFault { error };
    assert_eq!(first, TurnEnd::Ended { outcome: expected.clone(), usage: None });
    // The same turn taken up again fails again: only the next one shows that it has failed.
    let again = play_turn(1, &mut requests).await;
    assert_eq!(again, TurnEnd::Ended { outcome: expected, usage: None });
    assert_eq!(play_turn(2, &mut requests).await, done("I begin again."));
    assert_eq!(house.transcript().last().unwrap().turn, TurnId(2));
}

/// The house falls at every call around a tool that ends the turn: the model is never asked again.
#[tokio::test]
async fn a_turn_that_a_tool_ended_is_not_gone_on_with() {
    let scenario = r#"
        [[agent.bob.rule]]
        when = [{ given_text = "begin" }]
        say = "Here it is."
        call = [{ tool = "SendMessage" }, { tool = "team_submit_plan" }]
    "#;
    for applied in [false, true] {
        for at in 0.. {
            let dir = tempfile::tempdir().unwrap();
            let (house, mut requests) = House::new(|_| Judgement::Run);
            house.fall(Some(Fall { at, applied }));
            let mut runtime = runtime(scripted(scenario), &house, dir.path());
            let first = play(&runtime, &mut requests, input(1, "begin")).await;
            if !house.has_fallen() {
                assert_eq!(first, done("Here it is."));
                break;
            }
            house.fall(None);
            runtime.provider = scripted(scenario);
            let again = TurnInput { resume: Some(house.journal()), ..input(1, "begin") };
            let end = play(&runtime, &mut requests, again).await;
            let context = format!("fall at {at}, applied: {applied}");
            assert_eq!(end, done("Here it is."), "{context}");
            assert!(house.transcript().iter().all(|item| item.step == 0), "{context}");
        }
    }
}
