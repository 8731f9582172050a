//! How the server fails on purpose; it decides nothing by chance.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;

use super::serve::Seen;

/// What happens to one answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// It is refused with this status.
    Status {
        /// The status, for example 429 or 529.
        status: u16,
        /// The `Retry-After` with it.
        #[serde(default)]
        retry_after: Option<String>,
    },
    /// The connection breaks after so many pieces.
    Cut {
        /// How many pieces are sent before.
        after: usize,
    },
    /// A piece that is no JSON comes after so many pieces.
    Malformed {
        /// How many pieces are sent before.
        after: usize,
    },
    /// One piece of text has so many bytes more.
    Huge {
        /// How many.
        bytes: usize,
    },
    /// It ends at its limit of tokens, after about half of its text.
    MaxTokens,
    /// It never comes.
    Silent,
}

/// Which fault an answer has, by what was asked.
#[derive(Clone)]
pub struct Plan(Arc<dyn Fn(&Seen) -> Fault + Send + Sync>);

impl Plan {
    /// Asks a function.
    pub fn new(plan: impl Fn(&Seen) -> Fault + Send + Sync + 'static) -> Self {
        Self(Arc::new(plan))
    }

    pub(super) fn fault(&self, seen: &Seen) -> Fault {
        self.0(seen)
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self::new(|_| Fault::None)
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plan")
    }
}
