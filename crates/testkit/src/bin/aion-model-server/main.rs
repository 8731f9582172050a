//! The model server by itself, for agents that are other programs; it plays a scenario file.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use aion_agent::scripted::Scenario;
use aion_testkit::model_server::{Callers, Fault, ModelServer, Plan, Script};
use anyhow::Context;
use clap::Parser;
use serde::Deserialize;

/// Plays a scenario in the formats of the models' services: Anthropic's Messages, `OpenAI`'s Chat
/// Completions and Responses, Gemini, Ollama.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The scenario, as `aion run --script` plays it.
    scenario: PathBuf,
    /// The port on this machine; a free one if none.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// What goes wrong: a TOML file with `[[fault]]` tables of `request` (the number of the request,
    /// from 1) and `kind` (`status`, `cut`, `malformed`, `huge`, `max_tokens`, `silent`).
    #[arg(long)]
    faults: Option<PathBuf>,
    /// The key that every request has to bring.
    #[arg(long)]
    key: Option<String>,
    /// Bytes that are sent at once.
    #[arg(long)]
    split: Option<usize>,
    /// Send pieces that say nothing, too.
    #[arg(long)]
    pings: bool,
    /// Coding agents of others call: they are held to nothing, the scenario is played over each of
    /// their turns for itself, and what they ask beside it is answered.
    #[arg(long)]
    others: bool,
    /// Milliseconds before each piece.
    #[arg(long, default_value_t = 0)]
    pace_ms: u64,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Faults {
    #[serde(default)]
    fault: Vec<Numbered>,
}

#[derive(Deserialize)]
struct Numbered {
    request: usize,
    #[serde(flatten)]
    fault: Fault,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let read = |path: &PathBuf| {
        std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
    };
    let name = arguments.scenario.display().to_string();
    let scenario = Scenario::parse(&name, &read(&arguments.scenario)?)?;
    let faults: Faults = match &arguments.faults {
        Some(path) => {
            toml::from_str(&read(path)?).with_context(|| format!("read {}", path.display()))?
        }
        None => Faults::default(),
    };
    let plan = Plan::new(move |seen| {
        let known = faults.fault.iter().find(|fault| fault.request == seen.number);
        known.map_or(Fault::None, |known| known.fault.clone())
    });
    let script = Script {
        plan,
        key: arguments.key,
        split: arguments.split,
        pings: arguments.pings,
        pace: Duration::from_millis(arguments.pace_ms),
        callers: if arguments.others { Callers::Others } else { Callers::Ours },
        ..Script::new(scenario)
    };
    let server = ModelServer::listen(script, arguments.port).await.context("listen")?;
    writeln!(std::io::stdout(), "http://{}", server.address()).context("say the address")?;
    server.forever().await;
    Ok(())
}
