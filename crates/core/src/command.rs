//! Everything that anybody may ask of a team; never a decision.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::agent::MemberSpec;
use crate::budget::{Amount, Cap, Usage};
use crate::consent::TeamProposal;
use crate::hash::ActionHash;
use crate::id::CallId;
use crate::id::{AgentName, GrantId, MessageId, RequestId, SlotId, TaskId, TeamId, TurnId};
use crate::limits::Limits;
use crate::message::{Envelope, FileRef, Recipient, Sender, Urgency};
use crate::mode::PermissionMode;
use crate::permission::{Delegation, ToolClass};
use crate::request::Decision;
use crate::rule::{Finding, Rule, SessionRules};
use crate::sandbox::ViolationKind;
use crate::task::TaskChange;
use crate::turn::TurnOutcome;

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
    /// The team's own rules of permission.
    #[serde(skip_serializing_if = "SessionRules::is_empty")]
    pub rules: SessionRules,
    /// The mode that teammates begin in; `default` if not said, and never wider than the lead's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member_mode: Option<PermissionMode>,
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
            rules: SessionRules::default(),
            member_mode: None,
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
            full[..16].iter().fold(String::with_capacity(32), |mut out, byte| {
                use fmt::Write;
                // Writing to a string cannot fail.
                let _ = write!(out, "{byte:02x}");
                out
            })
        };
        let who = serde_json::to_vec(&caller).unwrap_or_default();
        let what = serde_json::to_vec(content).unwrap_or_default();
        Self { key: hash(&[&who, key.as_bytes()]), content: hash(&[&what]) }
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
    /// What it does, part by part and without its dress: a "no" to one of them is a "no" to others
    /// that do the same in other words.
    pub kin: Vec<ActionHash>,
    /// What the rules say about it.
    pub finding: Option<Finding>,
    /// The rule that would allow calls like it.
    pub suggestion: Option<Rule>,
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
    /// Send a member once more what the team's log holds for it. Who wrote it stays; the caller has
    /// read it there.
    SendAgain {
        /// Whose mailbox it goes into.
        slot: SlotId,
        /// The message as it was accepted.
        message: Box<Envelope>,
    },
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
    /// Keep that a running command was refused something by the wall around it.
    ReportViolation {
        /// The turn.
        turn: TurnId,
        /// The call.
        call: CallId,
        /// How it is known.
        kind: ViolationKind,
        /// What it was.
        what: String,
    },
    /// Judge a connection of a running command.
    RequestNetwork {
        /// The turn.
        turn: TurnId,
        /// The call whose command connects.
        call: CallId,
        /// The host.
        host: String,
        /// What the rules say about it.
        finding: Option<Finding>,
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
