//! The backend of agents that speak ACP: each has a process of its own, under a leash; it knows no
//! single agent, and never whom a person has.

use std::path::PathBuf;
use std::sync::Arc;

use aion_agent::identity::{Identity, spawn_as};
use aion_agent::leash::LeashConfig;
use aion_agent::tools::{ToolConfig, Toolbox};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::limits::AcpLimits;
use super::memory::SessionMemory;
use super::profile::AgentSource;
use super::seat::Seat;
use super::session::{AcpSession, Shared};
use crate::{AgentSession, Availability, Backend, BackendError, BackendKind, Signal, SpawnSpec};

/// Orders that may wait for a seat.
const ORDERS: usize = 64;

/// The program that carries an agent's MCP client to its team.
#[derive(Clone, Debug)]
pub struct Bridge {
    /// The program, as an absolute path.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

/// What all agents that speak ACP have in common.
#[derive(Clone, Debug)]
pub struct AcpConfig {
    /// How their processes are kept.
    pub leash: LeashConfig,
    /// Our own tools, by which their calls are understood and judged.
    pub tools: Arc<ToolConfig>,
    /// The way to the team's tools for those who start MCP servers.
    pub bridge: Bridge,
    /// Where their sessions are kept.
    pub memory: Arc<dyn SessionMemory>,
    /// How long things may take.
    pub limits: Arc<AcpLimits>,
}

/// The backend.
#[derive(Clone, Debug)]
pub struct AcpBackend {
    source: Arc<dyn AgentSource>,
    config: AcpConfig,
}

impl AcpBackend {
    /// With a catalogue of agents.
    pub fn new(source: Arc<dyn AgentSource>, config: AcpConfig) -> Self {
        Self { source, config }
    }

    async fn start(
        &self,
        spec: SpawnSpec,
        signals: mpsc::Sender<Box<Signal>>,
    ) -> Result<Box<dyn AgentSession>, BackendError> {
        let (source, agent_type) = (Arc::clone(&self.source), spec.agent_type.clone());
        let looking = tokio::task::spawn_blocking(move || source.agent(&agent_type)).await;
        let launch = looking.unwrap_or_else(|error| Err(error.to_string()));
        let launch = launch.map_err(BackendError::Spawn)?;
        let identity =
            Identity { team: spec.team.clone(), slot: spec.slot, name: spec.name.clone() };
        let AcpConfig { leash, tools, bridge, memory, limits } = self.config.clone();
        let seat = Seat {
            source: Arc::clone(&self.source),
            slot: spec.slot,
            conversation: (spec.team, spec.conversation),
            toolbox: Toolbox::new(spec.workspace.clone(), tools),
            workspace: spec.workspace,
            host: spec.host,
            connection: spec.connection,
            model: spec.model,
            system: spec.system,
            mode: spec.mode,
            launch,
            leash,
            limits,
            bridge,
            memory,
            processes: TaskTracker::new(),
        };
        let (orders, inbox) = mpsc::channel(ORDERS);
        let shared = Arc::<Shared>::default();
        spawn_as(identity, Box::pin(seat.run(Arc::clone(&shared), inbox, signals)));
        Ok(Box::new(AcpSession::new(shared, orders)))
    }
}

impl Backend for AcpBackend {
    fn kind(&self) -> BackendKind {
        BackendKind::Acp
    }

    fn availability(&self) -> Availability {
        Availability::Available
    }

    /// The process of a turn that was running fell with the house.
    fn resumes_turns(&self) -> bool {
        false
    }

    fn connects(&self) -> bool {
        true
    }

    fn runs(&self, agent_type: &str) -> bool {
        self.source.knows(agent_type)
    }

    fn spawn(
        &self,
        spec: SpawnSpec,
        signals: mpsc::Sender<Box<Signal>>,
    ) -> BoxFuture<'_, Result<Box<dyn AgentSession>, BackendError>> {
        self.start(spec, signals).boxed()
    }
}
