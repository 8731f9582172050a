//! One live agent as its runner sees it: orders in, signals out; it never decides about the team.

use std::fmt;

use aion_agent::host::Delta;
use aion_agent::runtime::TurnInput;
use aion_core::budget::Usage;
use aion_core::id::{RequestId, TurnId};
use aion_core::request::Decision;
use aion_core::turn::TurnOutcome;

use crate::backend::BackendError;

/// What an agent reports to its runner.
#[derive(Debug)]
pub enum Signal {
    /// It is ready for its first turn.
    Ready,
    /// A piece of a running turn.
    Delta {
        /// The turn.
        turn: TurnId,
        /// The piece.
        delta: Delta,
    },
    /// Usage that was not reserved.
    UsageReported(Usage),
    /// A turn ended, after its transcript became durable.
    TurnEnded {
        /// The turn.
        turn: TurnId,
        /// How.
        outcome: TurnOutcome,
        /// What its last model call used.
        usage: Option<Usage>,
    },
    /// The agent is gone. The last signal.
    Exited {
        /// What happened.
        cause: String,
    },
}

/// One live agent. Calls return at once; what they lead to arrives as signals.
pub trait AgentSession: Send + fmt::Debug + 'static {
    /// Runs a turn.
    fn start_turn(&mut self, input: TurnInput) -> Result<(), BackendError>;
    /// Hands over mail in the middle of a turn, where the agent does not fetch it itself.
    fn deliver(&mut self, turn: TurnId, text: String) -> Result<(), BackendError>;
    /// Hands over a decision that the turn waits for.
    fn answer(
        &mut self,
        turn: TurnId,
        request: RequestId,
        decision: Decision,
    ) -> Result<(), BackendError>;
    /// Ends a running turn; it reports [`TurnOutcome::Interrupted`].
    fn interrupt(&mut self, turn: TurnId);
    /// Ends the agent after its turn; it reports [`Signal::Exited`].
    fn stop(&mut self, reason: &str);
    /// Ends the agent at once, with every process it began.
    fn kill(&mut self);
    /// Whether it is in a turn.
    fn is_active(&self) -> bool;
}
