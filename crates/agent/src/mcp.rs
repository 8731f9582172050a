//! The person's own MCP servers: started once for a team when its first turn begins, shared by its
//! members, and ended with it; no server is believed in what it says of itself.
//!
//! A server is a task that owns the connection. Whoever needs it asks the task, which starts the
//! server again where it has ended, a few times and no more. What a server offers is data: names are
//! made fit, texts are cut, and every call is judged like one of a command.

mod config;
mod connect;
mod hub;
mod offer;
mod server;

pub use self::config::{ServerConfig, ServerName, Wanted, Way};
pub use self::hub::{Hub, ReadClient, Servers};
pub(crate) use self::offer::Call;
