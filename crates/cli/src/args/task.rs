//! The words of `aion task`.

use clap::{Args, Subcommand, ValueEnum};

use super::OfTeam;

/// `aion task`.
#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// List a team's tasks
    Ls(super::OneTeam),
    /// Put a task on the board
    Add(AddTask),
    /// Show a task
    Show(OneTask),
    /// Give a task to a member, or to nobody with `-`
    Assign(AssignTask),
    /// Say where a task stands
    Move(MoveTask),
    /// Say that a task is done
    Done(OneTask),
    /// Take a task off the board
    Cancel(CancelTask),
}

/// `aion task add`.
#[derive(Debug, Args)]
pub(crate) struct AddTask {
    /// Its title
    pub(crate) subject: String,
    /// What is to be done
    #[arg(long, short, default_value = "")]
    pub(crate) description: String,
    /// Who is to do it: a member's name or its beginning, or `lead`
    #[arg(long, value_name = "MEMBER")]
    pub(crate) owner: Option<String>,
    /// A task that it waits for, like 3; may be given several times
    #[arg(long, value_name = "TASK")]
    pub(crate) after: Vec<String>,
    #[command(flatten)]
    pub(crate) of: OfTeam,
}

/// A command about one task.
#[derive(Debug, Args)]
pub(crate) struct OneTask {
    /// The task's number
    pub(crate) task: String,
    #[command(flatten)]
    pub(crate) of: OfTeam,
}

/// `aion task assign`.
#[derive(Debug, Args)]
pub(crate) struct AssignTask {
    /// The task's number
    pub(crate) task: String,
    /// Who has it from now on: a member's name or its beginning, `lead`, or `-` for nobody
    pub(crate) member: String,
    #[command(flatten)]
    pub(crate) of: OfTeam,
}

/// `aion task move`.
#[derive(Debug, Args)]
pub(crate) struct MoveTask {
    /// The task's number
    pub(crate) task: String,
    /// Where it stands from now on
    #[arg(value_enum)]
    pub(crate) to: Column,
    #[command(flatten)]
    pub(crate) of: OfTeam,
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Column {
    /// Nobody has begun
    Pending,
    /// Its owner works on it
    InProgress,
    /// It is done
    Done,
}

/// `aion task cancel`.
#[derive(Debug, Args)]
pub(crate) struct CancelTask {
    /// The task's number
    pub(crate) task: String,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) of: OfTeam,
}
