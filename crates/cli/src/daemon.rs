//! The composition root: the one place that names a concrete store, backend and provider; it holds
//! no rules.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aion_agent::leash::{DirectoryLedger, LeashConfig};
use aion_agent::models::calls;
use aion_agent::network::Web;
use aion_agent::runtime::RuntimeConfig;
use aion_agent::sandbox::Sandbox;
use aion_agent::tools::ToolConfig;
use aion_backends::acp::{AcpBackend, AcpConfig, AcpLimits, Bridge, SessionDirectory};
use aion_backends::{Backend, Environment, InProcessBackend, InProcessConfig, ProviderSource};
use aion_runtime::{Backends, House, TeamService};
use aion_store::{EventStore, SqliteOptions, SqliteStore};
use tokio_rustls::rustls::ClientConfig;

use crate::agents::Programs;
use crate::client::{with_authorities, with_tls};
use crate::exit::Failure;
use crate::paths::{check_data_dir, prepare_data_dir};
use crate::policy::Files;
use crate::scenarios::Scenarios;
use crate::services::Services;
use crate::walls::sandbox;

/// How long others may take to let go of a store that is closed, and how often that is looked at.
const LETTING_GO: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(2);

/// The agent that plays a scenario.
pub(crate) const SCRIPTED: &str = "scripted";

/// The agents of this machine that are programs, for a look from this process.
pub(crate) fn programs() -> Result<Programs, Failure> {
    let fail = |error: std::io::Error| Failure::io("prepare to ask programs", &error);
    LeashConfig::by_own_binary(None).map(Programs::new).map_err(fail)
}

/// Opens the store of a data directory for reading, beside whoever writes. None if there is none.
pub(crate) fn reading(dir: &Path) -> Result<Option<Arc<dyn EventStore>>, Failure> {
    check_data_dir(dir)?;
    if !SqliteStore::exists(dir) {
        return Ok(None);
    }
    Ok(Some(Arc::new(SqliteStore::open_read_only(dir)?)))
}

/// Keeps everybody else from working in a data directory as long as the answer lives; fails if
/// somebody does at present.
pub(crate) fn alone_in(dir: &Path) -> Result<SqliteStore, Failure> {
    check_data_dir(dir)?;
    Ok(SqliteStore::open(dir, &SqliteOptions::default())?)
}

/// Copies the store of a data directory and the directories `beside` it, beside whoever writes them.
pub(crate) fn back_up(dir: &Path, to: &Path, beside: &[&str]) -> Result<(), Failure> {
    check_data_dir(dir)?;
    Ok(SqliteStore::back_up(dir, to, beside)?)
}

/// Puts a copy in the place of a data directory's store and of the directories `beside` it; answers
/// where those are kept.
pub(crate) fn restore(
    copy: &Path,
    dir: &Path,
    beside: &[&str],
) -> Result<Option<PathBuf>, Failure> {
    prepare_data_dir(dir)?;
    Ok(SqliteStore::restore(copy, dir, beside)?)
}

/// Reads the whole log of every team, and checks its hash chain: how many teams and events.
pub(crate) async fn verify(dir: &Path) -> Result<(u64, u64), Failure> {
    let store = SqliteStore::open_read_only(dir)?;
    let (mut teams, mut events) = (0, 0);
    for row in EventStore::teams(&store).await? {
        events += store.verify(&row.team).await?.events;
        teams += 1;
    }
    Ok((teams, events))
}

/// A house in this process, over one data directory that nobody else writes to meanwhile.
#[derive(Debug)]
pub(crate) struct Daemon {
    /// Its teams.
    pub(crate) service: TeamService,
    /// Where they are remembered.
    pub(crate) store: Arc<dyn EventStore>,
}

