//! A backend whose agents do what a test says, step by step; it has no model and no process.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use aion_agent::host::Host;
use aion_backends::{
    AgentSession, Availability, Backend, BackendError, BackendKind, Connection, Signal, SpawnSpec,
    TurnInput,
};
use aion_core::budget::Usage;
use aion_core::id::{AgentName, RequestId, SlotId, TurnId};
use aion_core::request::Decision;
use aion_core::turn::TurnOutcome;
use futures::future::BoxFuture;
use tokio::sync::mpsc;

/// The backend. Everything it is told appears on its [`Stage`].
#[derive(Debug)]
pub struct StandIn {
    seen: mpsc::UnboundedSender<Seen>,
    ready: AtomicBool,
    resumes: AtomicBool,
    refuse: Mutex<Option<String>>,
    block: Arc<AtomicBool>,
    gone: Arc<AtomicBool>,
    lingers: Arc<AtomicBool>,
    connects: AtomicBool,
}

/// What the backend was told.
#[derive(Debug)]
pub enum Seen {
    /// To start an agent.
    Spawned(StandInAgent),
    /// To run a turn.
    Turn(StandInAgent, TurnInput),
    /// To take mail in the middle of a turn.
    Delivered(SlotId, TurnId, String),
    /// To take a decision.
    Answered(SlotId, RequestId, Decision),
    /// To end a turn.
    Interrupted(SlotId, TurnId),
    /// To end an agent.
    Stopped(SlotId),
    /// To kill an agent.
    Killed(SlotId),
}

/// Where a test sees what the backend was told.
#[derive(Debug)]
pub struct Stage {
    seen: mpsc::UnboundedReceiver<Seen>,
}

impl StandIn {
    /// A backend whose agents are ready at once and whose turns can be taken up again.
    #[must_use]
    pub fn new() -> (Arc<Self>, Stage) {
        let (sender, seen) = mpsc::unbounded_channel();
        let backend = Self {
            seen: sender,
            ready: AtomicBool::new(true),
            resumes: AtomicBool::new(true),
            refuse: Mutex::new(None),
            block: Arc::default(),
            gone: Arc::default(),
            lingers: Arc::default(),
            connects: AtomicBool::new(false),
        };
        (Arc::new(backend), Stage { seen })
    }

    /// Whether agents report ready by themselves.
    pub fn ready_at_once(&self, ready: bool) {
        self.ready.store(ready, Ordering::SeqCst);
    }

    /// Whether live turns can be taken up again.
    pub fn resumes(&self, resumes: bool) {
        self.resumes.store(resumes, Ordering::SeqCst);
    }

    /// Refuses to start agents, for a reason.
    pub fn refuse(&self, reason: Option<&str>) {
        *self.refuse.lock().unwrap_or_else(PoisonError::into_inner) = reason.map(str::to_owned);
    }

    /// Lets calls that can fail find their agent gone.
    pub fn gone(&self, gone: bool) {
        self.gone.store(gone, Ordering::SeqCst);
    }

    /// Whether an agent that is killed is gone only when the test lets it exit.
    pub fn lingers(&self, lingers: bool) {
        self.lingers.store(lingers, Ordering::SeqCst);
    }

    /// Whether its agents reach the team over connections.
    pub fn connects(&self, connects: bool) {
        self.connects.store(connects, Ordering::SeqCst);
    }

    /// Lets every call of an agent hang until it is let go. Needs a runtime with several threads.
    pub fn block(&self, block: bool) {
        self.block.store(block, Ordering::SeqCst);
    }
}

impl Stage {
    /// The next thing that the backend was told.
    ///
    /// # Panics
    /// When the backend is gone.
    pub async fn next(&mut self) -> Seen {
        self.seen.recv().await.unwrap_or_else(|| panic!("the backend is gone"))
    }

    /// What it was told already, without waiting.
    pub fn try_next(&mut self) -> Option<Seen> {
        self.seen.try_recv().ok()
    }

    /// The next turn; everything before it is passed over.
    pub async fn turn(&mut self) -> (StandInAgent, TurnInput) {
        loop {
            if let Seen::Turn(agent, input) = self.next().await {
                return (agent, input);
            }
        }
    }

    /// The next start of an agent; everything before it is passed over.
    pub async fn spawned(&mut self) -> StandInAgent {
        loop {
            if let Seen::Spawned(agent) = self.next().await {
                return agent;
            }
        }
    }
}

/// An agent in the test's hands.
#[derive(Clone)]
pub struct StandInAgent {
    /// Its place.
    pub slot: SlotId,
    /// Its name.
    pub name: AgentName,
    /// Which start of it.
    pub generation: u32,
    /// The house around it.
    pub host: Arc<dyn Host>,
    /// Its way to the team, where it was given one.
    pub connection: Option<Box<Connection>>,
    signals: mpsc::Sender<Box<Signal>>,
}

