//! Who hosts a team that is run: this process, or the daemon; what the team does then is the
//! runtime's.

mod here;
mod there;

use std::path::Path;
use std::sync::Arc;

use aion_agent::scripted::Scenario;
use aion_core::agent::PermissionMode;
use aion_core::command::Settings;
use aion_core::id::{AgentName, TeamId};
use aion_core::turn::TurnOutcome;
use aion_store::EventStore;

use crate::client::Client;
use crate::daemon::{self, Daemon};
use crate::exit::Failure;
use crate::history::Folded;
use crate::line::Line;
use crate::progress::Beginning;
use crate::scenarios::Scenarios;

/// The user who owns what is made on this machine.
pub(crate) const OWNER: &str = "local";

/// Who hosts.
pub(crate) enum Hosting {
    /// This process, as long as it lives.
    Here(Daemon),
    /// The daemon of the data directory.
    There(Client, Arc<dyn EventStore>),
}

/// A team that is hosted.
pub(crate) struct Opened {
    /// The team.
    pub(crate) id: TeamId,
    /// How to follow it.
    pub(crate) line: Line,
    /// What is known of it.
    pub(crate) beginning: Beginning,
    /// The state from which to follow it.
    pub(crate) from: Folded,
    /// How the lead's last turn before that ended.
    pub(crate) last: Option<TurnOutcome>,
}

/// A member from the command line, with its model.
pub(crate) type Member = (AgentName, Option<String>);

/// What a new team is to be.
pub(crate) struct Plan<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// The directory it works in.
    pub(crate) workspace: &'a Path,
    /// Its task.
    pub(crate) task: String,
    /// What its scripted agents play.
    pub(crate) scenario: &'a str,
    /// Members that are there from the start; then the task follows once they are.
    pub(crate) members: &'a [Member],
    /// How much its lead may do without asking.
    pub(crate) mode: PermissionMode,
    /// Its settings.
    pub(crate) settings: Settings,
}

impl Hosting {
    /// By this process: nobody else works in the data directory meanwhile.
    pub(crate) fn here(dir: &Path, scenario: Scenario) -> Result<Self, Failure> {
        let scenarios = Arc::new(Scenarios::one(dir, scenario));
        Daemon::open(dir, scenarios).map(Self::Here)
    }

    /// By a daemon of this machine.
    pub(crate) fn there(client: Client, dir: &Path) -> Result<Self, Failure> {
        let store = daemon::reading(dir)?.ok_or_else(|| {
            let message = format!("the daemon keeps no teams in {}", dir.display());
            Failure::new(aion_api::Exit::Unreachable, "daemon.unknown", message)
        })?;
        Ok(Self::There(client, store))
    }

    /// Where the teams are remembered, for reading.
    pub(crate) fn store(&self) -> &Arc<dyn EventStore> {
        match self {
            Self::Here(daemon) => &daemon.store,
            Self::There(_, store) => store,
        }
    }

    /// Records the start of the work tree, and begins a team.
    pub(crate) async fn begin(&self, dir: &Path, plan: Plan<'_>) -> Result<Opened, Failure> {
        match self {
            Self::Here(daemon) => here::begin(daemon, dir, plan).await,
            Self::There(client, _) => there::begin(client, plan).await,
        }
    }

    /// Opens a team again, with another scenario and more members where some are given, and lets
    /// it go on.
    pub(crate) async fn resume(
        &self,
        id: &TeamId,
        dir: &Path,
        scenario: Option<&str>,
        members: &[Member],
    ) -> Result<Opened, Failure> {
        match self {
            Self::Here(daemon) => here::resume(daemon, id, dir, scenario, members).await,
            Self::There(client, store) => there::resume(client, store, id, scenario, members).await,
        }
    }

    /// This process hosts no more; a daemon goes on.
    pub(crate) async fn close(self) {
        match self {
            Self::Here(daemon) => daemon.close().await,
            Self::There(..) => {}
        }
    }
}
