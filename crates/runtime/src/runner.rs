//! Runs one agent for its team: orders go in, signals become commands; it never decides.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use aion_backends::{
    AgentSession, Backend, BackendError, Signal, SpawnSpec, TurnInput, panic_text,
};
use aion_core::command::{Caller, Command};
use aion_core::id::{RequestId, SlotId, TurnId};
use aion_core::request::Decision;
use aion_core::time::Millis;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::handle::{SubmitError, TeamHandle};
use aion_store::failpoint;

/// Orders that may wait for a runner; one more means that it has failed.
const ORDERS: usize = 16;
/// Signals that may wait for a runner; then the backend waits.
const SIGNALS: usize = 16;
/// How long an ending runner is waited for before it is cut off.
pub(crate) const GRACE: Millis = Millis(5_000);
/// The wait after a command could not be stored; it doubles up to the longest.
const RETRY: Millis = Millis(100);
const LONGEST_RETRY: Millis = Millis(5_000);

/// Whether the team is told that the agent is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announce {
    /// It was registered, and waits for it.
    Yes,
    /// It is ready for the team already; only its process has to come back.
    No,
}

/// What a session tells a runner.
#[derive(Debug)]
pub(crate) enum Order {
    Turn(Box<TurnInput>),
    Answer { turn: TurnId, request: RequestId, decision: Box<Decision> },
    Interrupt(TurnId),
    Stop,
}

/// A runner, as its session holds it. Dropping it kills the agent.
#[derive(Debug)]
pub(crate) struct RunnerHandle {
    generation: u32,
    model: Option<String>,
    orders: mpsc::Sender<Box<Order>>,
    task: JoinHandle<()>,
    kill: DropGuard,
}

impl RunnerHandle {
    pub(crate) fn spawn(
        handle: TeamHandle,
        backend: Arc<dyn Backend>,
        spec: SpawnSpec,
        announce: Announce,
        tasks: &TaskTracker,
    ) -> Self {
        let kill = CancellationToken::new();
        let (orders, inbox) = mpsc::channel(ORDERS);
        let (generation, model) = (spec.generation, spec.model.clone());
        let runner = Runner {
            slot: spec.slot,
            generation,
            ready: false,
            announce,
            handle,
            orders: inbox,
            kill: kill.clone(),
            early: VecDeque::new(),
            report: None,
        };
        let task = tasks.spawn(runner.run(backend, spec));
        Self { generation, model, orders, task, kill: kill.drop_guard() }
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    pub(crate) fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Hands over an order without waiting; false means that the runner has failed. One whose agent
    /// is gone needs no orders: it is about to say so.
    pub(crate) fn order(&self, order: Order) -> bool {
        !matches!(self.orders.try_send(Box::new(order)), Err(TrySendError::Full(_)))
    }

    /// Kills the agent and waits until the runner is done with it.
    pub(crate) async fn end(self, clock: &dyn Clock) {
        let Self { kill, mut task, .. } = self;
        drop(kill);
        tokio::select! {
            _ = &mut task => {}
            () = clock.sleep_until(Millis(clock.monotonic().0 + GRACE.0)) => task.abort(),
        }
    }
}

/// The task of one agent.
struct Runner {
    slot: SlotId,
    generation: u32,
    announce: Announce,
    ready: bool,
    handle: TeamHandle,
    orders: mpsc::Receiver<Box<Order>>,
    kill: CancellationToken,
    /// Orders that came before the agent was ready.
    early: VecDeque<Order>,
    /// The command that is being submitted; signals wait for it, orders do not.
    report: Option<BoxFuture<'static, ()>>,
}

/// Whether the runner goes on.
enum Next {
    On,
    /// The agent is gone, for this reason; none means that nobody needs to know.
    Over(Option<String>),
    /// The same, as an order found it: its last words may still be on their way.
    Gone(String),
}

impl Runner {
    async fn run(mut self, backend: Arc<dyn Backend>, spec: SpawnSpec) {
        let kill = self.kill.clone();
        let (sender, mut signals) = mpsc::channel(SIGNALS);
        let driven = AssertUnwindSafe(self.drive(&*backend, spec, sender, &mut signals));
        let cause = tokio::select! {
            biased;
            () = kill.cancelled() => None,
            // A panic of the agent's code in this task is the agent's end, not ours.
            cause = driven.catch_unwind() => {
                cause.unwrap_or_else(|panic| Some(format!("it panicked: {}", panic_text(&*panic))))
            }
        };
        // From here on orders are refused, not kept.
        self.orders.close();
        if kill.is_cancelled() {
            let clock = Arc::clone(&self.handle.shared().house.clock);
            see_dead(clock, &mut signals).await;
        } else if let Some(cause) = cause {
            let Self { slot, generation, handle, mut report, .. } = self;
            let exited = Command::AgentExited { slot, generation, cause };
            let last = async {
                // The end of a turn is not made a loss by the word that the agent is gone.
                if report.is_some() {
                    wait(&mut report).await;
                }
                submit(handle, exited).await;
            };
            tokio::select! {
                () = kill.cancelled() => {}
                () = last => {}
            }
        }
    }

