//! The task board: read and changed by the person.

use std::collections::{BTreeMap, BTreeSet};

use aion_api::{CreateTaskParams, EditTaskParams, TaskListResponse, TaskResponse};
use aion_core::command::Command;
use aion_core::event::Event;
use aion_core::id::{SlotId, TaskId};
use aion_core::task::TaskChange;
use aion_runtime::TeamHandle;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::Problems;
use super::answer::tagged;
use crate::app::App;
use crate::auth::Principal;
use crate::convert::{self, task_status, tasks};
use crate::error::{Answer, Failure};
use crate::extract::{At, Body, IfMatch, Key};

/// List the tasks.
#[utoipa::path(
    get,
    path = "/api/teams/{team_id}/tasks",
    tag = "tasks",
    params(("team_id" = String, Path)),
    responses((status = 200, description = "The tasks", body = TaskListResponse), Problems)
)]
pub(crate) async fn list(
    State(app): State<App>,
    principal: Principal,
    At(team): At<String>,
) -> Answer<Json<TaskListResponse>> {
    let team = app.team(&principal, &team).await?;
    let tasks = app.read(&team, tasks).await?;
    Ok(Json(TaskListResponse { tasks }))
}

/// Put a task on the board.
#[utoipa::path(
    post,
    path = "/api/teams/{team_id}/tasks",
    tag = "tasks",
    params(
        ("team_id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "Do it once per key"),
    ),
    request_body = CreateTaskParams,
    responses((status = 201, description = "The task", body = TaskResponse), Problems)
)]
pub(crate) async fn create(
    State(app): State<App>,
    principal: Principal,
    At(team): At<String>,
    Key(key): Key,
    Body(params): Body<CreateTaskParams>,
) -> Answer<Response> {
    let team = app.team(&principal, &team).await?;
    let command = Command::CreateTask {
        subject: params.subject,
        description: params.description,
        active_form: params.active_form,
        owner: params.owner_slot_id.map(SlotId),
        blocked_by: ids(params.blocked_by),
        metadata: BTreeMap::new(),
    };
    let committed = app.submit(&team, &principal, key, command).await?;
    let made = committed.events.iter().find_map(|recorded| match &recorded.event {
        Event::TaskCreated { task, .. } => Some(*task),
        _ => None,
    });
    let task = made
        .or_else(|| committed.receipt.as_ref().and_then(|receipt| receipt.task))
        .ok_or_else(|| Failure::new(StatusCode::CONFLICT, "team.no_task", "no task was made"))?;
    Ok((StatusCode::CREATED, show_as(&app, &team, task).await?).into_response())
}

/// Show a task. The `ETag` stands for its version.
#[utoipa::path(
    get,
    path = "/api/teams/{team_id}/tasks/{task_id}",
    tag = "tasks",
    params(("team_id" = String, Path), ("task_id" = u32, Path)),
    responses((status = 200, description = "The task", body = TaskResponse), Problems)
)]
pub(crate) async fn show(
    State(app): State<App>,
    principal: Principal,
    At((team, task)): At<(String, u32)>,
) -> Answer<Response> {
    let team = app.team(&principal, &team).await?;
    show_as(&app, &team, TaskId(task)).await
}

/// Change a task.
#[utoipa::path(
    patch,
    path = "/api/teams/{team_id}/tasks/{task_id}",
    tag = "tasks",
    params(
        ("team_id" = String, Path),
        ("task_id" = u32, Path),
        ("If-Match" = Option<String>, Header, description = "The ETag that you read"),
    ),
    request_body = EditTaskParams,
    responses(
        (status = 200, description = "The task", body = TaskResponse),
        (status = 204, description = "It is off the board"),
        Problems,
    )
)]
pub(crate) async fn edit(
    State(app): State<App>,
    principal: Principal,
    At((team, task)): At<(String, u32)>,
    seen: IfMatch,
    Body(params): Body<EditTaskParams>,
) -> Answer<Response> {
    let team = app.team(&principal, &team).await?;
    let task = TaskId(task);
    let version = match &seen {
        IfMatch::Anything => None,
        // The rules compare the version themselves, in the same step as the change.
        IfMatch::OneOf(tags) => match tags.as_slice() {
            [tag] => Some(tag.parse().map_err(|_| Failure::stale())?),
            _ => return Err(Failure::stale()),
        },
    };
    if params.release && params.owner_slot_id.is_some() {
        return Err(Failure::invalid(
            "body.invalid",
            "a task is released or given to a member, not both",
        ));
    }
    let change = TaskChange {
        subject: params.subject,
        description: params.description,
        active_form: params.active_form,
        status: params.status.map(task_status),
        owner: match params.owner_slot_id {
            Some(slot) => Some(Some(SlotId(slot))),
            None => params.release.then_some(None),
        },
        add_blocked_by: ids(params.add_blocked_by),
        remove_blocked_by: ids(params.remove_blocked_by),
        metadata: BTreeMap::new(),
    };
    let command = Command::UpdateTask { task, change: Box::new(change), version };
    app.submit(&team, &principal, None, command).await?;
    match show_as(&app, &team, task).await {
        Err(failure) if failure.code() == "team.unknown_task" => {
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        shown => shown,
    }
}

fn ids(numbers: Vec<u32>) -> BTreeSet<TaskId> {
    numbers.into_iter().map(TaskId).collect()
}

async fn show_as(app: &App, team: &TeamHandle, task: TaskId) -> Answer<Response> {
    let found = app.read(team, move |read| convert::task(read, task)).await?;
    let body = found.ok_or_else(|| {
        Failure::not_found("team.unknown_task", format!("there is no task {task}"))
    })?;
    // A completed task does not change any more.
    let tag = body.row.version.map_or_else(|| "done".to_owned(), |version| version.to_string());
    Ok(tagged(&tag, &body))
}
