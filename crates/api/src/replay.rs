//! A team at one point of its past, folded from its log.

use serde::{Deserialize, Serialize};

use crate::{AgentRow, MailRow, RequestRow, TaskCounts, TaskRow, Totals};

/// What `aion replay` says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayView {
    /// The team.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The event after which this is so.
    pub seq: u64,
    /// The last event of the log.
    pub last_seq: u64,
    /// When the log begins, in milliseconds on the team's running clock.
    pub begin_at: u64,
    /// When this is so, on the same clock.
    pub at: u64,
    /// Whether it has ended.
    pub ended: bool,
    /// Its members.
    pub agents: Vec<AgentRow>,
    /// How many tasks stand where.
    pub task_counts: TaskCounts,
    /// Its tasks.
    pub tasks: Vec<TaskRow>,
    /// What waits for a decision.
    pub requests: Vec<RequestRow>,
    /// Mail that is not yet acknowledged.
    pub mail: Vec<MailRow>,
    /// What its life had come to.
    pub totals: Totals,
}
