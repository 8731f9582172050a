//! Turns that run through, are interrupted, or meet a provider's refusals.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aion_agent::host::{Delta, HostError};
use aion_agent::provider::{
    Immediate, Message, ModelEvent, ModelRequest, Part, Provider, ProviderError, StopReason,
};
use aion_agent::runtime::{Controls, RuntimeConfig, TurnEnd};
use aion_core::budget::Usage;
use aion_core::time::Timestamp;
use aion_core::transcript::Content;
use aion_core::turn::{TurnOutcome, Unavailable};
use aion_testkit::house::{Act, House, Judgement};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use serde_json::json;

use crate::fixture::{done, fault, input, lines, play, png, runtime, scripted};

#[tokio::test]
async fn an_immediate_answer_is_one_item() {
    let dir = tempfile::tempdir().unwrap();
    let (house, mut requests) = House::new(|_| Judgement::Run);
    let runtime = runtime(Arc::new(Immediate::new("Yes.")), &house, dir.path());
    assert_eq!(play(&runtime, &mut requests, input(1, "Well?")).await, done("Yes."));
    assert_eq!(lines(&house.transcript()), ["t1.0 given Well?", "t1.0 said Yes."]);
}

#[tokio::test]
async fn a_turn_works_until_nothing_is_left_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let (house, mut requests) = House::new(|proposal| match proposal.tool.as_str() {
        "Write" => Judgement::Ask(Ok(())),
        "Bash" => Judgement::Ask(Err("permission was denied: not today".to_owned())),
        _ => Judgement::Run,
    });
    let provider = scripted(
        r#"
        [[agent.bob.rule]]
        when = [{ given = 'write (?<file>\S+)' }]
        think = "A file."
        say = "I write."
        call = [{ tool = "Write", input = { file_path = "{{file}}", content = "one\ntwo\n" }, outcome = "ok" }]

        [[agent.bob.rule]]
        when = [{ result_text = "Created" }]
        call = [
            { tool = "Read", input = { file_path = "{{file}}" }, expect = '2\ttwo' },
            { tool = "Grep", input = { pattern = "o" }, expect = 'a.txt:1:one' },
            { tool = "Bash", input = { command = "true" }, outcome = "failed", expect = "not today" },
            { tool = "SendMessage", input = { to = "lead", message = "ready" } },
            { tool = "Nothing", outcome = "failed", expect = "The tools are: Read, Write, .*SendMessage" },
        ]
        then = "It is written."

        [[agent.bob.rule]]
        when = [{ given_text = "thank you" }]
        say = "You are welcome."
        "#,
    );
    let runtime = runtime(provider, &house, dir.path());
    // Mail that comes before the first answer is read after it, in the same turn.
    house.send("thank you");
    let end = play(&runtime, &mut requests, input(1, "write a.txt")).await;
    assert_eq!(end, done("You are welcome."));
    assert_eq!(std::fs::read_to_string(dir.path().join("a.txt")).unwrap(), "one\ntwo\n");
    assert_eq!(
        lines(&house.transcript()),
        [
            "t1.0 given write a.txt",
            "t1.0 thought A file.",
            "t1.0 said I write.",
            "t1.0 called c0-1 Write",
            "t1.0 got c0-1 ok Created a.txt (2 lines).",
            "t1.1 given thank you",
            "t1.1 called c1-1 Read",
            "t1.1 called c1-2 Grep",
            "t1.1 called c1-3 Bash",
            "t1.1 called c1-4 SendMessage",
            "t1.1 called c1-5 Nothing",
            "t1.1 got c1-1 ok      1\tone",
            "t1.1 got c1-2 ok a.txt:1:one",
            "t1.1 got c1-3 failed permission was denied: not today",
            "t1.1 got c1-4 ok SendMessage: done",
            "t1.1 got c1-5 failed There is no tool \"Nothing\". The tools are: Read, Write, Edit, Glob, Grep, Bash, BashOutput, KillShell, SendMessage, team_submit_plan, team_refuse.",
            "t1.2 said You are welcome.",
        ]
    );
    let outward: Vec<Act> =
        house.acts().into_iter().filter(|act| !matches!(act, Act::Recorded(_))).collect();
    let finished = |call: &str, changed| Act::Finished { call: call.to_owned(), ok: true, changed };
    assert_eq!(
        outward,
        [
            Act::Proposed("c0-1".into()),
            Act::Started("c0-1".into()),
            finished("c0-1", true),
            Act::Mail(1),
            Act::Proposed("c1-1".into()),
            Act::Started("c1-1".into()),
            Act::Proposed("c1-2".into()),
            Act::Started("c1-2".into()),
            finished("c1-1", false),
            finished("c1-2", false),
            Act::Proposed("c1-3".into()),
            Act::TeamTool {
                tool: "SendMessage".into(),
                input: json!({ "to": "lead", "message": "ready" }),
            },
        ]
    );
    let described: Vec<String> = house
        .deltas()
        .into_iter()
        .filter_map(|delta| match delta {
            Delta::Called { description, .. } => Some(description),
            _ => None,
        })
        .collect();
    assert_eq!(
        described,
        ["Write 8 bytes to a.txt", "Read a.txt", "Search . for \"o\"", "Run true", "SendMessage"]
    );
}

