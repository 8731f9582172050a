//! The task board in the model: claims, circles, readiness and offers.

use std::collections::BTreeSet;

use aion_core::command::Caller;
use aion_core::id::{SlotId, TaskId};
use aion_core::message::Sender;
use aion_core::task::{TaskChange, TaskStatus};

use super::{Model, Phase, Task};

impl Model {
    pub(super) fn task_created(
        &mut self,
        id: TaskId,
        owner: Option<SlotId>,
        blocked_by: &[TaskId],
        created_by: Sender,
    ) {
        let last = self.last_task;
        self.check(id.0 == last + 1, "INV-11", || format!("task {id} follows #{last}"));
        self.last_task = last.max(id.0);
        let known = blocked_by.iter().all(|b| self.tasks.contains_key(b) || self.done.contains(b));
        self.check(known, "INV-11", || {
            format!("task {id} waits for one of {blocked_by:?}, which is not there")
        });
        self.check_owner(id, owner);
        let open = self.settings.limits.open_tasks as usize;
        let have = self.tasks.len();
        self.check(have < open, "INV-31", || format!("{} open tasks", have + 1));
        self.tasks.insert(
            id,
            Task {
                owner,
                in_progress: false,
                created_by,
                blocked_by: blocked_by.iter().copied().collect(),
                version: 1,
            },
        );
        self.check_circles();
    }

    fn check_owner(&mut self, id: TaskId, owner: Option<SlotId>) {
        let Some(owner) = owner else { return };
        let present = self.is_present(owner);
        self.check(present, "INV-10", || {
            format!("task {id} is given to {owner}, who is no member")
        });
    }

    pub(super) fn task_changed(
        &mut self,
        actor: Caller,
        id: TaskId,
        change: &TaskChange,
        by: Sender,
    ) {
        let Some(before) = self.tasks.get(&id).cloned() else {
            self.fail("INV-10", format!("task {id} changes, but it is not open"));
            return;
        };
        self.check_change_rights(actor, id, &before, change, by);
        if let Some(Some(owner)) = change.owner {
            self.check_owner(id, Some(owner));
        }
        let known = change
            .add_blocked_by
            .iter()
            .all(|b| self.tasks.contains_key(b) || self.done.contains(b));
        self.check(known, "INV-11", || format!("task {id} waits for something that is not there"));
        match change.status {
            Some(TaskStatus::Completed) => return self.task_closed(id, true),
            Some(TaskStatus::Deleted) => return self.task_closed(id, false),
            Some(TaskStatus::Pending | TaskStatus::InProgress) | None => {}
        }
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.version += 1;
        if let Some(owner) = change.owner {
            task.owner = owner;
            task.in_progress &= owner.is_some();
        }
        match change.status {
            Some(TaskStatus::InProgress) => task.in_progress = true,
            Some(TaskStatus::Pending) => task.in_progress = false,
            Some(TaskStatus::Completed | TaskStatus::Deleted) | None => {}
        }
        task.blocked_by.extend(&change.add_blocked_by);
        for other in &change.remove_blocked_by {
            task.blocked_by.remove(other);
        }
        let (owner, in_progress) = (task.owner, task.in_progress);
        let blocked = self.is_blocked(id);
        let begins =
            in_progress && (change.status == Some(TaskStatus::InProgress) || !before.in_progress);
        self.check(!(begins && blocked), "INV-11", || {
            format!("task {id} begins, and waits for others")
        });
        self.check(!in_progress || owner.is_some(), "INV-10", || {
            format!("nobody has task {id}, which is in progress")
        });
        self.check_circles();
    }

    /// A member may take what nobody has; what somebody has, only the lead or the person gives away.
    fn check_change_rights(
        &mut self,
        actor: Caller,
        id: TaskId,
        before: &Task,
        change: &TaskChange,
        by: Sender,
    ) {
        let Caller::Agent(slot) = actor else { return };
        // Releases that follow from a death are the team's own, whoever caused it.
        if slot == SlotId::LEAD || by == Sender::System {
            return;
        }
        let claims = change.owner == Some(Some(slot));
        let may = before.owner == Some(slot)
            || (before.owner.is_none() && (claims || before.created_by == Sender::Agent(slot)));
        self.check(may, "INV-10", || format!("{slot} changes task {id}, which is not its own"));
        let taken = before.owner.is_some_and(|owner| owner != slot);
        let takes = change.owner.is_some() || change.status.is_some();
        self.check(!(taken && takes), "INV-10", || {
            format!("{slot} takes task {id}, which belongs to {:?}", before.owner)
        });
    }

