//! Members: brought in, shown, steered, and sent away.

use aion_api::{
    AgentListResponse, AgentResponse, CommandAcceptedResponse, EditAgentParams, ModeParams,
    ModelParams, SpawnAgentParams, SpawnAgentResponse, StopAgentParams,
};
use aion_core::agent::{MemberSpec, PermissionMode};
use aion_core::command::Command;
use aion_core::event::Event;
use aion_core::id::{AgentName, SlotId};
use aion_core::team::Team;
use aion_runtime::TeamHandle;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::Problems;
use super::answer::{accepted, tagged};
use super::teams::check_agent;
use crate::app::App;
use crate::auth::Principal;
use crate::convert::{agent, agent_tag, agents, mode};
use crate::error::{Answer, Failure};
use crate::extract::{At, Body, IfMatch, Key, MaybeBody, bad_name};

/// Bring a member in. The answer comes when it is registered; its process starts meanwhile.
#[utoipa::path(
    post,
    path = "/api/teams/{team_id}/agents",
    tag = "agents",
    params(
        ("team_id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "Do it once per key"),
    ),
    request_body = SpawnAgentParams,
    responses((status = 202, description = "Registered", body = SpawnAgentResponse), Problems)
)]
pub(crate) async fn spawn(
    State(app): State<App>,
    principal: Principal,
    At(team): At<String>,
    Key(key): Key,
    Body(params): Body<SpawnAgentParams>,
) -> Answer<Response> {
    let team = app.team(&principal, &team).await?;
    let name = AgentName::parse(&params.name).map_err(bad_name)?;
    let read = |team: &Team| {
        let lead = team.lead()?;
        Some((lead.agent_type().to_owned(), lead.model().map(str::to_owned)))
    };
    let (lead, cap) = app.read(&team, move |team| (read(team), team.budget().cap())).await?;
    let (lead_type, lead_model) = lead.unzip();
    // A member of the same agent thinks with the same model, unless another is asked for.
    let same = params.agent_type.is_none() || params.agent_type == lead_type;
    let model = params.model.or(lead_model.flatten().filter(|_| same));
    let agent_type = params
        .agent_type
        .or(lead_type)
        .ok_or_else(|| Failure::invalid("agent.none", "the team has no lead to take after"))?;
    check_agent(&app, &agent_type, model.as_deref(), cap)?;
    let conversation = match &key {
        // A repetition has to be the same command, to the letter.
        Some(key) => crate::convert::keyed_conversation(team.team(), key)?,
        None => app.service.house().ids.conversation(),
    };
    let member = MemberSpec {
        name: name.clone(),
        label: None,
        agent_type,
        model,
        color: params.color,
        prompt: params.prompt,
        mode: if params.plan_mode_required {
            PermissionMode::Plan
        } else {
            PermissionMode::default()
        },
        conversation,
        parent_call: None,
        parent_conversation: None,
    };
    let command = Command::SpawnAgent { member: Box::new(member) };
    let committed = app.submit(&team, &principal, key, command).await?;
    let spawned = committed.events.iter().find_map(|recorded| match &recorded.event {
        Event::AgentSpawned { slot, .. } => Some((*slot, recorded.seq)),
        _ => None,
    });
    let repeated = || {
        let slot = committed.receipt.as_ref().and_then(|receipt| receipt.slot)?;
        Some((slot, committed.seq))
    };
    let (slot, seq) = spawned.or_else(repeated).ok_or_else(|| {
        Failure::new(StatusCode::CONFLICT, "team.not_spawned", "nobody was brought in")
    })?;
    let body = SpawnAgentResponse {
        agent_id: format!("{name}@{}", team.team()),
        slot_id: slot.0.into(),
        ticket: format!("{slot}.{seq}"),
    };
    Ok((StatusCode::ACCEPTED, Json(body)).into_response())
}

/// List the members.
#[utoipa::path(
    get,
    path = "/api/teams/{team_id}/agents",
    tag = "agents",
    params(("team_id" = String, Path)),
    responses((status = 200, description = "The members", body = AgentListResponse), Problems)
)]
pub(crate) async fn list(
    State(app): State<App>,
    principal: Principal,
    At(team): At<String>,
) -> Answer<Json<AgentListResponse>> {
    let team = app.team(&principal, &team).await?;
    let agents = app.read(&team, agents).await?;
    Ok(Json(AgentListResponse { agents }))
}

