//! A member's credential on the wire: shown once, then only how its holder is doing.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a program needs to act as a member of a team. It is shown this once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CredentialResponse {
    /// The member.
    pub slot_id: u64,
    /// Where its tools are over HTTP: MCP, with the token as a bearer token.
    pub url: String,
    /// Where they are over frames: a port on 127.0.0.1.
    pub port: u16,
    /// The token. It ends when the member ends, starts again or gets another one, and with the daemon.
    pub token: String,
}

impl fmt::Debug for CredentialResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialResponse")
            .field("slot_id", &self.slot_id)
            .field("url", &self.url)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

/// How the holder of a member's credential is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CredentialStateResponse {
    /// The member.
    pub slot_id: u64,
    /// Whether the team's tools have been ready at the holder's.
    pub ready: bool,
    /// How many framed connections it holds.
    pub connections: u64,
}
