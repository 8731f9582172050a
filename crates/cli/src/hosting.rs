//! Who hosts a team that is run: this process, or the daemon; what the team does then is the
//! runtime's.

mod here;
mod there;

use std::path::Path;
use std::sync::Arc;

use aion_agent::scripted::Scenario;
use aion_api::CatalogueResponse;
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
use crate::services::Offer;

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

/// A member from the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// Its name.
    pub(crate) name: AgentName,
    /// Which agent it is; the lead's where none is named.
    pub(crate) agent_type: Option<String>,
    /// Its model, if not its agent's own choice.
    pub(crate) model: Option<String>,
}

/// Who somebody is: an agent, with its model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    /// The agent.
    pub(crate) agent_type: String,
    /// Its model, if not its own choice.
    pub(crate) model: Option<String>,
}

impl Member {
    /// Who it is in a team with this lead: a member of the same agent thinks with the same model,
    /// unless another is asked for.
    pub(crate) fn after(&self, lead: &Who) -> Who {
        let agent_type = self.agent_type.clone().unwrap_or_else(|| lead.agent_type.clone());
        let own = lead.model.clone().filter(|_| agent_type == lead.agent_type);
        Who { model: self.model.clone().or(own), agent_type }
    }
}

/// What a new team is to be.
pub(crate) struct Plan<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// The directory it works in.
    pub(crate) workspace: &'a Path,
    /// Its task.
    pub(crate) task: String,
    /// Who leads it.
    pub(crate) lead: Who,
    /// What its scripted agents play, where there are any.
    pub(crate) scenario: Option<&'a str>,
    /// Members that are there from the start; then the task follows once they are.
    pub(crate) members: &'a [Member],
    /// How much its lead may do without asking.
    pub(crate) mode: PermissionMode,
    /// Its settings.
    pub(crate) settings: Settings,
}

impl Hosting {
    /// By this process: nobody else works in the data directory meanwhile.
    pub(crate) fn here(dir: &Path, scenario: Option<Scenario>) -> Result<Self, Failure> {
        let scenarios = Arc::new(match scenario {
            Some(scenario) => Scenarios::one(dir, scenario),
            None => Scenarios::kept(dir, None),
        });
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

    /// The agents that there are.
    pub(crate) async fn offers(&self) -> Result<Vec<Offer>, Failure> {
        Ok(match self {
            Self::Here(daemon) => Offer::all(&daemon.service.house().catalogue.catalogue()),
            Self::There(client, _) => {
                let response: CatalogueResponse = client.get("/api/agents").await?;
                response.agents.into_iter().map(Offer::from).collect()
            }
        })
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
