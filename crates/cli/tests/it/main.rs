//! The real binary, run as a person or a program runs it.
#![expect(clippy::unwrap_used, reason = "tests")]

mod agents;
mod background;
mod binary;
mod bridge;
mod calls;
mod clients;
mod daemon;
mod demo;
mod ends;
mod errors;
mod golden;
mod kills;
mod outliving;
mod permissions;
mod providers;
mod reading;
mod run;
mod screen;
mod secrets;
mod serve;
mod served;
mod signals;
mod undo;
mod upkeep;
