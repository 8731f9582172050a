//! One line of the inbox: what waits for a decision.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Something that somebody has to decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RequestRow {
    /// Its number in the team.
    pub id: u64,
    /// The team.
    pub team: String,
    /// What is asked: `permission`, `network`, `plan`, `shutdown`, `spawn`, `create_team`,
    /// `raise_budget`, `delete_team` or `question`.
    pub kind: String,
    /// Who asks: a member's name, `user` or `system`.
    pub from: String,
    /// What exactly, in one line.
    pub what: String,
    /// The answers that fit.
    pub choices: Vec<String>,
    /// Whether the lead may decide it too.
    pub delegated: bool,
    /// How long it has waited, in milliseconds of the team's running clock.
    pub waiting_ms: u64,
}
