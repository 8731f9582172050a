//! What an agent that is another program is handed to reach its team by; it never connects anybody
//! itself.

use std::fmt;
use std::time::Duration;

use aion_core::id::SlotId;
use tokio::sync::watch;

/// The secret of one start of one member. It has no way out but to the member.
#[derive(Clone)]
pub struct ConnectionToken(String);

impl ConnectionToken {
    /// Takes a token that was drawn for a member.
    pub fn new(token: String) -> Self {
        Self(token)
    }

    /// The token itself, for the member alone.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ConnectionToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConnectionToken")
    }
}

/// The way of one start of a member to its team.
#[derive(Clone, Debug)]
pub struct Connection {
    port: u16,
    slot: SlotId,
    token: ConnectionToken,
    ready: watch::Receiver<bool>,
}

impl Connection {
    /// The way over a port of this machine; `ready` turns true when the member's tools are there.
    pub fn new(
        port: u16,
        slot: SlotId,
        token: ConnectionToken,
        ready: watch::Receiver<bool>,
    ) -> Self {
        Self { port, slot, token, ready }
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The member's secret.
    pub fn token(&self) -> &ConnectionToken {
        &self.token
    }

    /// What a child process finds in its environment.
    pub fn environment(&self) -> [(&'static str, String); 3] {
        [
            ("TEAM_MCP_PORT", self.port.to_string()),
            ("TEAM_MCP_TOKEN", self.token.0.clone()),
            ("TEAM_AGENT_SLOT_ID", self.slot.0.to_string()),
        ]
    }

    /// Whether the member's tools are there, or have been.
    pub fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Waits until the member's tools are there; false if that takes longer than `limit`, or if the
    /// token has ended.
    pub async fn is_ready_within(&self, limit: Duration) -> bool {
        let mut ready = self.ready.clone();
        matches!(tokio::time::timeout(limit, ready.wait_for(|ready| *ready)).await, Ok(Ok(_)))
    }
}
