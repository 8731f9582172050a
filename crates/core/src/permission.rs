//! Whether a tool call may run, has to be asked for, or is refused; and grants, which remember answers.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::hash::ActionHash;
use crate::id::CallId;
use crate::id::{GrantId, SlotId};
use crate::message::Sender;
use crate::mode::PermissionMode;

/// What a tool can do to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolClass {
    /// Reads inside the workspace.
    Read,
    /// Speaks to the team; judged by the team's own rules.
    Team,
    /// Changes files inside the workspace.
    Edit,
    /// Runs a command, or does anything else.
    Execute,
}

/// A tool call that waits for permission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionAsk {
    /// The call, unique in its turn.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// What it can do.
    pub class: ToolClass,
    /// Binds the decision to this tool, input and directory.
    pub action: ActionHash,
    /// What it would do, in one line.
    pub description: String,
    /// Its input as JSON text, shortened for reading.
    pub input: String,
    /// The directory it would run in.
    pub cwd: String,
}

/// A connection that waits for permission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkAsk {
    /// The tool call whose command connects.
    pub call: CallId,
    /// The host.
    pub host: String,
    /// Binds the decision to this host.
    pub action: ActionHash,
}

/// How far an "allow" reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantScope {
    /// This one call.
    #[default]
    Once,
    /// The same action by this member, while the team lives.
    Action,
    /// Any use of the tool by this member.
    Member,
    /// Any use of the tool by every member.
    Team,
}

/// What a grant allows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantRule {
    /// Exactly this action, a limited number of times.
    Action {
        /// The action.
        action: ActionHash,
        /// Gone after one use.
        once: bool,
    },
    /// Any input of a tool.
    Tool(String),
    /// A host.
    Host(String),
}

/// A standing permission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Its number.
    pub id: GrantId,
    /// The member it is for; nobody named means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<SlotId>,
    /// What it allows.
    pub rule: GrantRule,
    /// Who gave it.
    pub by: Sender,
}

impl Grant {
    /// Whether it covers a call of `tool` with `action` by `slot`.
    pub(crate) fn covers(&self, slot: SlotId, tool: &str, action: ActionHash) -> bool {
        self.slot.is_none_or(|s| s == slot)
            && match &self.rule {
                GrantRule::Action { action: a, .. } => *a == action,
                GrantRule::Tool(t) => t == tool,
                GrantRule::Host(_) => false,
            }
    }

    /// Whether it names exactly this action.
    pub(crate) fn names(&self, action: ActionHash) -> bool {
        matches!(&self.rule, GrantRule::Action { action: a, .. } if *a == action)
    }

    /// Whether it names one action, and not a whole tool.
    pub(crate) fn is_exact(&self) -> bool {
        matches!(self.rule, GrantRule::Action { .. })
    }

    /// Whether it covers a connection of `slot` to `host`.
    pub(crate) fn covers_host(&self, slot: SlotId, host: &str) -> bool {
        self.slot.is_none_or(|s| s == slot) && matches!(&self.rule, GrantRule::Host(h) if h == host)
    }
}

/// What the person lets the lead decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Delegation {
    /// Teammates' plans. Approving one widens no permission.
    pub plans: bool,
    /// Teammates' calls of these tools, once per decision.
    pub tools: BTreeSet<String>,
    /// Teammates' connections to these hosts.
    pub hosts: BTreeSet<String>,
}

impl Default for Delegation {
    fn default() -> Self {
        Self { plans: true, tools: BTreeSet::new(), hosts: BTreeSet::new() }
    }
}

/// What the mode alone says about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModeVerdict {
    Run,
    Ask,
    Refuse(&'static str),
}

/// Judges a class of tool by mode, before grants.
pub(crate) fn judge(mode: PermissionMode, class: ToolClass) -> ModeVerdict {
    use ModeVerdict::{Ask, Refuse, Run};
    match (class, mode) {
        (ToolClass::Read | ToolClass::Team, _)
        | (ToolClass::Edit | ToolClass::Execute, PermissionMode::BypassPermissions)
        | (ToolClass::Edit, PermissionMode::AcceptEdits) => Run,
        (ToolClass::Edit | ToolClass::Execute, PermissionMode::Plan) => Refuse(
            "you are in plan mode: only reading is allowed until your plan is approved; submit it with team_submit_plan",
        ),
        (ToolClass::Edit | ToolClass::Execute, PermissionMode::DontAsk) => Refuse(
            "this needs a permission, and your mode dontAsk refuses what it would have to ask for",
        ),
        (ToolClass::Edit | ToolClass::Execute, PermissionMode::Default)
        | (ToolClass::Execute, PermissionMode::AcceptEdits) => Ask,
    }
}
