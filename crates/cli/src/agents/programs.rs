//! All agents that are programs, as they are at present: for the catalogue, and for whoever starts
//! one; it starts none as an agent.

use std::collections::BTreeSet;
use std::path::PathBuf;

use aion_agent::leash::LeashConfig;
use aion_backends::acp::{AgentSource, Launchable};
use aion_runtime::tools::CatalogueAgent;

use super::found::{Found, look};
use super::ground::Ground;
use super::row::Choice;
use super::version::Versions;
use super::written::{Known, is_taken, known};

/// All agents that are programs.
#[derive(Debug)]
pub(crate) struct Programs {
    versions: Versions,
    leash: LeashConfig,
}

impl Programs {
    /// With what programs are asked by.
    pub(crate) fn new(leash: LeashConfig) -> Self {
        Self { versions: Versions::default(), leash }
    }

    /// All that are known as the catalogue has them, with how good a choice each is.
    pub(crate) fn rows(&self) -> Vec<(Choice, CatalogueAgent)> {
        self.all().iter().map(|found| (found.choice(), found.row(None))).collect()
    }

    /// All that are known, with what files and earlier answers say.
    fn all(&self) -> Vec<Found> {
        let ground = Ground::here();
        let Known { agents, fault, fetch } = known();
        if let Some(why) = fault {
            tracing::warn!(%why, "the agents of the settings are left out");
        }
        let look = |own| look(own, fetch, &ground, &self.versions);
        agents.into_iter().map(look).collect()
    }

    /// Asks the programs for their versions that were not asked yet, one after the other.
    pub(crate) async fn ask(&self) {
        let ground = Ground::here();
        let unasked: BTreeSet<PathBuf> = self.all().iter().flat_map(Found::unasked).collect();
        let path = ground.directories();
        for program in unasked {
            self.versions.ask(&program, &path, &self.leash).await;
        }
    }
}

impl AgentSource for Programs {
    fn knows(&self, agent_type: &str) -> bool {
        // The settings are read only where the name alone does not tell.
        !is_taken(agent_type) && known().agents.iter().any(|own| own.profile.id == agent_type)
    }

    fn agent(&self, agent_type: &str) -> Result<Launchable, String> {
        let ground = Ground::here();
        let Known { agents, fault, fetch } = known();
        let wanted = agents.into_iter().find(|own| own.profile.id == agent_type);
        let wanted = wanted.ok_or_else(|| {
            let why = fault.map(|why| format!(": {why}")).unwrap_or_default();
            format!("there is no agent {agent_type:?} here{why}")
        })?;
        let found = look(wanted, fetch, &ground, &self.versions);
        found.launchable(&ground).map_err(|why| format!("{agent_type}: {why}"))
    }
}
