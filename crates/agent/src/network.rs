//! The one way from an agent's commands and fetches to the network: host by host, by rules and by
//! people's decisions; it reads nothing of what goes over it but the name of the host.
//!
//! A command's wall has no network but a socket of its own to the [proxy](Network::open). The proxy
//! takes names alone, finds their addresses itself, and connects to the very addresses that it
//! looked at. A host that no rule knows is asked for at the [`Gate`], and the connection waits.

mod address;
mod gate;
mod host;
mod judge;
mod outside;
mod proxy;
mod web;

pub use self::gate::{Gate, HostAsk};
pub use self::host::{HostName, Rule};
pub use self::judge::{Network, NetworkRules, Pass};
pub use self::outside::{Internet, Outside};
pub use self::proxy::Opening;
pub(crate) use self::web::{Address, Page};
pub use self::web::{ReadAuthorities, Web};
