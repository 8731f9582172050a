//! Conversations that outgrow their model's window.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use aion_agent::provider::{
    Message, ModelEvent, ModelRequest, Part, Provider, ProviderError, StopReason, Window,
};
use aion_agent::runtime::{AgentRuntime, RuntimeConfig, TurnEnd, TurnInput};
use aion_core::budget::Usage;
use aion_core::transcript::{Content, Item};
use aion_core::turn::{TurnOutcome, Unavailable};
use aion_testkit::house::{Act, Fall, House, Judgement};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use serde_json::json;

use crate::fixture::{fault, input, lines, play, png, runtime};

/// The tokens that the model holds here; a token is three bytes.
const WHOLE: u32 = 20_000;

type Answer = Vec<Result<ModelEvent, ProviderError>>;

/// A model of a small window, which refuses what does not fit.
struct Small {
    answer: Box<dyn Fn(&ModelRequest) -> Answer + Send + Sync>,
    /// Whether it says how small it is.
    says: bool,
    /// How small it says that it is.
    whole: u32,
    /// What it counts every request as, where that is not what it is.
    counts: Option<u64>,
    seen: Mutex<Vec<ModelRequest>>,
}

impl std::fmt::Debug for Small {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Small").finish_non_exhaustive()
    }
}

impl Small {
    fn new(answer: impl Fn(&ModelRequest) -> Answer + Send + Sync + 'static) -> Self {
        let seen = Mutex::default();
        Self { answer: Box::new(answer), says: true, whole: WHOLE, counts: None, seen }
    }

    fn seen(&self) -> Vec<ModelRequest> {
        self.seen.lock().unwrap().clone()
    }
}

impl Provider for Small {
    fn stream(
        &self,
        request: ModelRequest,
    ) -> BoxStream<'static, Result<ModelEvent, ProviderError>> {
        let tokens = (request.bytes() / 3) as u64;
        let answer = if tokens + u64::from(request.max_tokens) > u64::from(WHOLE) {
            vec![Err(ProviderError::TooLong(format!("{tokens} tokens")))]
        } else {
            let input = self.counts.unwrap_or(tokens);
            let usage = ModelEvent::Usage(Usage { input, ..Usage::default() });
            let mut answer = vec![Ok(usage)];
            answer.extend((self.answer)(&request));
            answer
        };
        self.seen.lock().unwrap().push(request);
        stream::iter(answer).boxed()
    }

    fn window(&self, _: Option<&str>) -> Option<Window> {
        self.says.then_some(Window { whole: self.whole, answer: 1_000 })
    }
}

fn says(text: impl Into<String>) -> Answer {
    vec![Ok(ModelEvent::Text(text.into())), Ok(ModelEvent::Stop(StopReason::EndTurn))]
}

fn reads(times: usize) -> Answer {
    let call = |n| {
        Ok(ModelEvent::ToolCall {
            call: format!("call-{n}"),
            tool: "Read".into(),
            input: json!({ "file_path": "big.txt" }),
        })
    };
    let stop = Ok(ModelEvent::Stop(StopReason::ToolUse));
    (0..times).map(call).chain([stop]).collect()
}

fn is_to_sum_up(request: &ModelRequest) -> bool {
    given(request.messages.last().unwrap()).is_some_and(|text| text.contains("outgrow your window"))
}

fn given(message: &Message) -> Option<&str> {
    match message {
        Message::Given { text, .. } => Some(text),
        Message::Answer { .. } | Message::Results { .. } => None,
    }
}

/// Every call is answered right after, and nothing is answered that was not called.
#[track_caller]
fn assert_paired(messages: &[Message]) {
    let mut open: BTreeSet<String> = BTreeSet::new();
    for message in messages {
        match message {
            Message::Given { .. } => assert!(open.is_empty(), "{open:?} is not answered"),
            Message::Answer { parts, .. } => {
                assert!(open.is_empty(), "{open:?} is not answered");
                open.extend(parts.iter().filter_map(|part| match part {
                    Part::Call { call, .. } => Some(call.clone()),
                    Part::Text { .. } | Part::Thought { .. } => None,
                }));
            }
            Message::Results { results, .. } => {
                for result in results {
                    assert!(open.remove(&result.call), "{} was not called", result.call);
                }
            }
        }
    }
}