/// Show a member. The `ETag` stands for its name, label, model and mode.
#[utoipa::path(
    get,
    path = "/api/teams/{team_id}/agents/{slot_id}",
    tag = "agents",
    params(("team_id" = String, Path), ("slot_id" = u32, Path)),
    responses((status = 200, description = "The member", body = AgentResponse), Problems)
)]
pub(crate) async fn show(
    State(app): State<App>,
    principal: Principal,
    At((team, slot)): At<(String, u32)>,
) -> Answer<Response> {
    let team = app.team(&principal, &team).await?;
    show_as(&app, &team, SlotId(slot)).await
}

/// Give a member another name.
#[utoipa::path(
    patch,
    path = "/api/teams/{team_id}/agents/{slot_id}",
    tag = "agents",
    params(
        ("team_id" = String, Path),
        ("slot_id" = u32, Path),
        ("If-Match" = Option<String>, Header, description = "The ETag that you read"),
    ),
    request_body = EditAgentParams,
    responses((status = 200, description = "The member", body = AgentResponse), Problems)
)]
pub(crate) async fn edit(
    State(app): State<App>,
    principal: Principal,
    At((team, slot)): At<(String, u32)>,
    seen: IfMatch,
    Body(params): Body<EditAgentParams>,
) -> Answer<Response> {
    let team = app.team(&principal, &team).await?;
    let slot = SlotId(slot);
    let name = AgentName::parse(&params.name).map_err(bad_name)?;
    let command = Command::RenameAgent { slot, name, label: params.label };
    let plan = move |team: &aion_core::team::Team| {
        if team.agent(slot).is_some_and(|agent| !seen.accepts(&agent_tag(agent))) {
            return Err(Failure::stale());
        }
        // A slot that nobody has is refused by the rules, with those that are.
        Ok(vec![command])
    };
    app.editor.edit(&team, &principal, plan).await?;
    show_as(&app, &team, slot).await
}

/// End a member at once and take it out of the team.
#[utoipa::path(
    delete,
    path = "/api/teams/{team_id}/agents/{slot_id}",
    tag = "agents",
    params(("team_id" = String, Path), ("slot_id" = u32, Path)),
    responses((status = 202, description = "Accepted", body = CommandAcceptedResponse), Problems)
)]
pub(crate) async fn remove(
    State(app): State<App>,
    principal: Principal,
    At((team, slot)): At<(String, u32)>,
    Key(key): Key,
) -> Answer<Response> {
    tell(&app, &principal, &team, key, Command::KillAgent { slot: SlotId(slot) }).await
}

/// End a member's running turn; it reads its mail next.
#[utoipa::path(
    post,
    path = "/api/teams/{team_id}/agents/{slot_id}/interrupt",
    tag = "agents",
    params(("team_id" = String, Path), ("slot_id" = u32, Path)),
    responses((status = 202, description = "Accepted", body = CommandAcceptedResponse), Problems)
)]
pub(crate) async fn interrupt(
    State(app): State<App>,
    principal: Principal,
    At((team, slot)): At<(String, u32)>,
    Key(key): Key,
) -> Answer<Response> {
    tell(&app, &principal, &team, key, Command::Interrupt { slot: SlotId(slot) }).await
}

/// Let a member start no more turns.
#[utoipa::path(
    post,
    path = "/api/teams/{team_id}/agents/{slot_id}/pause",
    tag = "agents",
    params(("team_id" = String, Path), ("slot_id" = u32, Path)),
    responses((status = 202, description = "Accepted", body = CommandAcceptedResponse), Problems)
)]
pub(crate) async fn pause(
    State(app): State<App>,
    principal: Principal,
    At((team, slot)): At<(String, u32)>,
    Key(key): Key,
) -> Answer<Response> {
    tell(&app, &principal, &team, key, Command::PauseAgent { slot: SlotId(slot) }).await
}

/// Let a member start turns again.
#[utoipa::path(
    post,
    path = "/api/teams/{team_id}/agents/{slot_id}/resume",
    tag = "agents",
    params(("team_id" = String, Path), ("slot_id" = u32, Path)),
    responses((status = 202, description = "Accepted", body = CommandAcceptedResponse), Problems)
)]
pub(crate) async fn resume(
    State(app): State<App>,
    principal: Principal,
    At((team, slot)): At<(String, u32)>,
    Key(key): Key,
) -> Answer<Response> {
    tell(&app, &principal, &team, key, Command::ResumeAgent { slot: SlotId(slot) }).await
}

