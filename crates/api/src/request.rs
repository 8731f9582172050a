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
    /// For a permission: the tool that would run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// For a permission: what the tool would be given, as JSON text. Where it is too long to be kept
    /// it ends with an ellipsis, and is no JSON any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// For a permission: the directory it would run in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// For a permission: the rule that wants it to be asked for, and whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<String>,
    /// For a permission: the rule that would allow calls like this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
    /// The answers that fit.
    pub choices: Vec<String>,
    /// Whether the lead may decide it too.
    pub delegated: bool,
    /// How long it has waited, in milliseconds of the team's running clock.
    pub waiting_ms: u64,
}