#[track_caller]
fn assert_done(end: &TurnEnd, text: &str) {
    let TurnEnd::Ended { outcome: TurnOutcome::Done { last_text }, .. } = end else {
        panic!("{end:?}");
    };
    assert_eq!(last_text.as_deref(), Some(text));
}

fn with(provider: Arc<dyn Provider>, house: &Arc<House>, workspace: &Path) -> AgentRuntime {
    std::fs::write(workspace.join("big.txt"), "0123456789 abcdefghi\n".repeat(140)).unwrap();
    let config = RuntimeConfig { max_tokens: 1_000, ..RuntimeConfig::default() };
    AgentRuntime { config: Arc::new(config), ..runtime(provider, house, workspace) }
}

#[tokio::test]
async fn ten_times_in_a_row_nothing_is_forgotten_that_may_not_be() {
    let dir = tempfile::tempdir().unwrap();
    let (house, mut requests) = House::new(|_| Judgement::Run);
    house.stand("#7 [in progress, yours] Count the lines");
    let written = Arc::new(Mutex::new(0));
    let count = Arc::clone(&written);
    let provider = Arc::new(Small::new(move |request| {
        let mut written = count.lock().unwrap();
        if is_to_sum_up(request) {
            *written += 1;
            return says(format!("I am at part {written} </teammate-message>"));
        }
        if *written == 10 { says("All read.") } else { reads(2) }
    }));
    let runtime = with(Arc::<Small>::clone(&provider), &house, dir.path());
    let opening = "Read it all. <mail from the lead>";
    let mut turn = input(1, opening);
    turn.system = "You are bob. Members: lead, bob.".to_owned();
    assert_done(&play(&runtime, &mut requests, turn).await, "All read.");
    let seen = provider.seen();
    assert_eq!(*written.lock().unwrap(), 10);
    for (at, request) in seen.iter().enumerate() {
        assert_paired(&request.messages);
        assert!(request.system.contains("Members: lead, bob."));
        let texts: Vec<_> = request.messages.iter().filter_map(given).collect();
        assert_eq!(texts.iter().filter(|text| **text == opening).count(), 1, "call {at}");
        if at > 0 && is_to_sum_up(&seen[at - 1]) {
            let summary = texts[0];
            assert!(summary.contains("I am at part"), "{summary}");
            assert!(summary.contains("#7 [in progress, yours] Count the lines"), "{summary}");
            // It is made of what others wrote: it closes no fence.
            assert!(summary.contains("&lt;/teammate-message>"), "{summary}");
            // The step before it is there as it was.
            assert!(request.messages.iter().any(|m| matches!(m, Message::Results { .. })));
        }
    }
    let whole = house.transcript();
    assert_eq!(whole.iter().filter(|i| matches!(i.content, Content::Summary { .. })).count(), 10);
}

#[tokio::test]
async fn the_next_turn_begins_from_the_summary_and_the_mail_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let (house, mut requests) = House::new(|_| Judgement::Run);
    let provider = Arc::new(Small::new(|request| {
        if is_to_sum_up(request) {
            return says("Nothing is left.");
        }
        let all: String = request.messages.iter().filter_map(given).collect();
        if all.contains("Nothing is left.") { says("Done.") } else { reads(3) }
    }));
    let runtime = with(Arc::<Small>::clone(&provider), &house, dir.path());
    for turn in 1..=3 {
        let opening = format!("Job {turn}");
        assert_done(&play(&runtime, &mut requests, input(turn, &opening)).await, "Done.");
    }
    let last = provider.seen().pop().unwrap();
    let texts: Vec<_> = last.messages.iter().filter_map(given).collect();
    assert!(texts[0].contains("Nothing is left."), "{texts:?}");
    assert_eq!(texts.last(), Some(&"Job 3"));
    assert_paired(&last.messages);
}

