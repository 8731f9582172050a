//! `aion task`: a team's board, shown and changed; the rules decide what a change leads to.

use aion_api::{
    CreateTaskParams, EditTaskParams, Exit, TaskListResponse, TaskResponse, TaskStatusParam,
    TeamRow,
};
use serde_json::json;

use super::Reading;
use super::team::print_tasks;
use crate::args::{self, AddTask, AssignTask, CancelTask, Column, OfTeam, OneTask, OneTeam};
use crate::client::{Client, connect, find_member, find_team};
use crate::confirm::confirm;
use crate::exit::{Failure, Outcome};
use crate::history::{fold, names};
use crate::terminal::{clean_line, clean_text};
use crate::{output, view};

pub(super) async fn run(command: args::Task, json: bool) -> Outcome {
    match command {
        args::Task::Ls(one) => list(&one, json).await,
        args::Task::Add(args) => add(args, json).await,
        args::Task::Show(one) => show(&one, json).await,
        args::Task::Assign(args) => assign(&args, json).await,
        args::Task::Move(args) => {
            let status = match args.to {
                Column::Pending => TaskStatusParam::Pending,
                Column::InProgress => TaskStatusParam::InProgress,
                Column::Done => TaskStatusParam::Completed,
            };
            let task = Task::find(&args.of, &args.task).await?;
            task.edit(EditTaskParams { status: Some(status), ..EditTaskParams::default() }, json)
                .await
        }
        args::Task::Done(one) => {
            let status = Some(TaskStatusParam::Completed);
            let task = Task::find(&one.of, &one.task).await?;
            task.edit(EditTaskParams { status, ..EditTaskParams::default() }, json).await
        }
        args::Task::Cancel(args) => cancel(&args, json).await,
    }
}

async fn list(one: &OneTeam, json: bool) -> Outcome {
    let tasks = if one.reach.url.is_some() {
        let client = connect(&one.reach).await?;
        let team = find_team(&client, one.team.as_deref()).await?;
        let list: TaskListResponse = client.get(&format!("/api/teams/{}/tasks", team.id)).await?;
        list.tasks.into_iter().map(|task| task.row).collect()
    } else {
        let reading = Reading::open(&one.reach.data).await?;
        let (store, row) = reading.team(one.team.as_deref())?;
        let folded = fold(store, &row.team, None).await?;
        let names = names(store, &row.team, &folded.team).await?;
        view::tasks(&folded.team, |slot| names.get(&folded.team, slot))
    };
    if json {
        output::json(&tasks)?;
    } else {
        print_tasks(&tasks)?;
    }
    Ok(Exit::Success)
}

/// A task at its daemon.
struct Task {
    client: Client,
    team: TeamRow,
    number: u32,
}

impl Task {
    async fn find(of: &OfTeam, task: &str) -> Result<Self, Failure> {
        let number = number(task)?;
        let client = connect(&of.reach).await?;
        let team = find_team(&client, of.team.as_deref()).await?;
        Ok(Self { client, team, number })
    }

    fn path(&self) -> String {
        format!("/api/teams/{}/tasks/{}", self.team.id, self.number)
    }

    async fn edit(&self, params: EditTaskParams, json: bool) -> Outcome {
        let changed: Option<TaskResponse> = self.client.patch(&self.path(), &params).await?;
        match changed {
            Some(task) if json => output::json(&task)?,
            Some(task) => print_tasks(std::slice::from_ref(&task.row))?,
            None if json => output::json(&json!({ "id": self.number, "deleted": true }))?,
            None => output::line(&format!("#{} is off the board", self.number))?,
        }
        Ok(Exit::Success)
    }
}

async fn add(args: AddTask, json: bool) -> Outcome {
    let blocked_by = args.after.iter().map(|task| number(task)).collect::<Result<_, _>>()?;
    let client = connect(&args.of.reach).await?;
    let team = find_team(&client, args.of.team.as_deref()).await?;
    let owner_slot_id = match &args.owner {
        Some(owner) => Some(slot(&client, &team, owner).await?),
        None => None,
    };
    let params = CreateTaskParams {
        subject: args.subject,
        description: args.description,
        active_form: None,
        owner_slot_id,
        blocked_by,
    };
    let path = format!("/api/teams/{}/tasks", team.id);
    let task: TaskResponse = client.persist(&path, &params).await?;
    if json {
        output::json(&task)?;
    } else {
        print_tasks(std::slice::from_ref(&task.row))?;
    }
    Ok(Exit::Success)
}

async fn show(one: &OneTask, json: bool) -> Outcome {
    let task = Task::find(&one.of, &one.task).await?;
    let shown: TaskResponse = task.client.get(&task.path()).await?;
    if json {
        output::json(&shown)?;
        return Ok(Exit::Success);
    }
    print_tasks(std::slice::from_ref(&shown.row))?;
    if let Some(description) = shown.description.filter(|text| !text.is_empty()) {
        output::line("")?;
        output::line(&clean_text(&description))?;
    }
    Ok(Exit::Success)
}

async fn assign(args: &AssignTask, json: bool) -> Outcome {
    let task = Task::find(&args.of, &args.task).await?;
    let params = if args.member == "-" {
        EditTaskParams { release: true, ..EditTaskParams::default() }
    } else {
        let owner = slot(&task.client, &task.team, &args.member).await?;
        EditTaskParams { owner_slot_id: Some(owner), ..EditTaskParams::default() }
    };
    task.edit(params, json).await
}

async fn cancel(args: &CancelTask, json: bool) -> Outcome {
    let task = Task::find(&args.of, &args.task).await?;
    let shown: TaskResponse = task.client.get(&task.path()).await?;
    let subject = clean_line(&shown.row.subject, 80);
    let preview = [format!("#{} {subject} goes off the board.", task.number)];
    confirm(&preview, "Take it off?", args.yes, json)?;
    let status = Some(TaskStatusParam::Deleted);
    task.edit(EditTaskParams { status, ..EditTaskParams::default() }, json).await
}

async fn slot(client: &Client, team: &TeamRow, member: &str) -> Result<u32, Failure> {
    let member = find_member(client, &team.id, member).await?;
    u32::try_from(member.slot_id).map_err(|_| Failure::usage("the member has no slot"))
}

/// Reads `3` or `#3`.
fn number(text: &str) -> Result<u32, Failure> {
    text.strip_prefix('#').unwrap_or(text).parse().map_err(|_| {
        Failure::usage(format!("{:?} is no task's number; it looks like 3", clean_line(text, 40)))
    })
}
