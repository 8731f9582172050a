//! The door to the developer commands; holds no command's logic.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use xtask::steps;
use xtask::suite::{self, Suite};
use xtask::{browser, dist, pages, python, sandbox};

/// Developer commands of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run everything: format, lints, laws, tests, doctests, foreign clients, simulation, kill loop.
    Test,
    /// Run the quick part: format, lints, laws, tests.
    Check,
    /// Check the laws of the house.
    Tidy {
        /// Another checkout to check.
        #[arg(long)]
        root: Option<PathBuf>,
    },
    /// Hold the documentation to the real binary: its commands, and the quick start.
    Pages {
        /// Make the list of commands anew.
        #[arg(long)]
        write: bool,
        /// A binary to take instead of building one.
        #[arg(long)]
        binary: Option<PathBuf>,
    },
    /// Simulate whole teams in virtual time.
    Sim {
        /// How many seeds to try.
        #[arg(long, default_value_t = 1_000)]
        seeds: u64,
        /// Try this one seed alone.
        #[arg(long)]
        seed: Option<u64>,
        /// Further arguments for the simulator.
        #[arg(last = true)]
        more: Vec<String>,
    },
    /// Kill a running team again and again, and look at what is left.
    KillLoop {
        /// How many times.
        #[arg(long, default_value_t = 20)]
        kills: u64,
        /// Further arguments for the loop.
        #[arg(last = true)]
        more: Vec<String>,
    },
    /// Hold the real daemon to its OpenAPI with generated calls.
    ApiCheck {
        /// How many examples for each operation.
        #[arg(long, default_value_t = 100)]
        examples: u64,
    },
    /// Let pages of other origins try everything on the daemon, in a real Chromium.
    BrowserCheck,
    /// Try to get out of the sandbox, behind every wall that this machine has.
    SandboxCheck {
        /// Make the table in the documentation anew.
        #[arg(long)]
        write: bool,
    },
    /// Let MCP clients that are not ours act as members of a team.
    McpClients,
    /// Make a release that can be installed without building: archive, checksums, install script.
    Dist {
        /// The folder to make it in [default: `dist` in the target directory].
        #[arg(long)]
        out: Option<PathBuf>,
        /// A program that is built already, for a trial.
        #[arg(long)]
        binary: Option<PathBuf>,
    },
    /// Make a release and install it in an empty root, as a person would.
    DistCheck {
        /// A program that is built already.
        #[arg(long)]
        binary: Option<PathBuf>,
    },
    /// Measure; prints ratios to a baseline of the same run.
    Bench {
        /// Which benchmark: mailbox, agents, open, server or turn.
        name: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
        /// Further arguments for the benchmark.
        #[arg(last = true)]
        more: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(&root(), Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            steps::tell(&format!("\n{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(root: &Path, task: Task) -> Result<()> {
    match task {
        Task::Test => suite::run(root, Suite::Test)?,
        Task::Check => suite::run(root, Suite::Check)?,
        Task::Tidy { root: other } => {
            suite::tidy(other.as_deref().unwrap_or(root))?;
        }
        Task::Pages { write, binary } => {
            pages::check(root, binary.as_deref(), write)?;
        }
        Task::Sim { seeds, seed, more } => {
            let mut arguments = match seed {
                Some(seed) => vec!["--seed".to_owned(), seed.to_string()],
                None => vec!["--seeds".to_owned(), seeds.to_string()],
            };
            arguments.extend(more);
            steps::run(root, &suite::sim(&arguments))?;
        }
        Task::KillLoop { kills, more } => {
            let mut arguments = vec!["--kills".to_owned(), kills.to_string()];
            arguments.extend(more);
            steps::run(root, &suite::kill_loop(&arguments))?;
        }
        Task::ApiCheck { examples } => {
            python::api_check(root, examples)?;
        }
        Task::BrowserCheck => {
            browser::origins(root)?;
        }
        Task::SandboxCheck { write } => {
            sandbox::check(root, write)?;
        }
        Task::McpClients => {
            python::mcp_clients(root)?;
        }
        Task::Dist { out, binary } => {
            dist::make(root, out.as_deref(), binary.as_deref())?;
        }
        Task::DistCheck { binary } => {
            dist::check(root, binary.as_deref())?;
        }
        Task::Bench { name, json, more } => {
            let mut arguments = vec![name];
            if json {
                arguments.push("--json".to_owned());
            }
            arguments.extend(more);
            if matches!(arguments[0].as_str(), "open" | "server") {
                steps::run(root, &suite::product())?;
            }
            steps::run(root, &suite::bench(&arguments))?;
        }
    }
    Ok(())
}

/// The root of the repository: where this package's directory lies.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
