//! The backends as a runner sees them; one contract for all of them.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod acp;
mod in_process;
