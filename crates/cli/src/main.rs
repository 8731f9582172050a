//! The binary `aion`.
//!
//! It reads the command line and hands over; it decides nothing.

mod answer;
mod args;
mod commands;
mod counts;
mod daemon;
mod describe;
mod details;
mod exit;
mod follow;
mod git;
mod history;
mod hosting;
mod interrupt;
mod output;
mod paths;
mod progress;
mod terminal;

use std::process::ExitCode;

use aion_server::view;
use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::exit::Failure;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == "__leash") {
        // Before anything else: this process holds another one, and does nothing beside it.
        return aion_agent::leash::leash_main(words);
    }
    log_to_stderr();
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && std::env::args_os().any(|word| word == "--json") => {
            return misunderstood(&error).report(true);
        }
        Err(error) => error.exit(),
    };
    let json = cli.json;
    match commands::run(cli) {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => failure.report(json),
    }
}

/// A command line that is not understood, in the words for programs.
fn misunderstood(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    let mut parts = text.trim().splitn(2, "\n\n");
    let message = parts.next().unwrap_or_default();
    let failure = Failure::usage(message.strip_prefix("error: ").unwrap_or(message));
    match parts.next() {
        Some(rest) => failure.with_hint(rest),
        None => failure,
    }
}

/// With `AION_LOG`, for example `AION_LOG=debug`, what goes on inside is written to standard error.
fn log_to_stderr() {
    if std::env::var_os("AION_LOG").is_some() {
        tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::from_env("AION_LOG"))
            .with_writer(std::io::stderr)
            .init();
    }
}
