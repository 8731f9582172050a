//! What a running team stands in: store, clock, ids, backends, tools; never a team's state.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use aion_agent::permission::{NoPolicy, Policy};
use aion_backends::{Backend, BackendChoice, Environment, NoBackend, choose};
use aion_core::id::{RequestId, TeamId};
use aion_core::time::{Millis, Timestamp};
use aion_store::EventStore;
use tokio::sync::mpsc;

use crate::bus::Bus;
use crate::clock::{Clock, SystemClock};
use crate::connections::Connections;
use crate::ids::{Ids, RandomIds};
use crate::tools::{Agents, TeamTools};

/// What the composition root gives the runtime.
#[derive(Clone, Debug)]
pub struct House {
    /// Where teams are remembered.
    pub store: Arc<dyn EventStore>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Who draws handles and nonces.
    pub ids: Arc<dyn Ids>,
    /// How agents are run.
    pub backends: Backends,
    /// Which agents and models there are.
    pub catalogue: Arc<dyn Agents>,
    /// The tools of the team.
    pub tools: TeamTools,
    /// Where the rules of the machine, the person and the projects come from.
    pub policy: Arc<dyn Policy>,
    /// Who hands out ways to a team; nobody until somebody listens.
    pub connections: OnceLock<Arc<dyn Connections>>,
}

impl House {
    /// A house with the machine's own clock and random ids.
    #[must_use]
    pub fn new(store: Arc<dyn EventStore>, backends: Backends, catalogue: impl Agents) -> Self {
        let catalogue: Arc<dyn Agents> = Arc::new(catalogue);
        Self {
            store,
            clock: Arc::new(SystemClock::new()),
            ids: Arc::new(RandomIds),
            backends,
            tools: TeamTools::new(Arc::clone(&catalogue)),
            catalogue,
            policy: Arc::new(NoPolicy),
            connections: OnceLock::new(),
        }
    }
}

/// Which backend runs which agent: by its type, by a backend's own word, else by one for all others.
#[derive(Clone, Default)]
pub struct Backends {
    by_type: BTreeMap<String, Arc<dyn Backend>>,
    by_word: Vec<Arc<dyn Backend>>,
    otherwise: Option<Arc<dyn Backend>>,
}

impl fmt::Debug for Backends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_type.keys()).finish_non_exhaustive()
    }
}

impl Backends {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One backend for every agent.
    #[must_use]
    pub fn all(backend: Arc<dyn Backend>) -> Self {
        Self { otherwise: Some(backend), ..Self::default() }
    }

    /// The one of these backends that the registry chooses for an environment.
    pub fn chosen(
        environment: &Environment,
        backends: impl IntoIterator<Item = Arc<dyn Backend>>,
    ) -> Result<Self, NoBackend> {
        let BackendChoice { kind, reason } = choose(environment)?;
        tracing::debug!(backend = kind.as_str(), %reason, "a backend was chosen");
        match backends.into_iter().find(|backend| backend.kind() == kind) {
            Some(backend) => Ok(Self::all(backend)),
            None => Err(NoBackend {
                setting: kind.as_str().to_owned(),
                why: "it is not set up here".to_owned(),
                available: "none".to_owned(),
            }),
        }
    }

    /// Adds the backend of one type of agent.
    #[must_use]
    pub fn with(mut self, agent_type: impl Into<String>, backend: Arc<dyn Backend>) -> Self {
        self.by_type.insert(agent_type.into(), backend);
        self
    }

    /// Adds a backend that says itself which agents it runs.
    #[must_use]
    pub fn also(mut self, backend: Arc<dyn Backend>) -> Self {
        self.by_word.push(backend);
        self
    }

    /// The backend of a type of agent.
    pub(crate) fn of(&self, agent_type: &str) -> Option<&Arc<dyn Backend>> {
        let by_word = || self.by_word.iter().find(|backend| backend.runs(agent_type));
        self.by_type.get(agent_type).or_else(by_word).or(self.otherwise.as_ref())
    }
}

/// What a session, its runners and its handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) team: TeamId,
    pub(crate) house: Arc<House>,
    pub(crate) bus: Bus,
    /// Up to the service: what a team cannot do for itself.
    pub(crate) up: mpsc::UnboundedSender<Upward>,
    /// How far the team's running time is ahead of the monotonic clock, modulo 2^64.
    ahead: AtomicU64,
}

impl Shared {
    pub(crate) fn new(team: TeamId, house: Arc<House>, up: mpsc::UnboundedSender<Upward>) -> Self {
        Self { team, house, bus: Bus::default(), up, ahead: AtomicU64::new(0) }
    }

    /// The team's running time: it goes on from the last recorded event by the monotonic clock.
    pub(crate) fn now(&self) -> Timestamp {
        let ahead = self.ahead.load(Ordering::Acquire);
        Timestamp(self.house.clock.monotonic().0.wrapping_add(ahead))
    }

    /// Lets the running time go on from `at`.
    pub(crate) fn start_time(&self, at: Timestamp) {
        let ahead = at.0.wrapping_sub(self.house.clock.monotonic().0);
        self.ahead.store(ahead, Ordering::Release);
    }

    /// When, on the monotonic clock, the running time reaches `at`.
    pub(crate) fn reaches(&self, at: Timestamp) -> Millis {
        let span = at - self.now();
        Millis(self.house.clock.monotonic().0.saturating_add(span.0))
    }
}

/// What a session asks of the service above it.
#[derive(Debug)]
pub(crate) enum Upward {
    /// Make the team that the person agreed to.
    CreateTeam { from: TeamId, request: RequestId },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_chooses_among_what_is_there() {
        let none = Backends::chosen(&Environment::default(), []);
        assert_eq!(
            none.map(|_| ()).unwrap_err().to_string(),
            "use the backend \"in-process\": it is not set up here; available: none"
        );
        let (backend, _stage) = aion_testkit::backend::StandIn::new();
        let one = Backends::chosen(&Environment::default(), [backend as Arc<dyn Backend>]);
        assert!(one.is_ok_and(|one| one.of("anybody").is_some()));
    }
}
