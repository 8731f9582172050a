//! What an event changes in the read models, written once for every store; it never reads a log
//! and keeps ids and states only.
//!
//! [`changes`] runs in the caller's task, [`apply`] where the rows are. Both also rebuild the read
//! models from a log.

use aion_core::agent::MemberSpec;
use aion_core::budget::Usage;
use aion_core::event::{Event, Recorded};
use aion_core::id::{MessageId, RequestId, Seq, SlotId, TaskId};
use aion_core::task::TaskStatus;

use crate::event_store::Totals;

/// One change of a read model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Team { name: String, owner: String, workspace: String, solo: bool },
    TeamName(String),
    TeamEnded,
    Member { slot: SlotId, name: String },
    MemberName { slot: SlotId, name: String },
    MemberState { slot: SlotId, state: MemberState },
    Restarted(SlotId),
    Message { slot: SlotId, message: MessageId, seq: Seq, nth: usize },
    MessageState { slot: SlotId, message: MessageId, state: MessageState },
    TurnEnded,
    Task { task: TaskId, owner: Option<SlotId> },
    TaskMoved { task: TaskId, state: Option<TaskState>, owner: NewOwner },
    Request { request: RequestId, kind: &'static str },
    RequestState { request: RequestId, state: RequestState },
    Usage { slot: SlotId, usage: Usage },
}

/// Where a member stands, as a small integer in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberState {
    Starting = 0,
    Ready = 1,
    Stopping = 2,
    Failed = 3,
    Removed = 4,
}

/// Where a message stands in one mailbox. From [`MessageState::Acknowledged`] on it is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageState {
    /// It waits.
    Queued = 0,
    /// It is in the input of a running turn.
    Delivered = 1,
    /// A turn that had it ended well.
    Acknowledged = 2,
    /// A newer notice took its place.
    Superseded = 3,
    /// It was given up.
    Dead = 4,
}

impl MessageState {
    /// The state of a row, if that is one.
    pub(crate) fn of_row(state: i64) -> Option<Self> {
        [Self::Queued, Self::Delivered, Self::Acknowledged, Self::Superseded, Self::Dead]
            .into_iter()
            .find(|known| *known as i64 == state)
    }
}

/// Where a task stands. From [`TaskState::Completed`] on it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskState {
    Pending = 0,
    InProgress = 1,
    Completed = 2,
    Deleted = 3,
}

/// What becomes of a task's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewOwner {
    Same,
    Nobody,
    Member(SlotId),
}

impl NewOwner {
    #[expect(clippy::option_option, reason = "absent, nobody and a member are three things")]
    fn of(change: Option<Option<SlotId>>) -> Self {
        match change {
            None => Self::Same,
            Some(None) => Self::Nobody,
            Some(Some(slot)) => Self::Member(slot),
        }
    }
}

/// Where a request stands. From [`RequestState::Decided`] on it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestState {
    Open = 0,
    Orphaned = 1,
    Decided = 2,
    Withdrawn = 3,
}

/// A team's numbers, kept beside its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) members: u64,
    pub(crate) tasks_open: u64,
    pub(crate) requests_open: u64,
    pub(crate) totals: Totals,
}

impl Counts {
    /// Messages that are neither acknowledged nor settled in another way.
    pub(crate) fn messages_open(&self) -> u64 {
        let settled = self.totals.messages_acknowledged
            + self.totals.messages_dead
            + self.totals.messages_superseded;
        self.totals.messages_accepted.saturating_sub(settled)
    }
}

/// The rows of one team, wherever they are kept. Each method says whether a row changed; a row in
/// a final state never does.
pub(crate) trait Rows {
    type Error;

    fn put_team(
        &mut self,
        name: &str,
        owner: &str,
        workspace: &str,
        solo: bool,
    ) -> Result<(), Self::Error>;
    fn name_team(&mut self, name: &str) -> Result<(), Self::Error>;
    fn end_team(&mut self) -> Result<(), Self::Error>;
    fn put_member(&mut self, slot: SlotId, name: &str) -> Result<bool, Self::Error>;
    fn name_member(&mut self, slot: SlotId, name: &str) -> Result<(), Self::Error>;
    fn move_member(&mut self, slot: SlotId, to: MemberState) -> Result<bool, Self::Error>;
    fn put_message(
        &mut self,
        slot: SlotId,
        message: MessageId,
        seq: Seq,
        nth: usize,
    ) -> Result<bool, Self::Error>;
    fn move_message(
        &mut self,
        slot: SlotId,
        message: MessageId,
        to: MessageState,
    ) -> Result<bool, Self::Error>;
    fn put_task(&mut self, task: TaskId, owner: Option<SlotId>) -> Result<bool, Self::Error>;
    fn change_task(
        &mut self,
        task: TaskId,
        state: Option<TaskState>,
        owner: NewOwner,
    ) -> Result<bool, Self::Error>;
    fn put_request(&mut self, request: RequestId, kind: &str) -> Result<bool, Self::Error>;
    fn move_request(&mut self, request: RequestId, to: RequestState) -> Result<bool, Self::Error>;
    fn add_usage(&mut self, slot: SlotId, usage: Usage) -> Result<(), Self::Error>;
}

