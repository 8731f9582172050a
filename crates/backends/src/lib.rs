//! Runs one agent and reaches it, wherever it lives.
//!
//! A [`Backend`] spawns; an [`AgentSession`] is one live agent; [`Signal`]s are what it reports.
//! A backend decides nothing about the team: it runs what it is told and says what happened.

mod in_process;
mod registry;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use aion_agent::host::{Delta, Host};
use aion_core::agent::Role;
use aion_core::budget::Usage;
use aion_core::id::{AgentName, ConversationId, RequestId, SlotId, TeamId, TurnId};
use aion_core::request::Decision;
use aion_core::turn::TurnOutcome;
use futures::future::BoxFuture;
use tokio::sync::mpsc;

pub use self::in_process::{InProcessBackend, InProcessConfig, ProviderSource};
pub use self::registry::{BackendChoice, Environment, NoBackend, choose};
pub use aion_agent::runtime::TurnInput;

/// Where an agent runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BackendKind {
    /// A model loop in this process.
    InProcess,
}

/// Whether a backend can be used, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// It can.
    Available,
    /// It cannot.
    Unavailable {
        /// Why, and what to do.
        reason: String,
    },
}

/// What one agent is started from.
#[derive(Clone, Debug)]
pub struct SpawnSpec {
    /// Its team.
    pub team: TeamId,
    /// Its place.
    pub slot: SlotId,
    /// Which start of it.
    pub generation: u32,
    /// Its name.
    pub name: AgentName,
    /// What it is in the team.
    pub role: Role,
    /// Which agent it is: a key of the catalogue.
    pub agent_type: String,
    /// Which model.
    pub model: Option<String>,
    /// The directory it works in.
    pub workspace: PathBuf,
    /// Where its transcript is kept.
    pub conversation: ConversationId,
    /// The house around it.
    pub host: Arc<dyn Host>,
}

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

/// Why a backend could not do what it was told.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The agent could not be started.
    #[error("start the agent: {0}")]
    Spawn(String),
    /// The agent is gone.
    #[error("reach the agent: it is gone")]
    Gone,
    /// The agent is in a turn, and has one at a time.
    #[error("start turn {refused}: the agent is in turn {running}")]
    Busy {
        /// The turn it is in.
        running: TurnId,
        /// The turn that was not started.
        refused: TurnId,
    },
    /// The agent is not in that turn.
    #[error("reach turn {0}: it is over")]
    NotInTurn(TurnId),
}

/// A way to run agents.
pub trait Backend: Send + Sync + fmt::Debug + 'static {
    /// Which one.
    fn kind(&self) -> BackendKind;
    /// Whether it can be used here.
    fn availability(&self) -> Availability;
    /// Whether a live turn of an agent can be taken up again after the house fell.
    fn resumes_turns(&self) -> bool;
    /// Starts an agent. It reports over `signals`, beginning with [`Signal::Ready`].
    fn spawn(
        &self,
        spec: SpawnSpec,
        signals: mpsc::Sender<Signal>,
    ) -> BoxFuture<'_, Result<Box<dyn AgentSession>, BackendError>>;
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