    /// Starts the agent and serves it until it is gone; answers why, if the team has to know.
    async fn drive(
        &mut self,
        backend: &dyn Backend,
        spec: SpawnSpec,
        sender: mpsc::Sender<Box<Signal>>,
        signals: &mut mpsc::Receiver<Box<Signal>>,
    ) -> Option<String> {
        let mut agent = match Box::pin(self.start(backend, spec, sender)).await {
            Ok(agent) => Killed(agent),
            Err(cause) => return Some(cause),
        };
        loop {
            let next = tokio::select! {
                biased;
                () = wait(&mut self.report) => { self.report = None; Next::On }
                order = self.orders.recv() => match order {
                    Some(order) => self.order(&mut *agent.0, *order),
                    None => Next::Over(None),
                },
                signal = signals.recv(), if self.report.is_none() => match signal {
                    Some(signal) => self.signal(&mut *agent.0, *signal),
                    None => Next::Over(Some("it vanished without a word".to_owned())),
                },
            };
            match next {
                Next::On => {}
                Next::Over(cause) => return cause,
                Next::Gone(cause) => {
                    self.hear_out(signals).await;
                    return Some(cause);
                }
            }
        }
    }

    /// Takes the last words of an agent that is gone, up to the one that it is.
    async fn hear_out(&mut self, signals: &mut mpsc::Receiver<Box<Signal>>) {
        let clock = Arc::clone(&self.handle.shared().house.clock);
        let mut patience = clock.sleep_until(Millis(clock.monotonic().0 + GRACE.0));
        loop {
            if self.report.is_some() {
                wait(&mut self.report).await;
                self.report = None;
            }
            let signal = tokio::select! {
                biased;
                signal = signals.recv() => signal,
                () = &mut patience => None,
            };
            match signal.map(|signal| *signal) {
                Some(Signal::TurnEnded { turn, outcome, usage }) => {
                    self.report(Command::EndTurn { turn, outcome, usage });
                }
                Some(Signal::UsageReported(usage)) => {
                    self.report(Command::RecordUsage { slot: self.slot, usage });
                }
                Some(Signal::Ready | Signal::Delta { .. }) => {}
                Some(Signal::Exited { .. }) | None => return,
            }
        }
    }

    /// Starts the agent. Orders that arrive meanwhile are kept; a stop is obeyed.
    async fn start(
        &mut self,
        backend: &dyn Backend,
        spec: SpawnSpec,
        signals: mpsc::Sender<Box<Signal>>,
    ) -> Result<Box<dyn AgentSession>, String> {
        let mut starting = backend.spawn(spec, signals);
        loop {
            tokio::select! {
                biased;
                started = &mut starting => return started.map_err(|error| error.to_string()),
                order = self.orders.recv() => match order.map(|order| *order) {
                    Some(Order::Stop) | None => return Err("it was stopped while it started".into()),
                    Some(_) if self.early.len() == ORDERS => {
                        return Err("it did not start".to_owned());
                    }
                    Some(order) => self.early.push_back(order),
                },
            }
        }
    }

