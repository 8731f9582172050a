//! Who answers for an agent of this machine: its team's scenario, a model of a service, or a program;
//! what is kept is read anew for each agent that starts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aion_agent::models::{Catalogue as Models, ModelInfo, Price, Service, ServiceProvider};
use aion_agent::provider::Provider;
use aion_backends::{Availability, ProviderSource};
use aion_core::id::TeamId;
use aion_runtime::tools::{
    AgentKind, Agents, Catalogue, CatalogueAgent, CatalogueModel, Trial, TrialError,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::runtime::Handle;

use super::found::{Found, Stamp, Surroundings, models_at, stamp};
use super::http::Callers;
use crate::agents::{Choice, Programs};
use crate::daemon::SCRIPTED;
use crate::exit::Failure;
use crate::scenarios::Scenarios;

/// How long what was found counts, while the files that it was found in stay as they are.
const FRESH: Duration = Duration::from_secs(10);

/// How many models of a service are listed for a team.
const LISTED: usize = 12;

/// All that can answer for an agent here.
#[derive(Debug)]
pub(crate) struct Services {
    scenarios: Arc<Scenarios>,
    callers: Callers,
    programs: Arc<Programs>,
    /// What was found a moment ago. Only spares looking for each of many agents.
    seen: Arc<Mutex<Seen>>,
    /// Whether programs were asked for what no file says; they are once by themselves.
    asked: AtomicBool,
}

type Seen = Option<(Instant, Stamp, Arc<Catalogue>)>;

impl Services {
    /// With the scenarios of a data directory, and the agents that are programs.
    pub(crate) fn new(scenarios: Arc<Scenarios>, programs: Arc<Programs>) -> Self {
        Self {
            scenarios,
            callers: Callers::default(),
            programs,
            seen: Arc::default(),
            asked: AtomicBool::new(false),
        }
    }

    fn service(&self, service: Service, model: Option<&str>) -> Result<ServiceProvider, String> {
        let around = Surroundings::read().map_err(said)?;
        let found = around.find(service);
        if let Some(problem) = found.problem {
            return Err(format!("{}: {problem}", service.name()));
        }
        let models = models_at(around.models().map_err(said)?, &found);
        let usual = || models.of(service).next().map(|model| model.id.clone());
        let model = model.map(str::to_owned).or_else(|| found.model.clone()).or_else(usual);
        let model = model.ok_or_else(|| {
            let name = service.name();
            format!(
                "{name}: no model is named; aion models {name} lists them, and --model takes one"
            )
        })?;
        let http = self.callers.of(&found.place)?;
        ServiceProvider::new(found.config(), model, Arc::new(models), http)
            .map_err(|why| why.to_string())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is the end of the failure's way")]
fn said(failure: Failure) -> String {
    failure.message().to_owned()
}

impl ProviderSource for Services {
    fn provider(
        &self,
        team: &TeamId,
        agent_type: &str,
        model: Option<&str>,
    ) -> Result<Arc<dyn Provider>, String> {
        if agent_type == SCRIPTED {
            return self.scenarios.provider(team, agent_type, model);
        }
        let service = Service::from_name(agent_type)
            .ok_or_else(|| format!("there is no agent {agent_type:?} here"))?;
        Ok(Arc::new(self.service(service, model)?))
    }
}

impl Agents for Services {
    fn catalogue(&self) -> Arc<Catalogue> {
        // Nothing in here can be half-done: a poisoned lock holds valid data.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = stamp();
        if let Some((at, stamp, catalogue)) = &*seen
            && at.elapsed() < FRESH
            && *stamp == now
        {
            return Arc::clone(catalogue);
        }
        let catalogue = Arc::new(self.look());
        *seen = Some((Instant::now(), now, Arc::clone(&catalogue)));
        drop(seen);
        self.ask_once();
        catalogue
    }

    fn try_out<'a>(&'a self, agent_type: &'a str) -> BoxFuture<'a, Result<Trial, TrialError>> {
        async {
            let tried = self.programs.try_out(agent_type).await;
            forget(&self.seen);
            tried
        }
        .boxed()
    }

    fn look_again(&self) -> BoxFuture<'_, Arc<Catalogue>> {
        async {
            self.programs.ask().await;
            forget(&self.seen);
            self.catalogue()
        }
        .boxed()
    }
}

fn forget(seen: &Mutex<Seen>) {
    *seen.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

impl Services {
    /// Has programs asked in the background, so that nobody waits for them.
    fn ask_once(&self) {
        let Ok(runtime) = Handle::try_current() else { return };
        if self.asked.swap(true, Ordering::Relaxed) {
            return;
        }
        let (programs, seen) = (Arc::clone(&self.programs), Arc::clone(&self.seen));
        // It ends by itself: each program has its time.
        runtime.spawn(async move {
            programs.ask().await;
            forget(&seen);
        });
    }

    fn look(&self) -> Catalogue {
        catalogue(&self.programs, self.scenarios.plays_for_all())
    }
}

/// All agents of this machine, the best first: programs that are installed and that somebody has
/// signed in to; services that the person pointed to; the player of scenarios; programs where no
/// login is seen; other services; programs that have to be fetched; what cannot be used. Who plays
/// scenarios for all teams comes before everybody.
pub(crate) fn catalogue(programs: &Programs, plays_for_all: bool) -> Catalogue {
    let (meant, others) = listed();
    let others = others
        .into_iter()
        .partition(|agent: &CatalogueAgent| agent.availability == Availability::Available);
    let (usable, unusable): (Vec<_>, Vec<_>) = others;
    let programs = programs.rows();
    let of = |wanted: Choice| {
        let chosen = programs.iter().filter(|(choice, _)| *choice == wanted);
        chosen.map(|(_, agent)| agent.clone()).collect::<Vec<_>>()
    };
    let (first, middle) =
        if plays_for_all { (vec![scripted()], Vec::new()) } else { (Vec::new(), vec![scripted()]) };
    let order = [
        first,
        of(Choice::Ready),
        meant,
        middle,
        of(Choice::Installed),
        usable,
        of(Choice::Fetched),
        unusable,
        of(Choice::None),
    ];
    Catalogue { agents: order.into_iter().flatten().collect() }
}

/// The agent that plays scenarios.
fn scripted() -> CatalogueAgent {
    CatalogueAgent {
        agent_type: SCRIPTED.to_owned(),
        description: "plays the scenario that its team was given".to_owned(),
        availability: Availability::Available,
        kind: AgentKind::Scenario,
        models: Vec::new(),
    }
}

/// The models' services alone.
pub(crate) fn services() -> Catalogue {
    let (meant, others) = listed();
    Catalogue { agents: meant.into_iter().chain(others).collect() }
}

/// The services: those that can be used because the person pointed to them, and all others.
fn listed() -> (Vec<CatalogueAgent>, Vec<CatalogueAgent>) {
    let around = match Surroundings::read().and_then(|around| Ok((around.models()?, around))) {
        Ok(around) => around,
        Err(failure) => {
            let reason = failure.message();
            let unusable = |service| unusable(service, reason);
            return (Vec::new(), Service::ALL.into_iter().map(unusable).collect());
        }
    };
    let (models, around) = around;
    let found = Service::ALL.into_iter().map(|service| around.find(service));
    let (meant, others): (Vec<Found>, Vec<Found>) =
        found.partition(|found| found.meant && found.problem.is_none());
    let agents = |found: Vec<Found>| found.iter().map(|found| agent(found, &models)).collect();
    (agents(meant), agents(others))
}

fn unusable(service: Service, reason: &str) -> CatalogueAgent {
    CatalogueAgent {
        agent_type: service.name().to_owned(),
        description: description(service).to_owned(),
        availability: Availability::Unavailable { reason: reason.to_owned() },
        kind: AgentKind::Service { place: String::new(), key: None, others_priced: false },
        models: Vec::new(),
    }
}

fn agent(found: &Found, models: &Models) -> CatalogueAgent {
    let models = models_at(models.clone(), found);
    let own = found.model.iter().map(|id| model(id, models.find(found.service, id)));
    let known = models.of(found.service).filter(|known| Some(&known.id) != found.model.as_ref());
    let known = known.map(|known| model(&known.id, Some(known)));
    // What stands for all that are not listed.
    let others = models.find(found.service, "").and_then(|any| any.price);
    CatalogueAgent {
        agent_type: found.service.name().to_owned(),
        description: description(found.service).to_owned(),
        availability: match &found.problem {
            None => Availability::Available,
            Some(reason) => Availability::Unavailable { reason: reason.clone() },
        },
        kind: AgentKind::Service {
            place: found.place.clone(),
            key: found.key.as_ref().map(|(_, from)| from.to_string()),
            others_priced: others.is_some(),
        },
        models: own.chain(known).take(LISTED).collect(),
    }
}

fn model(id: &str, known: Option<&ModelInfo>) -> CatalogueModel {
    let price = known.and_then(|known| known.price);
    let description = match price {
        None => "its price is not known".to_owned(),
        Some(price) if price == Price::default() => "costs nothing".to_owned(),
        Some(price) => {
            format!(
                "{} read, {} written, a million tokens",
                dollars(price.input),
                dollars(price.output)
            )
        }
    };
    CatalogueModel { id: id.to_owned(), description, priced: price.is_some() }
}

/// Millionths of a dollar, as people write them.
pub(crate) fn dollars(micro: u64) -> String {
    let text = format!("${}.{:06}", micro / 1_000_000, micro % 1_000_000);
    let short = text.trim_end_matches('0');
    let decimals = short.rsplit('.').next().map_or(0, str::len);
    format!("{short}{}", "0".repeat(2_usize.saturating_sub(decimals)))
}

fn description(service: Service) -> &'static str {
    match service {
        Service::Anthropic => "models of Anthropic",
        Service::OpenAi => "models of OpenAI",
        Service::OpenAiResponses => "models of OpenAI, by Responses",
        Service::Gemini => "models of Google",
        Service::Ollama => "models that Ollama runs",
        Service::Compatible => "models of a service that speaks as OpenAI does",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_written_as_people_write_them() {
        for (micro, expect) in
            [(0, "$0.00"), (2_000_000, "$2.00"), (75_000, "$0.075"), (1_250_000, "$1.25")]
        {
            assert_eq!(dollars(micro), expect);
        }
    }
}
