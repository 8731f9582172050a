//! Which agents and models can be had here; given by the composition root, never looked up.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aion_backends::Availability;
use futures::FutureExt;
use futures::future::BoxFuture;

/// Who knows which agents can be had at present.
pub trait Agents: Send + Sync + fmt::Debug + 'static {
    /// All agents that are known, as they are at present.
    fn catalogue(&self) -> Arc<Catalogue>;

    /// Starts an agent that is a program, lets it introduce itself, and ends it. It is asked nothing,
    /// so that it costs nothing.
    fn try_out<'a>(&'a self, agent_type: &'a str) -> BoxFuture<'a, Result<Trial, TrialError>> {
        futures::future::ready(Err(TrialError::Unknown(agent_type.to_owned()))).boxed()
    }

    /// The same, after a look at what takes a while too.
    fn look_again(&self) -> BoxFuture<'_, Arc<Catalogue>> {
        futures::future::ready(self.catalogue()).boxed()
    }
}

/// Agents that never change.
impl Agents for Catalogue {
    fn catalogue(&self) -> Arc<Catalogue> {
        Arc::new(self.clone())
    }
}

/// The agents that somebody else knows, too.
impl<T: Agents> Agents for Arc<T> {
    fn catalogue(&self) -> Arc<Catalogue> {
        T::catalogue(self)
    }

    fn try_out<'a>(&'a self, agent_type: &'a str) -> BoxFuture<'a, Result<Trial, TrialError>> {
        T::try_out(self, agent_type)
    }

    fn look_again(&self) -> BoxFuture<'_, Arc<Catalogue>> {
        T::look_again(self)
    }
}

/// What an agent said of itself when it was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Its own name.
    pub name: Option<String>,
    /// Its own version.
    pub version: Option<String>,
    /// Its modes, the one that it begins in first.
    pub modes: Vec<String>,
    /// Its models, the one that it begins with first.
    pub models: Vec<String>,
    /// Whether a session that was closed can be opened again.
    pub reopens: bool,
    /// Whether it takes text in the middle of a turn.
    pub steers: bool,
    /// How long it took until its session was open.
    pub took: Duration,
}

/// Why an agent was not tried, or what came of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrialError {
    /// There is no such agent, or it is no program.
    #[error("try {0:?}: there is no agent of that name that is a program")]
    Unknown(String),
    /// It cannot be started, or it is not as it should be. With what to do.
    #[error("{0}")]
    Failed(String),
}

/// All agents that are known here.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// The agents, the best first.
    pub agents: Vec<CatalogueAgent>,
}

/// One agent that a member can be.
#[derive(Clone, Debug)]
pub struct CatalogueAgent {
    /// Its key: what a member's `agent_type` names.
    pub agent_type: String,
    /// What it is, in a few words.
    pub description: String,
    /// Whether it can be used here.
    pub availability: Availability,
    /// What kind of agent it is.
    pub kind: AgentKind,
    /// The models it can run, its own choice first.
    pub models: Vec<CatalogueModel>,
}

/// What kind of agent one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentKind {
    /// It plays the scenario of its team, and costs nothing.
    Scenario,
    /// It thinks with any model of a service, also with one that is not listed.
    Service {
        /// Where the service is called.
        place: String,
        /// Where the key comes from, if there is one; never the key.
        key: Option<String>,
        /// Whether a model that is not listed has a known price.
        others_priced: bool,
    },
    /// It is a program, and runs the models that are listed, where any are.
    Program(Box<Program>),
}

/// What is known of an agent that is a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name for people.
    pub name: String,
    /// The program that is started, where there is one.
    pub path: Option<String>,
    /// Its version, where that is known.
    pub version: Option<String>,
    /// The version of Node that it runs with, where it needs one and that is known.
    pub node: Option<String>,
    /// Whether a person has signed in to it.
    pub signed_in: SignedIn,
    /// The package that its first start fetches from a registry, if it does.
    pub downloads: Option<String>,
    /// Whether it is started with any model that somebody names, also with one that is not listed.
    pub any_model: bool,
    /// The command that makes it usable, or signs in.
    pub fix: Option<String>,
    /// Why it could not be started last time.
    pub last_error: Option<String>,
}

/// Whether a person has signed in to an agent, as far as that can be told from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignedIn {
    /// This shows it: a variable, or a file.
    Seen(String),
    /// Nothing shows it. A keychain would not be seen.
    NotSeen,
    /// It cannot be told.
    Unknown,
}

/// One model of an agent.
#[derive(Clone, Debug)]
pub struct CatalogueModel {
    /// Its key.
    pub id: String,
    /// What it is good for, in a few words.
    pub description: String,
    /// Whether its price is known.
    pub priced: bool,
}

impl Catalogue {
    /// Checks an agent and a model that were asked for. An empty catalogue knows no better.
    pub fn check(&self, agent_type: &str, model: Option<&str>) -> Result<(), String> {
        if self.agents.is_empty() {
            return Ok(());
        }
        let Some(agent) = self.agents.iter().find(|agent| agent.agent_type == agent_type) else {
            let usable = self.usable().map(|agent| agent.agent_type.as_str());
            return Err(format!(
                "there is no agent {agent_type:?} here; agent_type is one of: {}",
                join(usable)
            ));
        };
        if let Availability::Unavailable { reason } = &agent.availability {
            let usable = self.usable().map(|agent| agent.agent_type.as_str());
            return Err(format!(
                "the agent {agent_type:?} cannot be used: {reason}; usable are: {}",
                join(usable)
            ));
        }
        let closed = match &agent.kind {
            AgentKind::Program(program) => !program.any_model && !agent.models.is_empty(),
            AgentKind::Scenario | AgentKind::Service { .. } => false,
        };
        match model {
            Some(model) if closed && agent.models.iter().all(|m| m.id != model) => Err(format!(
                "the agent {agent_type:?} has no model {model:?}; its models are: {}",
                join(agent.models.iter().map(|m| m.id.as_str()))
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether what an agent spends is known before it is spent, so that a cap on money holds.
    pub fn check_price(&self, agent_type: &str, model: Option<&str>) -> Result<(), String> {
        let Some(agent) = self.agents.iter().find(|agent| agent.agent_type == agent_type) else {
            return Ok(());
        };
        let AgentKind::Service { others_priced, .. } = &agent.kind else { return Ok(()) };
        let model = model.or(agent.models.first().map(|model| model.id.as_str()));
        let listed = agent.models.iter().find(|known| Some(known.id.as_str()) == model);
        if listed.map_or(*others_priced, |model| model.priced) {
            return Ok(());
        }
        Err(format!(
            "the price of {} {} is not known, so that a budget in dollars cannot be kept; its \
             price can be written into prices.toml beside your settings",
            agent_type,
            model.unwrap_or("without a model")
        ))
    }

    /// The agent that a lead is where nobody says: one that plays scenarios where there is one to
    /// play, else the best that can be used.
    pub fn default_agent(&self, scenario: bool) -> Option<&CatalogueAgent> {
        let plays = |agent: &&CatalogueAgent| agent.kind == AgentKind::Scenario;
        self.usable().find(|agent| scenario && plays(agent)).or_else(|| self.usable().next())
    }

    /// The agents that can be used here, the best first.
    pub fn usable(&self) -> impl Iterator<Item = &CatalogueAgent> {
        self.agents.iter().filter(|agent| agent.availability == Availability::Available)
    }
}

pub(super) fn join<'a>(items: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = items.collect();
    if all.is_empty() { "(none)".to_owned() } else { all.join(", ") }
}
