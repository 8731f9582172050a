//! Agents that speak ACP, well and badly.

mod at_start;
mod fixture;
mod in_turns;
mod manners;
mod sessions;
mod team;
