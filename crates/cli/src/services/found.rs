//! What is found of one service: its place, its key with where that came from, its model, and why it
//! cannot be used; it calls nobody but a local port.

use std::env;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use aion_agent::models::{Catalogue, ModelInfo, Price, Secret, Service, ServiceConfig};
use aion_api::Exit;

use super::stored::Stored;
use crate::config::{Paths, Settings, place, reference};
use crate::exit::Failure;

/// How long a port of this machine may take to be there.
const KNOCK: Duration = Duration::from_millis(100);

/// Where a key came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyFrom {
    /// A usual variable.
    Variable(&'static str),
    /// The variable that the settings name.
    Settings(String),
    /// `aion auth login`.
    Stored,
}

impl fmt::Display for KeyFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => f.write_str(name),
            Self::Settings(name) => write!(f, "{name}, by your settings"),
            Self::Stored => f.write_str("aion auth"),
        }
    }
}

/// A service as it is found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Which.
    pub(crate) service: Service,
    /// Where it is called; empty where that is not known.
    pub(crate) place: String,
    /// Its key.
    pub(crate) key: Option<(Secret, KeyFrom)>,
    /// The model that the settings name for it.
    pub(crate) model: Option<String>,
    /// Whether the person pointed to it, rather than that it happens to be here.
    pub(crate) meant: bool,
    /// Why it cannot be used.
    pub(crate) problem: Option<String>,
}

impl Found {
    /// How it is called.
    pub(crate) fn config(&self) -> ServiceConfig {
        ServiceConfig {
            service: self.service,
            base_url: Some(self.place.clone()),
            key: self.key.as_ref().map(|(key, _)| key.clone()),
        }
    }
}

/// What services are found in.
#[derive(Debug)]
pub(crate) struct Surroundings {
    settings: Settings,
    stored: Stored,
    prices: PathBuf,
}

impl Surroundings {
    /// As they are at present.
    pub(crate) fn read() -> Result<Self, Failure> {
        let paths = Paths::here()?;
        let settings = Settings::read(&paths, |name| env::var(name).ok())?;
        let stored = Stored::read(&Stored::path(&paths))?;
        Ok(Self { settings, stored, prices: paths.user.with_file_name("prices.toml") })
    }

    /// The keys that are kept.
    pub(crate) fn kept(&self) -> &Stored {
        &self.stored
    }

    /// The same, to be changed.
    pub(crate) fn stored(&mut self) -> &mut Stored {
        &mut self.stored
    }

    /// One service.
    pub(crate) fn find(&self, service: Service) -> Found {
        find(service, &self.settings, &self.stored, |name| env::var(name).ok())
    }

    /// All models that are known, those of the person's own list first.
    pub(crate) fn models(&self) -> Result<Catalogue, Failure> {
        let text = match fs::read_to_string(&self.prices) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Catalogue::built_in()),
            Err(error) => {
                return Err(Failure::io(format!("read {}", self.prices.display()), &error));
            }
        };
        let own = Catalogue::parse(&text).map_err(|why| {
            let message = format!("{}: {why}", self.prices.display());
            Failure::new(Exit::Usage, "prices.unreadable", message)
        })?;
        Ok(Catalogue::built_in().with(own))
    }
}

/// What tells that the person's files are those that were read.
pub(super) type Stamp = Vec<Option<(u64, i64, i64, u64)>>;

/// That of the files as they are at present.
pub(super) fn stamp() -> Stamp {
    let Ok(paths) = Paths::here() else { return Vec::new() };
    let beside = |name: &str| paths.user.with_file_name(name);
    let files = [Some(paths.user.clone()), paths.project.clone(), paths.local.clone()];
    let own = [Some(beside("credentials.toml")), Some(beside("prices.toml"))];
    let of = |path: PathBuf| {
        let meta = fs::metadata(path).ok()?;
        Some((meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.len()))
    };
    files.into_iter().chain(own).map(|path| path.and_then(of)).collect()
}

/// The models at a place. What a program on the person's own machine runs costs nothing, unless
/// there is another word on it.
pub(super) fn models_at(catalogue: Catalogue, found: &Found) -> Catalogue {
    let free = match found.service {
        Service::OpenAi | Service::OpenAiResponses | Service::Compatible => is_here(&found.place),
        Service::Anthropic | Service::Gemini | Service::Ollama => false,
    };
    if !free {
        return catalogue;
    }
    let any = ModelInfo {
        id: "*".to_owned(),
        service: found.service,
        context_window: 0,
        max_output: 0,
        price: Some(Price::default()),
    };
    Catalogue::new(vec![any]).with(catalogue)
}

