//! `aion providers` and `aion models`: which services can be used, and what their models cost; they
//! show no key.

use std::collections::BTreeMap;

use aion_agent::models::{Catalogue, ModelInfo, Service};
use aion_api::{CatalogueResponse, Exit};
use futures::future::join_all;
use serde::Serialize;
use serde_json::json;

use super::auth::{known, models_of};
use crate::args::{Models, Providers};
use crate::client::{Client, Look, Target, look, target};
use crate::exit::{Failure, Outcome};
use crate::output;
use crate::services::{Offer, Surroundings, dollars, services};
use crate::terminal::clean_line;

pub(super) async fn providers(args: Providers, json: bool) -> Outcome {
    let target = target(&args.reach)?;
    let client = match &target {
        Target::Remote { .. } => Some(Client::reach(target).await?),
        Target::Local { dir, .. } => match look(dir) {
            Look::There(file) => Some(Client::of(dir, &file)?),
            Look::Gone(_) | Look::Nobody => None,
        },
    };
    let asked = client.as_ref().map(Client::url);
    let offers = match &client {
        Some(client) => {
            let response: CatalogueResponse = client.get("/api/agents").await?;
            response.agents.into_iter().map(Offer::from).collect()
        }
        None => here(),
    };
    let offers: Vec<Offer> = offers.into_iter().filter(|offer| offer.service().is_some()).collect();
    let checked = if args.check { check(&offers).await? } else { BTreeMap::new() };
    if json {
        let rows: Vec<_> = offers
            .iter()
            .map(|offer| {
                let (place, key_from) = offer.service().unzip();
                json!({
                    "provider": offer.agent_type,
                    "available": offer.problem.is_none(),
                    "reason": offer.problem,
                    "key_from": key_from.flatten(),
                    "model": offer.models.first(),
                    "base_url": place,
                    "checked": checked.get(offer.agent_type.as_str()),
                })
            })
            .collect();
        output::json(&json!({ "daemon": asked, "providers": rows }))?;
        return Ok(Exit::Success);
    }
    print(&offers, &checked)?;
    output::line(&match asked {
        Some(url) => format!("as the daemon at {url} sees it"),
        None => "no daemon runs; one that is started from this shell sees it so".to_owned(),
    })?;
    if let Some(hint) = unseen(&offers, client.is_some()) {
        output::line(&hint)?;
    }
    Ok(Exit::Success)
}

/// As this process sees it.
fn here() -> Vec<Offer> {
    Offer::all(&services())
}

/// What one call to a service came to.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Checked {
    /// It answered, and has so many models.
    Models(usize),
    /// It did not.
    Failed(String),
}

async fn check(offers: &[Offer]) -> Result<BTreeMap<&str, Checked>, Failure> {
    let around = Surroundings::read()?;
    let calls = offers.iter().filter_map(|offer| {
        let found = around.find(Service::from_name(&offer.agent_type)?);
        // A key goes to the place that it was given for alone.
        let same = found.problem.is_none()
            && offer.service().is_some_and(|(place, _)| found.place == place);
        same.then_some(async move {
            let checked = match models_of(&found).await {
                Ok(models) => Checked::Models(models.len()),
                Err(why) => Checked::Failed(why.to_string()),
            };
            (offer.agent_type.as_str(), checked)
        })
    });
    Ok(join_all(calls).await.into_iter().collect())
}

fn print(offers: &[Offer], checked: &BTreeMap<&str, Checked>) -> Result<(), Failure> {
    let rows: Vec<Vec<String>> = offers
        .iter()
        .map(|offer| {
            let (place, key_from) = offer.service().unwrap_or_default();
            let what = match (&offer.problem, checked.get(offer.agent_type.as_str())) {
                (Some(problem), _) => clean_line(problem, 200),
                (None, Some(Checked::Models(count))) => format!("answers, and has {count} models"),
                (None, Some(Checked::Failed(why))) => clean_line(why, 200),
                (None, None) => place.to_owned(),
            };
            let dash = || "-".to_owned();
            vec![
                offer.agent_type.clone(),
                if offer.problem.is_none() { "yes" } else { "no" }.to_owned(),
                key_from.map_or_else(dash, str::to_owned),
                offer.models.first().cloned().unwrap_or_else(dash),
                what,
            ]
        })
        .collect();
    output::table(&["PROVIDER", "USABLE", "KEY FROM", "MODEL", "WHERE, OR WHY NOT"], &rows)
}

