//! How long things with an agent may take, and how much of it is taken; it measures nothing.

use std::time::Duration;

/// The limits of agents that speak ACP.
#[derive(Clone, Debug)]
pub struct AcpLimits {
    /// From the start of its program to its first answer. A package may have to be fetched first.
    pub start: Duration,
    /// Until a session is open.
    pub open: Duration,
    /// Until a mode or a model is set, or text in the middle of a turn is taken.
    pub set: Duration,
    /// Until an agent that begins its MCP servers at once has begun ours.
    pub tools: Duration,
    /// How long a turn may go on after it was to end; then its process is killed.
    pub cancel: Duration,
    /// How long a turn may go on without a sign of life until those who watch are told.
    pub notice: Duration,
    /// How long a turn may go on without a sign of life.
    pub quiet: Duration,
    /// The same while a tool of it runs, or a person is asked.
    pub busy: Duration,
    /// How long nothing more may come after a turn's end, until it counts as ended.
    pub drain: Duration,
    /// How long all of that may take.
    pub drain_at_most: Duration,
    /// How long an agent that is to leave may take at the end of its input, and after it was told to.
    pub leave: (Duration, Duration),
    /// The most bytes that an agent may say in one turn.
    pub turn_bytes: usize,
    /// The most tool calls of one turn.
    pub turn_calls: usize,
}

impl Default for AcpLimits {
    fn default() -> Self {
        Self {
            start: Duration::from_mins(3),
            open: Duration::from_mins(2),
            set: Duration::from_secs(30),
            tools: Duration::from_secs(30),
            cancel: Duration::from_secs(10),
            notice: Duration::from_mins(1),
            quiet: Duration::from_mins(10),
            busy: Duration::from_hours(2),
            drain: Duration::from_millis(50),
            drain_at_most: Duration::from_secs(1),
            leave: (Duration::from_secs(3), Duration::from_secs(2)),
            turn_bytes: 64 * 1024 * 1024,
            turn_calls: 4_096,
        }
    }
}
