//! The rules of a team, each tried through the door that everybody uses.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod bad_input;
mod budget;
mod injections;
mod lifecycle;
mod mail;
mod permissions;
mod prompts;
mod requests;
mod rules;
mod size;
mod tasks;
mod thirteen;
mod world;
