//! Measures the product against baselines of the same machine in the same run; it asserts nothing
//! but what it prints.

mod agents;
mod baseline;
mod crew;
mod ends;
mod inbox;
mod mailbox;
mod opening;
mod server;
mod sink;
mod turn;

use std::io::Write;
use std::process::ExitCode;

use aion_testkit::figures::Report;
use anyhow::Result;
use clap::{Args, Parser, Subcommand};

/// As in the product: most of what a message allocates is freed by another thread.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure; prints ratios to a baseline of the same run.
#[derive(Debug, Parser)]
#[command(name = "aion-bench")]
struct Arguments {
    #[command(subcommand)]
    which: Which,
}

#[derive(Debug, Subcommand)]
enum Which {
    /// Sending: latency, throughput, and cost as the log grows.
    Mailbox(Form),
    /// Many agents in one process: memory, registration, latency under load.
    Agents(Form),
    /// Opening a long log, and listing many teams.
    Open(Form),
    /// The daemon under load: messages accepted, start, memory, a member's bridge, and a thousand sockets.
    Server(Form),
    /// What a turn costs beyond the exchange with its model's service, and many agents that stream.
    Turn(Form),
    /// The service that `turn` calls, in a process of its own.
    #[command(hide = true)]
    CannedService,
}

/// How a benchmark is run and shown.
#[derive(Clone, Debug, Args)]
pub(crate) struct Form {
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Run so many hundredths of it, to see that it runs; only the whole is held to its targets.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) share: u64,
    /// Only the part whose name begins like this: of mailbox, latency, throughput or
    /// growth; of server, start, posts, bridge or sockets; of turn, memory, exchange or tokens.
    #[arg(long)]
    pub(crate) part: Option<String>,
}

impl Form {
    /// The share of so many, but at least `least`.
    pub(crate) fn scale(&self, whole: u64, least: u64) -> u64 {
        (whole * self.share / 100).max(least)
    }

    /// Whether all of it is run.
    pub(crate) fn is_whole(&self) -> bool {
        self.share == 100
    }

    /// Whether a part is wanted.
    pub(crate) fn wants(&self, part: &str) -> bool {
        self.part.as_ref().is_none_or(|wanted| part.starts_with(wanted.as_str()))
    }
}

fn main() -> ExitCode {
    let (measured, form) = match Arguments::parse().which {
        Which::Mailbox(form) => (run(mailbox::measure(&form)), form),
        Which::Agents(form) => (run(agents::measure(&form)), form),
        Which::Open(form) => (run(opening::measure(&form)), form),
        Which::Server(form) => (run(server::measure(&form)), form),
        Which::Turn(form) => (run(turn::measure(&form)), form),
        Which::CannedService => return served(),
    };
    match measured {
        Ok(report) => {
            report.print(form.json);
            if report.is_good() || !form.is_whole() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            tell(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn served() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.map(|runtime| runtime.block_on(turn::serve())) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            tell(&format!("{error:#}"));
            ExitCode::FAILURE
        }
        Err(error) => {
            tell(&format!("start: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(measuring: impl Future<Output = Result<Report>>) -> Result<Report> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(measuring)
}

/// Says how far a measurement is, beside its figures.
pub(crate) fn tell(line: &str) {
    // Without a standard error there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "{line}");
}
