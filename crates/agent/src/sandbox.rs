//! The wall around every command that an agent runs; it judges nothing, and is never silently gone.
//!
//! A command runs inside a [`Wall`]: by bubblewrap where that works, else by Landlock and seccomp in
//! a helper of its own (this binary again, as `aion __sandbox`). Inside, the workspace can be
//! written, the rest of the machine can only be read, and secrets, the house's own files, other
//! agents' settings and what makes git or an editor run commands are closed, also where they do not
//! exist yet. The network leads to the house's proxy and nowhere else. [`Sandbox::spawn`] is the one
//! way to start a command; whoever starts programs for an agent uses it.

mod bridge;
mod bubblewrap;
mod guard;
mod inside;
mod landlock;
mod limits;
mod place;
mod placeholder;
mod policy;
mod repository;
mod run;
mod syscalls;
mod violation;
mod wall;

pub use self::bubblewrap::Bubblewrap;
pub use self::inside::sandbox_main;
pub use self::limits::Limits;
pub use self::placeholder::is_held_empty;
pub use self::policy::{CLOSED_IN_HOME, Grounds};
pub use self::run::{Ended, Sandbox, Walled};
pub use self::violation::{Violation, in_words};
pub use self::wall::{Mode, Wall};
