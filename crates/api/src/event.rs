//! One thing that happened to a team, as a line; the log's own words, never a summary of them.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// One event of a team, in `aion log --json`, in an export, and while `aion run --json` works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventLine {
    /// The team.
    pub team: String,
    /// Its place in the team's log; a reader that was away goes on after the last one it saw.
    pub seq: u64,
    /// When, in milliseconds on the team's running clock, which stands while nobody hosts the team.
    pub at: u64,
    /// The version of the event's format.
    pub version: u16,
    /// Who caused it.
    pub actor: Actor,
    /// What happened, as it is stored: an object whose `type` is the event's name.
    pub event: Value,
}

/// Who caused an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Actor {
    /// The person who owns the team.
    User,
    /// A member, by slot.
    Agent(u64),
    /// The house: timers, runners, recovery.
    System,
}
