//! The team's tools for programs of their own: MCP over framed TCP and over HTTP; it decides nothing
//! and believes nothing that a client says about itself.
//!
//! One [`Door`] listens on a free port of 127.0.0.1, apart from the browsers' listener. Who calls is
//! known from a token alone ([`MemberTokens`]); what the member may do is looked up in its team, call
//! by call.

mod answers;
mod door;
mod framed;
mod frames;
mod http;
pub(crate) mod person;
mod tokens;
mod tools;

pub(crate) use door::Door;
pub(crate) use http::endpoint;
pub(crate) use tokens::MemberTokens;
pub(crate) use tools::alive;