#[tokio::test]
async fn a_tool_may_end_the_turn() {
    let dir = tempfile::tempdir().unwrap();
    let (house, mut requests) = House::new(|_| Judgement::Run);
    let provider = scripted(
        r#"
        [[agent.bob.rule]]
        when = [{ given_text = "plan" }]
        say = "Here it is."
        call = [{ tool = "team_submit_plan" }]
        [[agent.bob.rule]]
        when = [{ result_text = "team_submit_plan" }, { given = 'approved: (?<why>\w+)' }]
        say = "Since it is {{why}}, I begin."
        "#,
    );
    let runtime = runtime(provider, &house, dir.path());
    // The mail stays where it is: the turn ends with the tool.
    house.send("later");
    assert_eq!(play(&runtime, &mut requests, input(1, "plan it")).await, done("Here it is."));
    let end = play(&runtime, &mut requests, input(2, "approved: good")).await;
    let faulty = fault(&end).to_owned();
    // "later" is nothing that the scenario expects, beside what it does.
    assert!(faulty.contains("no rule expects what it received"), "{faulty}");
    assert!(faulty.contains("given: \"later\""), "{faulty}");
}

#[tokio::test]
async fn an_interrupt_keeps_what_was_said_and_tells_what_may_have_run() {
    let dir = tempfile::tempdir().unwrap();
    let (house, mut requests) = House::new(|_| Judgement::Ask(Ok(())));
    let provider = scripted(
        r#"
        [[agent.bob.rule]]
        say = "I begin."
        call = [
            { tool = "Bash", input = { command = "true" } },
            { tool = "SendMessage" },
        ]
        "#,
    );
    let runtime = runtime(provider, &house, dir.path());
    let controls = Controls::default();
    let turn = runtime.run(input(1, "go"), &controls);
    tokio::pin!(turn);
    let end = tokio::select! {
        end = &mut turn => end,
        _ = requests.next() => {
            controls.interrupt.cancel();
            turn.await
        }
    };
    assert_eq!(end, TurnEnd::Ended { outcome: TurnOutcome::Interrupted, usage: None });
    assert_eq!(
        lines(&house.transcript()),
        [
            "t1.0 given go",
            "t1.0 said I begin.",
            "t1.0 called c0-1 Bash",
            "t1.0 called c0-2 SendMessage",
            "t1.0 got c0-1 failed The turn was interrupted while this call was under way. It may have run, or have run in part.",
            "t1.0 got c0-2 failed The turn was interrupted before this call began: it did not run.",
        ]
    );
}

/// Answers with given streams, one after the other, and keeps the requests.
#[derive(Debug, Default)]
pub(crate) struct Canned {
    answers: Mutex<Vec<Vec<Result<ModelEvent, ProviderError>>>>,
    requests: Mutex<Vec<ModelRequest>>,
}

impl Canned {
    pub(crate) fn new(mut answers: Vec<Vec<Result<ModelEvent, ProviderError>>>) -> Arc<Self> {
        answers.reverse();
        Arc::new(Self { answers: Mutex::new(answers), requests: Mutex::default() })
    }

    /// What was asked so far.
    pub(crate) fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().unwrap().clone()
    }
}

