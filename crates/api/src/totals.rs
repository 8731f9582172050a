//! What a team's life has come to, in numbers that the store counts.

use serde::{Deserialize, Serialize};

/// The last line of `aion demo --json`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Whether everything that was promised holds: for `demo`, that no message is lost, no
    /// message is a dead letter, and the repository's own check passes.
    pub ok: bool,
    /// Turns that ended.
    pub turns: u64,
    /// Messages accepted, counted once for each mailbox they were put into.
    pub messages_accepted: u64,
    /// Of these, acknowledged.
    pub messages_acknowledged: u64,
    /// Of these, dead letters.
    pub messages_dead: u64,
    /// Tasks completed.
    pub tasks_completed: u64,
    /// Requests that got their decision.
    pub requests_decided: u64,
    /// Restarts of members.
    pub restarts: u64,
    /// Files made or changed in the workspace.
    pub files: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_these_words_in_this_order() {
        assert_eq!(
            serde_json::to_string(&Totals::default()).unwrap(),
            r#"{"ok":false,"turns":0,"messages_accepted":0,"messages_acknowledged":0,"messages_dead":0,"tasks_completed":0,"requests_decided":0,"restarts":0,"files":0}"#
        );
    }
}