    fn task_closed(&mut self, id: TaskId, completed: bool) {
        self.tasks.remove(&id);
        if completed {
            self.done.insert(id);
        }
        for task in self.tasks.values_mut() {
            if task.blocked_by.contains(&id) {
                task.version += 1;
                if !completed {
                    task.blocked_by.remove(&id);
                }
            }
        }
        for member in self.members.values_mut() {
            member.offered.remove(&id);
        }
    }

    /// Whether a task waits for an open one.
    pub(crate) fn is_blocked(&self, id: TaskId) -> bool {
        self.tasks.get(&id).is_some_and(|t| t.blocked_by.iter().any(|b| self.tasks.contains_key(b)))
    }

    fn check_circles(&mut self) {
        let mut done = BTreeSet::new();
        let ids: Vec<TaskId> = self.tasks.keys().copied().collect();
        for id in ids {
            let mut path = BTreeSet::new();
            if self.closes_circle(id, &mut path, &mut done) {
                self.fail("INV-11", format!("task {id} waits for itself"));
                return;
            }
        }
    }

    fn closes_circle(
        &self,
        id: TaskId,
        path: &mut BTreeSet<TaskId>,
        done: &mut BTreeSet<TaskId>,
    ) -> bool {
        if done.contains(&id) {
            return false;
        }
        if !path.insert(id) {
            return true;
        }
        let found = self.tasks.get(&id).is_some_and(|task| {
            task.blocked_by.iter().any(|next| self.closes_circle(*next, path, done))
        });
        path.remove(&id);
        done.insert(id);
        found
    }

    /// A task that would be offered to a member: ready, its own or free, and not offered before.
    pub(crate) fn next_offer(&self, slot: SlotId) -> Option<TaskId> {
        let member = self.members.get(&slot).filter(|_| !self.solo)?;
        let free = self.settings.auto_claim && !member.lead;
        let under_way = |id: &TaskId| {
            self.members.values().any(|m| m.turn.as_ref().is_some_and(|t| t.offer == Some(*id)))
        };
        let fits = |id: &TaskId, task: &Task| {
            !task.in_progress
                && (task.owner.is_some() || !under_way(id))
                && !self.is_blocked(*id)
                && member.offered.get(id) != Some(&task.version)
        };
        let ready = || self.tasks.iter().filter(|(id, task)| fits(id, task));
        ready()
            .find(|(_, task)| task.owner == Some(slot))
            .or_else(|| ready().find(|(_, task)| free && task.owner.is_none()))
            .map(|(id, _)| *id)
    }

    pub(super) fn check_offer(&mut self, slot: SlotId, id: TaskId) {
        let expected = self.next_offer(slot);
        let fresh = self.members.get(&slot).and_then(|m| m.offered.get(&id).copied())
            != self.tasks.get(&id).map(|t| t.version);
        self.check(fresh, "NO-INPUT", || format!("{slot} is offered {id} again, unchanged"));
        let ready = self.tasks.get(&id).is_some_and(|t| !t.in_progress) && !self.is_blocked(id);
        self.check(ready, "INV-11", || format!("{slot} is offered {id}, which is not ready"));
        let taken = self.tasks.get(&id).and_then(|t| t.owner).is_some_and(|owner| owner != slot);
        self.check(!taken, "INV-10", || format!("{slot} is offered {id}, which somebody has"));
        self.check(expected == Some(id) || !fresh || !ready || taken, "INV-10", || {
            format!("{slot} is offered {id}, the first for it is {expected:?}")
        });
        let version = self.tasks.get(&id).map_or(0, |t| t.version);
        if let Some(member) = self.members.get_mut(&slot) {
            member.offered.insert(id, version);
        }
    }

    /// A dead or absent member owns nothing that is open.
    pub(crate) fn check_owners(&mut self, now_gone: &[SlotId]) {
        if self.ended {
            return;
        }
        let orphan = self.tasks.iter().find_map(|(id, task)| {
            let owner = task.owner?;
            let gone = self.members.get(&owner).is_none_or(|m| m.phase == Phase::Removed)
                || (now_gone.contains(&owner)
                    && self.members.get(&owner).is_some_and(|m| m.phase == Phase::Failed));
            gone.then_some((*id, owner))
        });
        if let Some((id, owner)) = orphan {
            self.fail("INV-10", format!("task {id} still belongs to {owner}, who is gone"));
        }
    }
}
