//! The words of `aion team`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::agent::Mode;
use super::{Everything, OneTeam, Reach, Undo};

/// `aion team`.
#[derive(Debug, Subcommand)]
pub(crate) enum Team {
    /// Make a team
    Create(CreateTeam),
    /// List the teams
    Ls(Everything),
    /// Show a team: members, tasks, what waits, what changed in its workspace
    Show(OneTeam),
    /// Give a team another name
    Rename(RenameTeam),
    /// Let no member start a turn any more; turns that run end by themselves
    Pause(WantedTeam),
    /// Let the members start turns again
    Resume(WantedTeam),
    /// Interrupt all turns, and start no more
    Stop(WantedTeam),
    /// End a team; its history is kept
    Archive(EndTeam),
    /// End a team and erase it, with its transcripts
    Rm(EndTeam),
    /// Put the workspace back as it was when the team began. Ignored files, submodules and nested repositories are left alone
    Undo(Undo),
}

/// `aion team create`.
#[derive(Debug, Args)]
pub(crate) struct CreateTeam {
    /// What it is called [default: its directory's name]
    pub(crate) name: Option<String>,
    /// The directory that it works in [default: a fresh one]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// The lead's first message
    #[arg(long, short)]
    pub(crate) prompt: Option<String>,
    /// Which agent leads [default: the best that is here]
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// Which model the lead uses [default: the agent's own choice]
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// How much the lead may do without asking
    #[arg(long, value_enum)]
    pub(crate) mode: Option<Mode>,
    /// A scenario file that the team's scripted agents play
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

/// `aion team rename`.
#[derive(Debug, Args)]
pub(crate) struct RenameTeam {
    /// The team: its id, its name, or their beginning
    pub(crate) team: String,
    /// Its name from now on
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

/// A command about a team that has to be named.
#[derive(Debug, Args)]
pub(crate) struct WantedTeam {
    /// The team: its id, its name, or their beginning
    pub(crate) team: String,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

/// `aion team archive`, `aion team rm`.
#[derive(Debug, Args)]
pub(crate) struct EndTeam {
    /// The team: its id, its name, or their beginning
    pub(crate) team: String,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) reach: Reach,
}
