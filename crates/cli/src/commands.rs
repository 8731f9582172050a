//! The commands, one file each; they translate, and the runtime and the rules do the work.

mod agent;
mod approve;
mod attach;
mod auth;
mod backup;
mod config;
mod cost;
mod demo;
mod doctor;
mod export;
mod help;
mod log;
pub(crate) mod mcp;
mod message;
mod open;
mod providers;
mod replay;
mod run;
mod serve;
mod shell;
mod source;
mod status;
mod steer;
mod stop;
mod task;
mod team;
mod trust;
mod undo;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use aion_store::{EventStore, TeamRow};

use crate::args::{Cli, Command, DataDir};
use crate::daemon;
use crate::exit::{Failure, Outcome};
use crate::history::find;
use crate::paths::data_dir;

/// Carries a command out.
pub(crate) fn run(cli: Cli) -> Outcome {
    let json = cli.json;
    match cli.command {
        Command::Demo(demo) => hosting(demo::run(demo, json)),
        Command::Run(run) => hosting(run::run(run, json)),
        Command::Serve(serve) => {
            if serve.on_demand {
                serve::leave_the_starter();
            }
            hosting(serve::run(serve, json))
        }
        Command::Status(status) => asynchronous(status::run(status, json)),
        Command::Stop(stop) => asynchronous(stop::run(stop, json)),
        Command::Open(open) => asynchronous(open::run(open, json)),
        Command::Attach(attach) => asynchronous(attach::run(attach, json)),
        Command::Message(message) => asynchronous(message::run(message, json)),
        Command::Approve(approve) => asynchronous(approve::run(approve, json)),
        Command::Agent(agent) => asynchronous(agent::run(agent, json)),
        Command::Team(team) => asynchronous(team::run(team, json)),
        Command::Task(task) => asynchronous(task::run(task, json)),
        Command::Log(log) => asynchronous(log::run(log, json)),
        Command::Cost(cost) => asynchronous(cost::run(cost, json)),
        Command::Replay(replay) => asynchronous(replay::run(replay, json)),
        Command::Export(export) => asynchronous(export::run(export, json)),
        Command::Mcp(command) => mcp::run(&command, json),
        Command::Doctor(args) => asynchronous(doctor::run(args, json)),
        Command::Backup(args) => asynchronous(backup::backup(args, json)),
        Command::Restore(args) => asynchronous(backup::restore(args, json)),
        Command::Auth(command) => asynchronous(auth::run(command, json)),
        Command::Providers(args) => asynchronous(providers::providers(args, json)),
        Command::Models(args) => asynchronous(providers::models(args, json)),
        Command::Config(command) => config::run(&command, json),
        Command::Trust(args) => trust::run(&args, json),
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(&args),
        Command::Help(help) => help::run(&help, json),
        // Handled before the command line is read.
        Command::Leash(_) => Err(Failure::usage("a leash has no options")),
    }
}

/// Runs a command that hosts a team: agents run side by side.
fn hosting(command: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("start", &error))?;
    let outcome = runtime.block_on(command);
    // Whoever still reads standard input must not keep the process.
    runtime.shutdown_background();
    outcome
}

/// Runs a command on a small runtime: reading waits for a disk and nothing else.
fn asynchronous(command: impl Future<Output = Outcome>) -> Outcome {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("start", &error))?
        .block_on(command)
}

/// The store of a data directory, for reading, with its teams.
struct Reading {
    dir: PathBuf,
    /// None where there is no store yet.
    store: Option<Arc<dyn EventStore>>,
    teams: Vec<TeamRow>,
}

impl Reading {
    async fn open(data: &DataDir) -> Result<Self, Failure> {
        let dir = data_dir(data.data_dir.as_deref())?;
        let store = daemon::reading(&dir)?;
        let teams = match &store {
            Some(store) => store.teams().await?,
            None => Vec::new(),
        };
        Ok(Self { dir, store, teams })
    }

    /// The team that is meant, with its store.
    fn team(&self, wanted: Option<&str>) -> Result<(&Arc<dyn EventStore>, &TeamRow), Failure> {
        let row = find(&self.teams, wanted)?;
        // Where there is a team there is a store.
        let store = self.store.as_ref().ok_or_else(|| Failure::usage("there is no store yet"))?;
        Ok((store, row))
    }
}
