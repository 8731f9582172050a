//! What is known of a command that was refused something by the wall around it; it decides nothing.

use serde::{Deserialize, Serialize};

/// How a refusal is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViolationKind {
    /// The command's own output says so.
    Refused,
    /// It changed something that is not to be changed, which was put back.
    PutBack,
    /// It changed something that is not to be changed, and that could not be put back.
    Changed,
    /// It wanted to reach a host that it may not.
    Network,
    /// It took more than it may.
    Limit,
}

impl ViolationKind {
    /// In words, for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Refused => "was refused something",
            Self::PutBack => "changed what is closed, and it was put back",
            Self::Changed => "changed what is closed",
            Self::Network => "was refused a connection",
            Self::Limit => "took more than it may",
        }
    }
}
