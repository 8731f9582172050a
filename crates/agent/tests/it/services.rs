//! Models behind real sockets, in every format, with all that goes wrong there.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aion_agent::models::{
    Catalogue, ModelInfo, Patience, Price, Secret, Service, ServiceConfig, ServiceProvider, calls,
};
use aion_agent::provider::Provider;
use aion_agent::runtime::{Controls, RuntimeConfig, TurnEnd};
use aion_agent::scripted::Scenario;
use aion_core::time::Timestamp;
use aion_core::transcript::Content;
use aion_core::turn::{TurnOutcome, Unavailable};
use aion_testkit::house::{House, Judgement};
use aion_testkit::model_server::{Fault, Format, ModelServer, Plan, Script, Seen};

use crate::fixture::{fault, input, play, runtime, scripted, toolbox};

const KEY: &str = "sk-canary-7f3a";

/// Every service, with the format that it speaks.
const ALL: [(Service, Format); 6] = [
    (Service::Anthropic, Format::Anthropic),
    (Service::OpenAi, Format::Chat),
    (Service::Compatible, Format::Chat),
    (Service::OpenAiResponses, Format::Responses),
    (Service::Gemini, Format::Gemini),
    (Service::Ollama, Format::Ollama),
];

/// A job with thinking, parallel calls, a call that fails, and text between them.
const JOB: &str = r#"
[[agent.bob.rule]]
when = [{ given = 'write (?<file>\S+)' }]
think = "Two files, written at once; then I look at them."
say = "I write them: ä, €, 漢, 🙂."
call = [
    { tool = "Write", input = { file_path = "{{file}}", content = "one\ntwo\n" }, outcome = "ok" },
    { tool = "Write", input = { file_path = "b.txt", content = "\"quoted\" \\ ü\n" }, outcome = "ok" },
]

[[agent.bob.rule]]
when = [{ result_text = "Created", times = 2 }]
think = "Now I look."
call = [
    { tool = "Read", input = { file_path = "{{file}}" }, expect = 'two' },
    { tool = "Read", input = { file_path = "missing.txt" }, outcome = "failed" },
    { tool = "Edit", input = { file_path = "{{file}}", edits = [{ old_string = "two", new_string = "three" }] }, outcome = "ok" },
]
then = "All of it is written, and I looked at it twice."
"#;

fn provider(server: &ModelServer, service: Service, format: Format) -> ServiceProvider {
    let config = ServiceConfig {
        service,
        base_url: Some(server.base_url(format)),
        key: Some(Secret::new(KEY)),
    };
    let info = ModelInfo {
        id: "stand-in".into(),
        service,
        context_window: 2_000_000,
        max_output: 8_000,
        price: Some(Price {
            input: 3_000_000,
            output: 15_000_000,
            cache_read: 300_000,
            cache_write: 3_750_000,
        }),
    };
    let catalogue = Arc::new(Catalogue::new(vec![info]));
    let http = calls(reqwest::Client::builder()).unwrap();
    let patience = Patience { first_wait: Duration::ZERO, ..Patience::default() };
    ServiceProvider::new(config, "stand-in".into(), catalogue, http)
        .unwrap()
        .with_patience(patience)
}

fn script(scenario: &str, plan: impl Fn(&Seen) -> Fault + Send + Sync + 'static) -> Script {
    let scenario = Scenario::parse("test.toml", scenario).unwrap();
    Script { plan: Plan::new(plan), key: Some(KEY.into()), ..Script::new(scenario) }
}

/// What a job left behind: its end, its transcript without ids and signatures, and its files.
#[derive(Debug, PartialEq)]
struct Left {
    end: TurnOutcome,
    lines: Vec<String>,
    files: Vec<(String, String)>,
}

async fn work(provider: Arc<dyn Provider>, opening: &str) -> Left {
    let dir = tempfile::tempdir().unwrap();
    let (house, mut requests) = House::new(|_| Judgement::Run);
    let runtime = runtime(provider, &house, dir.path());
    let TurnEnd::Ended { outcome, .. } = play(&runtime, &mut requests, input(1, opening)).await
    else {
        panic!("the house did not end it");
    };
    Left { end: outcome, lines: lines(&house), files: files(dir.path()) }
}

fn lines(house: &House) -> Vec<String> {
    let line = |content: Content| match content {
        Content::Given { text } => format!("given {text}"),
        Content::Said { text } => format!("said {text}"),
        Content::Thought { text, .. } => format!("thought {text}"),
        Content::Summary { text, .. } => format!("summary {text}"),
        Content::Called { tool, input, .. } => format!("called {tool} {input}"),
        Content::Got { output, ok, .. } => format!("got {ok} {output}"),
    };
    // A signature may come without a thought.
    let lines = house.transcript().into_iter().map(|item| line(item.content));
    lines.filter(|line| line != "thought ").collect()
}

