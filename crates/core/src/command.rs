//! Everything that anybody may ask of a team, and every refusal; never a decision.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::agent::{MemberSpec, PermissionMode};
use crate::budget::{Amount, Cap, Usage};
use crate::consent::TeamProposal;
use crate::id::{
    AgentName, GrantId, InvalidName, MessageId, RequestId, SlotId, TaskId, TeamId, TurnId,
};
use crate::limits::Limits;
use crate::message::{FileRef, Recipient, Sender, Urgency};
use crate::permission::{Delegation, ToolClass};
use crate::request::{ActionHash, Decision};
use crate::task::{TaskChange, TaskRefusal};
use crate::turn::{CallId, TurnOutcome};

/// Who asks. Known from the credential alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Caller {
    /// The person who owns the team.
    User,
    /// A member.
    Agent(SlotId),
    /// The shell: timers, runners, recovery.
    System,
}

impl From<Caller> for Sender {
    fn from(caller: Caller) -> Self {
        match caller {
            Caller::User => Self::User,
            Caller::Agent(slot) => Self::Agent(slot),
            Caller::System => Self::System,
        }
    }
}

/// A team's settings. The person's to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The limits.
    pub limits: Limits,
    /// Whether an idle teammate is offered ready tasks that nobody has.
    pub auto_claim: bool,
    /// How many more members the lead may bring in without asking.
    pub spawn_allowance: u32,
    /// What the lead may decide.
    pub delegation: Delegation,
    /// The cap on tokens and money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<Cap>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            auto_claim: true,
            spawn_allowance: 5,
            delegation: Delegation::default(),
            cap: None,
        }
    }
}

/// A sender's idempotency key, hashed together with the sender and the content it was used for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KeyHash {
    /// SHA-256 of sender and key, the first 16 bytes, lower-case hex.
    pub key: String,
    /// The same of the content, so that a key used for something else is refused.
    pub content: String,
}

impl KeyHash {
    pub(crate) fn new(caller: Caller, key: &str, content: &impl Serialize) -> Self {
        let hash = |parts: &[&[u8]]| {
            let mut digest = Sha256::new();
            for part in parts {
                digest.update((part.len() as u64).to_le_bytes());
                digest.update(part);
            }
            let full = digest.finalize();
            full[..16]
                .iter()
                .fold(String::with_capacity(32), |mut out, byte| {
                    use fmt::Write;
                    // Writing to a string cannot fail.
                    let _ = write!(out, "{byte:02x}");
                    out
                })
        };
        let who = serde_json::to_vec(&caller).unwrap_or_default();
        let what = serde_json::to_vec(content).unwrap_or_default();
        Self {
            key: hash(&[&who, key.as_bytes()]),
            content: hash(&[&what]),
        }
    }
}

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendMessage {
    /// To whom.
    pub to: Recipient,
    /// What. Protocol bodies come only from rules; a command may carry text alone.
    pub text: String,
    /// A few words for lists.
    pub summary: Option<String>,
    /// How soon.
    pub urgency: Urgency,
    /// Files that go along.
    pub files: Vec<FileRef>,
    /// The sender's idempotency key.
    #[serde(skip)]
    pub key: Option<String>,
}

/// A tool call to be judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolProposal {
    /// The turn it belongs to.
    pub turn: TurnId,
    /// The call, unique in its turn.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// What it can do with this input.
    pub class: ToolClass,
    /// What exactly it would do.
    pub action: ActionHash,
    /// What it would do, in one line.
    pub description: String,
    /// Its input as JSON text, shortened for reading.
    pub input: String,
    /// The directory it would run in.
    pub cwd: String,
}

/// What a foreign member did by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum Fact {
    /// It sent a message.
    Sent {
        /// Who.
        slot: SlotId,
        /// To whom.
        to: Recipient,
        /// What.
        text: String,
    },
    /// It changed a task.
    ChangedTask {
        /// Who.
        slot: SlotId,
        /// The task.
        task: TaskId,
        /// How.
        change: TaskChange,
    },
    /// It made a task.
    CreatedTask {
        /// Who.
        slot: SlotId,
        /// Its title.
        subject: String,
        /// What is to be done.
        description: String,
    },
    /// It left.
    Left {
        /// Who.
        slot: SlotId,
        /// Why.
        cause: String,
    },
}

