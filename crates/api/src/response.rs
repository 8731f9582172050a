//! What the daemon answers over HTTP; never how it came about.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{Actor, AgentRow, MailRow, RequestRow, TaskCounts, TaskRow};

/// A team.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TeamResponse {
    /// The team.
    pub id: String,
    /// The user who owns it.
    pub user_id: String,
    /// Its name.
    pub name: String,
    /// The directory it works in.
    pub workspace: String,
    /// Always `shared`: all members work in the same directory.
    pub workspace_mode: String,
    /// The lead's slot.
    pub lead_slot_id: u64,
    /// Its members.
    pub agents: Vec<AgentResponse>,
    /// Whether it has ended.
    pub ended: bool,
    /// Why no member starts a turn, if that is so: `user`, `lead_down`, `downtime`, `stopping`.
    pub holds: Vec<String>,
    /// How many tasks stand where.
    pub task_counts: TaskCounts,
    /// Requests that wait for a decision.
    pub requests_open: u64,
    /// Its settings.
    #[schema(value_type = Object)]
    pub settings: Value,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentResponse {
    /// Its name in the world: `name@team`.
    pub agent_id: String,
    /// The member.
    #[serde(flatten)]
    pub row: AgentRow,
}

/// The teams of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TeamListResponse {
    /// The teams, by name.
    pub teams: Vec<crate::TeamRow>,
}

/// The members of a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentListResponse {
    /// The members, by slot.
    pub agents: Vec<AgentResponse>,
}

/// A member that is registered; its process starts meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpawnAgentResponse {
    /// Its name in the world: `name@team`.
    pub agent_id: String,
    /// Its place.
    pub slot_id: u64,
    /// Names this registration: events of the slot after the one that the ticket ends in tell how
    /// the start went.
    pub ticket: String,
}

/// A message that is durably accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MessageAcceptedResponse {
    /// The message.
    pub message_id: String,
    /// The event that accepted it, or, for a repeated idempotency key, the end of the log.
    pub seq: u64,
}

/// A command that is durably accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CommandAcceptedResponse {
    /// The last event of it, or the end of the log where it changed nothing.
    pub seq: u64,
    /// The request that it opened, for `POST /api/approvals/{request_id}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MessageRow {
    /// The message.
    pub message_id: String,
    /// The event that accepted it.
    pub seq: u64,
    /// When, in milliseconds on the team's running clock.
    pub at: u64,
    /// Who wrote it: a member's slot like `s2`, `user` or `system`.
    pub from: String,
    /// The slots whose mailbox it was put into.
    pub to: Vec<u64>,
    /// `text`, or the name of a protocol message.
    pub kind: String,
    /// What it says; a protocol message as JSON.
    pub text: String,
    /// The message that it repeats, where it was sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<String>,
    /// Where it stands in each mailbox that it was put into.
    pub deliveries: Vec<DeliveryRow>,
}

/// Where a message stands in one mailbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeliveryRow {
    /// Whose.
    pub slot_id: u64,
    /// How far it is.
    pub state: DeliveryState,
}

/// How far a message is in one mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// It waits.
    Queued,
    /// It is in the input of a running turn.
    Delivered,
    /// A turn that had it ended well.
    Acknowledged,
    /// A newer notice took its place.
    Superseded,
    /// It was given up, and can be sent again.
    Dead,
}

/// A page of messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MessageListResponse {
    /// The messages, in the order of acceptance.
    pub messages: Vec<MessageRow>,
    /// The `after` of the next page; absent at the end of the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// One event, over REST and WebSocket alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TeamEvent {
    /// What it is about: `team.message`, `team.agent.status` and so on.
    #[serde(rename = "type")]
    pub name: String,
    /// The team.
    pub team_id: String,
    /// Its place in the team's log: without gaps, each once.
    pub seq: u64,
    /// When, in milliseconds on the team's running clock.
    pub at: u64,
    /// Who caused it.
    pub actor: Actor,
    /// The event as it is stored: an object whose `type` says what exactly happened.
    #[schema(value_type = Object)]
    pub data: Value,
}

/// A page of events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventListResponse {
    /// The events, in order.
    pub events: Vec<TeamEvent>,
    /// The `after` of the next page; absent at the end of the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// A page of a transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TranscriptResponse {
    /// The items, as they are stored: what the agent was given, said, thought, called and got.
    #[schema(value_type = Vec<Object>)]
    pub items: Vec<Value>,
    /// The `after` of the next page; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// The board.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskListResponse {
    /// The tasks, by number.
    pub tasks: Vec<TaskResponse>,
}

/// One task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskResponse {
    /// The task.
    #[serde(flatten)]
    pub row: TaskRow,
    /// What is to be done; absent once it is completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The title while it is being done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_form: Option<String>,
    /// The owner's slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_slot_id: Option<u64>,
}

/// One request that waits for a decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ApprovalResponse {
    /// What `POST /api/approvals/{request_id}` decides.
    pub request_id: String,
    /// The request.
    #[serde(flatten)]
    pub row: RequestRow,
    /// All of what is asked, as it is stored.
    #[schema(value_type = Object)]
    pub detail: Value,
}

/// What waits for decisions, in all teams of a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ApprovalListResponse {
    /// The requests, by team, the oldest first.
    pub approvals: Vec<ApprovalResponse>,
}

/// The agents that are known here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CatalogueResponse {
    /// The agents, the best first.
    pub agents: Vec<CatalogueAgentRow>,
}

