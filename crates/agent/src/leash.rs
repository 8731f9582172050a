//! Child processes on a leash: when the one who holds it is gone, however it went, so are they.
//!
//! A command is started by a small helper (this binary again, as `aion __leash`). The helper leads
//! a process group of its own, adopts whatever its descendants leave behind, and listens on a pipe.
//! Before the command starts, group and start time are in the [`LeashLedger`]; the command starts
//! when a byte comes over the pipe; what comes after it is the command's input, where it is talked
//! with. When the pipe ends, by intention or because the holder was
//! killed, or when the command ends, the helper kills every descendant and exits with the
//! command's exit code; a command that is talked with may be given a few seconds to end by itself. What even a killed helper left behind is found by [`reap`].

mod child;
mod keeper;
mod ledger;
mod processes;

pub(crate) use self::child::start;
pub use self::child::{
    Heard, LeashConfig, Leashed, LeashedCommand, Parting, Talk, spawn, spawn_parting, spawn_talking,
};
pub use self::keeper::leash_main;
pub use self::ledger::{DirectoryLedger, LeashEntry, LeashLedger, reap};
pub(crate) use self::processes::{Process, below, end_all_below};
pub use self::processes::{birth, boot_id};

/// The variable by which a helper's descendants are known, whatever group or session they move to.
const MARK: &str = "AION_LEASH";
/// The variable that says to a helper that its command is talked with, and how it is ended.
const TALKS: &str = "AION_LEASH_TALKS";
