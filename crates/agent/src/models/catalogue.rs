//! What is known of models: their windows and prices; never asks a service.

use std::sync::LazyLock;

use serde::Deserialize;

use super::Service;

/// The models that are known without a word of the person's.
const BUILT_IN: &str = include_str!("prices.toml");

/// The id that stands for every model of a service that has no entry of its own.
const ANY: &str = "*";

/// The dearest price that is believed, in dollars for a million tokens.
const DEAREST: f64 = 1e6;

/// What a million tokens cost, in millionths of a US dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// Tokens read.
    pub input: u64,
    /// Tokens written.
    pub output: u64,
    /// Tokens read from a cache.
    pub cache_read: u64,
    /// Tokens written to a cache.
    pub cache_write: u64,
}

/// What is known of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    /// Its id at the service; `*` stands for every model of the service.
    pub id: String,
    /// Whose it is.
    pub service: Service,
    /// The tokens that its window holds; zero where that is not known.
    pub context_window: u32,
    /// The most tokens that it writes in one answer; zero where that is not known.
    pub max_output: u32,
    /// What it costs, if that is known.
    pub price: Option<Price>,
}

/// The models that are known.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    models: Vec<ModelInfo>,
    as_of: Option<String>,
}

/// Why a list of models cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPrices {
    /// It is no TOML of the right form.
    #[error("read it as a list of models: {0}")]
    Form(String),
    /// It names a service that is none.
    #[error("model {id:?}: there is no service {service:?}; there are: {known}")]
    Service {
        /// The model.
        id: String,
        /// What stands there.
        service: String,
        /// The services that there are.
        known: String,
    },
    /// It has a price that is none.
    #[error("model {0:?}: a price is a number of dollars from 0 to 1000000")]
    Price(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    #[serde(default)]
    as_of: Option<String>,
    #[serde(default, rename = "model")]
    models: Vec<ListedModel>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListedModel {
    service: String,
    id: String,
    #[serde(default)]
    context: u32,
    #[serde(default)]
    output: u32,
    #[serde(default)]
    price: Option<ListedPrice>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListedPrice {
    input: f64,
    output: f64,
    #[serde(default)]
    cache_read: Option<f64>,
    #[serde(default)]
    cache_write: Option<f64>,
}

impl Catalogue {
    /// A catalogue of these models.
    #[must_use]
    pub fn new(models: Vec<ModelInfo>) -> Self {
        Self { models, as_of: None }
    }

    /// The models that are known without a word of the person's.
    #[must_use]
    pub fn built_in() -> Self {
        static READ: LazyLock<Catalogue> = LazyLock::new(|| {
            // A test reads it; where it could not be read, nothing would be known.
            Catalogue::parse(BUILT_IN).unwrap_or_default()
        });
        READ.clone()
    }

    /// Reads a list of models as it stands in a `prices.toml`.
    pub fn parse(text: &str) -> Result<Self, BadPrices> {
        let listed: Listed =
            toml::from_str(text).map_err(|error| BadPrices::Form(error.to_string()))?;
        let models = listed.models.into_iter().map(ModelInfo::listed).collect::<Result<_, _>>()?;
        Ok(Self { models, as_of: listed.as_of })
    }

    /// With models that come before those that are here.
    #[must_use]
    pub fn with(mut self, own: Self) -> Self {
        self.models.splice(0..0, own.models);
        self
    }

    /// The day on which the prices were read, where it is known.
    #[must_use]
    pub fn as_of(&self) -> Option<&str> {
        self.as_of.as_deref()
    }

    /// What is known of a model at a service. A dated id (`…-20260922`, `…-2026-09-22`) is the model
    /// without its date, unless it has an entry of its own.
    #[must_use]
    pub fn find(&self, service: Service, id: &str) -> Option<&ModelInfo> {
        let whose = family(service);
        let of = |id: &str| {
            self.models.iter().find(|model| family(model.service) == whose && model.id == id)
        };
        of(id).or_else(|| of(undated(id)?)).or_else(|| of(ANY))
    }

    /// The models of a service, those that come first first, each once.
    pub fn of(&self, service: Service) -> impl Iterator<Item = &ModelInfo> {
        let whose = family(service);
        let named = move |model: &&ModelInfo| family(model.service) == whose && model.id != ANY;
        let mut seen = std::collections::BTreeSet::new();
        self.models.iter().filter(named).filter(move |model| seen.insert(model.id.as_str()))
    }
}

impl ModelInfo {
    fn listed(listed: ListedModel) -> Result<Self, BadPrices> {
        let ListedModel { service, id, context, output, price } = listed;
        let Some(service) = Service::from_name(&service) else {
            let known = Service::ALL.map(Service::name).join(", ");
            return Err(BadPrices::Service { id, service, known });
        };
        let price = match price {
            Some(price) => Some(price.micro().ok_or_else(|| BadPrices::Price(id.clone()))?),
            None => None,
        };
        Ok(Self { id, service, context_window: context, max_output: output, price })
    }
}

impl ListedPrice {
    fn micro(&self) -> Option<Price> {
        Some(Price {
            input: micro(self.input)?,
            output: micro(self.output)?,
            cache_read: micro(self.cache_read.unwrap_or(self.input))?,
            cache_write: micro(self.cache_write.unwrap_or(self.input))?,
        })
    }
}

/// Dollars in millionths.
fn micro(dollars: f64) -> Option<u64> {
    if !(0.0..=DEAREST).contains(&dollars) {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is not below zero, and 10^12 at most"
    )]
    Some((dollars * 1e6).round() as u64)
}

/// Both ways of speaking to one service call the same models.
fn family(service: Service) -> Service {
    match service {
        Service::OpenAi | Service::OpenAiResponses => Service::OpenAi,
        Service::Anthropic | Service::Gemini | Service::Ollama | Service::Compatible => service,
    }
}

/// An id without the date that it ends in.
fn undated(id: &str) -> Option<&str> {
    let shape = |pattern: &str| {
        let begins = id.len().checked_sub(pattern.len())?;
        let (model, date) = id.split_at_checked(begins)?;
        let fits = date.bytes().zip(pattern.bytes()).all(|(byte, wanted)| match wanted {
            b'-' => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
        (fits && !model.is_empty()).then_some(model)
    };
    shape("-00000000").or_else(|| shape("-0000-00-00"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_list_is_read_and_has_prices() {
        let catalogue = Catalogue::parse(BUILT_IN).unwrap();
        assert_eq!(catalogue.as_of(), Some("2026-12-01"));
        for service in [Service::Anthropic, Service::OpenAi, Service::Gemini] {
            let models: Vec<_> = catalogue.of(service).collect();
            assert!(models.len() > 3, "{service:?}");
            for model in models {
                assert!(model.price.is_some() && model.context_window >= 100_000, "{model:?}");
            }
        }
        let free = catalogue.find(Service::Ollama, "qwen3:8b").unwrap();
        assert_eq!(free.price, Some(Price::default()));
        assert_eq!(catalogue.find(Service::Compatible, "anything"), None);
    }

    #[test]
    fn a_model_is_found_by_its_id_its_date_or_not_at_all() {
        let list = |text: &str| Catalogue::parse(text).unwrap();
        let catalogue = Catalogue::built_in().with(list(
            "[[model]]\nservice = \"anthropic\"\nid = \"claude-sonnet-5-5\"\n\
             price = { input = 1, output = 2.5 }\n\
             [[model]]\nservice = \"openai\"\nid = \"own-2026-01-02\"\n",
        ));
        let check = |service, id: &str, expect: Option<(&str, Option<u64>)>| {
            let found = catalogue.find(service, id);
            let found =
                found.map(|model| (model.id.as_str(), model.price.map(|price| price.output)));
            assert_eq!(found, expect, "{id}");
        };
        let own = Some(("claude-sonnet-5-5", Some(2_500_000)));
        check(Service::Anthropic, "claude-sonnet-5-5", own);
        check(Service::Anthropic, "claude-sonnet-5-5-20260928", own);
        check(Service::Anthropic, "claude-sonnet-5-5-2026", None);
        check(Service::OpenAiResponses, "gpt-5.2", Some(("gpt-5.2", Some(14_000_000))));
        check(Service::OpenAi, "gpt-5.2-2025-12-11", Some(("gpt-5.2", Some(14_000_000))));
        check(Service::OpenAi, "own-2026-01-02", Some(("own-2026-01-02", None)));
        check(Service::Gemini, "gpt-5.2", None);
        check(Service::OpenAi, "é-20260101", None);
        let first = catalogue.of(Service::Anthropic).next().unwrap();
        assert_eq!(first.price.unwrap().cache_read, 1_000_000);
        assert_eq!(catalogue.of(Service::Anthropic).filter(|m| m.id == first.id).count(), 1);
    }

    #[test]
    fn what_is_no_list_is_refused_by_name() {
        let check = |text: &str, expect: &str| {
            let why = Catalogue::parse(text).unwrap_err().to_string();
            assert!(why.contains(expect), "{why}");
        };
        check(
            "[[model]]\nservice = \"x\"\nid = \"m\"\n",
            "no service \"x\"; there are: anthropic,",
        );
        check("[[model]]\nservice = \"ollama\"\nid = \"m\"\ncost = 1\n", "unknown field `cost`");
        for price in ["-1", "nan", "1e9"] {
            let text = format!(
                "[[model]]\nservice = \"ollama\"\nid = \"m\"\nprice = {{ input = {price}, output = 1 }}\n"
            );
            check(&text, "model \"m\": a price is a number");
        }
    }
}
