//! What a client may send over HTTP; a field that is not here is refused, never ignored.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

/// A team to be made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CreateTeamParams {
    /// Its name; without one the name of its directory.
    pub name: Option<String>,
    /// The directory it works in, absolute and there already; without one a fresh folder is made.
    pub workspace: Option<String>,
    /// The lead's first message; without one the lead waits for its first message.
    pub prompt: Option<String>,
    /// What its lead is made from; without it the best agent that is installed.
    pub lead: LeadParams,
    /// Its settings, as far as they differ from the defaults.
    #[schema(value_type = Option<Object>)]
    pub settings: Option<Map<String, Value>>,
    /// A scenario, in TOML, that agents of the type `scripted` play in this team.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
}

/// Another scenario for a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScenarioParams {
    /// The scenario, in TOML.
    pub scenario: String,
}

/// What a lead is made from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LeadParams {
    /// Which agent it is; one of `GET /api/agents`.
    pub agent_type: Option<String>,
    /// Which model; without one the agent's own choice.
    pub model: Option<String>,
    /// How much it may do without asking.
    pub permission_mode: Option<PermissionModeParam>,
}

/// How much a member may do without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum PermissionModeParam {
    /// It may only read until its plan is approved.
    Plan,
    /// What it would have to ask for is refused.
    DontAsk,
    /// It asks before it changes anything.
    Default,
    /// It may change files, and asks before it runs commands.
    AcceptEdits,
    /// It may do everything.
    BypassPermissions,
}

/// What changes in a team. A field that is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EditTeamParams {
    /// Another name.
    pub name: Option<String>,
    /// Settings that change; merged into the present ones (RFC 7396).
    #[schema(value_type = Option<Object>)]
    pub settings: Option<Map<String, Value>>,
}

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageParams {
    /// What it says.
    pub text: String,
    /// Files that go along; each was given to `POST /api/files` before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileParams>,
    /// How soon it is read.
    #[serde(default)]
    pub urgency: UrgencyParam,
}

/// A message that is to be sent again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RedeliverParams {
    /// Whom it is sent to. Not needed where one mailbox alone gave it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot_id: Option<u64>,
}

/// A file that goes along with a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FileParams {
    /// SHA-256 of its content, as `POST /api/files` said.
    pub sha256: String,
    /// The name under which it is shown and put into the team's directory.
    pub name: String,
}

/// How soon a message is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum UrgencyParam {
    /// With the next turn, whenever that is.
    Queue,
    /// It starts a turn.
    #[default]
    Wake,
    /// It ends the running turn and starts another.
    Interrupt,
}

/// What a team may use. What is absent is not limited; nothing at all takes the cap away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetParams {
    /// Tokens in all, in and out.
    pub tokens: Option<u64>,
    /// Money in millionths of a dollar.
    pub micro_usd: Option<u64>,
}

/// A member to be brought in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SpawnAgentParams {
    /// Its name: letters a-z, digits and hyphens.
    pub name: String,
    /// What it is to be and to do; its first message.
    pub prompt: String,
    /// Which agent it is; without it the same as the lead.
    #[serde(default)]
    pub agent_type: Option<String>,
    /// Which model; without one the agent's own choice.
    #[serde(default)]
    pub model: Option<String>,
    /// The colour to show it in.
    #[serde(default)]
    pub color: Option<String>,
    /// Whether it may only read until its plan is approved.
    #[serde(default)]
    pub plan_mode_required: bool,
}

/// Another name for a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EditAgentParams {
    /// The name.
    pub name: String,
    /// A label to show instead; without one the name is shown.
    #[serde(default)]
    pub label: Option<String>,
}

/// Why a member is asked to leave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StopAgentParams {
    /// The reason, for the member to read.
    pub reason: Option<String>,
}

/// A permission mode to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ModeParams {
    /// The mode.
    pub mode: PermissionModeParam,
}

/// A model to be set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelParams {
    /// The model; null means the agent's own choice.
    #[serde(default)]
    pub model: Option<String>,
}

