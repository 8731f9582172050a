//! The shutdown handshake: asked, answered by the typed tool, and never unanswered for ever.

use serde::{Deserialize, Serialize};

use crate::id::SlotId;
use crate::message::Sender;
use crate::time::Timestamp;

/// A shutdown that waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShutdownHandshake {
    /// Who would leave.
    pub slot: SlotId,
    /// Who asked.
    pub by: Sender,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who is asked next.
    pub stage: ShutdownStage,
}

/// Whose answer a shutdown waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "snake_case")]
pub enum ShutdownStage {
    /// The member's own, until a time.
    Member {
        /// From then on the person is asked.
        until: Timestamp,
    },
    /// The lead's or the person's: the member asks for its own end.
    Decider {
        /// From then on only the person's inbox shows it.
        until: Timestamp,
    },
    /// The person's: nobody answered in time.
    Person,
}

impl ShutdownHandshake {
    /// When the wait for an answer ends.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        match self.stage {
            ShutdownStage::Member { until } | ShutdownStage::Decider { until } => Some(until),
            ShutdownStage::Person => None,
        }
    }
}

/// Reads the one compatible answer in text (DESIGN 5.4): a whole body that is exactly
/// `shutdown_approved`, or begins with `shutdown_rejected:`.
pub(crate) fn compatible_answer(body: &str) -> Option<Result<(), String>> {
    match body {
        "shutdown_approved" => Some(Ok(())),
        _ => body.strip_prefix("shutdown_rejected:").map(|reason| Err(reason.trim().to_owned())),
    }
}