/// Appends to `out` what an event changes.
pub(crate) fn changes(recorded: &Recorded, out: &mut Vec<Change>) {
    let state = |slot: &SlotId, state| Change::MemberState { slot: *slot, state };
    match &recorded.event {
        Event::TeamCreated { name, owner, workspace, solo, lead, .. } => {
            out.push(Change::Team {
                name: name.clone(),
                owner: owner.clone(),
                workspace: workspace.clone(),
                solo: *solo,
            });
            out.push(member(SlotId::LEAD, lead));
        }
        Event::TeamRenamed { name } => out.push(Change::TeamName(name.clone())),
        Event::TeamEnded => out.push(Change::TeamEnded),
        Event::AgentSpawned { slot, member: spec, .. } => out.push(member(*slot, spec)),
        Event::AgentReady { slot, .. } => out.push(state(slot, MemberState::Ready)),
        Event::AgentRestarting { slot, .. } => {
            out.push(Change::Restarted(*slot));
            out.push(state(slot, MemberState::Starting));
        }
        Event::AgentFailed { slot, .. } => out.push(state(slot, MemberState::Failed)),
        Event::AgentRenamed { slot, name, .. } => {
            out.push(Change::MemberName { slot: *slot, name: name.as_str().to_owned() });
        }
        Event::AgentStopping { slot, .. } => out.push(state(slot, MemberState::Stopping)),
        Event::AgentRemoved { slot, .. } => out.push(state(slot, MemberState::Removed)),
        Event::MessageSent { message, recipients, .. } => {
            out.extend(recipients.iter().enumerate().map(|(nth, slot)| Change::Message {
                slot: *slot,
                message: message.id,
                seq: recorded.seq,
                nth,
            }));
        }
        Event::MessageDelivered { message, slot, .. } => {
            out.push(mail(*slot, *message, MessageState::Delivered));
        }
        Event::MessageReturned { message, slot, .. } => {
            out.push(mail(*slot, *message, MessageState::Queued));
        }
        Event::MessageSuperseded { message, slot, .. } => {
            out.push(mail(*slot, *message, MessageState::Superseded));
        }
        Event::MessageDeadLettered { message, slot, .. } => {
            out.push(mail(*slot, *message, MessageState::Dead));
        }
        Event::TurnStarted { slot, batch, .. } => {
            out.extend(batch.iter().map(|id| mail(*slot, *id, MessageState::Delivered)));
        }
        Event::TurnEnded { slot, acknowledged, requeued, usage, .. } => {
            out.push(Change::TurnEnded);
            out.extend(acknowledged.iter().map(|id| mail(*slot, *id, MessageState::Acknowledged)));
            out.extend(requeued.iter().map(|id| mail(*slot, *id, MessageState::Queued)));
            out.extend(usage.and_then(|usage| used(*slot, usage)));
        }
        Event::CallReserved { slot, usage, .. } | Event::UsageRecorded { slot, usage } => {
            out.extend(used(*slot, *usage));
        }
        Event::TaskCreated { task, owner, .. } => {
            out.push(Change::Task { task: *task, owner: *owner });
        }
        Event::TaskChanged { task, change, .. } => {
            let state = change.status.map(|status| match status {
                TaskStatus::Pending => TaskState::Pending,
                TaskStatus::InProgress => TaskState::InProgress,
                TaskStatus::Completed => TaskState::Completed,
                TaskStatus::Deleted => TaskState::Deleted,
            });
            // A task that is released is nobody's work any more.
            let released = (change.owner == Some(None)).then_some(TaskState::Pending);
            out.push(Change::TaskMoved {
                task: *task,
                state: state.or(released),
                owner: NewOwner::of(change.owner),
            });
        }
        Event::RequestOpened { request } => {
            out.push(Change::Request { request: request.id, kind: request.kind.name() });
        }
        Event::RequestDecided { request, .. } => {
            out.push(Change::RequestState { request: *request, state: RequestState::Decided });
        }
        Event::RequestOrphaned { request } => {
            out.push(Change::RequestState { request: *request, state: RequestState::Orphaned });
        }
        Event::RequestWithdrawn { request, .. } => {
            out.push(Change::RequestState { request: *request, state: RequestState::Withdrawn });
        }
        Event::SettingsChanged { .. }
        | Event::TeamHeld { .. }
        | Event::TeamReleased { .. }
        | Event::TeamOpened { .. }
        | Event::AgentHeld { .. }
        | Event::AgentReleased { .. }
        | Event::ModeChanged { .. }
        | Event::ModelChanged { .. }
        | Event::TurnResumed { .. }
        | Event::TurnDetached { .. }
        | Event::InterruptRequested { .. }
        | Event::ToolProposed { .. }
        | Event::ToolStarted { .. }
        | Event::ToolRefused { .. }
        | Event::ToolFinished { .. }
        | Event::SandboxViolation { .. }
        | Event::RequestEscalated { .. }
        | Event::TeamLinked { .. }
        | Event::GrantAdded { .. }
        | Event::GrantRevoked { .. }
        | Event::DelegationChanged { .. }
        | Event::CapChanged { .. }
        | Event::KeyUsed { .. }
        | Event::FactObserved { .. } => {}
    }
}

