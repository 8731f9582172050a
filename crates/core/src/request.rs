//! What all requests share: one inbox, one decision each; never who carries the answer back.

use serde::{Deserialize, Serialize};

use crate::consent::{BudgetRaise, SpawnProposal, TeamProposal};
pub use crate::hash::ActionHash;
use crate::id::{RequestId, SlotId, TurnId};
use crate::message::Sender;
use crate::mode::PermissionMode;
use crate::permission::{GrantScope, NetworkAsk, PermissionAsk};
use crate::plan::PlanSubmission;
use crate::question::Question;
use crate::rule::Rule;
use crate::shutdown::ShutdownHandshake;
use crate::time::Timestamp;

/// Something that somebody has to decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Its number.
    pub id: RequestId,
    /// Who asks.
    pub from: Sender,
    /// The turn that waits for the answer, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// What is asked.
    pub kind: RequestKind,
    /// Whether the lead may decide it too.
    pub delegated: bool,
    /// When it was asked.
    pub asked_at: Timestamp,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RequestKind {
    /// May this tool run?
    Permission(PermissionAsk),
    /// May this command reach this host?
    Network(NetworkAsk),
    /// Is this plan good?
    Plan(PlanSubmission),
    /// Will you leave?
    Shutdown(ShutdownHandshake),
    /// May this member be brought in?
    Spawn(Box<SpawnProposal>),
    /// May this chat become a team?
    CreateTeam(Box<TeamProposal>),
    /// May the team spend more?
    RaiseBudget(BudgetRaise),
    /// May the team be ended while members work?
    DeleteTeam,
    /// What do you say?
    Question(Question),
}

impl RequestKind {
    /// The word for lists.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Permission(_) => "permission",
            Self::Network(_) => "network",
            Self::Plan(_) => "plan",
            Self::Shutdown(_) => "shutdown",
            Self::Spawn(_) => "spawn",
            Self::CreateTeam(_) => "create_team",
            Self::RaiseBudget(_) => "raise_budget",
            Self::DeleteTeam => "delete_team",
            Self::Question(_) => "question",
        }
    }
}

/// Where a request stands while it is part of the state. Closed ones leave it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RequestState {
    /// Waits for a decision.
    Open,
    /// Waits for a decision although who asked is gone; an "allow" becomes a single-use grant.
    Orphaned,
    /// Decided, and on its way to the turn that waits.
    Decided {
        /// By whom.
        by: Sender,
        /// What.
        decision: Decision,
    },
}

/// One decision. Which variants fit depends on the kind of request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// The tool or connection goes on.
    Allow {
        /// How far the permission reaches.
        #[serde(default)]
        scope: GrantScope,
        /// What it allows from here on, where that is a rule's pattern; else the whole tool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<Rule>,
    },
    /// It does not.
    Deny {
        /// Why, for the model.
        reason: String,
    },
    /// Work may begin.
    ApprovePlan {
        /// The mode from here on; `default` if not said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<PermissionMode>,
    },
    /// The plan has to change.
    ReturnPlan {
        /// How, verbatim.
        feedback: String,
    },
    /// The member leaves.
    ApproveShutdown,
    /// The member stays.
    RejectShutdown {
        /// Why.
        reason: String,
    },
    /// The member is ended although it did not answer, or refused.
    ForceShutdown,
    /// The person consents.
    Consent,
    /// The person does not.
    Decline {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The answer to a question.
    Answer {
        /// What the person says.
        text: String,
    },
}

impl Decision {
    /// Yes, this once.
    pub const ONCE: Self = Self::Allow { scope: GrantScope::Once, rule: None };

    /// Whether this decision answers that kind of request.
    pub(crate) fn fits(&self, kind: &RequestKind) -> bool {
        match kind {
            RequestKind::Permission(_) | RequestKind::Network(_) => {
                matches!(self, Self::Allow { .. } | Self::Deny { .. })
            }
            RequestKind::Plan(_) => {
                matches!(self, Self::ApprovePlan { .. } | Self::ReturnPlan { .. })
            }
            RequestKind::Shutdown(_) => matches!(
                self,
                Self::ApproveShutdown | Self::RejectShutdown { .. } | Self::ForceShutdown
            ),
            RequestKind::Spawn(_)
            | RequestKind::CreateTeam(_)
            | RequestKind::RaiseBudget(_)
            | RequestKind::DeleteTeam => matches!(self, Self::Consent | Self::Decline { .. }),
            RequestKind::Question(_) => matches!(self, Self::Answer { .. } | Self::Decline { .. }),
        }
    }

    /// The decisions that answer a kind of request, for a refusal that names the choices.
    pub(crate) fn choices(kind: &RequestKind) -> &'static [&'static str] {
        match kind {
            RequestKind::Permission(_) | RequestKind::Network(_) => &["allow", "deny"],
            RequestKind::Plan(_) => &["approve_plan", "return_plan"],
            RequestKind::Shutdown(_) => &["approve_shutdown", "reject_shutdown", "force_shutdown"],
            RequestKind::Spawn(_)
            | RequestKind::CreateTeam(_)
            | RequestKind::RaiseBudget(_)
            | RequestKind::DeleteTeam => &["consent", "decline"],
            RequestKind::Question(_) => &["answer", "decline"],
        }
    }
}

/// Why a request closed without a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Withdrawal {
    /// The turn that waited has ended.
    TurnEnded,
    /// The one who asked took it back.
    ByAsker,
    /// The member it was about is gone.
    AgentRemoved(SlotId),
    /// The team ended.
    TeamEnded,
}
