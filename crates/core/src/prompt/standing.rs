//! What an agent may not forget when its conversation is made shorter; it renders no mail.

use std::fmt::Write;

use super::{fence, slot_name};
use crate::id::SlotId;
use crate::message::shorten;
use crate::task::{Task, TaskStatus};
use crate::team::Team;

/// The most open tasks that are named; the board has a tool of its own.
const TASKS: usize = 100;
/// The bytes after which no other is named.
const BYTES: usize = 16 * 1024;
/// The most bytes of the description of a task of one's own.
const DESCRIPTION: usize = 2_000;

/// The team's open tasks as a member needs to know them: its own with what is to be done, all
/// others in a line. Empty without any.
#[must_use]
pub fn standing(team: &Team, slot: SlotId, nonce: &mut dyn FnMut() -> String) -> String {
    let open = team.board().open();
    if open.is_empty() {
        return String::new();
    }
    let (own, others): (Vec<&Task>, Vec<&Task>) =
        open.values().partition(|task| task.owner() == Some(slot));
    let mut text = String::new();
    let mut named = 0;
    for task in own.iter().chain(&others).take(TASKS) {
        if text.len() > BYTES {
            break;
        }
        named += 1;
        let status = match task.status() {
            TaskStatus::InProgress => "in progress",
            TaskStatus::Pending | TaskStatus::Completed | TaskStatus::Deleted => "pending",
        };
        let owner = match task.owner() {
            Some(owner) if owner == slot => "yours".to_owned(),
            Some(owner) => slot_name(team, owner),
            None => "nobody's".to_owned(),
        };
        let _ = write!(text, "#{} [{status}, {owner}] {}", task.id(), task.subject());
        let waits: Vec<String> =
            team.board().waits_for(task).iter().map(|id| format!("#{id}")).collect();
        if !waits.is_empty() {
            let _ = write!(text, " (waits for {})", waits.join(", "));
        }
        text.push('\n');
        if task.owner() == Some(slot) {
            let _ = writeln!(text, "{}", shorten(task.description(), DESCRIPTION));
        }
    }
    if open.len() > named {
        let _ = writeln!(text, "and {} more: see team_task_list", open.len() - named);
    }
    format!("The open tasks of the team:\n{}", fence("tasks", "", text.trim_end(), nonce))
}
