//! A backend whose agents only note when a turn reaches them; it calls no model.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use aion_backends::{
    AgentSession, Availability, Backend, BackendError, BackendKind, Signal, SpawnSpec, TurnInput,
};
use aion_core::id::{RequestId, SlotId, TurnId};
use aion_core::request::Decision;
use aion_core::turn::TurnOutcome;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use tokio::sync::mpsc;

/// A turn has reached its agent.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) slot: SlotId,
    pub(crate) at: Instant,
}

/// When a turn ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// At once.
    AtOnce,
    /// When somebody else ends it.
    ByOthers,
}

/// The backend.
#[derive(Debug)]
pub(crate) struct Sink {
    ending: Ending,
    held: Option<mpsc::UnboundedSender<Held>>,
}

impl Sink {
    /// Nobody hears of the turns.
    pub(crate) fn silent(ending: Ending) -> Arc<Self> {
        Arc::new(Self { ending, held: None })
    }

    /// Every turn is told.
    pub(crate) fn told(ending: Ending) -> (Arc<Self>, mpsc::UnboundedReceiver<Held>) {
        let (sender, held) = mpsc::unbounded_channel();
        (Arc::new(Self { ending, held: Some(sender) }), held)
    }
}

impl Backend for Sink {
    fn kind(&self) -> BackendKind {
        BackendKind::InProcess
    }

    fn availability(&self) -> Availability {
        Availability::Available
    }

    fn resumes_turns(&self) -> bool {
        true
    }

    fn spawn(
        &self,
        spec: SpawnSpec,
        signals: mpsc::Sender<Box<Signal>>,
    ) -> BoxFuture<'_, Result<Box<dyn AgentSession>, BackendError>> {
        // The channel is new: it has room.
        let _ = signals.try_send(Box::new(Signal::Ready));
        let session =
            SinkSession { slot: spec.slot, ending: self.ending, held: self.held.clone(), signals };
        ready(Ok(Box::new(session) as Box<dyn AgentSession>)).boxed()
    }
}

struct SinkSession {
    slot: SlotId,
    ending: Ending,
    held: Option<mpsc::UnboundedSender<Held>>,
    signals: mpsc::Sender<Box<Signal>>,
}

impl fmt::Debug for SinkSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkSession").field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl AgentSession for SinkSession {
    fn start_turn(&mut self, input: TurnInput) -> Result<(), BackendError> {
        let turn = input.turn;
        if let Some(held) = &self.held {
            let at = Instant::now();
            // Whoever measured may be done.
            let _ = held.send(Held { slot: self.slot, at });
        }
        match self.ending {
            Ending::AtOnce => {
                let outcome = TurnOutcome::Done { last_text: None };
                self.signals
                    .try_send(Box::new(Signal::TurnEnded { turn, outcome, usage: None }))
                    .map_err(|_| BackendError::Gone)
            }
            Ending::ByOthers => Ok(()),
        }
    }

    fn deliver(&mut self, turn: TurnId, _: String) -> Result<(), BackendError> {
        Err(BackendError::NotInTurn(turn))
    }

    fn answer(&mut self, turn: TurnId, _: RequestId, _: Decision) -> Result<(), BackendError> {
        Err(BackendError::NotInTurn(turn))
    }

    fn interrupt(&mut self, _: TurnId) {}

    fn stop(&mut self, reason: &str) {
        // Nobody may listen any more.
        let _ = self.signals.try_send(Box::new(Signal::Exited { cause: reason.to_owned() }));
    }

    fn kill(&mut self) {}

    fn is_active(&self) -> bool {
        false
    }
}