/// What this shell has and the daemon does not.
fn unseen(offers: &[Offer], daemon: bool) -> Option<String> {
    let around = Surroundings::read().ok().filter(|_| daemon)?;
    let names: Vec<String> = offers
        .iter()
        .filter(|offer| offer.problem.is_some())
        .filter_map(|offer| {
            let found = around.find(Service::from_name(&offer.agent_type)?);
            let (_, from) = found.key.filter(|_| found.problem.is_none())?;
            Some(format!("{} ({from})", offer.agent_type))
        })
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "this shell has keys that the daemon was started without: {}\n\
             aion stop, and the next command starts one that has them; or aion auth login PROVIDER",
            names.join(", ")
        )
    })
}

pub(super) async fn models(args: Models, json: bool) -> Outcome {
    let around = Surroundings::read()?;
    let catalogue = around.models()?;
    let rows = match args.provider.as_deref().map(known).transpose()? {
        Some(service) => asked(&around, &catalogue, service).await?,
        None => Service::ALL
            .into_iter()
            .filter(|service| *service != Service::OpenAiResponses)
            .flat_map(|service| {
                catalogue.of(service).map(move |model| row(service, &model.id, Some(model)))
            })
            .collect(),
    };
    if json {
        output::json(&json!({ "as_of": catalogue.as_of(), "models": rows }))?;
        return Ok(Exit::Success);
    }
    if rows.is_empty() {
        output::line("it has no models")?;
        return Ok(Exit::Success);
    }
    let cells: Vec<Vec<String>> = rows.iter().map(Row::cells).collect();
    output::table(&["PROVIDER", "MODEL", "WINDOW", "READ", "FROM CACHE", "WRITTEN"], &cells)?;
    if let Some(day) = catalogue.as_of() {
        output::line(&format!(
            "dollars a million tokens, as of {day}; prices.toml beside your settings changes them"
        ))?;
    }
    Ok(Exit::Success)
}

/// The models that a service says it has; where it cannot be asked, why not.
async fn asked(
    around: &Surroundings,
    catalogue: &Catalogue,
    service: Service,
) -> Result<Vec<Row>, Failure> {
    let found = around.find(service);
    let name = service.name();
    let failed = |why: String| {
        Failure::new(
            Exit::Authentication,
            "provider.missing",
            format!("{name} cannot be asked: {why}"),
        )
        .with_hint("aion models without a name lists the models that are known")
    };
    if let Some(problem) = &found.problem {
        return Err(failed(problem.clone()));
    }
    let models = models_of(&found).await.map_err(|why| failed(why.to_string()))?;
    Ok(models.iter().map(|id| row(service, id, catalogue.find(service, id))).collect())
}

/// A model for people and programs.
#[derive(Debug, Serialize)]
struct Row {
    provider: &'static str,
    model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_window: Option<u32>,
    /// In millionths of a dollar for a million tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    price: Option<RowPrice>,
}

#[derive(Debug, Serialize)]
struct RowPrice {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

fn row(service: Service, id: &str, known: Option<&ModelInfo>) -> Row {
    let price = known.and_then(|known| known.price).map(|price| RowPrice {
        input: price.input,
        output: price.output,
        cache_read: price.cache_read,
        cache_write: price.cache_write,
    });
    let window = known.map(|known| known.context_window).filter(|window| *window > 0);
    Row { provider: service.name(), model: clean_line(id, 100), context_window: window, price }
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let unknown = || "-".to_owned();
        let price = |of: fn(&RowPrice) -> u64| {
            self.price.as_ref().map_or_else(unknown, |price| dollars(of(price)))
        };
        vec![
            self.provider.to_owned(),
            self.model.clone(),
            self.context_window.map_or_else(unknown, |window| window.to_string()),
            price(|price| price.input),
            price(|price| price.cache_read),
            price(|price| price.output),
        ]
    }
}
