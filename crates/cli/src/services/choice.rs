//! Which agent a run's lead is: what the person asks for, else the best that can be used; it calls
//! nobody.

use aion_agent::models::Service;
use aion_api::{AgentKindRow, CatalogueAgentRow, Exit};
use aion_runtime::tools::Catalogue;
use aion_server::catalogue_rows;

use super::found::variables;
use crate::exit::Failure;
use crate::terminal::clean_line;

/// An agent that there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Its key.
    pub(crate) agent_type: String,
    /// Why it cannot be used.
    pub(crate) problem: Option<String>,
    /// What it is.
    pub(crate) kind: Kind,
    /// Its models, its own choice first.
    pub(crate) models: Vec<String>,
}

/// What an agent is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It plays scenarios.
    Scenario,
    /// It thinks with models of a service.
    Service {
        /// Where they are called.
        place: String,
        /// Where the key comes from.
        key_from: Option<String>,
    },
    /// It is a program of its own.
    Program {
        /// The package that its first start fetches, if it does.
        downloads: Option<String>,
    },
}

impl Offer {
    /// All agents of a catalogue.
    pub(crate) fn all(catalogue: &Catalogue) -> Vec<Self> {
        catalogue_rows(catalogue).into_iter().map(Self::from).collect()
    }

    /// Where its models are called, and where the key comes from; none where it has no service.
    pub(crate) fn service(&self) -> Option<(&str, Option<&str>)> {
        match &self.kind {
            Kind::Service { place, key_from } => Some((place, key_from.as_deref())),
            Kind::Scenario | Kind::Program { .. } => None,
        }
    }

    fn key_from(&self) -> Option<&str> {
        self.service().and_then(|(_, key_from)| key_from)
    }

    /// Whether somebody may find it leading a team that he did not ask it to lead.
    fn leads_unasked(&self) -> bool {
        match &self.kind {
            Kind::Scenario => false,
            Kind::Service { .. } => true,
            Kind::Program { downloads } => downloads.is_none(),
        }
    }
}

impl From<CatalogueAgentRow> for Offer {
    fn from(row: CatalogueAgentRow) -> Self {
        let unknown = || "it cannot be used".to_owned();
        let kind = match (row.kind, row.provider, row.program) {
            (AgentKindRow::Program, _, program) => {
                Kind::Program { downloads: program.and_then(|program| program.downloads) }
            }
            (AgentKindRow::Service, Some(provider), _) => {
                Kind::Service { place: provider.base_url, key_from: provider.key_from }
            }
            (AgentKindRow::Service | AgentKindRow::Scenario, _, _) => Kind::Scenario,
        };
        Self {
            agent_type: row.agent_type,
            problem: (!row.available).then(|| row.reason.unwrap_or_else(unknown)),
            kind,
            models: row.models,
        }
    }
}

/// What the person asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// An agent of any kind.
    pub(crate) agent: Option<String>,
    /// A service.
    pub(crate) provider: Option<String>,
    /// A model.
    pub(crate) model: Option<String>,
}

/// Who the lead is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// The agent.
    pub(crate) agent_type: String,
    /// What it is.
    pub(crate) kind: Kind,
    /// Its model; none where it has its own choice, or where that has to be asked for.
    pub(crate) model: Option<String>,
}

/// Chooses among what is there. `here` says whether a variable is set where the command runs.
pub(crate) fn choose(
    offers: &[Offer],
    wanted: &Wanted,
    here: impl Fn(&str) -> bool,
) -> Result<Chosen, Failure> {
    let services: Vec<&Offer> = offers.iter().filter(|offer| offer.service().is_some()).collect();
    let (named, model) = split(wanted);
    let offer = match (&wanted.agent, named, &model) {
        (Some(agent), _, _) => {
            let all: Vec<&Offer> = offers.iter().collect();
            known(&all, agent, "agent")?
        }
        (None, Some(name), _) => known(&services, name, "provider")?,
        (None, None, Some(model)) => of_model(&services, model)?,
        (None, None, None) => offers
            .iter()
            .find(|offer| offer.problem.is_none() && offer.leads_unasked())
            .ok_or_else(|| none(&services, &here))?,
    };
    if let Some(problem) = &offer.problem {
        let failure = missing(format!("{} cannot be used: {problem}", offer.agent_type));
        return Err(match (&offer.kind, set_here_alone(offer, &here)) {
            (_, Some(hint)) => failure.with_hint(hint),
            (Kind::Program { .. }, None) => {
                failure.with_hint("aion agent detect shows what there is, and what helps")
            }
            (Kind::Scenario | Kind::Service { .. }, None) => {
                failure.with_hint("aion providers shows what there is")
            }
        });
    }
    Ok(Chosen {
        agent_type: offer.agent_type.clone(),
        kind: offer.kind.clone(),
        model: model.or_else(|| offer.models.first().cloned()),
    })
}

/// A model may be named with its service: `openai/gpt-5.2`.
fn split(wanted: &Wanted) -> (Option<&str>, Option<String>) {
    if wanted.provider.is_none()
        && wanted.agent.is_none()
        && let Some((service, model)) =
            wanted.model.as_deref().and_then(|text| text.split_once('/'))
        && Service::from_name(service).is_some()
        && !model.is_empty()
    {
        return (Some(service), Some(model.to_owned()));
    }
    (wanted.provider.as_deref(), wanted.model.clone())
}