impl Daemon {
    /// Opens the data directory and puts the house together. Needs a tokio runtime around it.
    pub(crate) fn open(dir: &Path, scenarios: Arc<Scenarios>) -> Result<Self, Failure> {
        // No other program of this user looks into our memory, and no core file holds a key.
        let _ = nix::sys::prctl::set_dumpable(false);
        prepare_data_dir(dir)?;
        let store: Arc<dyn EventStore> =
            Arc::new(SqliteStore::open(dir, &SqliteOptions::default())?);
        let fail = |error: std::io::Error| Failure::io("prepare to run commands", &error);
        let ledger = DirectoryLedger::open(dir.join("leashes")).map_err(fail)?;
        // Nobody else writes here: what still runs was left by a process that died.
        ledger.reap().map_err(fail)?;
        let leash = LeashConfig::by_own_binary(Some(Arc::new(ledger))).map_err(fail)?;
        let sandbox = Arc::new(sandbox(dir)?);
        look_for_a_wall(&sandbox);
        let mut tools = ToolConfig::new(leash, Arc::clone(&sandbox), env::vars_os());
        if let Some(network) = sandbox.network() {
            tools = tools.with_web(Arc::new(Web::new(Arc::clone(network), authorities)));
        }
        let tools = tools.with_mcp(mcp_client);
        let config =
            InProcessConfig { runtime: Arc::new(RuntimeConfig::default()), tools: Arc::new(tools) };
        let programs = Arc::new(Programs::new(config.tools.leash.clone()));
        let services = Arc::new(Services::new(scenarios, Arc::clone(&programs)));
        let others = others(dir, programs, &config)?;
        let backend =
            InProcessBackend::new(Arc::clone(&services) as Arc<dyn ProviderSource>, config);
        // Scenarios and models of services run in this process, whatever terminal the person sits at.
        let backends =
            Backends::chosen(&Environment::default(), [Arc::new(backend) as Arc<dyn Backend>])
                .map_err(|error| Failure::usage(error.to_string()))?
                .also(Arc::new(others));
        let mut house = House::new(Arc::clone(&store), backends, services);
        house.policy = Arc::new(Files::new(dir));
        keep_agents_panics_quiet();
        Ok(Self { service: TeamService::new(house), store })
    }

    /// Ends every agent's process and closes every team; what they are is kept.
    pub(crate) async fn close(self) {
        let Self { service, store } = self;
        service.stop_all().await;
        drop(service);
        // Whoever still holds the store is about to let go of it. Its last holder moves what is in
        // its log to where the next reader finds it at once.
        let deadline = tokio::time::Instant::now() + LETTING_GO;
        while Arc::strong_count(&store) > 1 && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(LOOK).await;
        }
        // A store that is not let go of is found whole by its log all the same.
        let _ = tokio::task::spawn_blocking(move || drop(store)).await;
    }
}

/// Where the sessions of foreign agents are remembered.
pub(crate) fn sessions(dir: &Path) -> std::io::Result<SessionDirectory> {
    SessionDirectory::open(dir.join("sessions"))
}

/// What runs agents that are programs of their own. They reach their team by this binary.
fn others(
    dir: &Path,
    programs: Arc<Programs>,
    config: &InProcessConfig,
) -> Result<AcpBackend, Failure> {
    let fail = |error: std::io::Error| Failure::io("prepare to run agents", &error);
    let bridge = Bridge {
        program: env::current_exe().map_err(fail)?,
        arguments: ["mcp", "bridge"].map(str::to_owned).to_vec(),
    };
    let memory = Arc::new(sessions(dir).map_err(fail)?);
    let config = AcpConfig {
        leash: config.tools.leash.clone(),
        tools: Arc::clone(&config.tools),
        bridge,
        memory,
        limits: Arc::new(AcpLimits::default()),
    };
    Ok(AcpBackend::new(programs, config))
}

/// The authorities of this machine, for pages of the web.
fn authorities() -> Result<Arc<ClientConfig>, String> {
    with_authorities(None).map_err(|failure| failure.message().to_owned())
}

/// What calls MCP servers by HTTP.
fn mcp_client() -> Result<reqwest::Client, String> {
    let builder = with_tls().map_err(|failure| failure.message().to_owned())?;
    calls(builder).map_err(|error| error.to_string())
}

/// Looks for the wall while nobody waits for it yet.
fn look_for_a_wall(sandbox: &Arc<Sandbox>) {
    let sandbox = Arc::clone(sandbox);
    std::thread::spawn(move || {
        let wall = sandbox.wall();
        tracing::info!(wall = wall.name(), "commands run behind: {wall}");
    });
}

/// An agent that crashes is told in its team's log; its panic is not for the terminal.
fn keep_agents_panics_quiet() {
    let otherwise = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if aion_agent::identity::current().is_none() {
            otherwise(panic);
        }
    }));
}
