//! What one party says to another: envelopes, and the 13 protocol messages; never how it is carried.

use serde::{Deserialize, Serialize};

use crate::hash::ActionHash;
use crate::id::{MessageId, RequestId, SlotId, TaskId};
use crate::mode::PermissionMode;
use crate::time::Timestamp;

/// Who speaks. Set from the credential, never from a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sender {
    /// The person.
    User,
    /// A member of the team.
    Agent(SlotId),
    /// The team itself: notices that nobody wrote.
    System,
}

/// Who is addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recipient {
    /// One member.
    Agent(SlotId),
    /// The lead, whoever that is.
    Lead,
    /// Every member but the sender.
    Everyone,
    /// The person: shown in every client, never queued.
    User,
}

/// How soon a message is to be read.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Urgency {
    /// With the next turn that starts for another reason.
    Queue,
    /// Starts a turn when the recipient is idle; read between two steps when it is working.
    #[default]
    Wake,
    /// Ends the recipient's running turn first. For the person and the lead.
    Interrupt,
}

/// A file that goes along, stored once under its content's hash.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileRef {
    /// The name to show.
    pub name: String,
    /// SHA-256 of the content, lower-case hex.
    pub sha256: String,
    /// Size in bytes.
    pub bytes: u64,
}

impl FileRef {
    /// Where its content is put for members to read, relative to the team's directory.
    pub fn place(&self) -> String {
        let digits = self.sha256.get(..12).unwrap_or(&self.sha256);
        format!(".aion/files/{digits}/{}", self.name)
    }
}

/// One accepted message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// Its number in the team.
    pub id: MessageId,
    /// Who wrote it.
    pub from: Sender,
    /// Whom it was addressed to.
    pub to: Recipient,
    /// What it says.
    pub body: Body,
    /// A few words for lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// How soon it is to be read.
    pub urgency: Urgency,
    /// Files that go along.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileRef>,
    /// The message that it repeats, where a person sent one once more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<MessageId>,
    /// When it was accepted.
    pub sent_at: Timestamp,
}

/// Text for a reader, or a protocol message for the team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// Text, never interpreted.
    Text(String),
    /// A typed protocol message.
    Protocol(ProtocolMessage),
}

impl Body {
    /// Bytes of the text a reader will see.
    pub fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Protocol(message) => message.text_len(),
        }
    }

    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Why a member fell idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdleReason {
    /// The turn ended by itself.
    Available,
    /// Somebody interrupted it.
    Interrupted,
    /// It failed.
    Failed,
}

/// The 13 kinds of protocol message. Produced only by rules, never parsed from text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ProtocolMessage {
    /// A member ended a turn.
    IdleNotification {
        /// Why.
        reason: IdleReason,
        /// The last text of the turn, shortened.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_text: Option<String>,
        /// Tasks it still holds in progress.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        open_tasks: Vec<TaskId>,
        /// Requests of its own that nobody decided yet.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        open_requests: Vec<RequestId>,
    },
    /// A member asks whether a tool may run.
    PermissionRequest {
        /// The request to decide.
        request: RequestId,
        /// The tool.
        tool: String,
        /// What it would do, in one line.
        description: String,
        /// Its input as JSON text, shortened.
        input: String,
    },
    /// The decision on a tool.
    PermissionResponse {
        /// The request that was decided.
        request: RequestId,
        /// Whether the tool may run.
        allowed: bool,
        /// Why not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A member's command wants to reach an unknown host.
    SandboxPermissionRequest {
        /// The request to decide.
        request: RequestId,
        /// The host.
        host: String,
    },
    /// The decision on a host.
    SandboxPermissionResponse {
        /// The request that was decided.
        request: RequestId,
        /// The host.
        host: String,
        /// Whether the connection may go on.
        allow: bool,
    },
    /// Asks a member to leave, or tells the lead that a member asks to leave.
    ShutdownRequest {
        /// The request to answer.
        request: RequestId,
        /// Who would leave.
        slot: SlotId,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The member leaves.
    ShutdownApproved {
        /// The request that was answered.
        request: RequestId,
        /// Who leaves.
        slot: SlotId,
    },
    /// The member stays.
    ShutdownRejected {
        /// The request that was answered.
        request: RequestId,
        /// Who stays.
        slot: SlotId,
        /// Why.
        reason: String,
    },
    /// A member submits a plan.
    PlanApprovalRequest {
        /// The request to decide.
        request: RequestId,
        /// The hash of the plan's text.
        hash: ActionHash,
        /// The plan.
        plan: String,
    },
    /// The decision on a plan.
    PlanApprovalResponse {
        /// The request that was decided.
        request: RequestId,
        /// Whether work may begin.
        approved: bool,
        /// What to change, verbatim.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        feedback: Option<String>,
        /// The mode from here on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<PermissionMode>,
    },
    /// A permission was given to the whole team.
    TeamPermissionUpdate {
        /// The tool.
        tool: String,
        /// What is allowed, in words.
        rule: String,
    },
    /// The member's permission mode was set.
    ModeSetRequest {
        /// The new mode.
        mode: PermissionMode,
    },
    /// A task was given to the member by somebody else.
    TaskAssignment {
        /// The task.
        task: TaskId,
        /// Its title.
        subject: String,
        /// What is to be done.
        description: String,
        /// Who gave it.
        assigned_by: Sender,
    },
}

impl ProtocolMessage {
    /// The wire name of the kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::IdleNotification { .. } => "idle_notification",
            Self::PermissionRequest { .. } => "permission_request",
            Self::PermissionResponse { .. } => "permission_response",
            Self::SandboxPermissionRequest { .. } => "sandbox_permission_request",
            Self::SandboxPermissionResponse { .. } => "sandbox_permission_response",
            Self::ShutdownRequest { .. } => "shutdown_request",
            Self::ShutdownApproved { .. } => "shutdown_approved",
            Self::ShutdownRejected { .. } => "shutdown_rejected",
            Self::PlanApprovalRequest { .. } => "plan_approval_request",
            Self::PlanApprovalResponse { .. } => "plan_approval_response",
            Self::TeamPermissionUpdate { .. } => "team_permission_update",
            Self::ModeSetRequest { .. } => "mode_set_request",
            Self::TaskAssignment { .. } => "task_assignment",
        }
    }

    fn text_len(&self) -> usize {
        match self {
            Self::IdleNotification { last_text, .. } => last_text.as_deref().map_or(0, str::len),
            Self::PermissionRequest { description, input, .. } => description.len() + input.len(),
            Self::PermissionResponse { reason, .. } | Self::ShutdownRequest { reason, .. } => {
                reason.as_deref().map_or(0, str::len)
            }
            Self::SandboxPermissionRequest { host, .. }
            | Self::SandboxPermissionResponse { host, .. } => host.len(),
            Self::ShutdownRejected { reason, .. } => reason.len(),
            Self::PlanApprovalRequest { plan, .. } => plan.len(),
            Self::PlanApprovalResponse { feedback, .. } => feedback.as_deref().map_or(0, str::len),
            Self::TeamPermissionUpdate { tool, rule } => tool.len() + rule.len(),
            Self::TaskAssignment { subject, description, .. } => subject.len() + description.len(),
            Self::ShutdownApproved { .. } | Self::ModeSetRequest { .. } => 0,
        }
    }
}

/// Shortens a text to at most `max` bytes on a character boundary, and says that it did.
#[must_use]
pub fn shorten(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let mut end = max.saturating_sub('…'.len_utf8());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}
