//! The edge over real HTTP on a loopback address, with a store in memory and stand-in agents.
#![expect(clippy::unwrap_used, reason = "tests")]

mod access;
mod client;
mod contract;
mod files;
mod members;
mod members_http;
mod outages;
mod private;
mod rest;
mod sockets;
mod tools_page;
mod world;
