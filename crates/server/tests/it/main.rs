//! The edge over real HTTP on a loopback address, with a store in memory and stand-in agents.
#![expect(clippy::unwrap_used, reason = "tests")]

mod access;
mod contract;
mod rest;
mod sockets;
mod world;
