//! Who may change the board, and who hears of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::command::Caller;
use crate::event::Event;
use crate::id::{MessageId, SlotId, TaskId};
use crate::mailbox::Place;
use crate::message::{Body, ProtocolMessage, Recipient, Sender, Urgency};
use crate::rejection::Rejection;
use crate::task::{Task, TaskChange, TaskRefusal, TaskStatus};

use super::draft::Draft;
use super::{Authority, Team};

/// A task as it is asked for.
#[derive(Clone, Copy)]
pub(super) struct NewTask<'a> {
    pub(super) subject: &'a str,
    pub(super) description: &'a str,
    pub(super) active_form: Option<&'a str>,
    pub(super) owner: Option<SlotId>,
    pub(super) blocked_by: &'a BTreeSet<TaskId>,
    pub(super) metadata: &'a BTreeMap<String, String>,
}

impl Team {
    pub(super) fn create_task(
        &self,
        d: &mut Draft,
        caller: Caller,
        new: NewTask<'_>,
    ) -> Result<(), Rejection> {
        self.may_use_board(caller)?;
        self.check_texts(Some(new.subject), Some(new.description), new.active_form, new.metadata)?;
        if new.subject.trim().is_empty() {
            return Err(Rejection::Empty { what: "a task's title" });
        }
        let asked = self.board.open().len() as u64 + 1;
        let allowed = u64::from(self.settings.limits.open_tasks);
        if asked > allowed {
            return Err(Rejection::Limit { limit: "open_tasks", allowed, asked });
        }
        if let Some(owner) = new.owner {
            self.may_assign(caller, owner)?;
        }
        let task = self.board.next_id();
        self.board.check_dependencies(task, new.blocked_by)?;
        d.push(Event::TaskCreated {
            task,
            subject: new.subject.to_owned(),
            description: new.description.to_owned(),
            active_form: new.active_form.map(str::to_owned),
            owner: new.owner,
            blocked_by: new.blocked_by.iter().copied().collect(),
            metadata: new.metadata.clone(),
            by: caller.into(),
        });
        if let Some(owner) = new.owner {
            self.assign(d, caller, task, new.subject, new.description, owner)?;
        }
        Ok(())
    }

    pub(super) fn update_task(
        &self,
        d: &mut Draft,
        caller: Caller,
        id: TaskId,
        change: &TaskChange,
        version: Option<u32>,
    ) -> Result<(), Rejection> {
        self.may_use_board(caller)?;
        let task = self.board.get(id)?;
        if version.is_some_and(|seen| seen != task.version) {
            return Err(TaskRefusal::Stale { task: id, current: task.version }.into());
        }
        let mut notes = task.metadata.clone();
        notes.extend(change.metadata.clone());
        self.check_texts(
            change.subject.as_deref(),
            Some(change.description.as_deref().unwrap_or(&task.description)),
            change.active_form.as_deref(),
            &notes,
        )?;
        if change.subject.as_deref().is_some_and(|s| s.trim().is_empty()) {
            return Err(Rejection::Empty { what: "a task's title" });
        }
        let mut change = change.clone();
        if let (Caller::Agent(slot), Some(TaskStatus::InProgress), None, None) =
            (caller, change.status, change.owner, task.owner)
        {
            change.owner = Some(Some(slot));
        }
        self.may_edit(caller, task, &change)?;
        self.check_change(task, &change)?;
        let owner = change.owner.unwrap_or(task.owner);
        let handed_over = change.owner.is_some() && owner != task.owner;
        if handed_over && task.in_progress && change.status.is_none() {
            change.status = Some(TaskStatus::Pending);
        }
        let open = !matches!(change.status, Some(TaskStatus::Completed | TaskStatus::Deleted));
        let subject = change.subject.clone().unwrap_or_else(|| task.subject.clone());
        let description = change.description.clone().unwrap_or_else(|| task.description.clone());
        d.push(Event::TaskChanged { task: id, change, by: caller.into() });
        if let Some(owner) = owner.filter(|_| handed_over && open) {
            self.assign(d, caller, id, &subject, &description, owner)?;
        }
        Ok(())
    }

    pub(super) fn claim_task(
        &self,
        d: &mut Draft,
        caller: Caller,
        id: TaskId,
        version: Option<u32>,
    ) -> Result<(), Rejection> {
        self.may_use_board(caller)?;
        let Caller::Agent(slot) = caller else {
            return Err(Rejection::NotAllowed { what: "claim a task", who: "a member" });
        };
        self.board.check_claim(id, slot, version)?;
        let change = TaskChange {
            status: Some(TaskStatus::InProgress),
            owner: Some(Some(slot)),
            ..TaskChange::default()
        };
        d.push(Event::TaskChanged { task: id, change, by: caller.into() });
        Ok(())
    }

    fn may_use_board(&self, caller: Caller) -> Result<(), Rejection> {
        match self.authority(caller)? {
            Authority::Solo => {
                Err(Rejection::NotAllowed { what: "use the task board", who: "a member of a team" })
            }
            Authority::User | Authority::System | Authority::Lead | Authority::Teammate(_) => {
                Ok(())
            }
        }
    }

