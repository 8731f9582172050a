//! Kills a process that runs a whole team, again and again, and looks at what is left; it is the
//! killer, the killed and the leash's helper in one binary.

mod books;
mod cast;
mod child;
mod driver;
mod parent;
mod plan;
mod processes;
mod words;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Kill a running team again and again, and look at what is left.
#[derive(Debug, Parser)]
#[command(name = "aion-kill-loop", args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(flatten)]
    killing: parent::LoopArguments,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// The process that is killed.
    #[command(hide = true)]
    Child(child::ChildArguments),
}

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == "__leash") {
        return aion_agent::leash::leash_main(words);
    }
    let arguments = Arguments::parse();
    let done = match &arguments.role {
        Some(Role::Child(child)) => child::run(child).map(|()| true),
        None => parent::run(&arguments.killing),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            use std::io::Write;
            // Without a standard error there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "{error:#}");
            ExitCode::FAILURE
        }
    }
}