impl Provider for Canned {
    fn stream(
        &self,
        request: ModelRequest,
    ) -> BoxStream<'static, Result<ModelEvent, ProviderError>> {
        self.requests.lock().unwrap().push(request);
        match self.answers.lock().unwrap().pop() {
            Some(events) => stream::iter(events).boxed(),
            None => stream::pending().boxed(),
        }
    }
}

pub(crate) fn text(text: &str) -> ModelEvent {
    ModelEvent::Text(text.to_owned())
}

pub(crate) fn stop(reason: StopReason) -> ModelEvent {
    ModelEvent::Stop(reason)
}

fn usage(output: u64) -> Usage {
    Usage { output, ..Usage::default() }
}

#[tokio::test]
async fn pieces_become_parts_and_signatures_close_thoughts() {
    let dir = tempfile::tempdir().unwrap();
    let (house, mut requests) = House::new(|_| Judgement::Run);
    let thought = |text: &str, signature: Option<&str>| {
        let signature = signature.map(str::to_owned);
        Ok(ModelEvent::Thought { text: text.to_owned(), signature })
    };
    let call = |call: &str| {
        let (call, tool) = (call.to_owned(), "SendMessage".to_owned());
        Ok(ModelEvent::ToolCall { call, tool, input: json!({}) })
    };
    let provider = Canned::new(vec![
        vec![
            thought("a", None),
            thought("b", Some("s1")),
            thought("c", Some("s2")),
            Ok(text("x")),
            Ok(text("y")),
            call(""),
            call("k"),
            call("k"),
            Ok(ModelEvent::Usage(usage(3))),
            Ok(stop(StopReason::ToolUse)),
        ],
        vec![Ok(ModelEvent::Usage(usage(4))), Ok(stop(StopReason::EndTurn))],
    ]);
    let runtime = runtime(Arc::<Canned>::clone(&provider), &house, dir.path());
    let end = play(&runtime, &mut requests, input(1, "go")).await;
    let outcome = TurnOutcome::Done { last_text: Some("xy".into()) };
    assert_eq!(end, TurnEnd::Ended { outcome, usage: Some(usage(7)) });
    let requests = provider.requests.lock().unwrap();
    let aion_agent::provider::Message::Answer { parts, .. } = &requests[1].messages[1] else {
        panic!("{:?}", requests[1].messages);
    };
    let thought = |text: &str, signature: &str| Part::Thought {
        text: text.to_owned(),
        signature: Some(signature.to_owned()),
    };
    let call = |call: &str| Part::Call {
        call: call.to_owned(),
        tool: "SendMessage".to_owned(),
        input: json!({}),
    };
    let expected = [
        thought("ab", "s1"),
        thought("c", "s2"),
        Part::Text { text: "xy".into() },
        call("call-2"),
        call("k"),
        call("k-2"),
    ];
    assert_eq!(parts, &expected);
}

#[tokio::test]
async fn a_broken_answer_is_asked_for_again_and_a_cut_one_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (house, mut requests) = House::new(|_| Judgement::Run);
    let provider = Canned::new(vec![
        vec![Ok(text("bro"))],
        vec![Err(ProviderError::Broken("reset".into()))],
        vec![Ok(text("first half")), Ok(stop(StopReason::MaxTokens))],
        vec![Ok(text("second half")), Ok(stop(StopReason::EndTurn))],
    ]);
    let runtime = runtime(provider, &house, dir.path());
    assert_eq!(play(&runtime, &mut requests, input(1, "go")).await, done("second half"));
    assert_eq!(
        lines(&house.transcript()),
        [
            "t1.0 given go",
            "t1.0 said first half",
            "t1.1 given Your answer reached the limit of one step and was cut. Go on where it ended.",
            "t1.1 said second half",
        ]
    );
}

