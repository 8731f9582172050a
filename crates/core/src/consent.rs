//! What only the person may agree to: new members beyond the allowance, new teams, more budget.

use serde::{Deserialize, Serialize};

use crate::agent::MemberSpec;
use crate::budget::Amount;

/// A member that the lead would like to bring in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnProposal {
    /// What it would be made from.
    pub member: MemberSpec,
}

/// A team that a solo agent proposes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamProposal {
    /// Its name.
    pub name: String,
    /// What the lead would be told first.
    pub summary: String,
    /// Why a team, and not one agent.
    pub why: String,
    /// Who would do what.
    pub members: Vec<ProposedMember>,
}

/// One line of a proposed line-up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposedMember {
    /// Its name.
    pub name: String,
    /// Which agent.
    pub agent_type: String,
    /// Which model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it would do.
    pub task: String,
}

/// A wish to spend more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetRaise {
    /// The cap that is asked for.
    pub cap: Amount,
    /// Why.
    pub reason: String,
}
