//! What every backend keeps; each backend's own tests run it. It panics where something is not kept.

#![expect(clippy::unwrap_used, reason = "it is a test that other crates run")]
#![expect(clippy::missing_panics_doc, reason = "a test panics where something is not kept")]

use std::fmt;
use std::sync::Arc;

use aion_agent::runtime::TurnInput;
use aion_backends::{AgentSession, Availability, Backend, BackendError, Signal, SpawnSpec};
use aion_core::agent::{PermissionMode, Role};
use aion_core::id::{AgentName, ConversationId, RequestId, SlotId, TeamId, TurnId};
use aion_core::request::Decision;
use aion_core::turn::TurnOutcome;
use futures::StreamExt;
use futures::channel::mpsc::UnboundedReceiver;
use tokio::sync::mpsc;

use crate::house::{House, Judgement};

/// What an agent has to do for the contract, by what its turn's opening says. A backend is given
/// a model, a script or a stand-in that keeps to it.
pub const SCENARIO: &str = r#"
[[agent.bob.rule]]
repeat = true
when = [{ given_text = "say hello" }]
say = "hello"

[[agent.bob.rule]]
repeat = true
when = [{ given_text = "hang" }]
fail = "hang"

[[agent.bob.rule]]
repeat = true
when = [{ given_text = "crash" }]
fail = "panic"

[[agent.bob.rule]]
repeat = true
when = [{ given_text = "work" }]
call = [{ tool = "Bash", input = { command = "true" }, outcome = "any" }]

[[agent.bob.rule]]
repeat = true
when = [{ result = '(?<what>allowed|denied|may have run|\(no output\)|could not be run)' }]
say = "work: {{what}}"

[[agent.bob.rule]]
repeat = true
when = [{ given = 'mail (?<word>\w+)' }]
say = "mail {{word}}"
"#;

/// One agent of a backend, with everything around it.
pub struct Bench {
    /// The agent.
    pub session: Box<dyn AgentSession>,
    /// What it reports.
    pub signals: mpsc::Receiver<Box<Signal>>,
    /// The house around it.
    pub house: Arc<House>,
    /// The requests that it waits for.
    pub requests: UnboundedReceiver<RequestId>,
    /// Where it works.
    pub workspace: Arc<tempfile::TempDir>,
}

impl fmt::Debug for Bench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bench").field("session", &self.session).finish_non_exhaustive()
    }
}

impl Bench {
    /// Starts an agent whose commands are asked for and then refused, and waits until it is ready.
    pub async fn start(backend: &dyn Backend) -> Self {
        Self::start_as(backend, "bob").await
    }

    /// The same under another name.
    pub async fn start_as(backend: &dyn Backend, name: &str) -> Self {
        let (house, requests) = House::new(|_| Judgement::Ask(Err("denied".to_owned())));
        let workspace = Arc::new(tempfile::tempdir().unwrap());
        let mut bench = Self::begin(backend, name, house, requests, workspace).await;
        assert_eq!(bench.signal().await, "ready");
        bench
    }

    /// Starts an agent in a house and a workspace that are there, and waits for nothing.
    pub async fn begin(
        backend: &dyn Backend,
        name: &str,
        house: Arc<House>,
        requests: UnboundedReceiver<RequestId>,
        workspace: Arc<tempfile::TempDir>,
    ) -> Self {
        let (sender, signals) = mpsc::channel(16);
        let spec = SpawnSpec {
            connection: None,
            team: TeamId::new("team").unwrap(),
            slot: SlotId(2),
            generation: 1,
            name: AgentName::parse(name).unwrap(),
            role: Role::Teammate,
            agent_type: "scripted".to_owned(),
            model: None,
            system: "You are bob.".to_owned(),
            mode: PermissionMode::Default,
            workspace: workspace.path().to_path_buf(),
            conversation: ConversationId::new("conversation").unwrap(),
            host: Arc::<House>::clone(&house),
        };
        let session = backend.spawn(spec, sender).await.unwrap();
        Self { session, signals, house, requests, workspace }
    }

    /// Starts a turn.
    pub fn turn(&mut self, turn: u64, opening: &str) -> Result<(), BackendError> {
        self.session.start_turn(TurnInput {
            turn: TurnId(turn),
            system: "You are bob.".to_owned(),
            mode: PermissionMode::Default,
            opening: opening.to_owned(),
            budgeted: false,
            resume: None,
        })
    }

    /// The next signal, in one line; deltas are passed over.
    pub async fn signal(&mut self) -> String {
        loop {
            return match self.signals.recv().await.map(|signal| *signal) {
                Some(Signal::Ready) => "ready".to_owned(),
                Some(Signal::Delta { .. } | Signal::UsageReported(_)) => continue,
                Some(Signal::TurnEnded { turn, outcome, .. }) => match outcome {
                    TurnOutcome::Done { last_text } => {
                        format!("{turn} done: {}", last_text.unwrap_or_default())
                    }
                    outcome => format!("{turn} {outcome:?}"),
                },
                Some(Signal::Exited { cause }) => format!("exited: {cause}"),
                None => "silence".to_owned(),
            };
        }
    }
}

