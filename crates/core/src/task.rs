//! The shared task board: claims, dependencies and readiness; never who is told about it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::id::{SlotId, TaskId};
use crate::message::Sender;
use crate::time::Timestamp;

/// Where a task stands. Blocked and ready are derived from its dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Nobody has begun.
    Pending,
    /// Its owner works on it.
    InProgress,
    /// Done.
    Completed,
    /// Taken off the board.
    Deleted,
}

/// One open task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    pub(crate) id: TaskId,
    pub(crate) subject: String,
    pub(crate) description: String,
    pub(crate) active_form: Option<String>,
    pub(crate) in_progress: bool,
    pub(crate) owner: Option<SlotId>,
    pub(crate) blocked_by: BTreeSet<TaskId>,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) created_by: Sender,
    pub(crate) created_at: Timestamp,
    pub(crate) version: u32,
}

impl Task {
    /// Its number.
    pub fn id(&self) -> TaskId {
        self.id
    }
    /// Its title.
    pub fn subject(&self) -> &str {
        &self.subject
    }
    /// What is to be done.
    pub fn description(&self) -> &str {
        &self.description
    }
    /// The title while it is being done.
    pub fn active_form(&self) -> Option<&str> {
        self.active_form.as_deref()
    }
    /// Where it stands.
    pub fn status(&self) -> TaskStatus {
        if self.in_progress { TaskStatus::InProgress } else { TaskStatus::Pending }
    }
    /// Who has it.
    pub fn owner(&self) -> Option<SlotId> {
        self.owner
    }
    /// Tasks it waits for, completed ones included.
    pub fn blocked_by(&self) -> &BTreeSet<TaskId> {
        &self.blocked_by
    }
    /// Free notes.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }
    /// Who made it.
    pub fn created_by(&self) -> Sender {
        self.created_by
    }
    /// Rises with every change; a claim names the version it saw.
    pub fn version(&self) -> u32 {
        self.version
    }
}

/// A completed task: what dependents and readers still need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoneTask {
    /// Its title.
    pub subject: String,
    /// Who completed it.
    pub owner: Option<SlotId>,
    /// Tasks it had waited for.
    pub blocked_by: BTreeSet<TaskId>,
}

/// A change to one task. `None` leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskChange {
    /// New title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// New description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// New title while in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_form: Option<String>,
    /// New status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<TaskStatus>,
    /// New owner; `Some(None)` releases the task.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "double_option")]
    pub owner: Option<Option<SlotId>>,
    /// Dependencies to add.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub add_blocked_by: BTreeSet<TaskId>,
    /// Dependencies to remove.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub remove_blocked_by: BTreeSet<TaskId>,
    /// Notes to set; an empty value deletes the key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

mod double_option {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::option_option, reason = "absent, null and a value are three things")]
    #[expect(clippy::ref_option, reason = "serde passes the field by reference")]
    pub(super) fn serialize<T: Serialize, S: Serializer>(
        value: &Option<Option<T>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().and_then(Option::as_ref).serialize(serializer)
    }

    #[expect(clippy::option_option, reason = "absent, null and a value are three things")]
    pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Option<T>>, D::Error> {
        Option::<T>::deserialize(deserializer).map(Some)
    }
}

/// Why the board refuses a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskRefusal {
    /// No such task.
    Unknown(TaskId),
    /// It is completed or deleted.
    Closed(TaskId),
    /// The named version is not the current one.
    Stale {
        /// The task.
        task: TaskId,
        /// Its version.
        current: u32,
    },
    /// Somebody else has it.
    Taken {
        /// The task.
        task: TaskId,
        /// Who.
        owner: SlotId,
    },
    /// It waits for others.
    Blocked {
        /// The task.
        task: TaskId,
        /// For these.
        by: Vec<TaskId>,
    },
    /// The dependency would close a circle.
    Cycle {
        /// The task.
        task: TaskId,
        /// The dependency.
        on: TaskId,
    },
    /// It cannot be worked on without an owner.
    NoOwner(TaskId),
}

/// All tasks of a team.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskBoard {
    pub(crate) last: u32,
    pub(crate) open: BTreeMap<TaskId, Task>,
    pub(crate) done: BTreeMap<TaskId, DoneTask>,
}

impl TaskBoard {
    /// Open tasks by number.
    pub fn open(&self) -> &BTreeMap<TaskId, Task> {
        &self.open
    }
    /// Completed tasks by number.
    pub fn done(&self) -> &BTreeMap<TaskId, DoneTask> {
        &self.done
    }
    /// The number that the next task gets.
    pub fn next_id(&self) -> TaskId {
        TaskId(self.last + 1)
    }

    /// The open task, or why there is none.
    pub fn get(&self, id: TaskId) -> Result<&Task, TaskRefusal> {
        match self.open.get(&id) {
            Some(task) => Ok(task),
            None if id.0 >= 1 && id.0 <= self.last => Err(TaskRefusal::Closed(id)),
            None => Err(TaskRefusal::Unknown(id)),
        }
    }

    /// The open tasks it still waits for.
    pub fn waits_for(&self, task: &Task) -> Vec<TaskId> {
        task.blocked_by.iter().copied().filter(|id| self.open.contains_key(id)).collect()
    }

