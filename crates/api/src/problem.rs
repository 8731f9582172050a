//! How a call over HTTP fails: RFC 9457 with a stable code and the choices there are.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What stands in the body of every answer that is no success (`application/problem+json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Always `about:blank`: the code says what it is.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// A sentence for people.
    pub detail: String,
    /// A stable word for programs, in parts: `team.not_found`, `team.name_taken`.
    pub code: String,
    /// What would have been possible instead, where that can be listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
}
