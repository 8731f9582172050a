//! Why a store refuses or fails, named for what the caller can do about it; never a decision of a team.

use aion_core::id::{Seq, TeamId};

/// Why a store did not do what it was asked to. Named for what the caller can do about it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Somebody else appended; reload.
    #[error("the log of team {team} is at {actual}, not at {expected}")]
    Conflict {
        /// The team.
        team: TeamId,
        /// What the caller expected.
        expected: Seq,
        /// Where the log is.
        actual: Seq,
    },
    /// The caller was fenced off by a newer owner; stop.
    #[error("team {team} was opened by somebody else since (epoch {current})")]
    StaleEpoch {
        /// The team.
        team: TeamId,
        /// The epoch that holds.
        current: u64,
    },
    /// Nothing was written; the caller may try again. For example a full disk.
    #[error("write to the store: {0}")]
    Unavailable(String),
    /// It is not known whether the append became durable: reload and look for its commands.
    #[error("the store cannot tell whether the write became durable: {0}")]
    Unknown(String),
    /// An append over 1 MiB; make it smaller.
    #[error("an append of {bytes} bytes is over the limit of {limit}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The stored data is damaged; nothing was returned in its place.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
    /// A newer version of the program wrote this; update.
    #[error("{0} was written by a newer version of aion; update aion to read it")]
    Newer(String),
    /// No such team.
    #[error("there is no team {0}")]
    NoTeam(TeamId),
    /// The data directory is in use.
    #[error("the data directory is in use by {holder}")]
    Locked {
        /// Who has it, for a person to read.
        holder: String,
    },
}
