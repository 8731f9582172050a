//! One live agent as its runner holds it; every call returns at once, and its seat does the rest.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aion_agent::runtime::TurnInput;
use aion_core::id::{RequestId, TurnId};
use aion_core::request::Decision;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::seat::Order;
use crate::{AgentSession, BackendError};

/// A live agent.
#[derive(Debug)]
pub(super) struct AcpSession {
    shared: Arc<Shared>,
    orders: mpsc::Sender<Order>,
}

/// What a session and its seat share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    life: Mutex<Life>,
    leave: CancellationToken,
    kill: CancellationToken,
}

#[derive(Debug, Default)]
struct Life {
    stage: Stage,
    /// Why it is to leave, once it is.
    reason: String,
}

/// Where the agent stands.
#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    #[default]
    Idle,
    InTurn(TurnId),
    /// Gone, or about to say so.
    Gone,
}

impl AcpSession {
    pub(super) fn new(shared: Arc<Shared>, orders: mpsc::Sender<Order>) -> Self {
        Self { shared, orders }
    }

    fn in_turn(&self, turn: TurnId, order: Order) -> Result<(), BackendError> {
        match self.shared.life().stage {
            Stage::InTurn(running) if running == turn => self.order(order),
            Stage::InTurn(_) | Stage::Idle => Err(BackendError::NotInTurn(turn)),
            Stage::Gone => Err(BackendError::Gone),
        }
    }

    /// Hands over an order. A seat that does not take its orders is as good as gone.
    fn order(&self, order: Order) -> Result<(), BackendError> {
        self.orders.try_send(order).map_err(|_| BackendError::Gone)
    }
}

impl AgentSession for AcpSession {
    fn start_turn(&mut self, input: TurnInput) -> Result<(), BackendError> {
        let mut life = self.shared.life();
        match life.stage {
            Stage::Idle => {}
            Stage::InTurn(running) => {
                return Err(BackendError::Busy { running, refused: input.turn });
            }
            Stage::Gone => return Err(BackendError::Gone),
        }
        life.stage = Stage::InTurn(input.turn);
        self.order(Order::Turn(Box::new(input)))
    }

    fn deliver(&mut self, turn: TurnId, text: String) -> Result<(), BackendError> {
        self.in_turn(turn, Order::Deliver(text))
    }

    fn answer(
        &mut self,
        turn: TurnId,
        request: RequestId,
        _: Decision,
    ) -> Result<(), BackendError> {
        // What was decided is asked of the house, which journals it.
        self.in_turn(turn, Order::Answer(request))
    }

    fn interrupt(&mut self, turn: TurnId) {
        // A turn that has ended already needs no interrupt.
        let _ = self.in_turn(turn, Order::Interrupt);
    }

    fn stop(&mut self, reason: &str) {
        let mut life = self.shared.life();
        if !self.shared.leave.is_cancelled() {
            reason.clone_into(&mut life.reason);
            self.shared.leave.cancel();
        }
    }

    fn kill(&mut self) {
        self.shared.kill.cancel();
    }

    fn is_active(&self) -> bool {
        matches!(self.shared.life().stage, Stage::InTurn(_))
    }
}

/// A session that is let go takes its agent with it: nobody is left to hear of it.
impl Drop for AcpSession {
    fn drop(&mut self) {
        self.shared.kill.cancel();
    }
}

impl Shared {
    /// The turn is over.
    pub(super) fn leave_turn(&self) {
        self.life().stage = Stage::Idle;
    }

    /// The agent is gone.
    pub(super) fn be_gone(&self) {
        self.life().stage = Stage::Gone;
    }

    /// Waits until the agent is to be ended at once.
    pub(super) async fn killed(&self) {
        self.kill.cancelled().await;
    }

    /// Waits until the agent is to end; answers why.
    pub(super) async fn told_to_leave(&self) -> String {
        self.leave.cancelled().await;
        self.life().reason.clone()
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        // Every change of it is one assignment.
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
