//! A stand-in for the models' services over real sockets: it plays a scenario in every format that
//! they speak, fails on purpose, and is as strict as they are; it never thinks.
//!
//! What comes over the wire becomes a conversation, the scenario's player answers it, and the
//! answer goes out in the words of the service that was asked. Who asks is known from the system
//! prompt ("You are bob, …"). A request that a real service would refuse is refused with 400 and
//! kept as a violation, so that a test can say that there was none.
//!
//! Two things a player cannot know, the server adds: a request for a summary is answered by one,
//! and the conversation that goes on from it is played as if nothing had been cut; an answer that
//! was cut at its limit of tokens is gone on with where it ended.
//!
//! Coding agents of others call it too ([`Callers::Others`]): they are held to nothing, and the
//! scenario is played over their turn alone.

mod brain;
mod fault;
mod foreign;
mod serve;
mod wire;

pub use self::fault::{Fault, Plan};
pub use self::serve::{Callers, ModelServer, Script, Seen, allow_clients};
pub use self::wire::Format;
