//! The words spoken over HTTP, WebSocket and the command line.
//!
//! Plain data with serde: ids are strings or numbers, amounts are integers unless a word says
//! otherwise. Nothing here knows how the rules work, so that the wire may stay when they move.

mod credential;
mod error;
mod event;
mod mail;
mod params;
mod problem;
mod replay;
mod request;
mod response;
mod run;
mod socket;
mod task;
mod team;
mod totals;

pub use credential::{CredentialResponse, CredentialStateResponse};
pub use error::{ErrorBody, ErrorDetail, Exit};
pub use event::{Actor, EventLine};
pub use mail::MailRow;
pub use params::{
    BudgetParams, CatalogueParams, CreateTaskParams, CreateTeamParams, DecisionParams,
    EditAgentParams, EditTaskParams, EditTeamParams, FileParams, LeadParams, LoginParams,
    MessageParams, ModeParams, ModelParams, PageParams, PermissionModeParam, RedeliverParams,
    ScenarioParams, ScopeParam, SpawnAgentParams, StateParams, StopAgentParams, TaskStatusParam,
    TranscriptParams, UrgencyParam,
};
pub use problem::Problem;
pub use replay::ReplayView;
pub use request::RequestRow;
pub use response::{
    AgentKindRow, AgentListResponse, AgentResponse, ApprovalListResponse, ApprovalResponse,
    CatalogueAgentRow, CatalogueResponse, CommandAcceptedResponse, DeliveryRow, DeliveryState,
    EventListResponse, FileResponse, HealthResponse, LoginLinkResponse, MemberUsageRow,
    MessageAcceptedResponse, MessageListResponse, MessageRow, ProgramRow, ProgressResponse,
    ProgressState, ProviderRow, RuleListResponse, RuleRow, SessionResponse, SignedInRow,
    SpawnAgentResponse, StateResponse, TaskListResponse, TaskResponse, TeamEvent, TeamListResponse,
    TeamResponse, TranscriptResponse, TrialResponse, UsageByMemberResponse, UsageResponse,
};
pub use run::{RUN_SCHEMA, RunLine, RunStatus, TaskCounts};
pub use socket::{ControlFrame, SocketClose, SocketFrame, SocketRequest, StreamFrame, UserFrame};
pub use task::{TaskRow, TaskState};
pub use team::{
    AgentRow, AgentStatus, FileChange, FileChangeKind, Role, StatusReason, TeamRow, TeamView,
};
pub use totals::Totals;
