//! A way to run agents, and what an agent is started from; it knows no single one of them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use aion_agent::host::Host;
use aion_core::agent::{PermissionMode, Role};
use aion_core::id::{AgentName, ConversationId, SlotId, TeamId, TurnId};
use futures::future::BoxFuture;
use tokio::sync::mpsc;

use crate::connection::Connection;
use crate::session::{AgentSession, Signal};

/// Where an agent runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BackendKind {
    /// A model loop in this process.
    InProcess,
    /// A program of its own that speaks ACP.
    Acp,
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
    /// Its role prompt at this moment, for a program of its own; each turn brings it as it is then.
    pub system: String,
    /// Its permission mode at this moment; each turn brings it as it is then.
    pub mode: PermissionMode,
    /// Where its transcript is kept.
    pub conversation: ConversationId,
    /// The house around it.
    pub host: Arc<dyn Host>,
    /// Its way to the team, where its backend asks for one and there is one.
    pub connection: Option<Box<Connection>>,
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
    /// Whether its agents are programs of their own, which reach the team over a connection.
    fn connects(&self) -> bool {
        false
    }
    /// Whether agents of a type are its own.
    fn runs(&self, _agent_type: &str) -> bool {
        true
    }
    /// Starts an agent. It reports over `signals`, beginning with [`Signal::Ready`]. Signals are
    /// boxed: a channel keeps room for many of them, for every agent that only waits.
    fn spawn(
        &self,
        spec: SpawnSpec,
        signals: mpsc::Sender<Box<Signal>>,
    ) -> BoxFuture<'_, Result<Box<dyn AgentSession>, BackendError>>;
}