#[tokio::test]
async fn a_provider_that_cannot_answer_is_nobodys_fault() {
    let dir = tempfile::tempdir().unwrap();
    let (house, mut requests) = House::new(|_| Judgement::Run);
    let seconds = |n| Some(Duration::from_secs(n));
    let broken = || vec![Err(ProviderError::Broken("reset".into()))];
    let down = |retry_after| ProviderError::Unavailable { text: "503".into(), retry_after };
    let provider = Canned::new(vec![
        vec![Err(down(seconds(5)))],
        vec![Err(down(None))],
        vec![Err(ProviderError::RateLimit { retry_after: None })],
        vec![Err(ProviderError::Login("the key is gone".into()))],
        broken(),
        broken(),
        broken(),
        vec![Err(ProviderError::Fatal("the model does not exist".into()))],
    ]);
    let runtime = runtime(provider, &house, dir.path());
    let unavailable = |why, until: Option<u64>, said: &str| TurnOutcome::Unavailable {
        why,
        until: until.map(|seconds| Timestamp(1_000 + seconds * 1_000)),
        said: Some(said.to_owned()),
    };
    let (down, broken) = ("reach the model: 503", "read the model's answer to its end: reset");
    let (pause, login) =
        ("call the model: it asks for a pause", "log in to the model's service: the key is gone");
    for (turn, outcome) in [
        unavailable(Unavailable::Provider, Some(5), down),
        unavailable(Unavailable::Provider, Some(30), down),
        unavailable(Unavailable::RateLimit, Some(60), pause),
        unavailable(Unavailable::Login, None, login),
        unavailable(Unavailable::Provider, Some(30), broken),
        TurnOutcome::AgentFault { error: "the model does not exist".into() },
    ]
    .into_iter()
    .enumerate()
    {
        let end = play(&runtime, &mut requests, input(turn as u64 + 1, "go")).await;
        assert_eq!(end, TurnEnd::Ended { outcome, usage: None });
    }
}

#[tokio::test]
async fn a_turn_has_a_limit_of_steps() {
    let dir = tempfile::tempdir().unwrap();
    let (house, mut requests) = House::new(|_| Judgement::Run);
    let provider = scripted(
        r#"
        [[agent.bob.rule]]
        when = [{ given_text = "go" }]
        call = [{ tool = "SendMessage" }]
        [[agent.bob.rule]]
        repeat = true
        when = [{ result_text = "done" }]
        call = [{ tool = "SendMessage" }]
        "#,
    );
    let mut runtime = runtime(provider, &house, dir.path());
    runtime.config = Arc::new(RuntimeConfig { max_steps: 3, ..RuntimeConfig::default() });
    let end = play(&runtime, &mut requests, input(1, "go")).await;
    assert_eq!(fault(&end), "the turn reached its limit of 3 model steps");
}

#[tokio::test]
async fn every_call_but_the_first_is_reserved_and_the_one_before_settled() {
    let dir = tempfile::tempdir().unwrap();
    let (house, mut requests) = House::new(|_| Judgement::Run);
    let provider = scripted(
        r#"
        [[agent.bob.rule]]
        call = [{ tool = "SendMessage" }]
        usage = { output = 10 }
        [[agent.bob.rule]]
        when = [{ result_text = "done" }]
        call = [{ tool = "SendMessage" }]
        usage = { output = 20 }
        "#,
    );
    let runtime = runtime(provider, &house, dir.path());
    house.allow_calls(1);
    let budgeted = aion_agent::runtime::TurnInput { budgeted: true, ..input(1, "go") };
    let end = play(&runtime, &mut requests, budgeted).await;
    let outcome = TurnOutcome::Unavailable { why: Unavailable::Budget, until: None, said: None };
    assert_eq!(end, TurnEnd::Ended { outcome, usage: Some(usage(20)) });
    let reserved: Vec<Act> =
        house.acts().into_iter().filter(|act| matches!(act, Act::Reserved(_))).collect();
    assert_eq!(reserved, [Act::Reserved(usage(10))]);
}

#[tokio::test]
async fn delivered_text_is_read_before_the_next_step() {
    let dir = tempfile::tempdir().unwrap();
    let (house, _requests) = House::new(|_| Judgement::Run);
    let runtime = runtime(Arc::new(Immediate::new("Yes.")), &house, dir.path());
    let controls = Controls::default();
    assert!(controls.deliver("and this".to_owned()));
    let end = runtime.run(input(7, "go"), &controls).await;
    assert_eq!(end, done("Yes."));
    assert!(!controls.deliver("too late".to_owned()));
    assert_eq!(
        lines(&house.transcript()),
        ["t7.0 given go", "t7.0 said Yes.", "t7.1 given and this", "t7.1 said Yes."]
    );
}