impl fmt::Debug for StandInAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.name, self.generation)
    }
}

impl StandInAgent {
    /// Reports. That nobody listens any more is no fault of the agent.
    pub async fn report(&self, signal: Signal) {
        let _ = self.signals.send(Box::new(signal)).await;
    }

    /// Ends a turn.
    pub async fn end(&self, turn: TurnId, outcome: TurnOutcome) {
        self.report(Signal::TurnEnded { turn, outcome, usage: None }).await;
    }

    /// Ends a turn by itself, with a last text.
    pub async fn done(&self, turn: TurnId, last_text: &str) {
        self.end(turn, TurnOutcome::Done { last_text: Some(last_text.to_owned()) }).await;
    }

    /// The same, with what its last model call used.
    pub async fn done_using(&self, turn: TurnId, usage: Usage) {
        let outcome = TurnOutcome::Done { last_text: None };
        self.report(Signal::TurnEnded { turn, outcome, usage: Some(usage) }).await;
    }

    /// Dies.
    pub async fn exit(&self, cause: &str) {
        self.report(Signal::Exited { cause: cause.to_owned() }).await;
    }
}

impl Backend for StandIn {
    fn kind(&self) -> BackendKind {
        BackendKind::InProcess
    }

    fn availability(&self) -> Availability {
        Availability::Available
    }

    fn resumes_turns(&self) -> bool {
        self.resumes.load(Ordering::SeqCst)
    }

    fn connects(&self) -> bool {
        self.connects.load(Ordering::SeqCst)
    }

    fn spawn(
        &self,
        spec: SpawnSpec,
        signals: mpsc::Sender<Box<Signal>>,
    ) -> BoxFuture<'_, Result<Box<dyn AgentSession>, BackendError>> {
        Box::pin(async move {
            let refused = self.refuse.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(reason) = refused {
                return Err(BackendError::Spawn(reason));
            }
            let SpawnSpec { slot, name, generation, host, connection, .. } = spec;
            let agent = StandInAgent { slot, name, generation, host, connection, signals };
            let _ = self.seen.send(Seen::Spawned(agent.clone()));
            if self.ready.load(Ordering::SeqCst) {
                agent.report(Signal::Ready).await;
            }
            let session = StandInSession {
                agent,
                seen: self.seen.clone(),
                turn: None,
                block: Arc::clone(&self.block),
                gone: Arc::clone(&self.gone),
                lingers: Arc::clone(&self.lingers),
            };
            Ok(Box::new(session) as Box<dyn AgentSession>)
        })
    }
}

#[derive(Debug)]
struct StandInSession {
    agent: StandInAgent,
    seen: mpsc::UnboundedSender<Seen>,
    turn: Option<TurnId>,
    block: Arc<AtomicBool>,
    gone: Arc<AtomicBool>,
    lingers: Arc<AtomicBool>,
}

impl StandInSession {
    fn is_there(&self) -> Result<(), BackendError> {
        if self.gone.load(Ordering::SeqCst) { Err(BackendError::Gone) } else { Ok(()) }
    }

    fn say(&self, seen: Seen) {
        // A test that has ended looks at nothing any more.
        let _ = self.seen.send(seen);
        while self.block.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    }
}

impl AgentSession for StandInSession {
    fn start_turn(&mut self, input: TurnInput) -> Result<(), BackendError> {
        self.is_there()?;
        self.turn = Some(input.turn);
        self.say(Seen::Turn(self.agent.clone(), input));
        Ok(())
    }

    fn deliver(&mut self, turn: TurnId, text: String) -> Result<(), BackendError> {
        self.is_there()?;
        self.say(Seen::Delivered(self.agent.slot, turn, text));
        Ok(())
    }

    fn answer(
        &mut self,
        _: TurnId,
        request: RequestId,
        decision: Decision,
    ) -> Result<(), BackendError> {
        self.is_there()?;
        self.say(Seen::Answered(self.agent.slot, request, decision));
        Ok(())
    }

    fn interrupt(&mut self, turn: TurnId) {
        self.say(Seen::Interrupted(self.agent.slot, turn));
    }

    fn stop(&mut self, _: &str) {
        self.say(Seen::Stopped(self.agent.slot));
    }

    fn kill(&mut self) {
        let _ = self.seen.send(Seen::Killed(self.agent.slot));
        if !self.lingers.load(Ordering::SeqCst) {
            let exited = Signal::Exited { cause: "killed".to_owned() };
            let _ = self.agent.signals.try_send(Box::new(exited));
        }
    }

    fn is_active(&self) -> bool {
        self.turn.is_some()
    }
}
