//! How much a member may do without asking.

use serde::{Deserialize, Serialize};

/// How much a member may do without asking. From tight to wide.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "camelCase")]
pub enum PermissionMode {
    /// Reads only, until a plan is approved.
    Plan,
    /// What would be asked is refused.
    DontAsk,
    /// Changes are asked for.
    #[default]
    Default,
    /// File edits run; commands are asked for.
    AcceptEdits,
    /// Nothing is asked for.
    BypassPermissions,
}

impl PermissionMode {
    /// The wire name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::DontAsk => "dontAsk",
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::BypassPermissions => "bypassPermissions",
        }
    }
}
