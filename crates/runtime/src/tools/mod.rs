//! The team's tools: a tool call becomes a command in the caller's name; never a decision of its own.
//!
//! One registry feeds the in-process loop, MCP, the command line and the prompts. It knows no
//! transport: a name, an input and a caller go in, a text comes out.

mod call;
mod catalogue;
mod input;
mod members;
mod messages;
mod registry;
mod requests;
mod schema;
mod tasks;

pub use call::CallContext;
pub use catalogue::{
    AgentKind, Agents, Catalogue, CatalogueAgent, CatalogueModel, Program, SignedIn, Trial,
    TrialError,
};
pub use registry::{TeamTools, ToolEffect, ToolOffer};
pub(crate) use requests::{Ending, ending, leaves};
