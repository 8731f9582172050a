//! Agents that are programs of their own and speak the Agent Client Protocol; the only place that
//! speaks it.
//!
//! From the outside in: [`AcpBackend`] starts a seat for each agent and hands out its session; a seat
//! has a process at a time, opens the agent's session in it, and runs turns. Lines become frames,
//! frames become news, answers and requests, and all of them are read leniently: what an agent does
//! that nobody expected costs that, and not its team. What is said and done is kept in our own
//! transcript, what needs a permission is judged by the house, and the agent's own memory is a
//! convenience that may be lost.

mod act;
mod ask;
mod backend;
mod call;
mod calls;
mod deed;
mod exchange;
mod frame;
mod greet;
mod handshake;
mod limits;
mod lines;
mod log;
mod memory;
mod open;
mod options;
mod process;
mod profile;
mod profiles;
mod seat;
mod session;
mod stop;
mod turn;
mod update;
mod usage;
mod words;

pub use self::backend::{AcpBackend, AcpConfig, Bridge};
pub use self::handshake::{Handshake, try_agent};
pub use self::limits::AcpLimits;
pub use self::memory::{Kept, SessionDirectory, SessionMemory};
pub use self::profile::{
    AgentSource, FieldPattern, Launch, Launchable, McpStart, McpTransport, Modes, NpmPackage,
    Profile, ProfileError, PypiPackage, Quirk, SignedIn, TEAM_SERVER, ToolProof,
};
pub use self::profiles::profiles;