/// The usual variables of a service's key.
pub(crate) fn variables(service: Service) -> &'static [&'static str] {
    match service {
        Service::Anthropic => &["ANTHROPIC_API_KEY"],
        Service::OpenAi | Service::OpenAiResponses => &["OPENAI_API_KEY"],
        Service::Gemini => &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        Service::Ollama => &["OLLAMA_API_KEY"],
        Service::Compatible => &[],
    }
}

/// The usual variable of a service's place.
fn place_variable(service: Service) -> Option<&'static str> {
    match service {
        Service::Anthropic => Some("ANTHROPIC_BASE_URL"),
        Service::OpenAi | Service::OpenAiResponses => Some("OPENAI_BASE_URL"),
        Service::Ollama => Some("OLLAMA_HOST"),
        Service::Gemini | Service::Compatible => None,
    }
}

fn find(
    service: Service,
    settings: &Settings,
    stored: &Stored,
    variable: impl Fn(&str) -> Option<String>,
) -> Found {
    let variable = |name: &str| {
        variable(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let setting = |field: &str| settings.text(&format!("providers.{}.{field}", service.name()));
    let mut problem = None;
    let mut given = None;
    if let Some((name, text)) =
        place_variable(service).and_then(|name| Some((name, variable(name)?)))
    {
        let usable = if service == Service::Ollama { ollama(&text) } else { place(&text) };
        given = usable.map_err(|why| problem = Some(format!("{name}: {why}"))).ok();
    }
    let given = given.or_else(|| setting("base_url").and_then(|text| place(text).ok()));
    let home = service.home().unwrap_or_default();
    let pointed = given.is_some();
    let place = given.unwrap_or_else(|| home.to_owned());
    let key = match setting("key").and_then(reference) {
        Some(name) => {
            let key = variable(name);
            if key.is_none() {
                problem.get_or_insert_with(|| {
                    format!("{name} is not set, and your settings name it for the key")
                });
            }
            key.map(|key| (Secret::new(key), KeyFrom::Settings(name.to_owned())))
        }
        None => variables(service)
            .iter()
            .find_map(|name| Some((Secret::new(variable(name)?), KeyFrom::Variable(name))))
            .or_else(|| Some((stored.key(service)?.clone(), KeyFrom::Stored))),
    };
    let problem = problem.or_else(|| {
        let lacking = || {
            let ways = variables(service).first().map(|name| format!("set {name}, or "));
            format!("no key: {}aion auth login {}", ways.unwrap_or_default(), service.name())
        };
        match service {
            Service::Compatible if place.is_empty() => {
                Some("no base URL: aion config set providers.compatible.base_url URL".to_owned())
            }
            Service::Ollama if !pointed && !answers(&place) => {
                Some(format!("no Ollama answers at {place}"))
            }
            Service::Compatible | Service::Ollama => None,
            // Somebody who stands between may want no key.
            Service::Anthropic | Service::OpenAi | Service::OpenAiResponses | Service::Gemini => {
                if key.is_none() && !pointed {
                    Some(lacking())
                } else if key.is_some() && place.starts_with("http:") && !is_here(&place) {
                    Some(format!(
                        "{place} would send your key where others can read it; use https://"
                    ))
                } else {
                    None
                }
            }
        }
    });
    let model = setting("model").map(str::to_owned);
    Found { service, place, meant: pointed || key.is_some(), key, model, problem }
}

/// The place that `OLLAMA_HOST` names: a host with or without a port, or a URL. A server that
/// listens everywhere is called here.
fn ollama(text: &str) -> Result<String, String> {
    let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let whole = place(&whole)?;
    let (scheme, host) = whole.split_once("://").unwrap_or(("http", &whole));
    let host = host.replacen("0.0.0.0", "127.0.0.1", 1).replacen("[::]", "[::1]", 1);
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let usual = if has_port || text.contains("://") { "" } else { ":11434" };
    Ok(format!("{scheme}://{host}{usual}"))
}

/// Whether a place is on this machine.
pub(super) fn is_here(place: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(place) else { return false };
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether somebody listens at a place of this machine.
fn answers(place: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(place) else { return false };
    if !is_here(place) {
        return false;
    }
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = url.port_or_known_default().unwrap_or(80);
    let addresses: Vec<SocketAddr> =
        (host.as_str(), port).to_socket_addrs().map(Iterator::collect).unwrap_or_default();
    addresses.iter().any(|address| TcpStream::connect_timeout(address, KNOCK).is_ok())
}