/// One agent that a member can be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CatalogueAgentRow {
    /// Its key.
    pub agent_type: String,
    /// What it is, in a few words.
    pub description: String,
    /// What kind of agent it is.
    pub kind: AgentKindRow,
    /// Whether it can be used here.
    pub available: bool,
    /// Why not, where it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How its models are called, where it thinks with those of a service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderRow>,
    /// What is found of it, where it is a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramRow>,
    /// The models it can run, its own choice first.
    pub models: Vec<String>,
}

/// What kind of agent one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentKindRow {
    /// It plays the scenario of its team.
    Scenario,
    /// It thinks with models of a service, in the daemon.
    Service,
    /// It is a program of its own.
    Program,
}

/// What is found of an agent that is a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProgramRow {
    /// Its name for people.
    pub name: String,
    /// The program that is started, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its version, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The version of Node that it runs with, where it needs one and that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Whether a person has signed in to it.
    pub signed_in: SignedInRow,
    /// What shows that: the name of a variable or of a file, never what is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_in_by: Option<String>,
    /// The package that its first start fetches from a registry, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downloads: Option<String>,
    /// The command that makes it usable, or signs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// Why it could not be started last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// Whether a person has signed in to an agent, as far as that can be told from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignedInRow {
    /// Something shows it.
    Seen,
    /// Nothing shows it. A keychain would not be seen.
    NotSeen,
    /// It cannot be told.
    Unknown,
}

/// What an agent said of itself when it was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TrialResponse {
    /// Which agent.
    pub agent_type: String,
    /// Its own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its own version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its modes, the one that it begins in first.
    pub modes: Vec<String>,
    /// Its models, the one that it begins with first.
    pub models: Vec<String>,
    /// Whether a session that was closed can be opened again.
    pub reopens: bool,
    /// Whether it takes text in the middle of a turn.
    pub steers: bool,
    /// How long it took until its session was open.
    pub took_ms: u64,
}

/// How the models of a service are called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProviderRow {
    /// Where it is called.
    pub base_url: String,
    /// Where its key comes from, if there is one; never the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_from: Option<String>,
}

/// What a team has used, and may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageResponse {
    /// Input tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Tokens read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Tokens written to it.
    pub cache_write_tokens: u64,
    /// What it cost, in millionths of a US dollar.
    pub micro_usd: u64,
    /// Tokens that running calls may still use.
    pub reserved_tokens: u64,
    /// The most tokens that it may use; absent without a cap, 0 where only money is capped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap_tokens: Option<u64>,
    /// The most that it may cost, in millionths of a US dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap_micro_usd: Option<u64>,
}

/// What the members of a team have used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageByMemberResponse {
    /// The last event that is counted.
    pub seq: u64,
    /// By slot, then by model; members that have left are among them.
    pub members: Vec<MemberUsageRow>,
}

/// What one member has used with one model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberUsageRow {
    /// Its slot.
    pub slot_id: u64,
    /// Its name.
    pub agent_name: String,
    /// Which agent it is.
    pub agent_type: String,
    /// The model; absent for the agent's own choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Turns that ended.
    pub turns: u64,
    /// Input tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Tokens read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Tokens written to it.
    pub cache_write_tokens: u64,
    /// What it cost, in millionths of a US dollar.
    pub micro_usd: u64,
}

/// How far a team is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProgressResponse {
    /// The last event of the log. Whoever has seen all up to it knows the team that this is said of.
    pub seq: u64,
    /// Whether the team goes on by itself.
    pub state: ProgressState,
    /// Whether no task is open, where it has settled.
    pub all_tasks_completed: bool,
    /// Requests that only a person can decide, where it waits.
    pub requests: Vec<u64>,
    /// Slots of members that cannot go on alone, where it waits.
    pub held: Vec<u64>,
    /// Slots of members that are in a turn.
    pub busy: Vec<u64>,
}

/// Whether a team goes on by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProgressState {
    /// It does.
    Working,
    /// Nothing is left to do.
    Settled,
    /// Only people can go on.
    Waiting,
}

/// The permissions that stand in a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleListResponse {
    /// The permissions, by number.
    pub rules: Vec<RuleRow>,
}

/// A permission that stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleRow {
    /// Its number in the team.
    pub id: u64,
    /// The member that it is for; absent where it is for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot_id: Option<u64>,
    /// `action`, `tool` or `host`.
    pub kind: String,
    /// The hash of the action, the name of the tool, or the host.
    pub what: String,
    /// Whether it is used up by one use.
    pub once: bool,
}

/// A team as it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StateResponse {
    /// The event after which this is so.
    pub seq: u64,
    /// When, in milliseconds on the team's running clock.
    pub at: u64,
    /// The team.
    pub team: TeamResponse,
    /// Its tasks.
    pub tasks: Vec<TaskRow>,
    /// What waited for a decision.
    pub requests: Vec<RequestRow>,
    /// Mail that was not acknowledged.
    pub mail: Vec<MailRow>,
}

/// A file that the daemon keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileResponse {
    /// SHA-256 of its content, by which messages name it.
    pub sha256: String,
    /// Its size.
    pub bytes: u64,
}

/// Whether the daemon is well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthResponse {
    /// Always `ok`; a daemon that is not does not answer, or answers 503.
    pub status: String,
    /// The daemon's version.
    pub version: String,
    /// Teams that it remembers.
    pub teams: u64,
}

/// A session of a browser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionResponse {
    /// Who is signed in.
    pub user_id: String,
    /// What the header `X-CSRF-Token` has to carry with every change; absent for a bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csrf_token: Option<String>,
}

/// A link that signs a browser in, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoginLinkResponse {
    /// The link.
    pub url: String,
    /// How long it can be used, in seconds.
    pub expires_in_s: u64,
}
