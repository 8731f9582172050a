//! Whether a tool call may run, has to be asked for, or is refused; and grants, which remember answers.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::hash::ActionHash;
use crate::id::CallId;
use crate::id::{GrantId, SlotId};
use crate::message::Sender;
use crate::mode::PermissionMode;
use crate::rule::{Finding, Rule, RuleWord};

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
    /// What it would do, part by part and without its dress.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kin: Vec<ActionHash>,
    /// The rule that was the reason to ask, where one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<Finding>,
    /// The rule that would allow calls like this one, for a person that does not want to be asked
    /// again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<Rule>,
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
    /// What a rule's pattern fits.
    Pattern(Rule),
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
                // How a pattern fits is judged outside; a call cites it.
                GrantRule::Pattern(_) | GrantRule::Host(_) => false,
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

/// What mode and rules say about a call, before grants that name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    Run,
    /// A grant may still let it run. Where a rule wants it to be asked for, only one that names
    /// exactly this action does.
    Ask {
        by_rule: bool,
    },
    Refuse(String),
}

/// Judges a call. A rule that denies counts most, then the tightness of plan mode, then a rule that
/// asks, then one that allows, then the mode.
pub(crate) fn judge(
    mode: PermissionMode,
    class: ToolClass,
    finding: Option<&Finding>,
) -> Judgement {
    let says = finding.map(|finding| finding.says);
    if let Some(finding) = finding.filter(|finding| finding.says == RuleWord::Deny) {
        return Judgement::Refuse(finding.refusal());
    }
    let changes = matches!(class, ToolClass::Edit | ToolClass::Execute);
    if changes && mode == PermissionMode::Plan {
        return Judgement::Refuse(
            "you are in plan mode: only reading is allowed until your plan is approved; submit it with team_submit_plan"
                .to_owned(),
        );
    }
    match says {
        Some(RuleWord::Ask) => return Judgement::Ask { by_rule: true },
        Some(RuleWord::Allow) => return Judgement::Run,
        Some(RuleWord::Deny) | None => {}
    }
    match (class, mode) {
        (ToolClass::Read | ToolClass::Team, _)
        | (ToolClass::Edit | ToolClass::Execute, PermissionMode::BypassPermissions)
        | (ToolClass::Edit, PermissionMode::AcceptEdits) => Judgement::Run,
        (ToolClass::Edit | ToolClass::Execute, _) => Judgement::Ask { by_rule: false },
    }
}

/// Why a call that has to be asked for does not run in a mode that asks nobody.
pub(crate) fn unasked(finding: Option<&Finding>) -> String {
    finding.map_or_else(
        || {
            "this needs a permission, and your mode dontAsk refuses what it would have to ask for; a rule that allows it would let it run"
                .to_owned()
        },
        Finding::refusal,
    )
}
