//! A trial of an agent: it is started, greeted and given a session without any tools, and ended
//! again; no prompt is sent, so that it costs nothing.

use std::path::Path;

use aion_agent::leash::LeashConfig;
use serde_json::json;
use tokio_util::task::TaskTracker;

use super::greet::{Fault, Greeted, House};
use super::limits::AcpLimits;
use super::options::{Options, Setting};
use super::profile::Launchable;

/// What an agent said of itself when it was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
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
    /// Whether it calls MCP servers by HTTP.
    pub calls_http: bool,
}

/// Tries an agent in a directory. An error says what to do.
pub async fn try_agent(
    launch: &Launchable,
    directory: &Path,
    leash: &LeashConfig,
    limits: &AcpLimits,
) -> Result<Handshake, String> {
    let processes = TaskTracker::new();
    let house = House { leash, limits, processes: &processes };
    let started = Greeted::start(launch, None, directory, house).await;
    let mut greeted = started.map_err(super::greet::Failure::into_words)?;
    match ask(&mut greeted, directory).await {
        Ok(handshake) => {
            greeted.exchange.into_process().part().await;
            Ok(handshake)
        }
        Err(fault) => Err(greeted.fail(fault).await.into_words()),
    }
}

async fn ask(greeted: &mut Greeted<'_>, directory: &Path) -> Result<Handshake, Fault> {
    let params = json!({ "cwd": directory, "mcpServers": [] });
    let opened = greeted.call_let_in("session/new", &params).await?;
    let (options, greeting) = (Options::read(&opened), &greeted.greeting);
    Ok(Handshake {
        name: greeting.name(),
        version: greeting.version(),
        modes: options.offered(Setting::Mode),
        models: options.offered(Setting::Model),
        reopens: greeting.can("/loadSession") || greeting.can("/sessionCapabilities/resume"),
        steers: greeting.steers(),
        calls_http: greeting.can("/mcpCapabilities/http"),
    })
}