fn files(dir: &Path) -> Vec<(String, String)> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn a_job_is_the_same_in_every_format() {
    let expected = work(scripted(JOB), "write a.txt").await;
    assert_eq!(expected.files[0], ("a.txt".to_owned(), "one\nthree\n".to_owned()));
    for (service, format) in ALL {
        for (split, pings) in [(None, false), (Some(1), true), (Some(7), true)] {
            let script = Script { split, pings, ..script(JOB, |_| Fault::None) };
            let server = ModelServer::start(script).await.unwrap();
            let left = work(Arc::new(provider(&server, service, format)), "write a.txt").await;
            assert_eq!(server.violations(), Vec::<String>::new(), "{service:?}");
            assert_eq!(left, expected, "{service:?}, {split:?} bytes at once");
        }
    }
}

#[tokio::test]
async fn refusals_and_broken_answers_are_asked_for_again() {
    let status = |status: u16| Fault::Status { status, retry_after: Some("0".into()) };
    let faults = [
        vec![status(429)],
        vec![status(529), status(500), status(503)],
        vec![Fault::Cut { after: 0 }],
        vec![Fault::Cut { after: 4 }, Fault::Malformed { after: 3 }],
        vec![Fault::Malformed { after: 1 }, status(429)],
    ];
    let expected = work(scripted(JOB), "write a.txt").await;
    for (service, format) in ALL {
        for faults in &faults {
            // Each call of the job fails so often before it is answered.
            let planned = faults.clone();
            let plan = move |seen: &Seen| {
                let at = (seen.number - 1) % (planned.len() + 1);
                planned.get(at).cloned().unwrap_or_default()
            };
            let server = ModelServer::start(script(JOB, plan)).await.unwrap();
            let left = work(Arc::new(provider(&server, service, format)), "write a.txt").await;
            assert_eq!(left, expected, "{service:?}, {faults:?}");
            assert_eq!(server.violations(), Vec::<String>::new(), "{service:?}");
            assert_eq!(server.seen().len(), 3 * (faults.len() + 1), "{service:?}, {faults:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_was_cut_at_its_limit_is_gone_on_with() {
    let expected = work(scripted(JOB), "write a.txt").await;
    for (service, format) in ALL {
        let plan = |seen: &Seen| if seen.number % 2 == 1 { Fault::MaxTokens } else { Fault::None };
        let server = ModelServer::start(script(JOB, plan)).await.unwrap();
        let left = work(Arc::new(provider(&server, service, format)), "write a.txt").await;
        assert_eq!(server.violations(), Vec::<String>::new(), "{service:?}");
        assert_eq!(left.files, expected.files, "{service:?}");
        assert!(matches!(left.end, TurnOutcome::Done { .. }), "{service:?}: {:?}", left.end);
        let said = |left: &Left| -> String {
            left.lines.iter().filter_map(|line| line.strip_prefix("said ")).collect()
        };
        assert_eq!(said(&left), said(&expected), "{service:?}");
    }
}

#[tokio::test]
async fn a_service_that_does_not_want_ends_the_turn_by_its_reason() {
    for (service, format) in ALL {
        let end = async |fault: Fault| {
            let plan = move |_: &Seen| fault.clone();
            let server = ModelServer::start(script(JOB, plan)).await.unwrap();
            work(Arc::new(provider(&server, service, format)), "write a.txt").await.end
        };
        let status = |status, wait: &str| Fault::Status { status, retry_after: Some(wait.into()) };
        // The team waits for so long, and sees it.
        let TurnOutcome::Unavailable { why: Unavailable::RateLimit, until: Some(until), .. } =
            end(status(429, "90")).await
        else {
            panic!("{service:?}");
        };
        assert_eq!(until.0, 91_000, "{service:?}");
        // One that asks for no pause, and refuses again and again, is not asked all the time.
        let eager = end(status(429, "0")).await;
        let TurnOutcome::Unavailable { why: Unavailable::RateLimit, until: soon, .. } = eager
        else {
            panic!("{eager:?}");
        };
        assert_eq!(soon, Some(Timestamp(6_000)), "{service:?}");
        let down = end(status(503, "0")).await;
        let provider =
            TurnOutcome::Unavailable { why: Unavailable::Provider, until: Some(until), said: None };
        assert_eq!(std::mem::discriminant(&down), std::mem::discriminant(&provider));
        let login = end(status(401, "0")).await;
        let TurnOutcome::Unavailable { why: Unavailable::Login, until: None, said: Some(said) } =
            login
        else {
            panic!("{login:?}");
        };
        assert!(said.contains("401") && !said.contains(KEY), "{said}");
        let broken = end(Fault::Cut { after: 2 }).await;
        assert!(
            matches!(broken, TurnOutcome::Unavailable { why: Unavailable::Provider, .. }),
            "{broken:?}"
        );
        let refused = end(status(404, "0")).await;
        let TurnOutcome::AgentFault { error } = refused else { panic!("{refused:?}") };
        assert!(error.contains("404") && !error.contains(KEY), "{error}");
    }
}

#[tokio::test]
async fn a_wrong_key_is_named_and_never_shown() {
    for (service, format) in ALL {
        let other = Script { key: Some("another".into()), ..script(JOB, |_| Fault::None) };
        let server = ModelServer::start(other).await.unwrap();
        let provider = provider(&server, service, format);
        let error = provider.check().await.unwrap_err();
        assert!(error.to_string().starts_with("log in to the model's service"), "{error}");
        assert!(!format!("{error:?} {error} {provider:?}").contains(KEY), "{error}");
        let server = ModelServer::start(script(JOB, |_| Fault::None)).await.unwrap();
        let provider = self::provider(&server, service, format);
        assert_eq!(provider.check().await.unwrap(), ["stand-in"], "{service:?}");
    }
}

#[tokio::test]
async fn a_huge_piece_is_read_and_one_without_measure_is_not() {
    let huge = |bytes: usize| {
        script(JOB, move |seen: &Seen| match seen.number {
            1 => Fault::Huge { bytes },
            _ => Fault::None,
        })
    };
    for (service, format) in ALL {
        let server = ModelServer::start(huge(2 * 1024 * 1024)).await.unwrap();
        let left = work(Arc::new(provider(&server, service, format)), "write a.txt").await;
        assert!(matches!(left.end, TurnOutcome::Done { .. }), "{service:?}: {:?}", left.end);
    }
    let server = ModelServer::start(huge(17 * 1024 * 1024)).await.unwrap();
    let provider = provider(&server, Service::Anthropic, Format::Anthropic);
    let left = work(Arc::new(provider), "write a.txt").await;
    // It is asked for again, and comes in order.
    assert!(matches!(left.end, TurnOutcome::Done { .. }), "{:?}", left.end);
    assert_eq!(server.seen().len(), 4);
}

#[tokio::test]
async fn a_service_that_says_nothing_is_left_when_the_turn_is_interrupted() {
    for (service, format) in ALL {
        let server = ModelServer::start(script(JOB, |_| Fault::Silent)).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (house, _requests) = House::new(|_| Judgement::Run);
        let runtime = runtime(Arc::new(provider(&server, service, format)), &house, dir.path());
        let controls = Controls::default();
        let turn = runtime.run(input(1, "write a.txt"), &controls);
        tokio::pin!(turn);
        let asked = async {
            while server.seen().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            end = &mut turn => panic!("{end:?}"),
            () = asked => controls.interrupt.cancel(),
        }
        let TurnEnd::Ended { outcome, .. } = turn.await else { panic!("the house did not end it") };
        assert_eq!(outcome, TurnOutcome::Interrupted);
    }
}

#[tokio::test]
async fn what_is_the_same_at_every_step_is_marked_for_the_cache_and_paid_as_read_from_it() {
    let server = ModelServer::start(script(JOB, |_| Fault::None)).await.unwrap();
    let provider = Arc::new(provider(&server, Service::Anthropic, Format::Anthropic));
    let dir = tempfile::tempdir().unwrap();
    let (house, mut requests) = House::new(|_| Judgement::Run);
    let runtime = runtime(provider, &house, dir.path());
    let end = play(&runtime, &mut requests, input(1, "write a.txt")).await;
    let TurnEnd::Ended { usage: Some(usage), .. } = end else { panic!("{end:?}") };
    assert!(usage.cache_read > usage.input, "{usage:?}");
    // Each call is rounded up by itself.
    let exact = usage.input * 3 + usage.output * 15 + usage.cache_read * 3 / 10;
    assert!((exact..=exact + 3).contains(&usage.micro_usd), "{usage:?}, {exact}");
    let seen = server.seen();
    for (before, after) in seen.iter().zip(seen.iter().skip(1)) {
        assert_eq!(before.body["system"], after.body["system"]);
        assert_eq!(before.body["tools"], after.body["tools"]);
        let (before, after) = (&before.body["messages"], &after.body["messages"]);
        let (before, after) = (before.as_array().unwrap(), after.as_array().unwrap());
        // All but the mark on the last block.
        let last = before.len() - 1;
        assert_eq!(before[..last], after[..last]);
    }
}

#[tokio::test]
async fn ten_summaries_in_a_row_over_every_format() {
    // A file that is read again and again.
    const READS: &str = r#"
[[agent.bob.rule]]
when = [{ given_text = "read it all" }]
think = "It is long."
call = [{ tool = "Read", input = { file_path = "big.txt" } }]

[[agent.bob.rule]]
when = [{ seen_text = "line the last", times = 36 }, { result_text = "line the last" }]
call = [{ tool = "Write", input = { file_path = "done.txt", content = "read\n" }, outcome = "ok" }]
then = "All of it is read."

[[agent.bob.rule]]
repeat = true
when = [{ result_text = "line the last" }]
call = [{ tool = "Read", input = { file_path = "big.txt" } }]
"#;
    // The two that speak one format cut their conversations alike.
    for (service, format) in ALL.into_iter().filter(|(service, _)| *service != Service::Compatible)
    {
        let server = ModelServer::start(script(READS, |_| Fault::None)).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let big =
            format!("0123456789 first\n{}line the last\n", "filler of the file\n".repeat(150));
        std::fs::write(dir.path().join("big.txt"), big).unwrap();
        let (house, mut requests) = House::new(|_| Judgement::Run);
        house.stand("#7 [in progress, yours] Read the file");
        let provider = Arc::new(small(&server, service, format));
        let mut runtime = runtime(provider, &house, dir.path());
        runtime.config = Arc::new(RuntimeConfig { max_tokens: 1_000, ..RuntimeConfig::default() });
        let mut turn = input(1, "read it all");
        turn.system = "You are bob, a teammate. Members: team-lead, bob.".to_owned();
        let end = play(&runtime, &mut requests, turn).await;
        assert_eq!(server.violations(), Vec::<String>::new(), "{service:?}");
        let TurnEnd::Ended { outcome, .. } = &end else { panic!("{end:?}") };
        assert!(matches!(outcome, TurnOutcome::Done { .. }), "{service:?}: {outcome:?}");
        let done = std::fs::read_to_string(dir.path().join("done.txt")).unwrap();
        assert_eq!(done, "read\n", "{service:?}");
        let transcript = house.transcript();
        let summaries =
            transcript.iter().filter(|i| matches!(i.content, Content::Summary { .. })).count();
        assert!(summaries >= 10, "{service:?}: {summaries}");
        let seen = server.seen();
        for (before, after) in seen.iter().zip(seen.iter().skip(1)) {
            if !before.body.to_string().contains("outgrow your window") {
                continue;
            }
            // What may not be forgotten is in the next request. That calls and results are paired,
            // the server has looked at.
            let next = after.body.to_string();
            for needed in ["Members: team-lead, bob.", "#7 [in progress, yours]", "read it all"] {
                assert!(next.contains(needed), "{service:?}: {needed}");
            }
        }
    }
}

/// The same with a model that holds little.
fn small(server: &ModelServer, service: Service, format: Format) -> ServiceProvider {
    let config = ServiceConfig {
        service,
        base_url: Some(server.base_url(format)),
        key: Some(Secret::new(KEY)),
    };
    // The tools take their part of every window.
    let tools: usize = toolbox(Path::new("/"))
        .specs()
        .iter()
        .map(|tool| tool.description.len() + tool.input_schema.to_string().len())
        .sum();
    let info = ModelInfo {
        id: "stand-in".into(),
        service,
        context_window: 4_500 + u32::try_from(tools / 3).unwrap(),
        max_output: 2_000,
        price: None,
    };
    let catalogue = Arc::new(Catalogue::new(vec![info]));
    let http = calls(reqwest::Client::builder()).unwrap();
    ServiceProvider::new(config, "stand-in".into(), catalogue, http).unwrap()
}

#[tokio::test]
async fn what_no_service_would_take_fails_loudly() {
    let server = ModelServer::start(script(JOB, |_| Fault::None)).await.unwrap();
    let provider = Arc::new(provider(&server, Service::Anthropic, Format::Anthropic));
    let left = work(provider, "nothing that the scenario knows").await;
    let end = TurnEnd::Ended { outcome: left.end, usage: None };
    assert!(fault(&end).contains("400"), "{end:?}");
    assert_eq!(server.violations().len(), 1);
}
