//! A team in a list, a team whole, and its members.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{RequestRow, TaskCounts, TaskRow, Totals};

/// One line of `aion team ls`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TeamRow {
    /// The team.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The directory it works in.
    pub workspace: String,
    /// Whether it has ended.
    pub ended: bool,
    /// Members at present.
    pub members: u32,
    /// Tasks that are not completed.
    pub tasks_open: u32,
    /// Tasks that are.
    pub tasks_completed: u32,
    /// Requests that wait for a decision.
    pub requests_open: u32,
    /// Messages that are not yet acknowledged.
    pub messages_open: u32,
    /// Its last event.
    pub seq: u64,
    /// When that was stored, in milliseconds since the Unix epoch.
    pub updated_at_ms: u64,
}

/// What `aion team show` says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TeamView {
    /// The team.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The user who owns it.
    pub user_id: String,
    /// The directory it works in.
    pub workspace: String,
    /// Whether it has ended.
    pub ended: bool,
    /// Why no member starts a turn, if that is so: `user`, `lead_down`, `downtime`, `stopping`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<String>,
    /// The lead's slot.
    pub lead_slot_id: u64,
    /// Its members.
    pub agents: Vec<AgentRow>,
    /// How many tasks stand where.
    pub task_counts: TaskCounts,
    /// Its tasks.
    pub tasks: Vec<TaskRow>,
    /// What waits for a decision.
    pub requests: Vec<RequestRow>,
    /// What its life has come to, up to `seq`.
    pub totals: Totals,
    /// The last event that this shows.
    pub seq: u64,
    /// What changed in the workspace since the team began; absent outside a git workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<FileChange>>,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentRow {
    /// Its place, which stays when its name changes.
    pub slot_id: u64,
    /// Its name.
    pub agent_name: String,
    /// The name to show.
    pub label: String,
    /// What it is in the team.
    pub role: Role,
    /// Which agent it is.
    pub agent_type: String,
    /// Its model, if one was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its colour.
    pub color: String,
    /// How much it may do without asking.
    pub permission_mode: String,
    /// Where it stands.
    pub status: AgentStatus,
    /// Why, in a word.
    pub reason: StatusReason,
    /// Messages that wait in its mailbox.
    pub unread: u32,
    /// Where its transcript is kept.
    pub conversation_id: String,
}

/// What a member is in its team.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Coordinates.
    Lead,
    /// Works on tasks.
    Teammate,
    /// Alone in a conversation.
    Solo,
}

/// Where a member stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentStatus {
    /// Registered, not yet ready.
    Pending,
    /// Ready for a turn.
    Idle,
    /// In a turn.
    Active,
    /// Dead.
    Failed,
    /// Out of the team.
    Removed,
}

/// Why a member stands where it stands, so that nobody has to guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StatusReason {
    /// It works.
    Working,
    /// It waits for the person.
    NeedsYou,
    /// It waits for another member.
    WaitingForPeer,
    /// It has nothing to do.
    NoTask,
    /// Its provider asked for a pause.
    RateLimited,
    /// Something keeps it from starting a turn.
    Held,
    /// It is gone and a person has to act, or its turn is out of sight.
    Stalled,
    /// Its process is starting.
    Starting,
    /// It is being ended.
    Stopping,
}

/// One file that changed since the team began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// The file, relative to the workspace.
    pub path: String,
    /// What happened to it.
    pub change: FileChangeKind,
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChangeKind {
    /// It is new.
    Added,
    /// It has other content.
    Modified,
    /// It is gone.
    Deleted,
}
