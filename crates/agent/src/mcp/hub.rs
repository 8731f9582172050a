//! The servers of every team: begun once, shared by its members, ended when the last of them is gone;
//! it judges no call.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use aion_core::id::TeamId;
use futures::future::join_all;
use tokio::time::timeout;

use super::config::ServerConfig;
use super::offer::{Call, Offered};
use super::server::{Server, Status};
use crate::host::{ToolOutput, ToolSpec};
use crate::tools::ToolConfig;

/// How long a turn waits for servers that are being started; later steps see those that come later.
const PATIENCE: Duration = Duration::from_secs(20);
/// The most servers of a team.
const SERVERS: usize = 16;
/// The most tools of all servers of a team: every one is sent with every request.
const TOOLS: usize = 128;

/// What makes the client that calls servers by HTTP, when it is needed first.
pub type ReadClient = fn() -> Result<reqwest::Client, String>;

/// The servers of every team of a house.
#[derive(Debug, Default)]
pub struct Hub {
    teams: Mutex<BTreeMap<TeamId, Weak<Servers>>>,
}

impl Hub {
    /// The servers of a team, which are those of all who hold them.
    pub fn of(
        &self,
        team: &TeamId,
        workspace: PathBuf,
        tools: Arc<ToolConfig>,
        client: ReadClient,
    ) -> Arc<Servers> {
        // Every change of it is one insertion or removal.
        let mut teams = self.teams.lock().unwrap_or_else(PoisonError::into_inner);
        teams.retain(|_, servers| servers.strong_count() > 0);
        if let Some(servers) = teams.get(team).and_then(Weak::upgrade) {
            return servers;
        }
        let servers = Arc::new(Servers::new(workspace, tools, client));
        teams.insert(team.clone(), Arc::downgrade(&servers));
        servers
    }
}

/// What servers are started from.
pub(super) struct Ground {
    pub(super) workspace: PathBuf,
    pub(super) tools: Arc<ToolConfig>,
    client: ReadClient,
}

impl Ground {
    pub(super) fn http(&self) -> Result<reqwest::Client, String> {
        (self.client)()
    }
}

impl fmt::Debug for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ground").field("workspace", &self.workspace).finish_non_exhaustive()
    }
}

/// The servers of one team.
#[derive(Debug)]
pub struct Servers {
    ground: Arc<Ground>,
    all: Mutex<Vec<Arc<Server>>>,
}

impl Servers {
    /// None yet, for a workspace.
    pub fn new(workspace: PathBuf, tools: Arc<ToolConfig>, client: ReadClient) -> Self {
        let ground = Arc::new(Ground { workspace, tools, client });
        Self { ground, all: Mutex::default() }
    }

    /// Begins the servers that are wanted and ends those that are not, and waits for those that are
    /// being started; not for long.
    pub async fn settle(&self, mut wanted: Vec<ServerConfig>) {
        wanted.truncate(SERVERS);
        let all: Vec<Arc<Server>> = {
            let mut all = self.all();
            all.retain(|server| {
                wanted.iter().any(|config| config.fingerprint() == server.fingerprint)
            });
            for config in wanted {
                if !all.iter().any(|server| server.fingerprint == config.fingerprint()) {
                    all.push(Arc::new(Server::begin(config, Arc::clone(&self.ground))));
                }
            }
            all.clone()
        };
        let ready = join_all(all.iter().map(|server| async move {
            match server.status() {
                // What it offers is known to nobody: nobody would call it, and so begin it again.
                Status::Down(_) => drop(server.peer().await),
                Status::Starting | Status::Ready(_) => server.settled().await,
            }
        }));
        let _ = timeout(PATIENCE, ready).await;
    }

    /// The tools that are offered, as models see them.
    pub(crate) fn specs(&self) -> Vec<Arc<ToolSpec>> {
        let offered = |server: &Arc<Server>| match server.status() {
            Status::Ready(offered) => offered.iter().map(|one| Arc::clone(&one.spec)).collect(),
            Status::Starting | Status::Down(_) => Vec::new(),
        };
        self.all().iter().flat_map(offered).take(TOOLS).collect()
    }

    /// What is not there, and why, for the agent.
    pub fn faults(&self) -> Vec<String> {
        let fault = |server: &Arc<Server>| match server.status() {
            Status::Down(why) => Some(format!("The MCP server {}: {why}.", server.config.name)),
            Status::Starting => {
                Some(format!("The MCP server {} is being started.", server.config.name))
            }
            Status::Ready(_) => None,
        };
        self.all().iter().filter_map(fault).collect()
    }

    /// A call of a tool, ready to be judged. A server that has ended is known by its name.
    pub(crate) fn prepare(&self, tool: &str, input: &serde_json::Value) -> Result<Call, String> {
        let all = self.all();
        let named = |server: &&Arc<Server>| {
            let prefix = format!("mcp__{}__", server.config.name);
            tool.starts_with(&prefix)
        };
        let server = all.iter().find(named).ok_or_else(|| format!("There is no tool {tool:?}."))?;
        let offered = match server.status() {
            Status::Ready(offered) => offered.iter().find(|one| one.spec.name == tool).cloned(),
            // What it was called there is not known, until it is there again.
            Status::Starting | Status::Down(_) => None,
        };
        Call::new(server.config.name.clone(), tool, offered, input)
    }

    /// Runs a call.
    pub(crate) async fn run(&self, call: Call) -> ToolOutput {
        let server = self.all().iter().find(|server| server.config.name == *call.server()).cloned();
        let Some(server) = server else {
            return ToolOutput::failed(format!("There is no MCP server {}.", call.server()));
        };
        let name = server.config.name.clone();
        let failed = |why: String| ToolOutput::failed(format!("The MCP server {name}: {why}."));
        let peer = match server.peer().await {
            Ok(peer) => peer,
            Err(why) => return failed(why),
        };
        let offered: Option<Arc<Offered>> = match server.status() {
            Status::Ready(offered) => {
                offered.iter().find(|one| one.spec.name == call.tool()).cloned()
            }
            Status::Starting | Status::Down(_) => None,
        };
        let Some(offered) = offered else {
            return failed(format!("it offers no tool {:?}", call.tool()));
        };
        match timeout(server.config.call, call.run(&offered, &peer)).await {
            Ok(output) => output.unwrap_or_else(failed),
            Err(_) => failed(format!(
                "the call did not end within {} seconds. It may have done its work",
                server.config.call.as_secs()
            )),
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<Server>>> {
        // Every change of it leaves a list of servers.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
