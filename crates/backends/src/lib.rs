//! Runs one agent and reaches it, wherever it lives.
//!
//! A [`Backend`] spawns; an [`AgentSession`] is one live agent; [`Signal`]s are what it reports.
//! A backend decides nothing about the team: it runs what it is told and says what happened.

pub mod acp;
mod backend;
mod connection;
mod in_process;
mod registry;
mod session;

pub use self::backend::{Availability, Backend, BackendError, BackendKind, SpawnSpec};
pub use self::connection::{Connection, ConnectionToken};
pub use self::in_process::{InProcessBackend, InProcessConfig, ProviderSource, panic_text};
pub use self::registry::{BackendChoice, Environment, NoBackend, choose};
pub use self::session::{AgentSession, Signal};
pub use aion_agent::runtime::TurnInput;
