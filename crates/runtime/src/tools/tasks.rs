//! Tools of the task board.

use std::collections::BTreeSet;
use std::fmt::Write;

use aion_core::command::Command;
use aion_core::id::{SlotId, TaskId};
use aion_core::task::{TaskChange, TaskStatus};
use aion_core::team::Team;
use serde::Deserialize;

use super::call::{Answer, Call, Failure, done, in_line, in_lines, name_of, receipt, told};
use super::input::{Id, Notes};
use super::registry::{Tool, tool};
use super::schema::{choice, notes, number, text, texts};

const STATUSES: [&str; 4] = ["pending", "in_progress", "completed", "deleted"];

pub(super) fn tools() -> Vec<Tool> {
    let subject = || text("subject", "The task in a few words, as an order.");
    let description = || text("description", "What is to be done, and when it is done.");
    let owner =
        || text("owner", "Who is to do it: a member's name or slot id; \"none\" releases it.");
    let metadata = || notes("metadata", "Free notes.");
    let status = || choice("status", "Where it stands.", &STATUSES);
    let version =
        || number("version", "The version you saw; a task that changed since is refused.");
    let task = |name| text(name, "The task's number, for example \"3\".").required();
    vec![
        tool!(
            Members,
            "team_task_create",
            "Put a task on the team's board. A task waits until all tasks in blocked_by are completed.",
            [
                subject().required(),
                description().required(),
                text(
                    "active_form",
                    "What to show while it is being done, for example \"Writing tests\"."
                ),
                owner(),
                texts("blocked_by", "Numbers of tasks it waits for."),
                metadata(),
            ],
            create
        ),
        tool!(
            Members,
            "TaskCreate",
            "Put a task on the team's board. The same as team_task_create.",
            [
                subject().required(),
                description().required(),
                text("activeForm", "What to show while it is being done."),
                metadata(),
            ],
            create
        ),
        tool!(
            Members,
            "team_task_update",
            "Change a task: its status, owner, texts or dependencies. Set it to in_progress when you begin and to completed when it is really done.",
            [
                task("task_id"),
                subject(),
                description(),
                text("active_form", "What to show while it is being done."),
                status(),
                owner(),
                texts("add_blocked_by", "Numbers of tasks it has to wait for."),
                texts("remove_blocked_by", "Numbers of tasks it need not wait for."),
                texts("add_blocks", "Numbers of tasks that have to wait for it."),
                metadata(),
                version(),
            ],
            update
        ),
        tool!(
            Members,
            "TaskUpdate",
            "Change a task: its status, owner, texts or dependencies. The same as team_task_update.",
            [
                task("taskId"),
                subject(),
                description(),
                text("activeForm", "What to show while it is being done."),
                status(),
                owner(),
                texts("addBlockedBy", "Numbers of tasks it has to wait for."),
                texts("addBlocks", "Numbers of tasks that have to wait for it."),
                metadata(),
            ],
            update
        ),
        tool!(
            Members,
            "team_task_list",
            "Show the team's board: every task with its status, owner and what it waits for.",
            [],
            list
        )
        .reads(),
        tool!(Members, "TaskList", "Show the team's board. The same as team_task_list.", [], list)
            .reads(),
        tool!(
            Members,
            "team_task_get",
            "Show one task with its description and version.",
            [task("task_id")],
            get
        )
        .reads(),
        tool!(
            Members,
            "TaskGet",
            "Show one task. The same as team_task_get.",
            [task("taskId")],
            get
        )
        .reads(),
        tool!(
            Members,
            "team_task_claim",
            "Take a task that nobody has and begin it, in one step. Exactly one member gets it.",
            [task("task_id"), version()],
            claim
        ),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    subject: String,
    description: String,
    #[serde(default, alias = "activeForm")]
    active_form: Option<String>,
    #[serde(default)]
    owner: Option<String>,
    #[serde(default)]
    blocked_by: Vec<Id<TaskId>>,
    #[serde(default)]
    metadata: Notes,
}

async fn create(call: Call<'_>, input: Create) -> Answer {
    let owner = match input.owner.as_deref() {
        Some(owner) => owner_of(&call, owner).await?,
        None => None,
    };
    let committed = call
        .submit(Command::CreateTask {
            subject: input.subject.clone(),
            description: input.description,
            active_form: input.active_form,
            owner,
            blocked_by: ids(input.blocked_by),
            metadata: input.metadata.0,
        })
        .await?;
    let task = receipt(&committed).task;
    let number = task.map_or_else(String::new, |task| format!(" {task}"));
    Ok(done(format!("Task{number} created: {}", input.subject)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Update {
    #[serde(alias = "taskId")]
    task_id: Id<TaskId>,
    #[serde(default)]
    subject: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default, alias = "activeForm")]
    active_form: Option<String>,
    #[serde(default)]
    status: Option<TaskStatus>,
    #[serde(default)]
    owner: Option<String>,
    #[serde(default, alias = "addBlockedBy")]
    add_blocked_by: Vec<Id<TaskId>>,
    #[serde(default)]
    remove_blocked_by: Vec<Id<TaskId>>,
    #[serde(default, alias = "addBlocks")]
    add_blocks: Vec<Id<TaskId>>,
    #[serde(default)]
    metadata: Notes,
    #[serde(default)]
    version: Option<u32>,
}

async fn update(call: Call<'_>, input: Update) -> Answer {
    let task = input.task_id.0;
    let owner = match input.owner.as_deref() {
        Some(owner) => Some(owner_of(&call, owner).await?),
        None => None,
    };
    let change = TaskChange {
        subject: input.subject,
        description: input.description,
        active_form: input.active_form,
        status: input.status,
        owner,
        add_blocked_by: ids(input.add_blocked_by),
        remove_blocked_by: ids(input.remove_blocked_by),
        metadata: input.metadata.0,
    };
    let waiting: Vec<TaskId> = ids(input.add_blocks).into_iter().collect();
    if change == TaskChange::default() && waiting.is_empty() {
        return Err(Failure::Say(format!(
            "nothing to change: say what is to be different about task {task}"
        )));
    }
    let mut made = Vec::new();
    if change != TaskChange::default() {
        let change = Box::new(change);
        call.submit(Command::UpdateTask { task, change, version: input.version }).await?;
        made.push(format!("{task} was changed"));
    }
    // Other tasks have rules of their own: each is changed by itself, and a refusal of one says what
    // was done before it.
    for (part, other) in waiting.into_iter().enumerate() {
        let add_blocked_by = BTreeSet::from([task]);
        let change = Box::new(TaskChange { add_blocked_by, ..TaskChange::default() });
        let command = Command::UpdateTask { task: other, change, version: None };
        match call.submit_part(part + 1, command).await {
            Ok(_) => made.push(format!("{other} waits for {task}")),
            Err(Failure::Say(why)) if !made.is_empty() => {
                let made = made.join(", ");
                return Err(Failure::Say(format!(
                    "{other} was not made to wait for {task}: {why}. What was done before that stays: {made}"
                )));
            }
            Err(failure) => return Err(failure),
        }
    }
    let line = call.query(move |team| line(team, task)).await?;
    Ok(done(format!("Updated {line}")))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

async fn list(call: Call<'_>, _: Nothing) -> Answer {
    let lines = call
        .query(|team| {
            let board = team.board();
            let all: BTreeSet<TaskId> =
                board.open().keys().chain(board.done().keys()).copied().collect();
            all.into_iter().map(|task| line(team, task)).collect::<Vec<_>>()
        })
        .await?;
    Ok(told(if lines.is_empty() { "No tasks.".to_owned() } else { lines.join("\n") }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct One {
    #[serde(alias = "taskId")]
    task_id: Id<TaskId>,
    #[serde(default)]
    version: Option<u32>,
}

async fn get(call: Call<'_>, input: One) -> Answer {
    let id = input.task_id.0;
    let shown = call.query(move |team| show(team, id)).await??;
    Ok(told(shown))
}

async fn claim(call: Call<'_>, input: One) -> Answer {
    let task = input.task_id.0;
    call.submit(Command::ClaimTask { task, version: input.version }).await?;
    let shown = call.query(move |team| show(team, task)).await?;
    Ok(done(match shown {
        Ok(shown) => format!("The task is yours and in progress.\n{shown}"),
        Err(_) => format!("Task {task} is yours and in progress."),
    }))
}

fn ids(ids: Vec<Id<TaskId>>) -> BTreeSet<TaskId> {
    ids.into_iter().map(|id| id.0).collect()
}

async fn owner_of(call: &Call<'_>, owner: &str) -> Result<Option<SlotId>, Failure> {
    match owner.trim() {
        "" | "none" => Ok(None),
        "me" => Ok(Some(call.own_slot()?)),
        name => Ok(Some(call.member(name).await?.0)),
    }
}

/// `#2 [pending] Task two (bob) [blocked by #1]`
fn line(team: &Team, id: TaskId) -> String {
    let board = team.board();
    if let Some(task) = board.open().get(&id) {
        let status = match task.status() {
            TaskStatus::InProgress => "in_progress",
            TaskStatus::Pending | TaskStatus::Completed | TaskStatus::Deleted => "pending",
        };
        let owner = task.owner().map(|slot| format!(" ({})", name_of(team, slot)));
        let waits: Vec<String> = board.waits_for(task).iter().map(ToString::to_string).collect();
        let blocked = (!waits.is_empty()).then(|| format!(" [blocked by {}]", waits.join(", ")));
        return format!(
            "{id} [{status}] {}{}{}",
            in_line(task.subject()),
            owner.unwrap_or_default(),
            blocked.unwrap_or_default()
        );
    }
    match board.done().get(&id) {
        Some(task) => {
            let owner = task.owner.map(|slot| format!(" ({})", name_of(team, slot)));
            format!("{id} [completed] {}{}", in_line(&task.subject), owner.unwrap_or_default())
        }
        None => format!("{id} [deleted]"),
    }
}

fn show(team: &Team, id: TaskId) -> Result<String, String> {
    let board = team.board();
    if board.done().contains_key(&id) {
        return Ok(line(team, id));
    }
    let Some(task) = board.open().get(&id) else {
        let open: Vec<String> = board.open().keys().map(ToString::to_string).collect();
        let open = if open.is_empty() { "none".to_owned() } else { open.join(", ") };
        return Err(format!("there is no open task {id}; the open tasks are: {open}"));
    };
    let mut text = format!("{}\nversion {}", line(team, id), task.version());
    // Writing to a string cannot fail.
    let dependents: Vec<String> =
        board.dependents(id).map(|other| other.id().to_string()).collect();
    if !dependents.is_empty() {
        let _ = write!(text, "\nblocks {}", dependents.join(", "));
    }
    for (key, value) in task.metadata() {
        let _ = write!(text, "\n{}: {}", in_line(key), in_line(value));
    }
    text.push_str("\n\n");
    text.push_str(&in_lines(task.description()));
    Ok(text)
}