#[tokio::test]
async fn what_an_interrupted_turn_was_given_stays_in_the_conversation() {
    let dir = tempfile::tempdir().unwrap();
    let (house, _requests) = House::new(|_| Judgement::Run);
    let runtime = runtime(Arc::new(Immediate::new("Yes.")), &house, dir.path());
    let controls = Controls::default();
    controls.interrupt.cancel();
    assert!(controls.deliver("and this".to_owned()));
    let end = runtime.run(input(1, "go"), &controls).await;
    assert_eq!(end, TurnEnd::Ended { outcome: TurnOutcome::Interrupted, usage: None });
    assert_eq!(lines(&house.transcript()), ["t1.0 given go", "t1.1 given and this"]);
}

/// Interrupts the turn while the house does the first act that fits, and answers how it ended.
async fn interrupted_while(
    scenario: &str,
    budgeted: bool,
    at: impl Fn(&Act) -> bool + Send + 'static,
) -> (Arc<House>, TurnEnd) {
    let dir = tempfile::tempdir().unwrap();
    let (house, _requests) = House::new(|_| Judgement::Run);
    house.allow_calls(9);
    let controls = Arc::new(Controls::default());
    let held = Arc::clone(&controls);
    house.meanwhile(move |act| {
        if at(act) {
            held.interrupt.cancel();
        }
    });
    let runtime = runtime(scripted(scenario), &house, dir.path());
    let given = aion_agent::runtime::TurnInput { budgeted, ..input(1, "go") };
    let end = runtime.run(given, &controls).await;
    (house, end)
}

#[tokio::test]
async fn the_answer_of_a_team_tool_outlives_an_interrupt() {
    let scenario = r#"
        [[agent.bob.rule]]
        call = [{ tool = "SendMessage" }, { tool = "SendMessage" }, { tool = "Bash", input = { command = "true" } }]
    "#;
    let (house, end) =
        interrupted_while(scenario, false, |act| matches!(act, Act::TeamTool { .. })).await;
    assert_eq!(end, TurnEnd::Ended { outcome: TurnOutcome::Interrupted, usage: None });
    let not_run = "The turn was interrupted before this call began: it did not run.";
    assert_eq!(
        lines(&house.transcript())[4..],
        [
            "t1.0 got c0-1 ok SendMessage: done".to_owned(),
            format!("t1.0 got c0-2 failed {not_run}"),
            format!("t1.0 got c0-3 failed {not_run}"),
        ]
    );
}

#[tokio::test]
async fn what_a_reservation_settles_is_not_settled_by_the_end_again() {
    let scenario = r#"
        [[agent.bob.rule]]
        call = [{ tool = "SendMessage" }]
        usage = { output = 10 }
    "#;
    let (house, end) =
        interrupted_while(scenario, true, |act| matches!(act, Act::Reserved(_))).await;
    let nothing = Some(Usage::default());
    assert_eq!(end, TurnEnd::Ended { outcome: TurnOutcome::Interrupted, usage: nothing });
    assert!(house.acts().contains(&Act::Reserved(usage(10))));
}

#[tokio::test]
async fn a_transcript_that_cannot_be_written_ends_no_turn_at_once_again() {
    let dir = tempfile::tempdir().unwrap();
    let (house, mut requests) = House::new(|_| Judgement::Run);
    let runtime = runtime(Arc::new(Immediate::new("Yes.")), &house, dir.path());
    let down = || "the disk is full".to_owned();
    let unavailable = TurnOutcome::Unavailable {
        why: Unavailable::Provider,
        until: Some(Timestamp(1_000 + 30_000)),
        said: Some("its transcript could not be written: the disk is full".to_owned()),
    };
    let fault = TurnOutcome::AgentFault { error: "the house refuses it: the disk is full".into() };
    for (turn, (error, outcome)) in [
        (HostError::NoTranscript(down()), unavailable),
        (HostError::Refused(down()), fault),
        (HostError::Unavailable(down()), TurnOutcome::Lost),
    ]
    .into_iter()
    .enumerate()
    {
        house.refuse_to_record(error);
        let end = play(&runtime, &mut requests, input(turn as u64 + 1, "go")).await;
        assert_eq!(end, TurnEnd::Ended { outcome, usage: None });
    }
    // The same where the text that nobody read is to be kept.
    let controls = Controls::default();
    controls.interrupt.cancel();
    let turn = runtime.run(input(4, "go"), &controls);
    assert!(controls.deliver("and this".to_owned()));
    house.refuse_to_record(HostError::TurnOver);
    assert_eq!(turn.await, TurnEnd::Over);
}

