//! Agents that speak ACP.

mod profile;
