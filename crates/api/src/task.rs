//! One line of the task board.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskRow {
    /// Its number in the team.
    pub id: u64,
    /// Its title.
    pub subject: String,
    /// Where it stands.
    pub status: TaskState,
    /// Whether nothing stands in its way and nobody has begun.
    pub ready: bool,
    /// The member who has it, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The open tasks it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_by: Vec<u64>,
    /// Rises with every change; absent once the task is completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Nobody has begun.
    Pending,
    /// Its owner works on it.
    InProgress,
    /// Done.
    Completed,
}