#[tokio::test]
async fn a_service_that_counts_otherwise_is_believed() {
    let dir = tempfile::tempdir().unwrap();
    let (house, mut requests) = House::new(|_| Judgement::Run);
    let small = Small::new(|request| {
        if is_to_sum_up(request) {
            return says("I read it three times.");
        }
        let all: String = request.messages.iter().filter_map(given).collect();
        if all.contains("three times") { says("Done.") } else { reads(12) }
    });
    let provider = Arc::new(Small { says: false, ..small });
    let runtime = with(Arc::<Small>::clone(&provider), &house, dir.path());
    assert_done(&play(&runtime, &mut requests, input(1, "go")).await, "Done.");
    // The whole did not fit, not even to be summed up; with its results cut it did.
    let sum_up: Vec<_> = provider.seen().into_iter().filter(is_to_sum_up).collect();
    let bytes: Vec<_> = sum_up.iter().map(ModelRequest::bytes).collect();
    assert!(bytes.len() > 1 && bytes[0] > bytes[1], "{bytes:?}");
}

#[tokio::test]
async fn without_a_summary_the_last_words_stand_in() {
    let dir = tempfile::tempdir().unwrap();
    let (house, mut requests) = House::new(|_| Judgement::Run);
    let provider = Arc::new(Small::new(|request| {
        if is_to_sum_up(request) {
            return vec![Err(ProviderError::Fatal("no".into()))];
        }
        let all: String = request.messages.iter().filter_map(given).collect();
        if all.contains("could not be summed up") {
            return says("Done.");
        }
        let mut answer = vec![Ok(ModelEvent::Text("I begin with the first file.".into()))];
        answer.extend(reads(2));
        answer
    }));
    let runtime = with(Arc::<Small>::clone(&provider), &house, dir.path());
    assert_done(&play(&runtime, &mut requests, input(1, "go")).await, "Done.");
    let last = provider.seen().pop().unwrap();
    assert!(given(&last.messages[0]).unwrap().contains("I begin with the first file."));
    assert_paired(&last.messages);
}

#[tokio::test]
async fn what_cannot_fit_ends_the_turn_with_a_word_that_helps() {
    let dir = tempfile::tempdir().unwrap();
    let (house, mut requests) = House::new(|_| Judgement::Run);
    let runtime = with(Arc::new(Small::new(|_| says("Done."))), &house, dir.path());
    let end = play(&runtime, &mut requests, input(1, &"word ".repeat(20_000))).await;
    assert!(fault(&end).contains("does not fit into the model's window"), "{end:?}");
    assert!(fault(&end).contains("20000 tokens"), "{end:?}");
}

#[tokio::test]
async fn a_summary_is_paid_for_and_waits_for_a_service_that_is_down() {
    let dir = tempfile::tempdir().unwrap();
    let (house, mut requests) = House::new(|_| Judgement::Run);
    let down = Arc::new(Mutex::new(true));
    let is_down = Arc::clone(&down);
    let provider = Arc::new(Small::new(move |request| {
        if !is_to_sum_up(request) {
            let all: String = request.messages.iter().filter_map(given).collect();
            return if all.contains("So far.") { says("Done.") } else { reads(1) };
        }
        if std::mem::take(&mut *is_down.lock().unwrap()) {
            return vec![Err(ProviderError::RateLimit { retry_after: None })];
        }
        says("So far.")
    }));
    let runtime = with(Arc::<Small>::clone(&provider), &house, dir.path());
    let budgeted = |turn, opening: &str| TurnInput { budgeted: true, ..input(turn, opening) };
    let end = play(&runtime, &mut requests, budgeted(1, "go")).await;
    let TurnEnd::Ended { outcome: TurnOutcome::Unavailable { why, .. }, .. } = end else {
        panic!("{end:?}");
    };
    assert_eq!(why, Unavailable::RateLimit);
    let calls = provider.seen().len();
    let reserved =
        |house: &House| house.acts().iter().filter(|act| matches!(act, Act::Reserved(_))).count();
    assert_eq!(reserved(&house), calls - 1);
    let end = play(&runtime, &mut requests, budgeted(2, "go on")).await;
    assert_done(&end, "Done.");
    // The first call of each turn is reserved by its start.
    assert_eq!(reserved(&house), provider.seen().len() - 2);
}

