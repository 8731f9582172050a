//! The rules of a team, as a deterministic state machine without I/O.
//!
//! A [`Command`] and its [`Caller`] go into [`Team::decide`], [`Event`]s come out, and
//! [`Team::evolve`] applies them. [`Team::outstanding`] says what the world must do next.

pub mod agent;
pub mod budget;
pub mod command;
pub mod consent;
pub mod effect;
pub mod event;
pub mod hash;
pub mod id;
pub mod limits;
pub mod mailbox;
pub mod message;
pub mod mode;
pub mod permission;
pub mod plan;
pub mod prompt;
pub mod question;
pub mod rejection;
pub mod request;
pub mod rule;
pub mod sandbox;
pub mod shutdown;
pub mod task;
pub mod team;
pub mod text;
pub mod time;
pub mod transcript;
pub mod turn;

pub use command::{Caller, Command};
pub use effect::{Effect, EffectKey};
pub use event::{Event, Recorded};
pub use rejection::Rejection;
pub use team::Team;
