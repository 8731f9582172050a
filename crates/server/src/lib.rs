//! The edge: REST, WebSocket, MCP, auth.
//!
//! [`Server`] listens and translates: a call becomes a command, and an event
//! becomes a word of `aion-api`. Who may do what is decided by the rules; who somebody is, by the
//! credential alone ([`AccessToken`]).

mod activity;
mod app;
mod auth;
mod catalogue;
mod convert;
mod editor;
mod error;
mod extract;
mod feed;
mod files;
mod gate;
mod groundwork;
mod history;
mod http;
mod listen;
mod mcp;
mod metrics;
mod names;
mod openapi;
mod serve;
mod spans;
mod tls;
pub mod view;
mod ws;

pub use activity::Activity;
pub use auth::{AccessToken, TokenError};
pub use catalogue::catalogue_rows;
pub use groundwork::{Groundwork, GroundworkError};
pub use openapi::document;
pub use serve::{RemoteConfig, ServeError, Server, ServerConfig};
pub use spans::SpanSink;
pub use tls::{TlsError, TlsFiles};