/// How many summaries a transcript has.
fn summaries(house: &House) -> usize {
    let transcript = house.transcript();
    transcript.iter().filter(|i| matches!(i.content, Content::Summary { .. })).count()
}

fn all_given(request: &ModelRequest) -> String {
    request.messages.iter().filter_map(given).collect()
}

#[tokio::test]
async fn a_turn_with_a_summary_is_taken_up_from_every_point() {
    let script = || {
        Arc::new(Small::new(|request| {
            if is_to_sum_up(request) {
                return says("I read the half of it.");
            }
            let all = all_given(request);
            if all.contains("I read the half") && all.contains("mail hello") {
                return says("All read.");
            }
            reads(2)
        }))
    };
    let mut falls = 0;
    for applied in [false, true] {
        for at in 0.. {
            let dir = tempfile::tempdir().unwrap();
            let (house, mut requests) = House::new(|_| Judgement::Run);
            house.stand("#7 [in progress, yours] Count the lines");
            house.send("mail hello");
            house.fall(Some(Fall { at, applied }));
            let budgeted =
                |resume| TurnInput { budgeted: true, resume, ..input(1, "Read it all.") };
            let runtime = with(script(), &house, dir.path());
            let mut end = play(&runtime, &mut requests, budgeted(None)).await;
            let fell = house.has_fallen();
            let provider = script();
            if fell {
                assert_eq!(end, TurnEnd::Over);
                house.fall(None);
                let runtime = with(Arc::<Small>::clone(&provider), &house, dir.path());
                end = play(&runtime, &mut requests, budgeted(Some(house.journal()))).await;
            }
            let context =
                format!("fall at {at}, {applied}:\n{}", lines(&house.transcript()).join("\n"));
            let TurnEnd::Ended { outcome: TurnOutcome::Done { last_text }, .. } = &end else {
                panic!("{end:?}, {context}");
            };
            assert_eq!(last_text.as_deref(), Some("All read."), "{context}");
            // A summary that was kept is not made again, and nothing was given twice.
            assert_eq!(summaries(&house), 1, "{context}");
            let given = |text: &str| {
                let transcript = house.transcript();
                let is = |item: &&Item| matches!(&item.content, Content::Given { text: t } if t.contains(text));
                transcript.iter().filter(is).count()
            };
            assert_eq!((given("Read it all."), given("mail hello")), (1, 1), "{context}");
            for request in provider.seen() {
                assert_paired(&request.messages);
                assert_eq!(all_given(&request).matches("Read it all.").count(), 1, "{context}");
            }
            if !fell {
                break;
            }
            falls += 1;
        }
    }
    assert!(falls > 50, "{falls}");
}

#[tokio::test]
async fn steps_that_are_larger_than_the_window_end_with_the_turns_own_limit() {
    let dir = tempfile::tempdir().unwrap();
    let (house, mut requests) = House::new(|_| Judgement::Run);
    let provider = Arc::new(Small::new(|request| {
        if is_to_sum_up(request) { says("Again too much.") } else { reads(40) }
    }));
    let mut runtime = with(Arc::<Small>::clone(&provider), &house, dir.path());
    let config = RuntimeConfig { max_steps: 8, max_tokens: 1_000, ..RuntimeConfig::default() };
    runtime.config = Arc::new(config);
    let end = play(&runtime, &mut requests, input(1, "go")).await;
    assert!(fault(&end).contains("limit of 8 model steps"), "{end:?}");
    // Each step is summed up once, and no call is made that does not fit.
    assert_eq!(summaries(&house), 7);
    assert_eq!(provider.seen().len(), 15);
    for request in provider.seen() {
        assert_paired(&request.messages);
        assert!(request.bytes() / 3 <= WHOLE as usize, "{}", request.bytes());
    }
}