impl Fact {
    /// Who did it.
    pub fn slot(&self) -> SlotId {
        match self {
            Self::Sent { slot, .. }
            | Self::ChangedTask { slot, .. }
            | Self::CreatedTask { slot, .. }
            | Self::Left { slot, .. } => *slot,
        }
    }
}

/// What anybody may ask of a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Begin the team. The first command of every log.
    CreateTeam {
        /// The team.
        team: TeamId,
        /// Its name.
        name: String,
        /// The user who owns it.
        owner: String,
        /// Its directory.
        workspace: String,
        /// A conversation: a team of one.
        solo: bool,
        /// What its lead is made from. Its name is replaced by the lead's own, except in a conversation.
        lead: Box<MemberSpec>,
        /// Its settings.
        settings: Box<Settings>,
    },
    /// Give it another name.
    RenameTeam {
        /// The name.
        name: String,
    },
    /// Change its settings.
    Configure {
        /// All of them.
        settings: Box<Settings>,
    },
    /// Start no more turns.
    PauseTeam,
    /// Start turns again; lifts every hold that a person may lift.
    ResumeTeam,
    /// Ask all members to end and start nothing new. The team's state stays.
    StopTeam,
    /// End the team. The lead's wish becomes a request to the person.
    EndTeam,
    /// The shell opened the log again.
    Opened {
        /// How long the house was away, by the wall clock, in milliseconds.
        downtime_ms: u64,
        /// Live turns that can be taken up again; the others are lost.
        resumable: BTreeSet<TurnId>,
        /// Live turns that go on outside the house, with the time they have to come back.
        detached: BTreeMap<TurnId, crate::time::Millis>,
    },
    /// Time has passed.
    Tick,

    /// Bring a member in.
    SpawnAgent {
        /// What it is made from.
        member: Box<MemberSpec>,
    },
    /// Its process is ready.
    AgentReady {
        /// Its place.
        slot: SlotId,
        /// Which start of it.
        generation: u32,
    },
    /// Its process ended, or could not be started.
    AgentExited {
        /// Its place.
        slot: SlotId,
        /// Which start of it.
        generation: u32,
        /// What happened.
        cause: String,
    },
    /// Start a failed member again.
    RestartAgent {
        /// Its place.
        slot: SlotId,
    },
    /// Give it another name.
    RenameAgent {
        /// Its place.
        slot: SlotId,
        /// The name.
        name: AgentName,
        /// A label to show instead.
        label: Option<String>,
    },
    /// Let it start no more turns.
    PauseAgent {
        /// Its place.
        slot: SlotId,
    },
    /// Let it start turns again; lifts every hold of it.
    ResumeAgent {
        /// Its place.
        slot: SlotId,
    },
    /// Set its permission mode.
    SetMode {
        /// Its place.
        slot: SlotId,
        /// The mode.
        mode: PermissionMode,
    },
    /// Set its model.
    SetModel {
        /// Its place.
        slot: SlotId,
        /// The model.
        model: Option<String>,
    },
    /// End its running turn.
    Interrupt {
        /// Its place.
        slot: SlotId,
    },
    /// End it without asking it.
    KillAgent {
        /// Its place.
        slot: SlotId,
    },

    /// Send a message.
    SendMessage(Box<SendMessage>),
    /// Read new mail in the middle of the caller's turn.
    TakeMail {
        /// The turn.
        turn: TurnId,
        /// The model step before which it is read.
        step: u32,
    },
    /// The backend could not take mail that was handed to it.
    ReturnMail {
        /// The turn.
        turn: TurnId,
        /// The messages.
        messages: Vec<MessageId>,
    },
    /// The turn ended.
    EndTurn {
        /// The turn.
        turn: TurnId,
        /// How.
        outcome: TurnOutcome,
        /// What its last model call used.
        usage: Option<Usage>,
    },

    /// Judge a tool call.
    ProposeTool(Box<ToolProposal>),
    /// Begin a tool call whose request was decided.
    StartTool {
        /// The turn.
        turn: TurnId,
        /// The call.
        call: CallId,
    },
    /// Take the decision on a connection.
    TakeAnswer {
        /// The turn.
        turn: TurnId,
        /// The request.
        request: RequestId,
    },
    /// A tool call ended.
    FinishTool {
        /// The turn.
        turn: TurnId,
        /// The call.
        call: CallId,
        /// Whether it did what it was asked to.
        ok: bool,
        /// Whether it changed something.
        changed: bool,
    },
    /// Judge a connection of a running command.
    RequestNetwork {
        /// The turn.
        turn: TurnId,
        /// The call whose command connects.
        call: CallId,
        /// The host.
        host: String,
    },

    /// Put a task on the board.
    CreateTask {
        /// Its title.
        subject: String,
        /// What is to be done.
        description: String,
        /// The title while it is being done.
        active_form: Option<String>,
        /// Who is to do it.
        owner: Option<SlotId>,
        /// Tasks it waits for.
        blocked_by: BTreeSet<TaskId>,
        /// Free notes.
        metadata: BTreeMap<String, String>,
    },
    /// Change a task.
    UpdateTask {
        /// The task.
        task: TaskId,
        /// How.
        change: Box<TaskChange>,
        /// The version the caller saw.
        version: Option<u32>,
    },
    /// Take a task and begin it.
    ClaimTask {
        /// The task.
        task: TaskId,
        /// The version the caller saw.
        version: Option<u32>,
    },

    /// Submit a plan.
    SubmitPlan {
        /// Its text.
        text: String,
    },
    /// Ask a member to leave, or ask to leave.
    RequestShutdown {
        /// Who would leave.
        slot: SlotId,
        /// Why.
        reason: Option<String>,
    },
    /// Ask the person something.
    AskUser {
        /// The question.
        text: String,
        /// Answers to choose from.
        options: Vec<String>,
    },
    /// Propose a team, from a conversation.
    ProposeTeam(Box<TeamProposal>),
    /// Ask to spend more.
    RequestBudget {
        /// The cap that is asked for.
        cap: Amount,
        /// Why.
        reason: String,
    },
    /// Decide a request.
    Decide {
        /// The request.
        request: RequestId,
        /// The decision.
        decision: Decision,
    },
    /// Take a request of one's own back.
    Withdraw {
        /// The request.
        request: RequestId,
    },
    /// A granted proposal has become a team.
    LinkTeam {
        /// The request.
        request: RequestId,
        /// The team.
        team: TeamId,
    },
    /// Change what the lead may decide.
    Delegate {
        /// All of it.
        delegation: Delegation,
    },
    /// Take a permission back.
    RevokeGrant {
        /// The permission.
        grant: GrantId,
    },

    /// Settle the turn's last model call and reserve the next.
    ReserveCall {
        /// The turn.
        turn: TurnId,
        /// What the last one used.
        usage: Usage,
        /// What the next one may use at worst.
        worst: Amount,
    },
    /// Record usage that a backend reports afterwards.
    RecordUsage {
        /// The member.
        slot: SlotId,
        /// What was used.
        usage: Usage,
    },
    /// Change the cap.
    SetCap {
        /// The cap; none means no cap.
        cap: Option<Cap>,
    },

    /// Do this once per key, whatever it is. A message carries its key itself.
    Keyed {
        /// The caller's idempotency key.
        key: String,
        /// What to do.
        command: Box<Command>,
    },
    /// Record what a foreign member did by itself. Never refused.
    Observe(Box<Fact>),
}