    fn may_assign(&self, caller: Caller, owner: SlotId) -> Result<(), Rejection> {
        self.member(owner)?;
        match self.authority(caller)? {
            Authority::Teammate(slot) if slot != owner => Err(Rejection::NotAllowed {
                what: "give a task to somebody else",
                who: "the person or the lead",
            }),
            _ => Ok(()),
        }
    }

    /// A teammate edits what it owns or made, and takes what nobody has.
    fn may_edit(&self, caller: Caller, task: &Task, change: &TaskChange) -> Result<(), Rejection> {
        if let Some(Some(owner)) = change.owner {
            self.may_assign(caller, owner)?;
        }
        let Authority::Teammate(slot) = self.authority(caller)? else {
            return Ok(());
        };
        if task.owner == Some(slot) {
            return Ok(());
        }
        if let Some(owner) = task.owner {
            return Err(TaskRefusal::Taken { task: task.id, owner }.into());
        }
        let takes = change.owner == Some(Some(slot));
        if takes || task.created_by == Sender::Agent(slot) {
            return Ok(());
        }
        Err(Rejection::NotAllowed {
            what: "change a task that it neither owns nor made",
            who: "the person or the lead",
        })
    }

    fn check_change(&self, task: &Task, change: &TaskChange) -> Result<(), Rejection> {
        self.board.check_dependencies(task.id, &change.add_blocked_by)?;
        let owner = change.owner.unwrap_or(task.owner);
        let mut blocked_by: BTreeSet<TaskId> = task.blocked_by.clone();
        blocked_by.extend(&change.add_blocked_by);
        let by: Vec<TaskId> = blocked_by
            .iter()
            .copied()
            .filter(|id| {
                self.board.open().contains_key(id) && !change.remove_blocked_by.contains(id)
            })
            .collect();
        let handed_over = change.owner.is_some() && owner != task.owner;
        let works = match change.status {
            Some(TaskStatus::InProgress | TaskStatus::Completed) => true,
            Some(TaskStatus::Pending | TaskStatus::Deleted) => false,
            None => task.in_progress && !handed_over,
        };
        if works && !by.is_empty() {
            return Err(TaskRefusal::Blocked { task: task.id, by }.into());
        }
        if change.status == Some(TaskStatus::InProgress) && owner.is_none() {
            return Err(TaskRefusal::NoOwner(task.id).into());
        }
        Ok(())
    }

    fn check_texts(
        &self,
        subject: Option<&str>,
        description: Option<&str>,
        active_form: Option<&str>,
        metadata: &BTreeMap<String, String>,
    ) -> Result<(), Rejection> {
        let limits = &self.settings.limits;
        for title in [subject, active_form].into_iter().flatten() {
            let asked = title.chars().count() as u64;
            if asked > u64::from(limits.subject_chars) {
                return Err(Rejection::Limit {
                    limit: "subject_chars",
                    allowed: limits.subject_chars.into(),
                    asked,
                });
            }
        }
        let notes: usize = metadata.iter().map(|(k, v)| k.len() + v.len()).sum();
        let asked = (description.map_or(0, str::len) + notes) as u64;
        if asked > u64::from(limits.text_bytes) {
            return Err(Rejection::Limit {
                limit: "text_bytes",
                allowed: limits.text_bytes.into(),
                asked,
            });
        }
        Ok(())
    }

    /// Tells an owner about a task that somebody else gave to it. An earlier assignment of the task
    /// that nobody has read yet gives way.
    fn assign(
        &self,
        d: &mut Draft,
        by: Caller,
        task: TaskId,
        subject: &str,
        description: &str,
        owner: SlotId,
    ) -> Result<(), Rejection> {
        if by == Caller::Agent(owner) {
            return Ok(());
        }
        let bytes = (subject.len() + description.len()) as u64;
        self.check_mail(d.now, Caller::System, &[owner], bytes)?;
        let body = Body::Protocol(ProtocolMessage::TaskAssignment {
            task,
            subject: subject.to_owned(),
            description: description.to_owned(),
            assigned_by: by.into(),
        });
        let to = Recipient::Agent(owner);
        let id = d.send(by.into(), to, vec![owner], body, Urgency::Wake);
        self.supersede(d, id, |message| {
            matches!(message, ProtocolMessage::TaskAssignment { task: earlier, .. } if *earlier == task)
        });
        Ok(())
    }

    /// Lets unread protocol mail give way to a newer message.
    pub(super) fn supersede(
        &self,
        d: &mut Draft,
        by: MessageId,
        earlier: impl Fn(&ProtocolMessage) -> bool,
    ) {
        for agent in self.agents.values() {
            for (message, entry) in agent.mailbox.entries() {
                let body = self.message(*message).map(|m| &m.body);
                if entry.place == Place::Queued
                    && matches!(body, Some(Body::Protocol(protocol)) if earlier(protocol))
                {
                    d.push(Event::MessageSuperseded { message: *message, slot: agent.slot, by });
                }
            }
        }
    }
}
