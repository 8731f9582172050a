//! The sandbox as the person's settings want it; it runs nothing.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aion_agent::network::{Network, NetworkRules, Rule};
use aion_agent::sandbox::{Grounds, Mode, Sandbox};

use crate::config::{Key, Paths, Settings};
use crate::exit::Failure;
use crate::services::Stored;

/// Variables that say where programs keep what is closed.
const ELSEWHERE: &[&str] = &[
    "AION_CONFIG",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "GNUPGHOME",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_CONFIG_FILE",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "KUBECONFIG",
    "DOCKER_CONFIG",
    "NETRC",
];

/// The sandbox of a house over a data directory.
pub(crate) fn sandbox(dir: &Path) -> Result<Sandbox, Failure> {
    let settings = Settings::read(&Paths::here()?, |name| env::var(name).ok())?;
    let mode = match settings.text("sandbox.mode") {
        Some("ask") => Mode::Ask,
        Some("off") => Mode::Off,
        _ => Mode::Required,
    };
    let home = env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let paths = Paths::here()?;
    // The token by itself, too: a workspace of the house's own lies in its directory.
    let mut closed = vec![dir.to_owned(), dir.join("token"), Stored::path(&paths)];
    closed.extend(paths.user.parent().map(Path::to_owned).filter(|at| at.ends_with("aion")));
    let named = ELSEWHERE.iter().filter_map(env::var_os).map(PathBuf::from);
    closed.extend(named.filter(|path| path.is_absolute() && path.parent().is_some()));
    let writable = list(&settings, "sandbox.writable")
        .iter()
        .filter_map(|path| match (path.strip_prefix("~/"), &home) {
            (Some(rest), Some(home)) => Some(home.join(rest)),
            (Some(_), None) => None,
            (None, _) => Some(PathBuf::from(path)),
        })
        .collect();
    let rules = NetworkRules {
        allow: rules(&settings, "network.allow")?,
        deny: rules(&settings, "network.deny")?,
        private: rules(&settings, "network.private")?,
    };
    let sandbox = Sandbox::by_own_binary(mode, Grounds { home, closed, writable })
        .map_err(|error| Failure::io("find this program", &error))?;
    let open = settings.text("sandbox.local_sockets") == Some("open");
    Ok(sandbox.with_local_sockets(open).with_network(Arc::new(Network::new(rules))))
}

fn rules(settings: &Settings, name: &str) -> Result<Vec<Rule>, Failure> {
    let all = list(settings, name).into_iter().map(|text| Rule::parse(&text));
    all.collect::<Result<_, _>>().map_err(|why| Failure::usage(format!("{name}: {why}")))
}

fn list(settings: &Settings, name: &str) -> Vec<String> {
    settings.text(name).and_then(Key::list).unwrap_or_default()
}
