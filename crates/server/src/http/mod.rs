//! The handlers, one noun a file: each translates a call into a command or a question, and decides
//! nothing.

pub(crate) mod agents;
mod answer;
pub(crate) mod approvals;
pub(crate) mod conversations;
pub(crate) mod credentials;
pub(crate) mod events;
pub(crate) mod export;
pub(crate) mod files;
pub(crate) mod health;
pub(crate) mod messages;
pub(crate) mod rules;
pub(crate) mod session;
pub(crate) mod state;
pub(crate) mod tasks;
pub(crate) mod teams;

pub(crate) use answer::Problems;
