//! The read models of one team in memory, as far as anybody can ask for them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::convert::Infallible;

use aion_core::budget::Usage;
use aion_core::id::{MessageId, RequestId, Seq, SlotId, TaskId};

use crate::event_store::Deliveries;
use crate::projection::{MemberState, MessageState, NewOwner, RequestState, Rows, TaskState};

/// The read models of one team in memory.
#[derive(Default)]
pub(super) struct Models {
    pub(super) name: String,
    pub(super) owner: String,
    pub(super) workspace: String,
    pub(super) solo: bool,
    pub(super) ended: bool,
    members: BTreeMap<SlotId, MemberState>,
    messages: BTreeMap<(SlotId, MessageId), MessageState>,
    /// What each event accepted, for those that accepted something.
    accepted: BTreeMap<Seq, MessageId>,
    tasks: BTreeMap<TaskId, TaskState>,
    requests: BTreeMap<RequestId, RequestState>,
}

impl Models {
    /// Where the message stands that the event at `accepted` accepted.
    pub(super) fn deliveries(&self, accepted: Seq) -> Deliveries {
        let Some(message) = self.accepted.get(&accepted) else { return Deliveries::new() };
        let copies = self.messages.iter().filter(|((_, copy), _)| copy == message);
        copies.map(|((slot, _), state)| (*slot, *state)).collect()
    }
}

impl Rows for Models {
    type Error = Infallible;

    fn put_team(
        &mut self,
        name: &str,
        owner: &str,
        workspace: &str,
        solo: bool,
    ) -> Result<(), Infallible> {
        name.clone_into(&mut self.name);
        owner.clone_into(&mut self.owner);
        workspace.clone_into(&mut self.workspace);
        self.solo = solo;
        Ok(())
    }

    fn name_team(&mut self, name: &str) -> Result<(), Infallible> {
        name.clone_into(&mut self.name);
        Ok(())
    }

    fn end_team(&mut self) -> Result<(), Infallible> {
        self.ended = true;
        Ok(())
    }

    fn put_member(&mut self, slot: SlotId, _name: &str) -> Result<bool, Infallible> {
        Ok(put(self.members.entry(slot), MemberState::Starting))
    }

    fn name_member(&mut self, _slot: SlotId, _name: &str) -> Result<(), Infallible> {
        Ok(())
    }

    fn move_member(&mut self, slot: SlotId, to: MemberState) -> Result<bool, Infallible> {
        Ok(advance(self.members.get_mut(&slot), to, |state| *state == MemberState::Removed))
    }

    fn put_message(
        &mut self,
        slot: SlotId,
        message: MessageId,
        seq: Seq,
        _nth: usize,
    ) -> Result<bool, Infallible> {
        self.accepted.insert(seq, message);
        let open = self.messages.get(&(slot, message)).is_some_and(|state| !is_settled(*state));
        if !open {
            self.messages.insert((slot, message), MessageState::Queued);
        }
        Ok(!open)
    }

    fn move_message(
        &mut self,
        slot: SlotId,
        message: MessageId,
        to: MessageState,
    ) -> Result<bool, Infallible> {
        let row = self.messages.get_mut(&(slot, message));
        Ok(advance(row, to, |state| is_settled(*state)))
    }

    fn put_task(&mut self, task: TaskId, _owner: Option<SlotId>) -> Result<bool, Infallible> {
        Ok(put(self.tasks.entry(task), TaskState::Pending))
    }

    fn change_task(
        &mut self,
        task: TaskId,
        state: Option<TaskState>,
        _owner: NewOwner,
    ) -> Result<bool, Infallible> {
        let closed = |state: &TaskState| *state as u8 >= TaskState::Completed as u8;
        Ok(state.is_some_and(|to| advance(self.tasks.get_mut(&task), to, closed)))
    }

    fn put_request(&mut self, request: RequestId, _kind: &str) -> Result<bool, Infallible> {
        Ok(put(self.requests.entry(request), RequestState::Open))
    }

    fn move_request(&mut self, request: RequestId, to: RequestState) -> Result<bool, Infallible> {
        let closed = |state: &RequestState| *state as u8 >= RequestState::Decided as u8;
        Ok(advance(self.requests.get_mut(&request), to, closed))
    }

    fn add_usage(&mut self, _slot: SlotId, _usage: Usage) -> Result<(), Infallible> {
        Ok(())
    }
}

fn is_settled(state: MessageState) -> bool {
    state as u8 >= MessageState::Acknowledged as u8
}

/// Adds a row unless it is there; says whether it did.
fn put<K: Ord, S>(row: Entry<'_, K, S>, state: S) -> bool {
    match row {
        Entry::Vacant(row) => {
            row.insert(state);
            true
        }
        Entry::Occupied(_) => false,
    }
}

/// Moves a row on unless it is in a final state; says whether it did.
fn advance<S>(row: Option<&mut S>, to: S, is_final: impl Fn(&S) -> bool) -> bool {
    match row {
        Some(state) if !is_final(state) => {
            *state = to;
            true
        }
        Some(_) | None => false,
    }
}
