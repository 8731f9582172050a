//! Agents that are programs of their own and speak the Agent Client Protocol; the only place that
//! speaks it.

mod profile;
mod profiles;

pub use self::profile::{
    AgentSource, FieldPattern, Launch, Launchable, McpStart, McpTransport, Modes, NpmPackage,
    Profile, ProfileError, PypiPackage, Quirk, SignedIn, TEAM_SERVER, ToolProof,
};
pub use self::profiles::profiles;