/// What a command made, for its answer, and for the answer to its repetition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Receipt {
    /// The message that was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
    /// The task that was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The request that was opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestId>,
    /// The member that was brought in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<SlotId>,
}

/// What a caller may not do, or why a command does not fit the state. A value for people and models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The log has no team yet, or has one already.
    NoTeam,
    /// The team has already been created.
    TeamExists,
    /// The team has ended.
    TeamEnded,
    /// The caller's role does not allow it.
    NotAllowed {
        /// What.
        what: &'static str,
        /// Who may.
        who: &'static str,
    },
    /// No member has that slot.
    UnknownAgent {
        /// The slot.
        slot: SlotId,
        /// The names there are.
        known: Vec<AgentName>,
    },
    /// The member left.
    RecipientGone {
        /// The slot.
        slot: SlotId,
    },
    /// A name is taken or looks like one that is.
    NameTaken {
        /// The name that was asked for.
        name: AgentName,
        /// The name it collides with.
        taken: AgentName,
    },
    /// A name cannot be used.
    BadName(InvalidName),
    /// The lead stays while the team lives.
    LeadStays,
    /// A member writes to itself.
    ToSelf,
    /// A text is empty.
    Empty {
        /// Which.
        what: &'static str,
    },
    /// A limit is met.
    Limit {
        /// Its name in the configuration.
        limit: &'static str,
        /// Its value.
        allowed: u64,
        /// What was asked for.
        asked: u64,
    },
    /// The recipient's mailbox is full.
    InboxFull {
        /// Whose.
        name: AgentName,
        /// How many are allowed.
        allowed: u64,
    },
    /// The key was used for something else.
    KeyReused,
    /// The turn is not the caller's live turn.
    NoSuchTurn {
        /// The turn.
        turn: TurnId,
    },
    /// The tool call is not where the command expects it.
    NoSuchCall {
        /// The call.
        call: CallId,
    },
    /// The call is not decided yet.
    NotDecided {
        /// The request.
        request: RequestId,
    },
    /// There is no such request.
    UnknownRequest {
        /// The request.
        request: RequestId,
    },
    /// Somebody was faster, or it closed.
    AlreadyDecided {
        /// The request.
        request: RequestId,
    },
    /// The decision does not answer this kind of request.
    WrongDecision {
        /// The kind.
        kind: &'static str,
        /// What answers it.
        choices: &'static [&'static str],
    },
    /// Nobody decides his own request.
    OwnRequest,
    /// The board refuses.
    Task(TaskRefusal),
    /// The member is not in the state that the command needs.
    WrongState {
        /// The member.
        slot: SlotId,
        /// The state it needs.
        needs: &'static str,
    },
    /// The budget does not allow another call.
    OverBudget,
    /// The start does not exist any more.
    StaleGeneration {
        /// The member.
        slot: SlotId,
        /// The start it is at.
        current: u32,
    },
    /// There is no such permission.
    UnknownGrant {
        /// The permission.
        grant: GrantId,
    },
    /// A shutdown of the member is already asked for.
    AlreadyAsked {
        /// The request.
        request: RequestId,
    },
}

