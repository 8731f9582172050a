//! Lets real coding agents of others be members of the real daemon's teams, against a model that plays
//! a scenario; it installs nothing, and is to be run where there is no network but its own loopback.
//!
//! Agents are installed beforehand, and it is started in a network namespace with a loopback alone.

mod checks;
mod daemon;
mod mixed;
mod model;
mod processes;
mod recipe;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use serde_json::json;

use self::recipe::{Recipe, recipes};

/// Let real agents be members, and look whether they are good ones.
#[derive(Debug, Parser)]
#[command(name = "aion-agents-check")]
struct Arguments {
    /// Which agents; all that are installed without one.
    names: Vec<String>,
    /// Where they are installed, each in a folder of its name, and Node in `node`.
    #[arg(long)]
    installed: PathBuf,
    /// The product's binary; the one beside this program without it.
    #[arg(long)]
    aion: Option<PathBuf>,
    /// Let a mixed team do a job, too: Claude leads, Codex and an agent of the daemon are with it.
    #[arg(long)]
    mixed: bool,
    /// Keep what was made, and say where it is.
    #[arg(long)]
    keep: bool,
}

/// Where everything is.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    /// The installed agents.
    pub(crate) installed: PathBuf,
    /// The product's binary.
    pub(crate) aion: PathBuf,
    /// Whether what was made is kept.
    pub(crate) keep: bool,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let Arguments { names, installed, aion, mixed, keep } = Arguments::parse();
    let aion = match aion {
        Some(aion) => aion,
        None => std::env::current_exe()?.with_file_name("aion"),
    };
    let ground = Ground { installed: installed.canonicalize()?, aion: aion.canonicalize()?, keep };
    let chosen = |recipe: &Recipe| {
        let named = names.iter().any(|name| name == recipe.name);
        named || (names.is_empty() && recipe.is_installed(&ground))
    };
    let mut good = true;
    for recipe in recipes().iter().filter(|recipe| chosen(recipe)) {
        let report = checks::run(recipe, &ground).await;
        good &= report.is_good();
        report.tell()?;
        say(&json!({ "agent": recipe.name, "report": report.json() }).to_string())?;
    }
    if mixed {
        let outcome = mixed::run(&ground).await;
        good &= outcome.is_ok();
        match outcome {
            Ok(line) => say(&json!({ "mixed": line }).to_string())?,
            Err(error) => tell(&format!("the mixed team failed: {error:#}"))?,
        }
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Writes a line of results.
fn say(line: &str) -> Result<()> {
    writeln!(std::io::stdout().lock(), "{line}").context("say a line")
}

/// Writes a line for whoever watches.
pub(crate) fn tell(line: &str) -> Result<()> {
    writeln!(std::io::stderr().lock(), "{line}").context("tell a line")
}