/// A task to be put on the board.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTaskParams {
    /// Its title.
    pub subject: String,
    /// What is to be done.
    #[serde(default)]
    pub description: String,
    /// The title while it is being done.
    #[serde(default)]
    pub active_form: Option<String>,
    /// The slot of the member who is to do it.
    #[serde(default)]
    pub owner_slot_id: Option<u32>,
    /// The tasks it waits for.
    #[serde(default)]
    pub blocked_by: Vec<u32>,
}

/// What changes in a task. A field that is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EditTaskParams {
    /// Another title.
    pub subject: Option<String>,
    /// Another description.
    pub description: Option<String>,
    /// Another title while it is being done.
    pub active_form: Option<String>,
    /// Where it stands from now on.
    pub status: Option<TaskStatusParam>,
    /// The slot of the member who has it from now on.
    pub owner_slot_id: Option<u32>,
    /// Takes it from its owner.
    pub release: bool,
    /// Tasks that it waits for from now on.
    pub add_blocked_by: Vec<u32>,
    /// Tasks that it waits for no longer.
    pub remove_blocked_by: Vec<u32>,
}

/// Where a task is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatusParam {
    /// Nobody has begun.
    Pending,
    /// Its owner works on it.
    InProgress,
    /// It is done.
    Completed,
    /// It is off the board.
    Deleted,
}

/// A decision; which of them answer a request is in its `choices`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "decision", rename_all = "snake_case", deny_unknown_fields)]
pub enum DecisionParams {
    /// The tool call may run, or the connection be made.
    Allow {
        /// For what else that counts.
        #[serde(default)]
        scope: ScopeParam,
        /// For a permission with the scope `member` or `team`: the rule that allows from here on, for
        /// example the request's `suggestion`. Without it the whole tool is allowed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
    },
    /// It may not.
    Deny {
        /// Why, for the member to read.
        #[serde(default)]
        reason: String,
    },
    /// The plan may be carried out.
    ApprovePlan {
        /// The mode in which; without one it stays as it was before the plan.
        #[serde(default)]
        mode: Option<PermissionModeParam>,
    },
    /// The plan goes back.
    ReturnPlan {
        /// What has to change.
        feedback: String,
    },
    /// The member leaves.
    ApproveShutdown {},
    /// The member stays.
    RejectShutdown {
        /// Why.
        reason: String,
    },
    /// The member is ended without its consent.
    ForceShutdown {},
    /// The request to leave is taken back: the member stays, and need not answer.
    Withdraw {},
    /// Yes.
    Consent {},
    /// No.
    Decline {
        /// Why.
        #[serde(default)]
        reason: Option<String>,
    },
    /// The answer to a question.
    Answer {
        /// The answer.
        text: String,
    },
}

/// For what a permission counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScopeParam {
    /// This one call.
    #[default]
    Once,
    /// The same action, whoever does it again.
    Action,
    /// The same tool or host, for this member.
    Member,
    /// The same tool or host, for the whole team.
    Team,
}

/// A one-time login code in exchange for a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginParams {
    /// The code of the login link.
    pub code: String,
}

/// Where a page begins, and how long it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct PageParams {
    /// The `next` of the page before; 0 begins at the beginning.
    #[serde(default)]
    pub after: u64,
    /// How many at most.
    #[serde(default)]
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
}

/// Whose transcript, where it begins, and how much of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct TranscriptParams {
    /// The member's slot; the lead's without one.
    #[serde(default)]
    pub slot_id: Option<u32>,
    /// The `next` of the page before; 0 begins at the beginning.
    #[serde(default)]
    pub after: u64,
    /// How many items at most.
    #[serde(default)]
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
}

/// The point of a team's past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct StateParams {
    /// The event after which; the last one without it.
    #[serde(default)]
    pub at: Option<u64>,
}

/// How the agents are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CatalogueParams {
    /// Whether to look again first, also at what takes a while.
    #[serde(default)]
    #[param(required = false)]
    pub refresh: bool,
}