impl Rejection {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoTeam => "no_team",
            Self::TeamExists => "team_exists",
            Self::TeamEnded => "team_ended",
            Self::NotAllowed { .. } => "not_allowed",
            Self::UnknownAgent { .. } => "unknown_agent",
            Self::RecipientGone { .. } => "recipient_gone",
            Self::NameTaken { .. } => "name_taken",
            Self::BadName(_) => "bad_name",
            Self::LeadStays => "lead_stays",
            Self::ToSelf => "to_self",
            Self::Empty { .. } => "empty",
            Self::Limit { .. } => "limit",
            Self::InboxFull { .. } => "inbox_full",
            Self::KeyReused => "key_reused",
            Self::NoSuchTurn { .. } => "no_such_turn",
            Self::NoSuchCall { .. } => "no_such_call",
            Self::NotDecided { .. } => "not_decided",
            Self::UnknownRequest { .. } => "unknown_request",
            Self::AlreadyDecided { .. } => "already_decided",
            Self::WrongDecision { .. } => "wrong_decision",
            Self::OwnRequest => "own_request",
            Self::Task(refusal) => match refusal {
                TaskRefusal::Unknown(_) => "unknown_task",
                TaskRefusal::Closed(_) => "task_closed",
                TaskRefusal::Stale { .. } => "task_changed",
                TaskRefusal::Taken { .. } => "task_taken",
                TaskRefusal::Blocked { .. } => "task_blocked",
                TaskRefusal::Cycle { .. } => "task_cycle",
                TaskRefusal::NoOwner(_) => "task_without_owner",
            },
            Self::WrongState { .. } => "wrong_state",
            Self::OverBudget => "over_budget",
            Self::StaleGeneration { .. } => "stale_generation",
            Self::UnknownGrant { .. } => "unknown_grant",
            Self::AlreadyAsked { .. } => "already_asked",
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTeam => f.write_str("there is no team yet; create it first"),
            Self::TeamExists => f.write_str("the team exists already"),
            Self::TeamEnded => f.write_str("the team has ended; create a new one"),
            Self::NotAllowed { what, who } => write!(f, "only {who} may {what}"),
            Self::UnknownAgent { slot, known } => {
                write!(
                    f,
                    "nobody in this team has slot {slot}; the members are {}",
                    list(known)
                )
            }
            Self::RecipientGone { slot } => {
                write!(f, "the member in slot {slot} has left the team")
            }
            Self::NameTaken { name, taken } if name == taken => {
                write!(f, "the name {name:?} is taken", name = name.as_str())
            }
            Self::NameTaken { name, taken } => {
                write!(
                    f,
                    "the name {:?} looks like {:?}, which is taken",
                    name.as_str(),
                    taken.as_str()
                )
            }
            Self::BadName(why) => why.fmt(f),
            Self::ToSelf => {
                f.write_str("a member cannot write to itself; keep it in mind, or make it a task")
            }
            Self::LeadStays => {
                f.write_str("the lead stays while the team lives; end the team instead")
            }
            Self::Empty { what } => write!(f, "{what} must not be empty"),
            Self::Limit {
                limit,
                allowed,
                asked,
            } => {
                write!(
                    f,
                    "the limit \"{limit}\" is {allowed}, and this would make {asked}"
                )
            }
            Self::InboxFull { name, allowed } => write!(
                f,
                "{name}'s mailbox is full ({allowed} unread); wait until some of it is read"
            ),
            Self::KeyReused => f.write_str("this idempotency key was used for a different message"),
            Self::NoSuchTurn { turn } => write!(f, "turn {turn} is not running"),
            Self::NoSuchCall { call } => write!(
                f,
                "the tool call {call:?} is not waiting or running in this turn"
            ),
            Self::NotDecided { request } => write!(f, "request {request} is not decided yet"),
            Self::UnknownRequest { request } => write!(f, "there is no request {request}"),
            Self::AlreadyDecided { request } => {
                write!(f, "request {request} is already decided or closed")
            }
            Self::WrongDecision { kind, choices } => {
                write!(
                    f,
                    "a {kind} request is answered by one of: {}",
                    choices.join(", ")
                )
            }
            Self::OwnRequest => f.write_str("nobody decides his own request"),
            Self::Task(refusal) => refusal.fmt(f),
            Self::WrongState { slot, needs } => {
                write!(f, "the member in slot {slot} is not {needs}")
            }
            Self::OverBudget => {
                f.write_str("the budget does not allow another model call; raise the cap to go on")
            }
            Self::StaleGeneration { slot, current } => {
                write!(
                    f,
                    "the member in slot {slot} was started again since (start {current})"
                )
            }
            Self::UnknownGrant { grant } => write!(f, "there is no permission {grant}"),
            Self::AlreadyAsked { request } => {
                write!(f, "its shutdown is already asked for by request {request}")
            }
        }
    }
}

impl std::error::Error for Rejection {}

impl fmt::Display for TaskRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(task) => write!(f, "there is no task {task}"),
            Self::Closed(task) => write!(f, "task {task} is completed or deleted"),
            Self::Stale { task, current } => {
                write!(
                    f,
                    "task {task} has changed since you read it (version {current}); read it again"
                )
            }
            Self::Taken { task, owner } => {
                write!(f, "task {task} belongs to the member in slot {owner}")
            }
            Self::Blocked { task, by } => write!(f, "task {task} waits for {}", list(by)),
            Self::Cycle { task, on } => {
                write!(f, "task {task} cannot wait for {on}, which waits for it")
            }
            Self::NoOwner(task) => {
                write!(f, "task {task} needs an owner before it can be in progress")
            }
        }
    }
}

impl From<TaskRefusal> for Rejection {
    fn from(refusal: TaskRefusal) -> Self {
        Self::Task(refusal)
    }
}

fn list<T: fmt::Display>(items: &[T]) -> String {
    items
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}
