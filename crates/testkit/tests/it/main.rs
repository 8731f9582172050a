//! The stand-ins at work: foreign agents, as their backend and the runtime meet them.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod acp;
