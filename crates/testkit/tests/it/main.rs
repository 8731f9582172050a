//! Holds the stand-ins to what they stand in for.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../../../store/tests/it/contract.rs"]
mod contract;
#[path = "../../../store/tests/it/events.rs"]
mod events;
mod faults;
