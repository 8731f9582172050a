//! The words of `aion message`.

use clap::{Args, Subcommand, ValueEnum};

use super::OfTeam;

/// `aion message`.
#[derive(Debug, Subcommand)]
pub(crate) enum Message {
    /// Write to a member
    Send(SendMessage),
    /// List the messages of a team, the last ones
    Ls(ListMessages),
    /// Send a message again that was given up
    Redeliver(Redeliver),
    /// Follow the messages of a team, until Ctrl+C
    Tail(OfTeam),
}

/// `aion message send`.
#[derive(Debug, Args)]
pub(crate) struct SendMessage {
    /// Who: a member's name or its beginning, or `lead`
    pub(crate) to: String,
    /// What; `-` reads standard input
    pub(crate) text: String,
    /// How soon it is read
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub(crate) urgency: Urgency,
    #[command(flatten)]
    pub(crate) of: OfTeam,
}

/// `aion message redeliver`.
#[derive(Debug, Args)]
pub(crate) struct Redeliver {
    /// The message, as `aion message ls` shows it
    pub(crate) message: String,
    /// Send it to this member [default: the one whose mailbox gave it up]
    #[arg(long, value_name = "MEMBER")]
    pub(crate) to: Option<String>,
    #[command(flatten)]
    pub(crate) of: OfTeam,
}

/// `aion message ls`.
#[derive(Debug, Args)]
pub(crate) struct ListMessages {
    /// How many
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) of: OfTeam,
}

/// How soon a message is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Urgency {
    /// With the next turn, whenever that is
    Queue,
    /// It starts a turn
    #[default]
    Wake,
    /// It ends the running turn and starts another
    Interrupt,
}
