//! The words of the commands that follow what happens.

use clap::Args;

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
