//! The binary `aion`.
//!
//! It reads the command line and hands over; it decides nothing.

mod answer;
mod args;
mod commands;
mod counts;
mod daemon;
mod describe;
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
mod view;

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == "__leash") {
        // Before anything else: this process holds another one, and does nothing beside it.
        return aion_agent::leash::leash_main(words);
    }
    log_to_stderr();
    let cli = args::Cli::parse();
    let json = cli.json;
    match commands::run(cli) {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => failure.report(json),
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