/// The whole contract.
pub async fn keeps_the_contract(backend: &dyn Backend) {
    assert_eq!(backend.availability(), Availability::Available);
    turns_run_one_at_a_time(backend).await;
    an_interrupt_ends_its_turn_alone(backend).await;
    an_answer_reaches_the_turn_that_waits(backend).await;
    a_stop_waits_for_the_turn(backend).await;
    a_kill_does_not_wait(backend).await;
    a_crash_is_the_end_of_the_agent_alone(backend).await;
    a_dropped_session_is_silent(backend).await;
}

async fn turns_run_one_at_a_time(backend: &dyn Backend) {
    let mut bench = Bench::start(backend).await;
    assert!(!bench.session.is_active());
    bench.turn(1, "hang").unwrap();
    assert!(bench.session.is_active());
    let busy = bench.turn(2, "say hello").unwrap_err();
    assert_eq!(busy.to_string(), "start turn t2: the agent is in turn t1");
    bench.session.interrupt(TurnId(1));
    assert_eq!(bench.signal().await, "t1 Interrupted");
    // Whoever hears of a turn's end may start the next at once.
    assert!(!bench.session.is_active());
    bench.turn(2, "say hello").unwrap();
    assert_eq!(bench.signal().await, "t2 done: hello");
    let over = bench.session.deliver(TurnId(2), "mail".to_owned()).unwrap_err();
    assert_eq!(over.to_string(), "reach turn t2: it is over");
}

async fn an_interrupt_ends_its_turn_alone(backend: &dyn Backend) {
    let mut bench = Bench::start(backend).await;
    bench.session.interrupt(TurnId(1));
    bench.turn(1, "say hello").unwrap();
    assert_eq!(bench.signal().await, "t1 done: hello");
    bench.turn(2, "hang").unwrap();
    // A late interrupt of a turn that is over ends nothing.
    bench.session.interrupt(TurnId(1));
    assert!(bench.session.is_active());
    bench.session.interrupt(TurnId(2));
    assert_eq!(bench.signal().await, "t2 Interrupted");
}

async fn an_answer_reaches_the_turn_that_waits(backend: &dyn Backend) {
    let mut bench = Bench::start(backend).await;
    bench.turn(1, "work").unwrap();
    let request = bench.requests.next().await.unwrap();
    let deny = || Decision::Deny { reason: "denied".to_owned() };
    let late = bench.session.answer(TurnId(9), request, deny()).unwrap_err();
    assert_eq!(late.to_string(), "reach turn t9: it is over");
    bench.session.answer(TurnId(1), request, deny()).unwrap();
    assert_eq!(bench.signal().await, "t1 done: work: denied");
}

async fn a_stop_waits_for_the_turn(backend: &dyn Backend) {
    let mut bench = Bench::start(backend).await;
    bench.turn(1, "work").unwrap();
    let request = bench.requests.next().await.unwrap();
    bench.session.stop("asked to leave");
    assert!(bench.session.is_active());
    let deny = Decision::Deny { reason: "denied".to_owned() };
    bench.session.answer(TurnId(1), request, deny).unwrap();
    assert_eq!(bench.signal().await, "t1 done: work: denied");
    assert_eq!(bench.signal().await, "exited: asked to leave");
    assert!(matches!(bench.turn(2, "say hello"), Err(BackendError::Gone)));

    let mut bench = Bench::start(backend).await;
    bench.session.stop("asked to leave");
    assert_eq!(bench.signal().await, "exited: asked to leave");
    bench.session.stop("again");
    bench.session.kill();
    drop(bench.session);
    assert_eq!(bench.signals.recv().await.map(|_| ()), None);
}

async fn a_kill_does_not_wait(backend: &dyn Backend) {
    let mut bench = Bench::start(backend).await;
    bench.turn(1, "hang").unwrap();
    bench.session.kill();
    assert_eq!(bench.signal().await, "exited: killed");
    assert!(!bench.session.is_active());
    assert!(matches!(bench.turn(2, "say hello"), Err(BackendError::Gone)));

    let mut bench = Bench::start(backend).await;
    bench.session.kill();
    assert_eq!(bench.signal().await, "exited: killed");
}

async fn a_crash_is_the_end_of_the_agent_alone(backend: &dyn Backend) {
    let mut other = Bench::start(backend).await;
    let mut bench = Bench::start(backend).await;
    bench.turn(1, "crash").unwrap();
    let exited = bench.signal().await;
    assert!(exited.starts_with("exited: ") && exited.len() > 10, "{exited}");
    assert!(matches!(bench.turn(2, "say hello"), Err(BackendError::Gone)));
    other.turn(1, "say hello").unwrap();
    assert_eq!(other.signal().await, "t1 done: hello");
}

async fn a_dropped_session_is_silent(backend: &dyn Backend) {
    let mut bench = Bench::start(backend).await;
    bench.turn(1, "hang").unwrap();
    drop(bench.session);
    // Either word is the last one.
    if let Some(signal) = bench.signals.recv().await {
        assert!(matches!(*signal, Signal::Exited { .. }), "{signal:?}");
        assert!(bench.signals.recv().await.is_none());
    }
}
