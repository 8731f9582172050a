//! Everything that has happened to a team; the durable format, versioned; never a wish.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::agent::{Hold, MemberSpec, RemovalReason, TeamHold};
use crate::budget::{Amount, Cap, Usage};
use crate::command::{Caller, Fact, KeyHash, Receipt, Settings};
use crate::hash::ActionHash;
use crate::id::CallId;
use crate::id::{
    AgentName, CommandId, GrantId, MessageId, RequestId, Seq, SlotId, TaskId, TeamId, TurnId,
};
use crate::message::{Envelope, Sender};
use crate::mode::PermissionMode;
use crate::permission::{Delegation, Grant, ToolClass};
use crate::request::{Decision, Request, Withdrawal};
use crate::rule::Finding;
use crate::sandbox::ViolationKind;
use crate::task::TaskChange;
use crate::time::Timestamp;
use crate::turn::{ToolVerdict, TurnOutcome};

/// The version of the event format that this build writes.
pub const EVENT_VERSION: u16 = 1;

/// One stored event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// Its place in the team's log.
    pub seq: Seq,
    /// When, on the team's running clock.
    pub at: Timestamp,
    /// The format it was written in.
    pub version: u16,
    /// Who caused it.
    pub actor: Caller,
    /// Which credential was used; never the credential itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// The command it came from.
    pub command_id: CommandId,
    /// What happened.
    pub event: Event,
}

/// Why a message could not be delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum DeadLetterReason {
    /// Turns failed with it as often as is allowed.
    Attempts {
        /// The last failure.
        error: String,
    },
    /// The recipient left the team.
    RecipientGone,
    /// The team ended.
    TeamEnded,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "events are read once and dropped, never kept")]
pub enum Event {
    /// A team began; its lead is registered.
    TeamCreated {
        /// The team.
        team: TeamId,
        /// Its name.
        name: String,
        /// The user who owns it.
        owner: String,
        /// Its directory.
        workspace: String,
        /// Whether it is a conversation: a team of one.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        solo: bool,
        /// What its lead is made from.
        lead: MemberSpec,
        /// Its settings.
        settings: Settings,
    },
    /// It has another name.
    TeamRenamed {
        /// The name.
        name: String,
    },
    /// Its settings changed.
    SettingsChanged {
        /// All of them.
        settings: Settings,
    },
    /// No member starts a turn any more.
    TeamHeld {
        /// Why.
        hold: TeamHold,
    },
    /// A hold of the team is gone.
    TeamReleased {
        /// Which.
        hold: TeamHold,
    },
    /// The team's log was opened again after a pause of the house.
    TeamOpened {
        /// How long the house was away, by the wall clock.
        downtime_ms: u64,
    },
    /// The team ended.
    TeamEnded,

    /// A member was registered; its process is to be started.
    AgentSpawned {
        /// Its place.
        slot: SlotId,
        /// What it is made from.
        member: MemberSpec,
        /// The request that allowed it, if one was needed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        consent: Option<RequestId>,
        /// Who brought it in.
        by: Sender,
    },
    /// A member's process is ready.
    AgentReady {
        /// Its place.
        slot: SlotId,
        /// Which start of it.
        generation: u32,
    },
    /// A member's process ended or could not be started.
    AgentFailed {
        /// Its place.
        slot: SlotId,
        /// What happened.
        cause: String,
        /// When it is started again by itself; without a time somebody has to do it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Timestamp>,
    },
    /// A failed member is started again.
    AgentRestarting {
        /// Its place.
        slot: SlotId,
        /// The new start of it.
        generation: u32,
        /// Who wants it. A restart by the system itself counts against the allowed intensity.
        by: Sender,
    },
    /// It has another name.
    AgentRenamed {
        /// Its place.
        slot: SlotId,
        /// The name.
        name: AgentName,
        /// The label to show.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
    },
    /// Something keeps it from starting turns.
    AgentHeld {
        /// Its place.
        slot: SlotId,
        /// What.
        hold: Hold,
    },
    /// That is over.
    AgentReleased {
        /// Its place.
        slot: SlotId,
        /// What.
        hold: Hold,
    },
    /// Its permission mode was set.
    ModeChanged {
        /// Its place.
        slot: SlotId,
        /// The mode.
        mode: PermissionMode,
    },
    /// Its model was set; it counts from the next turn.
    ModelChanged {
        /// Its place.
        slot: SlotId,
        /// The model; none means the agent's own choice.
        model: Option<String>,
    },
    /// It is being ended.
    AgentStopping {
        /// Its place.
        slot: SlotId,
        /// The handshake that led here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<RequestId>,
        /// Ended at once, without waiting for its turn.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        kill: bool,
    },
    /// It is out of the team.
    AgentRemoved {
        /// Its place.
        slot: SlotId,
        /// Why.
        #[serde(flatten)]
        reason: RemovalReason,
    },

