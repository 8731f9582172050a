//! One line of a mailbox: mail that is not yet done with.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A message in a mailbox that has not acknowledged it yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MailRow {
    /// Its number in the team.
    pub id: u64,
    /// Who wrote it: a member's name, `user` or `system`.
    pub from: String,
    /// In whose mailbox it is.
    pub to: String,
    /// `text`, or the name of a protocol message.
    pub kind: String,
    /// What it says; a protocol message as JSON.
    pub text: String,
    /// The running turn that has read it; absent while it is queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_turn: Option<u64>,
    /// Whether it is an idle notice that waits for the others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// Turns that failed with it.
    pub attempts: u32,
}