fn known<'o>(offers: &[&'o Offer], name: &str, what: &str) -> Result<&'o Offer, Failure> {
    offers.iter().find(|offer| offer.agent_type == name).copied().ok_or_else(|| {
        let names: Vec<&str> = offers.iter().map(|offer| offer.agent_type.as_str()).collect();
        Failure::usage(format!("there is no {what} {:?}", clean_line(name, 40)))
            .with_hint(format!("there are: {}", names.join(", ")))
    })
}

/// The service that has a model: one that can be used, if any can.
fn of_model<'o>(services: &[&'o Offer], model: &str) -> Result<&'o Offer, Failure> {
    let having = || services.iter().filter(|offer| offer.models.iter().any(|known| known == model));
    let usable = || services.iter().filter(|offer| offer.problem.is_none());
    let found = having().find(|offer| offer.problem.is_none()).or_else(|| having().next());
    // Where one service can be used, a model that nobody knows is one of its.
    let only = || usable().next().filter(|_| usable().count() == 1);
    found.or_else(only).copied().ok_or_else(|| {
        let message = format!("no provider is known to have the model {:?}", clean_line(model, 80));
        Failure::usage(message)
            .with_hint("name it with its provider: --provider NAME --model MODEL")
    })
}

/// A service whose key is set where the command runs, and not where the daemon was started.
fn set_here_alone(offer: &Offer, here: &impl Fn(&str) -> bool) -> Option<String> {
    let service = Service::from_name(&offer.agent_type)?;
    let name = variables(service).iter().find(|name| here(name))?;
    offer.key_from().is_none().then(|| {
        format!(
            "{name} is set in this shell, but the daemon was started without it: aion stop, and run \
             it again; or aion auth login {}, which the daemon reads at once",
            offer.agent_type
        )
    })
}

fn none(services: &[&Offer], here: &impl Fn(&str) -> bool) -> Failure {
    let failure = missing(
        "there is nobody to lead: no agent is installed, no key is set, and no Ollama answers",
    );
    if let Some(hint) = services.iter().find_map(|offer| set_here_alone(offer, here)) {
        return failure.with_hint(hint);
    }
    failure.with_hint(
        "set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or aion auth login PROVIDER; \
         or start Ollama; or install an agent, see aion agent detect; or watch `aion demo`, which \
         needs no key",
    )
}

fn missing(message: impl Into<String>) -> Failure {
    Failure::new(Exit::Authentication, "provider.missing", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(name: &str, problem: Option<&str>, models: &[&str]) -> Offer {
        Offer {
            agent_type: name.to_owned(),
            problem: problem.map(str::to_owned),
            kind: match name {
                "scripted" => Kind::Scenario,
                "codex" => Kind::Program { downloads: Some("codex@1".to_owned()) },
                _ => Kind::Service {
                    place: format!("https://{name}.example"),
                    key_from: problem.is_none().then(|| "KEY".to_owned()),
                },
            },
            models: models.iter().map(|&model| model.to_owned()).collect(),
        }
    }

    #[test]
    fn what_is_asked_for_counts_else_the_first_that_can_be_used() {
        let offers = [
            offer("codex", None, &[]),
            offer("openai", None, &["gpt-a", "gpt-b"]),
            offer("scripted", None, &[]),
            offer("ollama", None, &[]),
            offer("anthropic", Some("no key"), &["claude"]),
        ];
        let check = |provider: Option<&str>,
                     model: Option<&str>,
                     expect: Result<(&str, Option<&str>), &str>| {
            let (provider, model) = (provider.map(str::to_owned), model.map(str::to_owned));
            let wanted = Wanted { agent: None, provider, model };
            let chosen = choose(&offers, &wanted, |_| false);
            let got = chosen
                .as_ref()
                .map(|chosen| (chosen.agent_type.as_str(), chosen.model.as_deref()))
                .map_err(Failure::code);
            assert_eq!(got, expect, "{wanted:?}");
        };
        check(None, None, Ok(("openai", Some("gpt-a"))));
        check(Some("openai"), Some("other"), Ok(("openai", Some("other"))));
        check(None, Some("gpt-b"), Ok(("openai", Some("gpt-b"))));
        check(None, Some("ollama/qwen3:8b"), Ok(("ollama", Some("qwen3:8b"))));
        check(Some("ollama"), None, Ok(("ollama", None)));
        check(None, Some("unknown"), Err("usage"));
        check(Some("scripted"), None, Err("usage"));
        check(Some("anthropic"), None, Err("provider.missing"));
        check(None, Some("claude"), Err("provider.missing"));
        let asked = Wanted { agent: Some("codex".into()), ..Wanted::default() };
        let codex = choose(&offers, &asked, |_| false).unwrap();
        assert_eq!((codex.agent_type.as_str(), codex.model), ("codex", None));
        let asked = Wanted { agent: Some("goose".into()), ..Wanted::default() };
        assert_eq!(choose(&offers, &asked, |_| false).unwrap_err().code(), "usage");
        let installed = Kind::Program { downloads: None };
        let offers = [Offer { kind: installed, ..offer("codex", None, &[]) }, offers[1].clone()];
        let first = choose(&offers, &Wanted::default(), |_| false).unwrap();
        assert_eq!(first.agent_type, "codex", "what has not to be fetched leads unasked");
    }

    #[test]
    fn a_key_that_the_daemon_does_not_have_is_told() {
        let offers = [offer("anthropic", Some("no key"), &["claude"])];
        let hint = |here: &str| {
            let chosen = choose(&offers, &Wanted::default(), |name| name == here);
            chosen.unwrap_err().body().error.hint.clone().unwrap()
        };
        assert!(hint("ANTHROPIC_API_KEY").contains("the daemon was started without it"));
        assert!(hint("OTHER").contains("aion auth login"));
    }
}
