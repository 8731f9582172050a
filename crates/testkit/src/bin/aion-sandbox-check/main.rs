//! Tries to get out of the sandbox, by every wall that this machine has and as every user it may be,
//! and prints what held; it is no product.

mod cases;
mod ground;
mod matrix;
mod network;
mod trial;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

/// Tries to get out of the sandbox.
#[derive(Debug, Parser)]
struct Arguments {
    /// A place to work in, which has to lie outside of the temporary directories.
    #[arg(long)]
    place: Option<PathBuf>,
    /// Print the table for the documentation, and nothing else.
    #[arg(long)]
    table: bool,
    /// Try this case alone.
    #[arg(long)]
    only: Option<String>,
    /// Answer as JSON, for the one who started this as another user.
    #[arg(long, hide = true)]
    raw: bool,
}

fn main() -> ExitCode {
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    match words.first().and_then(|word| word.to_str()) {
        Some("__leash") => return aion_agent::leash::leash_main(words.drain(1..)),
        Some("__sandbox") => return aion_agent::sandbox::sandbox_main(words.drain(1..)),
        _ => {}
    }
    match run(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            trial::tell(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Beside this program; or elsewhere where that is a temporary directory, of which every command has
/// one of its own: what is written there reaches nothing, and would look like a way out.
fn usual_place() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let temporary = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()];
    if !temporary.iter().any(|temporary| program.starts_with(temporary)) {
        return Ok(program.ancestors().nth(2).unwrap_or("/".as_ref()).join("sandbox"));
    }
    // Another user has to get there too, where the superuser tries as one.
    let home = || std::env::home_dir().filter(|home| home.is_absolute());
    let elsewhere = if trial::is_superuser() { Some("/srv".into()) } else { home() };
    let elsewhere = elsewhere.context("there is no place outside of the temporary directories")?;
    Ok(elsewhere.join("aion-sandbox-check"))
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let place = match &arguments.place {
        Some(place) => place.clone(),
        None => usual_place()?,
    };
    let results = trial::all(&place, arguments.only.as_deref(), arguments.raw)?;
    if arguments.raw {
        trial::say(&serde_json::to_string(&results)?);
        return Ok(ExitCode::SUCCESS);
    }
    let broken = matrix::show(&results, arguments.table);
    Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