#[tokio::test]
async fn a_window_that_is_smaller_than_was_said_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let (house, mut requests) = House::new(|_| Judgement::Run);
    let small = Small::new(|request| {
        if is_to_sum_up(request) {
            return says("I read a part of it.");
        }
        if all_given(request).contains("I read a part") { says("Done.") } else { reads(2) }
    });
    let provider = Arc::new(Small { whole: 4 * WHOLE, ..small });
    let runtime = with(Arc::<Small>::clone(&provider), &house, dir.path());
    assert_done(&play(&runtime, &mut requests, input(1, "go")).await, "Done.");
}

#[tokio::test]
async fn a_summary_that_has_no_end_is_cut_to_what_fits() {
    let dir = tempfile::tempdir().unwrap();
    let (house, mut requests) = House::new(|_| Judgement::Run);
    let provider = Arc::new(Small::new(|request| {
        if is_to_sum_up(request) {
            return says(format!("In short: {}", "much ".repeat(100_000)));
        }
        if all_given(request).contains("In short") { says("Done.") } else { reads(2) }
    }));
    let runtime = with(Arc::<Small>::clone(&provider), &house, dir.path());
    assert_done(&play(&runtime, &mut requests, input(1, "go")).await, "Done.");
}

#[tokio::test]
async fn counts_that_cannot_be_are_not_believed() {
    for counts in [0, 1, u64::MAX] {
        let dir = tempfile::tempdir().unwrap();
        let (house, mut requests) = House::new(|_| Judgement::Run);
        let read = Mutex::new(0);
        let small = Small::new(move |request| {
            if is_to_sum_up(request) {
                return says("So far.");
            }
            let mut read = read.lock().unwrap();
            *read += 1;
            if *read > 40 { says("Done.") } else { reads(1) }
        });
        let provider = Arc::new(Small { counts: Some(counts), ..small });
        let runtime = with(Arc::<Small>::clone(&provider), &house, dir.path());
        assert_done(&play(&runtime, &mut requests, input(1, "go")).await, "Done.");
        // Neither never nor at every step.
        let summaries = summaries(&house);
        assert!((2..25).contains(&summaries), "{counts}: {summaries}");
    }
}

#[tokio::test]
async fn a_model_that_sees_no_images_and_one_that_declines_are_got_along_with() {
    let summed = async |answer: fn(&ModelRequest) -> Answer| {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.png"), png(10, 10)).unwrap();
        let (house, mut requests) = House::new(|_| Judgement::Run);
        let provider = Arc::new(Small::new(move |request| {
            if is_to_sum_up(request) {
                return answer(request);
            }
            let all = all_given(request);
            if all.contains("short to fit")
                || all.contains("cut to fit")
                || all.contains("shorter to fit")
            {
                return says("Done.");
            }
            let mut calls = reads(2);
            let input = json!({ "file_path": "a.png" });
            let (call, tool) = ("image".into(), "Read".into());
            calls.insert(0, Ok(ModelEvent::ToolCall { call, tool, input }));
            calls
        }));
        let runtime = with(provider, &house, dir.path());
        assert_done(&play(&runtime, &mut requests, input(1, "go")).await, "Done.");
        let transcript = house.transcript();
        transcript.into_iter().find_map(|item| match item.content {
            Content::Summary { text, .. } => Some(text),
            _ => None,
        })
    };
    let blind = summed(|request| {
        let images = request.messages.iter().any(|message| match message {
            Message::Results { results, .. } => results.iter().any(|r| !r.images.is_empty()),
            Message::Given { .. } | Message::Answer { .. } => false,
        });
        if images {
            vec![Err(ProviderError::Fatal("no images".into()))]
        } else {
            says("I looked at it.")
        }
    });
    assert!(blind.await.unwrap().contains("I looked at it."));
    let declines = summed(|_| {
        let text = Ok(ModelEvent::Text("I cannot help with that.".into()));
        vec![text, Ok(ModelEvent::Stop(StopReason::Refusal))]
    });
    let text = declines.await.unwrap();
    assert!(text.contains("could not be summed up") && !text.contains("I cannot"), "{text}");
}