/// Applies one change to a team's rows and numbers.
pub(crate) fn apply<R: Rows>(
    change: &Change,
    rows: &mut R,
    counts: &mut Counts,
) -> Result<(), R::Error> {
    let totals = &mut counts.totals;
    match change {
        Change::Team { name, owner, workspace, solo } => {
            rows.put_team(name, owner, workspace, *solo)?;
        }
        Change::TeamName(name) => rows.name_team(name)?,
        Change::TeamEnded => rows.end_team()?,
        Change::Member { slot, name } => {
            counts.members += u64::from(rows.put_member(*slot, name)?);
        }
        Change::MemberName { slot, name } => rows.name_member(*slot, name)?,
        Change::MemberState { slot, state } => {
            if rows.move_member(*slot, *state)? && *state == MemberState::Removed {
                counts.members = counts.members.saturating_sub(1);
            }
        }
        Change::Restarted(_) => totals.restarts += 1,
        Change::Message { slot, message, seq, nth } => {
            totals.messages_accepted += u64::from(rows.put_message(*slot, *message, *seq, *nth)?);
        }
        Change::MessageState { slot, message, state } => {
            let moved = u64::from(rows.move_message(*slot, *message, *state)?);
            match state {
                MessageState::Queued | MessageState::Delivered => {}
                MessageState::Acknowledged => totals.messages_acknowledged += moved,
                MessageState::Superseded => totals.messages_superseded += moved,
                MessageState::Dead => totals.messages_dead += moved,
            }
        }
        Change::TurnEnded => totals.turns += 1,
        Change::Task { task, owner } => {
            counts.tasks_open += u64::from(rows.put_task(*task, *owner)?);
        }
        Change::TaskMoved { task, state, owner } => {
            let changed = rows.change_task(*task, *state, *owner)?;
            if changed && matches!(state, Some(TaskState::Completed | TaskState::Deleted)) {
                counts.tasks_open = counts.tasks_open.saturating_sub(1);
                totals.tasks_completed += u64::from(*state == Some(TaskState::Completed));
            }
        }
        Change::Request { request, kind } => {
            counts.requests_open += u64::from(rows.put_request(*request, kind)?);
        }
        Change::RequestState { request, state } => {
            let moved = rows.move_request(*request, *state)?;
            if moved && matches!(state, RequestState::Decided | RequestState::Withdrawn) {
                counts.requests_open = counts.requests_open.saturating_sub(1);
                totals.requests_decided += u64::from(*state == RequestState::Decided);
            }
        }
        Change::Usage { slot, usage } => rows.add_usage(*slot, *usage)?,
    }
    Ok(())
}

fn member(slot: SlotId, spec: &MemberSpec) -> Change {
    Change::Member { slot, name: spec.name.as_str().to_owned() }
}

fn mail(slot: SlotId, message: MessageId, state: MessageState) -> Change {
    Change::MessageState { slot, message, state }
}

fn used(slot: SlotId, usage: Usage) -> Option<Change> {
    (usage != Usage::default()).then_some(Change::Usage { slot, usage })
}
