//! All agents that are programs, as they are at present: for the catalogue, and for whoever starts
//! one; it starts them for a trial alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use aion_agent::leash::LeashConfig;
use aion_backends::acp::{AcpLimits, AgentSource, Launchable, try_agent};
use aion_runtime::tools::{CatalogueAgent, Trial, TrialError};
use tokio::sync::Semaphore;

use super::found::{Found, look};
use super::ground::Ground;
use super::row::Choice;
use super::version::Versions;
use super::written::{Known, is_taken, known};

/// Agents that are tried at one time.
const TRIALS: usize = 2;
/// The longest error that is kept.
const ERROR_CHARS: usize = 500;

/// All agents that are programs.
#[derive(Debug)]
pub(crate) struct Programs {
    versions: Versions,
    leash: LeashConfig,
    heard: Mutex<BTreeMap<String, Heard>>,
    trials: Semaphore,
}

/// What was heard of an agent when it was started.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard {
    /// Why it was of no use the last time.
    pub(super) error: Option<String>,
    /// The models that it offered.
    pub(super) models: Vec<String>,
}

impl Programs {
    /// With what programs are asked by.
    pub(crate) fn new(leash: LeashConfig) -> Self {
        Self {
            versions: Versions::default(),
            leash,
            heard: Mutex::default(),
            trials: Semaphore::new(TRIALS),
        }
    }

    /// All that are known as the catalogue has them, with how good a choice each is.
    pub(crate) fn rows(&self) -> Vec<(Choice, CatalogueAgent)> {
        // An entry is put in whole: a poisoned lock holds valid data.
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let row = |found: &Found| {
            let of = heard.get(&found.profile().id).cloned().unwrap_or_default();
            (found.choice(), found.row(&of))
        };
        self.all().iter().map(row).collect()
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

    /// Starts an agent in an empty workspace, lets it introduce itself and open a session, and ends it.
    pub(crate) async fn try_out(&self, agent_type: &str) -> Result<Trial, TrialError> {
        if !self.knows(agent_type) {
            return Err(TrialError::Unknown(agent_type.to_owned()));
        }
        let failed = |why: &dyn std::fmt::Display| TrialError::Failed(why.to_string());
        let _turn = self.trials.acquire().await.map_err(|closed| failed(&closed))?;
        let launch = self.agent(agent_type).map_err(|why| failed(&why))?;
        let workspace = tempfile::Builder::new().prefix("aion-trial-").tempdir();
        let workspace = workspace.map_err(|error| failed(&error))?;
        let begun = Instant::now();
        let limits = AcpLimits::default();
        let tried = try_agent(&launch, workspace.path(), &self.leash, &limits).await;
        self.heard(
            agent_type,
            tried.as_ref().map(|said| said.models.clone()).map_err(String::as_str),
        );
        let said = tried.map_err(|why| failed(&why))?;
        Ok(Trial {
            name: said.name,
            version: said.version,
            modes: said.modes,
            models: said.models,
            reopens: said.reopens,
            steers: said.steers,
            took: begun.elapsed(),
        })
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

    fn heard(&self, agent_type: &str, went: Result<Vec<String>, &str>) {
        let mut all = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let heard = all.entry(agent_type.to_owned()).or_default();
        match went {
            Ok(models) => *heard = Heard { error: None, models },
            Err(why) => heard.error = Some(why.chars().take(ERROR_CHARS).collect()),
        }
    }
}