/// Ask a member to leave. It answers; where it does not, you are asked.
#[utoipa::path(
    post,
    path = "/api/teams/{team_id}/agents/{slot_id}/stop",
    tag = "agents",
    params(("team_id" = String, Path), ("slot_id" = u32, Path)),
    request_body(content = Option<StopAgentParams>),
    responses((status = 202, description = "Accepted", body = CommandAcceptedResponse), Problems)
)]
pub(crate) async fn stop(
    State(app): State<App>,
    principal: Principal,
    At((team, slot)): At<(String, u32)>,
    Key(key): Key,
    MaybeBody(params): MaybeBody<StopAgentParams>,
) -> Answer<Response> {
    let command = Command::RequestShutdown { slot: SlotId(slot), reason: params.reason };
    tell(&app, &principal, &team, key, command).await
}

/// End a member without asking it.
#[utoipa::path(
    post,
    path = "/api/teams/{team_id}/agents/{slot_id}/kill",
    tag = "agents",
    params(("team_id" = String, Path), ("slot_id" = u32, Path)),
    responses((status = 202, description = "Accepted", body = CommandAcceptedResponse), Problems)
)]
pub(crate) async fn kill(
    State(app): State<App>,
    principal: Principal,
    At((team, slot)): At<(String, u32)>,
    Key(key): Key,
) -> Answer<Response> {
    tell(&app, &principal, &team, key, Command::KillAgent { slot: SlotId(slot) }).await
}

/// Start a failed member again.
#[utoipa::path(
    post,
    path = "/api/teams/{team_id}/agents/{slot_id}/restart",
    tag = "agents",
    params(("team_id" = String, Path), ("slot_id" = u32, Path)),
    responses((status = 202, description = "Accepted", body = CommandAcceptedResponse), Problems)
)]
pub(crate) async fn restart(
    State(app): State<App>,
    principal: Principal,
    At((team, slot)): At<(String, u32)>,
    Key(key): Key,
) -> Answer<Response> {
    tell(&app, &principal, &team, key, Command::RestartAgent { slot: SlotId(slot) }).await
}

/// Set a member's permission mode.
#[utoipa::path(
    post,
    path = "/api/teams/{team_id}/agents/{slot_id}/mode",
    tag = "agents",
    params(("team_id" = String, Path), ("slot_id" = u32, Path)),
    request_body = ModeParams,
    responses((status = 202, description = "Accepted", body = CommandAcceptedResponse), Problems)
)]
pub(crate) async fn set_mode(
    State(app): State<App>,
    principal: Principal,
    At((team, slot)): At<(String, u32)>,
    Key(key): Key,
    Body(params): Body<ModeParams>,
) -> Answer<Response> {
    let command = Command::SetMode { slot: SlotId(slot), mode: mode(params.mode) };
    tell(&app, &principal, &team, key, command).await
}

/// Set a member's model; it counts from its next turn.
#[utoipa::path(
    post,
    path = "/api/teams/{team_id}/agents/{slot_id}/model",
    tag = "agents",
    params(("team_id" = String, Path), ("slot_id" = u32, Path)),
    request_body = ModelParams,
    responses((status = 202, description = "Accepted", body = CommandAcceptedResponse), Problems)
)]
pub(crate) async fn set_model(
    State(app): State<App>,
    principal: Principal,
    At((team, slot)): At<(String, u32)>,
    Key(key): Key,
    Body(params): Body<ModelParams>,
) -> Answer<Response> {
    let handle = app.team(&principal, &team).await?;
    let slot = SlotId(slot);
    let known = app
        .read(&handle, move |team| {
            Some((team.agent(slot)?.agent_type().to_owned(), team.budget().cap()))
        })
        .await?;
    if let Some((agent_type, cap)) = known {
        check_agent(&app, &agent_type, params.model.as_deref(), cap)?;
    }
    tell(&app, &principal, &team, key, Command::SetModel { slot, model: params.model }).await
}

async fn tell(
    app: &App,
    principal: &Principal,
    team: &str,
    key: Option<String>,
    command: Command,
) -> Answer<Response> {
    let team = app.team(principal, team).await?;
    let committed = app.submit(&team, principal, key, command).await?;
    Ok(accepted(team.team(), &committed))
}

async fn show_as(app: &App, team: &TeamHandle, slot: SlotId) -> Answer<Response> {
    let found = app
        .read(team, move |team| Some((agent_tag(team.agent(slot)?), agent(team, slot)?)))
        .await?;
    let (tag, body) =
        found.ok_or_else(|| Failure::not_found("team.unknown_agent", "nobody has that slot"))?;
    Ok(tagged(&tag, &body))
}
