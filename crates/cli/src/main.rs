//! The binary `aion`.
//!
//! It reads the command line and hands over; it decides nothing.

mod agents;
mod answer;
mod args;
mod client;
mod collector;
mod commands;
mod config;
mod confirm;
mod counts;
mod daemon;
mod describe;
mod details;
mod exit;
mod follow;
mod git;
mod groundwork;
mod history;
mod hosting;
mod interrupt;
mod line;
mod logs;
mod output;
mod paths;
mod policy;
mod progress;
mod replace;
mod scenarios;
mod servers;
mod services;
mod terminal;
mod trust;
mod walls;

use std::process::ExitCode;

use crate::exit::Failure;
use aion_server::view;
use clap::Parser;

/// Most of what a message allocates is freed by another thread, for which the system's allocator
/// takes locks.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    match words.next().as_deref().and_then(|word| word.to_str()) {
        // Before anything else: this process holds another one, and does nothing beside it.
        Some("__leash") => return aion_agent::leash::leash_main(words),
        Some("__sandbox") => return aion_agent::sandbox::sandbox_main(words),
        _ => {}
    }
    if is_bridge() {
        // Every member has one: it is small and there at once.
        return commands::mcp::bridge::main();
    }
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && std::env::args_os().any(|word| word == "--json") => {
            return misunderstood(&error).report(true);
        }
        Err(error) => error.exit(),
    };
    logs::begin(&cli.command, cli.log_format);
    let json = cli.json;
    match commands::run(cli) {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => failure.report(json),
    }
}

/// Whether the command line is `aion mcp bridge` and nothing else.
fn is_bridge() -> bool {
    std::env::args_os().skip(1).eq(["mcp", "bridge"])
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
