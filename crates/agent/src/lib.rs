//! One coding agent in this process: the model loop, its tools, its sandbox.
//!
//! The loop knows neither teams nor storage: what it needs from the house around it, it asks of
//! its [`host::Host`].

pub mod host;
pub mod identity;
pub mod leash;
pub mod mcp;
pub mod models;
pub mod network;
pub mod permission;
pub mod provider;
pub mod runtime;
pub mod sandbox;
pub mod scripted;
pub mod tools;
