//! Agents as tasks of this process: a turn is a task, an idle agent is a few hundred bytes and no
//! task at all; it never lets one agent's crash reach another.

mod session;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use aion_agent::identity::Identity;
use aion_agent::mcp::Hub;
use aion_agent::provider::Provider;
use aion_agent::runtime::{AgentRuntime, RuntimeConfig};
use aion_agent::tools::{ToolConfig, Toolbox};
use aion_core::id::TeamId;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::mpsc;

use self::session::InProcessSession;
pub use self::session::panic_text;
use super::{AgentSession, Availability, Backend, BackendError, BackendKind, Signal, SpawnSpec};

/// Who answers for an agent.
pub trait ProviderSource: Send + Sync + fmt::Debug + 'static {
    /// The provider for an agent of the catalogue and a model in a team, or why there is none.
    fn provider(
        &self,
        team: &TeamId,
        agent_type: &str,
        model: Option<&str>,
    ) -> Result<Arc<dyn Provider>, String>;
}

/// One provider for everybody.
impl<P: Provider> ProviderSource for Arc<P> {
    fn provider(&self, _: &TeamId, _: &str, _: Option<&str>) -> Result<Arc<dyn Provider>, String> {
        Ok(Arc::<P>::clone(self))
    }
}

/// What all agents of this process have in common.
#[derive(Clone, Debug)]
pub struct InProcessConfig {
    /// The limits of their loop.
    pub runtime: Arc<RuntimeConfig>,
    /// Their coding tools.
    pub tools: Arc<ToolConfig>,
}

/// The backend of agents that run here.
#[derive(Clone, Debug)]
pub struct InProcessBackend {
    source: Arc<dyn ProviderSource>,
    config: InProcessConfig,
    /// The MCP servers of its teams.
    servers: Arc<Hub>,
}

impl InProcessBackend {
    /// With somebody who answers.
    pub fn new(source: Arc<dyn ProviderSource>, config: InProcessConfig) -> Self {
        Self { source, config, servers: Arc::default() }
    }

    fn start(
        &self,
        spec: SpawnSpec,
        signals: mpsc::Sender<Box<Signal>>,
    ) -> Result<Box<dyn AgentSession>, BackendError> {
        let SpawnSpec { team, slot, name, agent_type, model, workspace, host, .. } = spec;
        let provider = self
            .source
            .provider(&team, &agent_type, model.as_deref())
            .map_err(BackendError::Spawn)?;
        self.config.tools.sandbox.works_in(&team, &workspace);
        let runtime = AgentRuntime {
            agent: name.clone(),
            model,
            provider,
            host,
            tools: Arc::new(self.tools(&team, workspace)),
            config: Arc::clone(&self.config.runtime),
        };
        signals
            .try_send(Box::new(Signal::Ready))
            .map_err(|_| BackendError::Spawn("nobody listens to the agent".to_owned()))?;
        let identity = Identity { team, slot, name };
        Ok(Box::new(InProcessSession::new(identity, runtime, signals)))
    }

    fn tools(&self, team: &TeamId, workspace: PathBuf) -> Toolbox {
        let tools = &self.config.tools;
        let servers = tools
            .mcp
            .map(|client| self.servers.of(team, workspace.clone(), Arc::clone(tools), client));
        Toolbox::new(workspace, Arc::clone(tools)).with_servers(servers)
    }
}

impl Backend for InProcessBackend {
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
        futures::future::ready(self.start(spec, signals)).boxed()
    }
}
