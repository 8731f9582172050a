//! The named points of this crate at which a crash test lets the process kill itself; without the
//! feature `failpoints` none of them does anything.

/// Every point of this crate. Those of the store stand in `aion_store::failpoint::POINTS`.
pub const FAILPOINTS: [&str; 12] = [
    "service.opening",
    "service.opened",
    "session.before_append",
    "session.after_append",
    "session.before_reply",
    "session.before_effects",
    "effects.spawn",
    "effects.run_turn",
    "host.before_record",
    "host.after_start_tool",
    "host.before_finish_tool",
    "runner.before_end_turn",
];
