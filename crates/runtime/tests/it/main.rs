//! The runtime over a memory store, stand-in agents and a clock that moves when it is told to.

#![expect(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

mod crash;
mod failures;
mod house;
mod order;
mod runners;
mod service;
mod services;
mod subscriptions;
mod tools;
mod turns;
