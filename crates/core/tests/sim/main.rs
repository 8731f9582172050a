//! Whole teams in virtual time: random commands, scripted agents, falling houses, and a reference
//! model that never asks `Team`. One seed is one team; the same seed is the same team everywhere.
#![expect(clippy::print_stdout, reason = "the simulation is a program that prints its report")]
#![expect(clippy::expect_used, reason = "a test says what it relied on")]
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the bans are for the rules; their simulation has threads, a stopwatch and files"
)]

mod acts;
mod agents;
mod chaos;
mod cli;
mod house;
mod invariants;
mod model;
mod mutants;
mod ops;
mod rng;
mod run;
mod world;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main(&std::env::args().skip(1).collect::<Vec<_>>())
}
