//! The words of the commands that tell what happens, and what happened.

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::Reach;

/// `aion attach`.
#[derive(Debug, Args)]
pub(crate) struct Attach {
    /// The team, and the member whose words are followed: its name or its beginning. Without a
    /// member all are followed, and what you type goes to the lead
    #[arg(value_name = "TEAM[/MEMBER]")]
    pub(crate) whom: String,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

/// `aion log`.
#[derive(Debug, Args)]
pub(crate) struct Log {
    /// The team: its id, its name, or their beginning [default: the one that was active last]
    pub(crate) team: Option<String>,
    /// Go on with what happens, until Ctrl+C
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Begin after this event, or so long before the last one, for example 10m
    #[arg(long, value_name = "SEQ|TIME", default_value = "0")]
    pub(crate) since: String,
    /// Only events of this name, or whose name begins so, for example `task`; may be given several times
    #[arg(long = "type", value_name = "NAME")]
    pub(crate) kinds: Vec<String>,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

/// `aion cost`.
#[derive(Debug, Args)]
pub(crate) struct Cost {
    /// The team: its id, its name, or their beginning [default: the one that was active last]
    pub(crate) team: Option<String>,
    /// Whose use is added up
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    pub(crate) by: By,
    /// Write comma-separated values; money in millionths of a US dollar
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

/// Whose use is added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum By {
    /// Each member's
    #[default]
    Member,
    /// Each model's
    Model,
}
