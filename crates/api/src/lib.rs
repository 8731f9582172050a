//! The words spoken over HTTP, WebSocket and the command line.
//!
//! Plain data with serde: ids are strings or numbers, amounts are integers unless a word says
//! otherwise. Nothing here knows how the rules work, so that the wire may stay when they move.

mod error;
mod event;
mod mail;
mod replay;
mod request;
mod run;
mod task;
mod team;
mod totals;

pub use error::{ErrorBody, ErrorDetail, Exit};
pub use event::{Actor, EventLine};
pub use mail::MailRow;
pub use replay::ReplayView;
pub use request::RequestRow;
pub use run::{RUN_SCHEMA, RunLine, RunStatus, TaskCounts};
pub use task::{TaskRow, TaskState};
pub use team::{
    AgentRow, AgentStatus, FileChange, FileChangeKind, Role, StatusReason, TeamRow, TeamView,
};
pub use totals::Totals;