    /// A message was accepted.
    MessageSent {
        /// The message.
        message: Envelope,
        /// The mailboxes it was put into.
        recipients: Vec<SlotId>,
        /// Whether it waits as an idle notice.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        held: bool,
        /// The sender's idempotency key, hashed with the sender.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<KeyHash>,
    },
    /// A message was read in the middle of a turn.
    MessageDelivered {
        /// The message.
        message: MessageId,
        /// The reader.
        slot: SlotId,
        /// The turn.
        turn: TurnId,
        /// The model step before which it was read.
        step: u32,
    },
    /// A backend refused to take a message in the middle of a turn; it is queued again.
    MessageReturned {
        /// The message.
        message: MessageId,
        /// The mailbox.
        slot: SlotId,
        /// The turn.
        turn: TurnId,
    },
    /// A newer notice took its place.
    MessageSuperseded {
        /// The message.
        message: MessageId,
        /// The mailbox.
        slot: SlotId,
        /// The newer one.
        by: MessageId,
    },
    /// A message will not be delivered.
    MessageDeadLettered {
        /// The message.
        message: MessageId,
        /// The mailbox.
        slot: SlotId,
        /// Why.
        reason: DeadLetterReason,
    },

    /// A turn began; its batch is delivered with it, at step 0.
    TurnStarted {
        /// The turn.
        turn: TurnId,
        /// The member.
        slot: SlotId,
        /// The mail in its opening.
        batch: Vec<MessageId>,
        /// A ready task that is offered with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offer: Option<TaskId>,
        /// What its first model call may use at worst, where a cap stands.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reserved: Option<Amount>,
    },
    /// A turn was taken up again after a crash of the house.
    TurnResumed {
        /// The turn.
        turn: TurnId,
        /// The member.
        slot: SlotId,
    },
    /// A turn may go on outside the house; it has until then to come back.
    TurnDetached {
        /// The turn.
        turn: TurnId,
        /// The member.
        slot: SlotId,
        /// Until when.
        until: Timestamp,
    },
    /// Somebody asked to end a turn.
    InterruptRequested {
        /// The turn.
        turn: TurnId,
        /// The member.
        slot: SlotId,
        /// Who.
        by: Sender,
    },
    /// A turn ended. Exactly the mail in its input is named, in one list or the other.
    TurnEnded {
        /// The turn.
        turn: TurnId,
        /// The member.
        slot: SlotId,
        /// How.
        outcome: TurnOutcome,
        /// Mail that is done with.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        acknowledged: Vec<MessageId>,
        /// Mail that goes back into the queue.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        requeued: Vec<MessageId>,
        /// What its last model call used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    },

    /// A tool call was judged. With `run` it counts as started.
    ToolProposed {
        /// The turn.
        turn: TurnId,
        /// The member.
        slot: SlotId,
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// What it can do.
        class: ToolClass,
        /// What exactly it would do.
        action: ActionHash,
        /// What it would do, in one line.
        description: String,
        /// The judgement.
        verdict: ToolVerdict,
        /// The grant that allowed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grant: Option<GrantId>,
        /// What the rules said about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        finding: Option<Finding>,
    },
    /// A tool call that had to be asked for begins.
    ToolStarted {
        /// The turn.
        turn: TurnId,
        /// The member.
        slot: SlotId,
        /// The call.
        call: CallId,
        /// The request that allowed it.
        request: RequestId,
    },
    /// A tool call that had to be asked for does not run.
    ToolRefused {
        /// The turn.
        turn: TurnId,
        /// The member.
        slot: SlotId,
        /// The call.
        call: CallId,
        /// The request that was denied.
        request: RequestId,
        /// Why, for the model.
        reason: String,
    },
    /// A tool call ended.
    ToolFinished {
        /// The turn.
        turn: TurnId,
        /// The member.
        slot: SlotId,
        /// The call.
        call: CallId,
        /// Whether it did what it was asked to.
        ok: bool,
        /// Whether it changed something.
        changed: bool,
    },
    /// The wall around a running command refused something, or something was put back.
    SandboxViolation {
        /// The turn.
        turn: TurnId,
        /// The member.
        slot: SlotId,
        /// The call.
        call: CallId,
        /// How it is known.
        kind: ViolationKind,
        /// What it was, in one line.
        what: String,
    },

    /// A task is on the board.
    TaskCreated {
        /// The task.
        task: TaskId,
        /// Its title.
        subject: String,
        /// What is to be done.
        description: String,
        /// The title while it is being done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        active_form: Option<String>,
        /// Who has it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<SlotId>,
        /// Tasks it waits for.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        blocked_by: Vec<TaskId>,
        /// Free notes.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        metadata: BTreeMap<String, String>,
        /// Who made it.
        by: Sender,
    },
    /// A task changed. Claims, releases and completions are changes too.
    TaskChanged {
        /// The task.
        task: TaskId,
        /// What changed.
        change: TaskChange,
        /// Who changed it.
        by: Sender,
    },

    /// Somebody has to decide something.
    RequestOpened {
        /// What.
        request: Request,
    },
    /// Somebody did.
    RequestDecided {
        /// The request.
        request: RequestId,
        /// Who.
        by: Sender,
        /// What.
        decision: Decision,
        /// Decided by the lead under a delegation.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        delegated: bool,
    },
    /// Nobody answered in time; the person is asked.
    RequestEscalated {
        /// The request.
        request: RequestId,
    },
    /// Who asked is gone; the request stays, and an "allow" becomes a single-use grant.
    RequestOrphaned {
        /// The request.
        request: RequestId,
    },
    /// A request closed without a decision.
    RequestWithdrawn {
        /// The request.
        request: RequestId,
        /// Why.
        why: Withdrawal,
    },
    /// A granted proposal has become a team.
    TeamLinked {
        /// The request.
        request: RequestId,
        /// The team.
        team: TeamId,
    },
    /// A permission stands from here on.
    GrantAdded {
        /// The permission.
        grant: Grant,
    },
    /// A permission is gone.
    GrantRevoked {
        /// The permission.
        grant: GrantId,
    },
    /// The person changed what the lead may decide.
    DelegationChanged {
        /// All of it.
        delegation: Delegation,
    },

    /// A model call was reserved, and the one before it settled.
    CallReserved {
        /// The turn.
        turn: TurnId,
        /// The member.
        slot: SlotId,
        /// What it may use at worst.
        amount: Amount,
        /// What the call before it used.
        usage: Usage,
    },
    /// Usage that was reported outside a reservation.
    UsageRecorded {
        /// The member.
        slot: SlotId,
        /// What was used.
        usage: Usage,
    },
    /// The cap changed.
    CapChanged {
        /// The cap; none means no cap.
        cap: Option<Cap>,
    },

    /// A caller's idempotency key now stands for what this command did.
    KeyUsed {
        /// The key, hashed with the caller.
        key: KeyHash,
        /// What the command did.
        receipt: Receipt,
    },
    /// A foreign member did something by itself.
    FactObserved {
        /// What.
        fact: Fact,
        /// The rule it broke; its consequences are then not applied.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conflict: Option<String>,
    },
}

impl Event {
    /// The wire name of the event.
    pub fn name(&self) -> &'static str {
        match self {
            Self::TeamCreated { .. } => "team_created",
            Self::TeamRenamed { .. } => "team_renamed",
            Self::SettingsChanged { .. } => "settings_changed",
            Self::TeamHeld { .. } => "team_held",
            Self::TeamReleased { .. } => "team_released",
            Self::TeamOpened { .. } => "team_opened",
            Self::TeamEnded => "team_ended",
            Self::AgentSpawned { .. } => "agent_spawned",
            Self::AgentReady { .. } => "agent_ready",
            Self::AgentRestarting { .. } => "agent_restarting",
            Self::AgentFailed { .. } => "agent_failed",
            Self::AgentRenamed { .. } => "agent_renamed",
            Self::AgentHeld { .. } => "agent_held",
            Self::AgentReleased { .. } => "agent_released",
            Self::ModeChanged { .. } => "mode_changed",
            Self::ModelChanged { .. } => "model_changed",
            Self::AgentStopping { .. } => "agent_stopping",
            Self::AgentRemoved { .. } => "agent_removed",
            Self::MessageSent { .. } => "message_sent",
            Self::MessageDelivered { .. } => "message_delivered",
            Self::MessageReturned { .. } => "message_returned",
            Self::MessageSuperseded { .. } => "message_superseded",
            Self::MessageDeadLettered { .. } => "message_dead_lettered",
            Self::TurnStarted { .. } => "turn_started",
            Self::TurnResumed { .. } => "turn_resumed",
            Self::TurnDetached { .. } => "turn_detached",
            Self::InterruptRequested { .. } => "interrupt_requested",
            Self::TurnEnded { .. } => "turn_ended",
            Self::ToolProposed { .. } => "tool_proposed",
            Self::ToolStarted { .. } => "tool_started",
            Self::ToolRefused { .. } => "tool_refused",
            Self::ToolFinished { .. } => "tool_finished",
            Self::SandboxViolation { .. } => "sandbox_violation",
            Self::TaskCreated { .. } => "task_created",
            Self::TaskChanged { .. } => "task_changed",
            Self::RequestOpened { .. } => "request_opened",
            Self::RequestDecided { .. } => "request_decided",
            Self::RequestEscalated { .. } => "request_escalated",
            Self::RequestOrphaned { .. } => "request_orphaned",
            Self::RequestWithdrawn { .. } => "request_withdrawn",
            Self::TeamLinked { .. } => "team_linked",
            Self::GrantAdded { .. } => "grant_added",
            Self::GrantRevoked { .. } => "grant_revoked",
            Self::DelegationChanged { .. } => "delegation_changed",
            Self::CallReserved { .. } => "call_reserved",
            Self::UsageRecorded { .. } => "usage_recorded",
            Self::CapChanged { .. } => "cap_changed",
            Self::KeyUsed { .. } => "key_used",
            Self::FactObserved { .. } => "fact_observed",
        }
    }
}
