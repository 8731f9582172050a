//! One agent of this process between and in its turns; what a turn does is the runtime's.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aion_agent::identity::{Identity, spawn_as};
use aion_agent::runtime::{AgentRuntime, Controls, TurnEnd, TurnInput};
use aion_core::id::{RequestId, TurnId};
use aion_core::message::shorten;
use aion_core::request::Decision;
use futures::FutureExt;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{AgentSession, BackendError, Signal};

/// The most bytes of what is said of a crash.
const CAUSE_BYTES: usize = 1024;

/// What a session and its turn's task share.
#[derive(Debug)]
struct Agent {
    runtime: AgentRuntime,
    signals: mpsc::Sender<Box<Signal>>,
    life: Mutex<Life>,
}

/// Where the agent stands.
#[derive(Debug)]
enum Life {
    /// Between two turns.
    Idle,
    /// In a turn.
    InTurn {
        turn: TurnId,
        controls: Arc<Controls>,
        kill: CancellationToken,
        /// Why the agent ends after this turn, if it does.
        stopping: Option<String>,
    },
    /// Ended; it has said so.
    Gone,
}

/// A live agent in this process.
#[derive(Debug)]
pub(super) struct InProcessSession {
    identity: Identity,
    agent: Arc<Agent>,
}

impl InProcessSession {
    pub(super) fn new(
        identity: Identity,
        runtime: AgentRuntime,
        signals: mpsc::Sender<Box<Signal>>,
    ) -> Self {
        let life = Mutex::new(Life::Idle);
        Self { identity, agent: Arc::new(Agent { runtime, signals, life }) }
    }

    /// Ends an agent that is in no turn.
    fn end_idle(&self, life: &mut Life, cause: String) {
        *life = Life::Gone;
        if self.agent.runtime.tools.is_busy() {
            let agent = Arc::clone(&self.agent);
            spawn_as(self.identity.clone(), async move {
                // Whoever hears that it is gone takes its processes for gone, too.
                agent.runtime.tools.quiet().await;
                agent.report(Signal::Exited { cause }).await;
            });
            return;
        }
        self.agent.report_later(&self.identity, Signal::Exited { cause });
    }
}

impl AgentSession for InProcessSession {
    fn start_turn(&mut self, input: TurnInput) -> Result<(), BackendError> {
        let mut life = self.agent.life();
        match &*life {
            Life::Idle => {}
            Life::InTurn { turn, .. } => {
                return Err(BackendError::Busy { running: *turn, refused: input.turn });
            }
            Life::Gone => return Err(BackendError::Gone),
        }
        let (controls, kill) = (Arc::new(Controls::default()), CancellationToken::new());
        *life = Life::InTurn {
            turn: input.turn,
            controls: Arc::clone(&controls),
            kill: kill.clone(),
            stopping: None,
        };
        drop(life);
        let agent = Arc::clone(&self.agent);
        spawn_as(self.identity.clone(), Box::pin(run_turn(agent, input, controls, kill)));
        Ok(())
    }

    fn deliver(&mut self, turn: TurnId, text: String) -> Result<(), BackendError> {
        let taken = self.agent.in_turn(turn, |controls| controls.deliver(text))?;
        if taken { Ok(()) } else { Err(BackendError::NotInTurn(turn)) }
    }

    fn answer(
        &mut self,
        turn: TurnId,
        request: RequestId,
        decision: Decision,
    ) -> Result<(), BackendError> {
        self.agent.in_turn(turn, |controls| controls.answers.put(request, decision))
    }

    fn interrupt(&mut self, turn: TurnId) {
        // A turn that has ended already needs no interrupt.
        let _ = self.agent.in_turn(turn, |controls| controls.interrupt.cancel());
    }

    fn stop(&mut self, reason: &str) {
        let mut life = self.agent.life();
        match &mut *life {
            Life::Idle => self.end_idle(&mut life, reason.to_owned()),
            Life::InTurn { stopping, .. } => *stopping = Some(reason.to_owned()),
            Life::Gone => {}
        }
    }

    fn kill(&mut self) {
        let mut life = self.agent.life();
        match &*life {
            Life::Idle => self.end_idle(&mut life, "killed".to_owned()),
            Life::InTurn { kill, .. } => kill.cancel(),
            Life::Gone => {}
        }
    }

    fn is_active(&self) -> bool {
        matches!(*self.agent.life(), Life::InTurn { .. })
    }
}

/// A session that is let go takes its turn with it: nobody is left to hear of it.
impl Drop for InProcessSession {
    fn drop(&mut self) {
        if let Life::InTurn { kill, .. } = &*self.agent.life() {
            kill.cancel();
        }
    }
}

impl Agent {
    fn life(&self) -> MutexGuard<'_, Life> {
        // Every change of it is one assignment.
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_turn<T>(
        &self,
        turn: TurnId,
        act: impl FnOnce(&Controls) -> T,
    ) -> Result<T, BackendError> {
        match &*self.life() {
            Life::InTurn { turn: running, controls, .. } if *running == turn => Ok(act(controls)),
            Life::InTurn { .. } | Life::Idle => Err(BackendError::NotInTurn(turn)),
            Life::Gone => Err(BackendError::Gone),
        }
    }

    /// Reports without waiting; where there is no room a task waits.
    fn report_later(self: &Arc<Self>, identity: &Identity, signal: Signal) {
        if let Err(mpsc::error::TrySendError::Full(signal)) =
            self.signals.try_send(Box::new(signal))
        {
            let agent = Arc::clone(self);
            spawn_as(identity.clone(), async move { agent.report(*signal).await });
        }
    }

    /// Reports. That nobody listens any more is not the agent's concern.
    async fn report(&self, signal: Signal) {
        let _ = self.signals.send(Box::new(signal)).await;
    }

    /// The turn is over; says why the agent ends with it, if it does.
    fn leave_turn(&self, crash: Option<String>) -> Option<String> {
        let mut life = self.life();
        let stopping = match &mut *life {
            Life::InTurn { stopping, .. } => stopping.take(),
            Life::Idle | Life::Gone => None,
        };
        let cause = crash.or(stopping);
        *life = if cause.is_some() { Life::Gone } else { Life::Idle };
        cause
    }
}

/// The task of one turn.
async fn run_turn(
    agent: Arc<Agent>,
    input: TurnInput,
    controls: Arc<Controls>,
    kill: CancellationToken,
) {
    let turn = input.turn;
    let running = AssertUnwindSafe(agent.runtime.run(input, &controls)).catch_unwind();
    // The turn's future is dropped here when the agent is killed, and its processes with it.
    let end = tokio::select! {
        biased;
        () = kill.cancelled() => None,
        end = running => Some(end),
    };
    let (ended, crash) = match end {
        Some(Ok(TurnEnd::Ended { outcome, usage })) => {
            (Some(Signal::TurnEnded { turn, outcome, usage }), None)
        }
        Some(Ok(TurnEnd::Over)) => (None, None),
        Some(Err(panic)) => {
            (None, Some(shorten(&format!("panicked: {}", panic_text(&*panic)), CAUSE_BYTES)))
        }
        None => (None, Some("killed".to_owned())),
    };
    if ended.is_none() {
        // Whoever hears that it is gone takes its processes for gone, too.
        agent.runtime.tools.quiet().await;
    }
    // Idle before the report: whoever hears of the end may start the next turn.
    let cause = agent.leave_turn(crash);
    if let Some(ended) = ended {
        agent.report(ended).await;
    }
    if let Some(cause) = cause {
        agent.runtime.tools.quiet().await;
        agent.report(Signal::Exited { cause }).await;
    }
}

/// What a panic said.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}
