//! The limits of a team, all configurable; a refusal names the limit it met.

use serde::{Deserialize, Serialize};

use crate::time::Millis;

/// The limits of one team. Zero in a rate means "no limit".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Members at one time, the lead included.
    pub members: u32,
    /// Messages a member may send in a minute; a broadcast counts once per recipient.
    pub messages_per_minute: u32,
    /// Unread messages in one mailbox.
    pub unread: u32,
    /// Unacknowledged bytes in one mailbox.
    pub unread_bytes: u64,
    /// Bytes in one message.
    pub message_bytes: u32,
    /// Bytes in a task's description or a plan.
    pub text_bytes: u32,
    /// Characters in a task's title.
    pub subject_chars: u32,
    /// Open tasks.
    pub open_tasks: u32,
    /// Open requests of one member.
    pub open_requests: u32,
    /// Messages in one turn's opening.
    pub batch_messages: u32,
    /// Bytes in one turn's opening.
    pub batch_bytes: u64,
    /// Turns that may fail with a message before it is a dead letter.
    pub attempts: u32,
    /// Turns between two members without progress before both are held.
    pub turns_without_progress: u32,
    /// Restarts of one member within [`Limits::restart_window`].
    pub restarts_in_window: u32,
    /// The window over which restarts are counted.
    pub restart_window: Millis,
    /// The wait before the second restart in a window; it doubles from there.
    pub restart_backoff: Millis,
    /// How long idle notices wait for the other teammates.
    pub notices_wait: Millis,
    /// How long a shutdown request waits for its answer before the person is asked.
    pub shutdown_wait: Millis,
    /// A longer downtime makes the team wait for one "resume".
    pub long_downtime: Millis,
    /// The same for a team without a budget cap: nothing else bounds what it spends unseen.
    pub long_downtime_uncapped: Millis,
    /// How long idempotency keys are kept.
    pub keys_kept_for: Millis,
    /// How many idempotency keys are kept.
    pub keys_kept: u32,
    /// Denied actions that are remembered against another agent's running them.
    pub denials_kept: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            members: 16,
            messages_per_minute: 30,
            unread: 1_000,
            unread_bytes: 8 * 1024 * 1024,
            message_bytes: 64 * 1024,
            text_bytes: 32 * 1024,
            subject_chars: 200,
            open_tasks: 1_000,
            open_requests: 8,
            batch_messages: 32,
            batch_bytes: 256 * 1024,
            attempts: 3,
            turns_without_progress: 12,
            restarts_in_window: 3,
            restart_window: Millis::minutes(5),
            restart_backoff: Millis::seconds(1),
            notices_wait: Millis::seconds(60),
            shutdown_wait: Millis::seconds(60),
            long_downtime: Millis::hours(1),
            long_downtime_uncapped: Millis::minutes(10),
            keys_kept_for: Millis::hours(24),
            keys_kept: 10_000,
            denials_kept: 1_000,
        }
    }
}
