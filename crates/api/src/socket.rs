//! What goes over the WebSocket beside the events themselves; never how a client is served.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::TeamEvent;

/// What a client says, one JSON object a frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum SocketRequest {
    /// Follow a team.
    Subscribe {
        /// The team.
        team_id: String,
        /// The last event that the client has; 0 begins at the beginning.
        #[serde(default)]
        after: u64,
        /// Whether to send `message.stream` too.
        #[serde(default = "yes")]
        stream: bool,
    },
    /// Follow what concerns all teams of the user.
    SubscribeUser {
        /// The last `seq` of this scope that the client has; without one only what comes is sent.
        #[serde(default)]
        after: Option<u64>,
    },
    /// Follow a team no longer.
    Unsubscribe {
        /// The team.
        team_id: String,
    },
}

fn yes() -> bool {
    true
}

/// What the daemon says, one JSON object a frame. Events of a team have the names of
/// [`TeamEvent`]; all others are here.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum SocketFrame {
    /// A stored event of a team.
    Event(TeamEvent),
    /// A piece of a running turn.
    Stream(StreamFrame),
    /// Something that concerns all teams of the user.
    User(UserFrame),
    /// An answer to what the client said.
    Control(ControlFrame),
}

/// A piece of a running turn: `message.stream`. Lossy; the transcript has the whole of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StreamFrame {
    /// Always `message.stream`.
    #[serde(rename = "type")]
    pub name: String,
    /// The team.
    pub team_id: String,
    /// The member.
    pub slot_id: u64,
    /// The turn.
    pub turn: u64,
    /// `text`, `thought`, `tool_call`, `tool_result`, `finish` or `error`.
    pub kind: String,
    /// The item that this is a piece of.
    pub item: String,
    /// How many bytes of the item came before.
    pub offset: u64,
    /// The piece.
    pub text: String,
    /// The tool, for `tool_call`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Whether it did what it was asked to, for `tool_result`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ok: Option<bool>,
}

/// Something that concerns all teams of a user; `seq` is this scope's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UserFrame {
    /// `team.created`, `team.renamed`, `team.removed`, `team.approval.requested` or
    /// `team.approval.resolved`.
    #[serde(rename = "type")]
    pub name: String,
    /// Always `user`.
    pub scope: String,
    /// The team.
    pub team_id: String,
    /// Its place in this scope.
    pub seq: u64,
    /// The event as it is stored; null for a team that is gone.
    #[schema(value_type = Option<Object>)]
    pub data: Value,
}

/// An answer to what a client said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ControlFrame {
    /// A team is followed.
    Subscribed {
        /// The team.
        team_id: String,
        /// After which event.
        after: u64,
    },
    /// The user's scope is followed.
    SubscribedUser {
        /// After which `seq`.
        after: u64,
        /// What the client asked for is not kept any more: read the lists anew.
        reset: bool,
    },
    /// A team is followed no longer.
    Unsubscribed {
        /// The team.
        team_id: String,
    },
    /// What was said is not possible.
    Error {
        /// A stable word for programs.
        code: String,
        /// A sentence for people.
        detail: String,
        /// The team, if it was about one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        team_id: Option<String>,
    },
}

/// The codes with which the daemon closes a WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketClose {
    /// The daemon stops; come again and resume.
    Stopping,
    /// The client reads too slowly; come again and resume.
    TooSlow,
    /// The session has ended; sign in again.
    SignedOut,
}

impl SocketClose {
    /// The number on the wire.
    pub fn code(self) -> u16 {
        match self {
            Self::Stopping => 1001,
            Self::TooSlow => 4008,
            Self::SignedOut => 4001,
        }
    }
}