    fn order(&mut self, agent: &mut dyn AgentSession, order: Order) -> Next {
        if !self.ready && !matches!(order, Order::Stop) {
            if self.early.len() == ORDERS {
                return Next::Over(Some("it did not become ready".to_owned()));
            }
            self.early.push_back(order);
            return Next::On;
        }
        let obeyed = match order {
            Order::Turn(input) => agent.start_turn(*input),
            Order::Answer { turn, request, decision } => agent.answer(turn, request, *decision),
            Order::Interrupt(turn) => {
                agent.interrupt(turn);
                Ok(())
            }
            Order::Stop => {
                agent.stop("the team has let it go");
                Ok(())
            }
        };
        match obeyed {
            // The turn is over: its end is on its way to the team.
            Ok(()) | Err(BackendError::NotInTurn(_)) => Next::On,
            Err(error @ BackendError::Gone) => Next::Gone(error.to_string()),
            Err(error @ (BackendError::Spawn(_) | BackendError::Busy { .. })) => {
                Next::Over(Some(error.to_string()))
            }
        }
    }

    fn signal(&mut self, agent: &mut dyn AgentSession, signal: Signal) -> Next {
        let (slot, generation) = (self.slot, self.generation);
        match signal {
            Signal::Ready => {
                self.ready = true;
                if self.announce == Announce::Yes {
                    self.report(Command::AgentReady { slot, generation });
                }
                while let Some(order) = self.early.pop_front() {
                    match self.order(agent, order) {
                        Next::On => {}
                        over @ (Next::Over(_) | Next::Gone(_)) => return over,
                    }
                }
            }
            Signal::Delta { turn, delta } => {
                self.handle.shared().bus.delta(slot, turn, delta);
            }
            Signal::UsageReported(usage) => self.report(Command::RecordUsage { slot, usage }),
            Signal::TurnEnded { turn, outcome, usage } => {
                failpoint::hit("runner.before_end_turn");
                self.report(Command::EndTurn { turn, outcome, usage });
            }
            Signal::Exited { cause } => return Next::Over(Some(cause)),
        }
        Next::On
    }

    fn report(&mut self, command: Command) {
        self.report = Some(Box::pin(submit(self.handle.clone(), command)));
    }
}

/// An agent that is killed when its runner is done, however that comes.
struct Killed(Box<dyn AgentSession>);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill();
    }
}

/// Waits until an agent that was killed is gone, so that nothing of it writes any more.
async fn see_dead(clock: Arc<dyn Clock>, signals: &mut mpsc::Receiver<Box<Signal>>) {
    let mut patience = clock.sleep_until(Millis(clock.monotonic().0 + GRACE.0));
    loop {
        let signal = tokio::select! {
            biased;
            signal = signals.recv() => signal,
            () = &mut patience => None,
        };
        if matches!(signal.as_deref(), None | Some(Signal::Exited { .. })) {
            return;
        }
    }
}

async fn wait(report: &mut Option<BoxFuture<'static, ()>>) {
    match report {
        Some(report) => report.await,
        None => std::future::pending().await,
    }
}

/// Submits a command of the shell until it is decided or the team is closed: what an agent did must
/// not be forgotten because a disk was full for a moment.
async fn submit(handle: TeamHandle, command: Command) {
    let mut pause = RETRY;
    loop {
        match handle.submit(Caller::System, None, command.clone()).await {
            // A refusal says that the team knows better: the turn or the start is over.
            Ok(_) | Err(SubmitError::Rejected(_) | SubmitError::Closed) => return,
            Err(SubmitError::Unavailable(_)) => {}
        }
        let clock = &handle.shared().house.clock;
        clock.sleep_until(Millis(clock.monotonic().0 + pause.0)).await;
        pause = Millis((pause.0 * 2).min(LONGEST_RETRY.0));
    }
}