#[tokio::test]
async fn a_turn_that_ends_before_its_first_answer_keeps_its_opening() {
    let dir = tempfile::tempdir().unwrap();
    let (house, _requests) = House::new(|_| Judgement::Run);
    let runtime = runtime(Arc::new(Immediate::new("Yes.")), &house, dir.path());
    let controls = Controls::default();
    controls.interrupt.cancel();
    let end = runtime.run(input(1, "go"), &controls).await;
    assert_eq!(end, TurnEnd::Ended { outcome: TurnOutcome::Interrupted, usage: None });
    assert_eq!(lines(&house.transcript()), ["t1.0 given go"]);
}

#[tokio::test]
async fn the_one_who_judges_sees_the_whole_input_or_how_much_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let (house, mut requests) = House::new(move |proposal| {
        kept.lock().unwrap().push(proposal.input.clone());
        Judgement::Refuse("no".to_owned())
    });
    let content = "ä".repeat(10_000);
    let write = |content: &str| json!({ "file_path": "a", "content": content });
    let calls: Vec<_> = [&content[..16_000], &content]
        .into_iter()
        .enumerate()
        .map(|(n, content)| {
            let (call, tool, input) = (n.to_string(), "Write".to_owned(), write(content));
            Ok(ModelEvent::ToolCall { call, tool, input })
        })
        .chain([Ok(stop(StopReason::ToolUse))])
        .collect();
    let provider = Canned::new(vec![calls, vec![Ok(stop(StopReason::EndTurn))]]);
    let runtime = runtime(provider, &house, dir.path());
    play(&runtime, &mut requests, input(1, "go")).await;
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0], write(&content[..16_000]).to_string());
    let whole = write(&content).to_string();
    let (shown, note) = seen[1].rsplit_once("… (").unwrap();
    assert!(seen[1].len() <= 16 * 1024 && whole.starts_with(shown));
    assert_eq!(note, format!("{} bytes more)", whole.len() - shown.len()));
}

#[tokio::test]
async fn a_model_that_falls_leaves_what_it_was_given() {
    let dir = tempfile::tempdir().unwrap();
    let (house, _requests) = House::new(|_| Judgement::Run);
    let provider = scripted(
        r#"
        [[agent.bob.rule]]
        when = [{ given_text = "go" }]
        fail = "panic"
        "#,
    );
    let runtime = runtime(provider, &house, dir.path());
    let controls = Controls::default();
    let turn = std::panic::AssertUnwindSafe(runtime.run(input(1, "go"), &controls));
    assert!(turn.catch_unwind().await.is_err());
    assert_eq!(lines(&house.transcript()), ["t1.0 given go"]);
}

#[tokio::test]
async fn images_are_sent_until_the_service_refuses_them() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.png"), png(3, 2)).unwrap();
    let (house, mut requests) = House::new(|_| Judgement::Run);
    let read = ModelEvent::ToolCall {
        call: "c".into(),
        tool: "Read".into(),
        input: json!({ "file_path": "a.png" }),
    };
    let provider = Canned::new(vec![
        vec![Ok(read), Ok(stop(StopReason::ToolUse))],
        vec![Err(ProviderError::Fatal("no images here".into()))],
        vec![Ok(text("I see nothing.")), Ok(stop(StopReason::EndTurn))],
    ]);
    let runtime = runtime(Arc::clone(&provider) as Arc<dyn Provider>, &house, dir.path());
    assert_eq!(play(&runtime, &mut requests, input(1, "Look.")).await, done("I see nothing."));

    let sent: Vec<(usize, String)> = provider.requests.lock().unwrap()[1..]
        .iter()
        .map(|request| match request.messages.last() {
            Some(Message::Results { results, .. }) => {
                (results[0].images.len(), results[0].text.clone())
            }
            other => panic!("{other:?}"),
        })
        .collect();
    let what = "a.png: a png image, 3 x 2 pixels, 24 bytes.".to_owned();
    let without = format!(
        "{what}\n[An image was here, which the model's service does not take. Tell what you cannot see.]"
    );
    assert_eq!(sent, [(1, what), (0, without)]);
    // The transcript keeps it, for another model.
    let kept = house
        .transcript()
        .iter()
        .any(|item| matches!(&item.content, Content::Got { images, .. } if images.len() == 1));
    assert!(kept);
}
