//! The agent as its house sees it: whole turns by the scripted provider, real tools, real processes.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod background;
mod crashes;
mod fetches;
mod fixture;
mod hostile;
mod identities;
mod instructions;
mod leashes;
mod outputs;
mod rules;
mod scenarios;
mod servers;
mod services;
mod shells;
mod toolbox;
mod turns;
mod walls;
mod windows;
