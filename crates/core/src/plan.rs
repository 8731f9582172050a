//! A submitted plan: a changed text is a new hash and needs a new approval.

use serde::{Deserialize, Serialize};

use crate::hash::ActionHash;

/// A plan that waits for approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanSubmission {
    /// The hash of its text.
    pub hash: ActionHash,
    /// Its text.
    pub text: String,
}

impl PlanSubmission {
    /// A plan as submitted.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self { hash: ActionHash::of_text(&text), text }
    }
}