    /// Whether nothing stands in its way.
    pub fn is_ready(&self, task: &Task) -> bool {
        !task.in_progress && !task.blocked_by.iter().any(|id| self.open.contains_key(id))
    }

    /// The tasks that wait for `id`.
    pub fn dependents(&self, id: TaskId) -> impl Iterator<Item = &Task> {
        self.open.values().filter(move |t| t.blocked_by.contains(&id))
    }

    /// The lowest ready task for `slot`: one it owns, else, with `unowned`, one that nobody owns.
    /// `fresh` says whether the member has not yet been offered that version.
    pub(crate) fn offer_for(
        &self,
        slot: SlotId,
        unowned: bool,
        fresh: impl Fn(&Task) -> bool,
    ) -> Option<TaskId> {
        let ready = || self.open.values().filter(|t| self.is_ready(t) && fresh(t));
        ready()
            .find(|t| t.owner == Some(slot))
            .or_else(|| ready().find(|t| unowned && t.owner.is_none()))
            .map(|t| t.id)
    }

    /// Whether `id` may wait for all of `on`.
    pub(crate) fn check_dependencies(
        &self,
        id: TaskId,
        on: &BTreeSet<TaskId>,
    ) -> Result<(), TaskRefusal> {
        for dependency in on {
            if !self.open.contains_key(dependency) && !self.done.contains_key(dependency) {
                return Err(TaskRefusal::Unknown(*dependency));
            }
            if self.reaches(*dependency, id) {
                return Err(TaskRefusal::Cycle { task: id, on: *dependency });
            }
        }
        Ok(())
    }

    /// Whether `from` waits, directly or through others, for `to`.
    fn reaches(&self, from: TaskId, to: TaskId) -> bool {
        let mut seen = BTreeSet::new();
        let mut next = vec![from];
        while let Some(id) = next.pop() {
            if id == to {
                return true;
            }
            if seen.insert(id)
                && let Some(task) = self.open.get(&id)
            {
                next.extend(&task.blocked_by);
            }
        }
        false
    }

    /// Whether `slot` may take `id`, which it saw at `version`.
    pub(crate) fn check_claim(
        &self,
        id: TaskId,
        slot: SlotId,
        version: Option<u32>,
    ) -> Result<&Task, TaskRefusal> {
        let task = self.get(id)?;
        if let Some(owner) = task.owner.filter(|owner| *owner != slot) {
            return Err(TaskRefusal::Taken { task: id, owner });
        }
        if version.is_some_and(|seen| seen != task.version) {
            return Err(TaskRefusal::Stale { task: id, current: task.version });
        }
        let by = self.waits_for(task);
        if by.is_empty() { Ok(task) } else { Err(TaskRefusal::Blocked { task: id, by }) }
    }

    pub(crate) fn apply(&mut self, id: TaskId, change: &TaskChange) {
        match change.status {
            Some(TaskStatus::Completed) => return self.complete(id, change),
            Some(TaskStatus::Deleted) => return self.delete(id),
            Some(TaskStatus::Pending | TaskStatus::InProgress) | None => {}
        }
        let Some(task) = self.open.get_mut(&id) else {
            return;
        };
        task.version += 1;
        change_fields(task, change);
    }

    fn complete(&mut self, id: TaskId, change: &TaskChange) {
        let Some(mut task) = self.open.remove(&id) else {
            return;
        };
        change_fields(&mut task, change);
        self.done.insert(
            id,
            DoneTask { subject: task.subject, owner: task.owner, blocked_by: task.blocked_by },
        );
        self.touch_dependents(id);
    }

    fn delete(&mut self, id: TaskId) {
        if self.open.remove(&id).is_some() {
            self.touch_dependents(id);
            for task in self.open.values_mut() {
                task.blocked_by.remove(&id);
            }
        }
    }

    /// A task that lost a blocker is a new offer.
    fn touch_dependents(&mut self, id: TaskId) {
        for task in self.open.values_mut().filter(|t| t.blocked_by.contains(&id)) {
            task.version += 1;
        }
    }
}

fn change_fields(task: &mut Task, change: &TaskChange) {
    if let Some(subject) = &change.subject {
        task.subject.clone_from(subject);
    }
    if let Some(description) = &change.description {
        task.description.clone_from(description);
    }
    if let Some(active_form) = &change.active_form {
        task.active_form = Some(active_form.clone());
    }
    if let Some(owner) = change.owner {
        task.owner = owner;
        if owner.is_none() {
            task.in_progress = false;
        }
    }
    match change.status {
        Some(TaskStatus::InProgress) => task.in_progress = true,
        Some(TaskStatus::Pending) => task.in_progress = false,
        Some(TaskStatus::Completed | TaskStatus::Deleted) | None => {}
    }
    task.blocked_by.extend(&change.add_blocked_by);
    for id in &change.remove_blocked_by {
        task.blocked_by.remove(id);
    }
    for (key, value) in &change.metadata {
        if value.is_empty() {
            task.metadata.remove(key);
        } else {
            task.metadata.insert(key.clone(), value.clone());
        }
    }
}
