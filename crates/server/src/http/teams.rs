//! Teams: made, listed, changed, held, and erased.

use std::path::Path;
use std::sync::Arc;

use aion_api::{
    CommandAcceptedResponse, CreateTeamParams, EditTeamParams, ScenarioParams, TeamListResponse,
    TeamResponse, TeamRow,
};
use aion_core::Rejection;
use aion_core::agent::{MemberSpec, PermissionMode};
use aion_core::budget::Cap;
use aion_core::command::{Caller, Command, Settings};
use aion_core::id::{AgentName, TeamId};
use aion_core::team::Team;
use aion_runtime::tools::Catalogue;
use aion_runtime::{CreateError, NewTeam, SubmitError, TeamHandle};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::Problems;
use super::answer::{accepted, tagged};
use crate::app::App;
use crate::auth::{Principal, hex};
use crate::convert::{mode, team_response, team_tag};
use crate::error::{Answer, Failure};
use crate::extract::{At, Body, IfMatch, Key, bad_name};
use crate::serve::BEGINNING;

/// What the agent of a conversation is called.
const SOLO: &str = "agent";

/// Make a team. Its lead starts at once.
#[utoipa::path(
    post,
    path = "/api/teams",
    tag = "teams",
    params(("Idempotency-Key" = Option<String>, Header, description = "Make it once per key")),
    request_body = CreateTeamParams,
    responses(
        (status = 201, description = "The team", body = TeamResponse),
        (status = 200, description = "The team that this key made before", body = TeamResponse),
        Problems,
    )
)]
pub(crate) async fn create(
    State(app): State<App>,
    principal: Principal,
    Key(key): Key,
    Body(params): Body<CreateTeamParams>,
) -> Answer<Response> {
    make(&app, &principal, key, params, Kind::Team).await
}

/// What is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Team,
    /// A team of one.
    Conversation,
}

/// Makes a team, or a conversation, once for a key.
pub(super) async fn make(
    app: &App,
    principal: &Principal,
    key: Option<String>,
    params: CreateTeamParams,
    kind: Kind,
) -> Answer<Response> {
    let house = app.service.house();
    let id = match &key {
        Some(key) => {
            let (beginning, id) = keyed(&principal.user, key, &params, kind)?;
            let rows = app.teams(principal).await?;
            let mut made = rows.iter().filter(|row| row.team.as_str().starts_with(&beginning));
            match made.next() {
                Some(row) if row.team == id => {
                    let team = app.team(principal, id.as_str()).await?;
                    return show_as(app, &team, StatusCode::OK).await;
                }
                Some(_) => return Err(Rejection::KeyReused.into()),
                None => id,
            }
        }
        None => house.ids.team(),
    };
    let agent_type = if let Some(agent_type) = params.lead.agent_type {
        agent_type
    } else {
        let catalogue = house.catalogue.catalogue();
        let agent = catalogue.default_agent(params.scenario.is_some());
        agent.map(|agent| agent.agent_type.clone()).ok_or_else(|| {
            Failure::invalid("agent.none", "no agent can be used here; see GET /api/agents")
        })?
    };
    let settings = match params.settings {
        Some(settings) => patched(&Settings::default(), &settings)?,
        None => Settings::default(),
    };
    check_agent(app, &agent_type, params.lead.model.as_deref(), settings.cap)?;
    let workspace = workspace(app, &id, params.workspace.as_deref()).await?;
    prepare(app, &id, &workspace, params.scenario).await?;
    let lead = MemberSpec {
        name: match kind {
            Kind::Team => AgentName::lead(),
            Kind::Conversation => AgentName::parse(SOLO).map_err(bad_name)?,
        },
        label: None,
        agent_type,
        model: params.lead.model,
        color: None,
        prompt: params.prompt.unwrap_or_default(),
        mode: params.lead.permission_mode.map_or_else(PermissionMode::default, mode),
        conversation: house.ids.conversation(),
        parent_call: None,
        parent_conversation: None,
    };
    let name = params.name.unwrap_or_else(|| name_of(&workspace));
    let new = NewTeam {
        name,
        owner: principal.user.clone(),
        workspace: workspace.clone(),
        solo: kind == Kind::Conversation,
        lead,
        settings,
    };
    let credential = Some(principal.credential.clone());
    match app.service.create_as(id.clone(), Caller::User, credential, new).await {
        Ok(team) => {
            app.feed.watch(&app.service, &team, BEGINNING);
            show_as(app, &team, StatusCode::CREATED).await
        }
        // The same key came twice at the same time.
        Err(CreateError::Submit(SubmitError::Rejected(Rejection::TeamExists))) if key.is_some() => {
            let team = app.team(principal, id.as_str()).await?;
            show_as(app, &team, StatusCode::OK).await
        }
        Err(error) => {
            if !matches!(error, CreateError::Submit(SubmitError::Unavailable(_))) {
                let (groundwork, id) = (Arc::clone(&app.groundwork), id.clone());
                waiting(move || groundwork.forget(&id, Path::new(&workspace))).await?;
            }
            Err(error.into())
        }
    }
}

/// Give a team another scenario; its scripted agents play it from their next start on.
#[utoipa::path(
    put,
    path = "/api/teams/{team_id}/scenario",
    tag = "teams",
    params(("team_id" = String, Path)),
    request_body = ScenarioParams,
    responses((status = 204, description = "It is kept"), Problems)
)]
pub(crate) async fn keep_scenario(
    State(app): State<App>,
    principal: Principal,
    At(team): At<String>,
    Body(params): Body<ScenarioParams>,
) -> Answer<StatusCode> {
    let team = app.team(&principal, &team).await?;
    let (groundwork, id) = (Arc::clone(&app.groundwork), team.team().clone());
    waiting(move || groundwork.keep_scenario(&id, &params.scenario)).await??;
    Ok(StatusCode::NO_CONTENT)
}

async fn prepare(
    app: &App,
    team: &TeamId,
    workspace: &str,
    scenario: Option<String>,
) -> Answer<()> {
    let (groundwork, team) = (Arc::clone(&app.groundwork), team.clone());
    let workspace = Path::new(workspace).to_owned();
    let prepared =
        waiting(move || groundwork.prepare(&team, &workspace, scenario.as_deref())).await?;
    Ok(prepared?)
}

/// Does what waits for a disk or a program where it keeps nobody else.
async fn waiting<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Answer<T> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!(%error, "the groundwork of a team fell");
        Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "daemon.fault", "the daemon made a mistake")
    })
}

/// List your teams.
#[utoipa::path(
    get,
    path = "/api/teams",
    tag = "teams",
    responses((status = 200, description = "The teams", body = TeamListResponse), Problems)
)]
pub(crate) async fn list(
    State(app): State<App>,
    principal: Principal,
) -> Answer<Json<TeamListResponse>> {
    Ok(Json(TeamListResponse { teams: rows(&app, &principal, Kind::Team).await? }))
}

/// The rows of a kind.
pub(super) async fn rows(app: &App, principal: &Principal, kind: Kind) -> Answer<Vec<TeamRow>> {
    let rows = app
        .teams(principal)
        .await?
        .into_iter()
        .filter(|row| row.solo == (kind == Kind::Conversation))
        .map(|row| TeamRow {
            id: row.team.to_string(),
            name: row.name,
            workspace: row.workspace,
            ended: row.ended,
            members: row.members,
            tasks_open: row.tasks_open,
            tasks_completed: row.tasks_done,
            requests_open: row.requests_open,
            messages_open: row.messages_open,
            seq: row.seq.0,
            updated_at_ms: row.updated_wall_ms,
        })
        .collect();
    Ok(rows)
}

/// Show a team. The `ETag` stands for its name and settings.
#[utoipa::path(
    get,
    path = "/api/teams/{team_id}",
    tag = "teams",
    params(("team_id" = String, Path)),
    responses((status = 200, description = "The team", body = TeamResponse), Problems)
)]
pub(crate) async fn show(
    State(app): State<App>,
    principal: Principal,
    At(team): At<String>,
) -> Answer<Response> {
    let team = app.team(&principal, &team).await?;
    show_as(&app, &team, StatusCode::OK).await
}

/// Change a team's name or settings.
#[utoipa::path(
    patch,
    path = "/api/teams/{team_id}",
    tag = "teams",
    params(
        ("team_id" = String, Path),
        ("If-Match" = Option<String>, Header, description = "The ETag that you read"),
    ),
    request_body = EditTeamParams,
    responses((status = 200, description = "The team", body = TeamResponse), Problems)
)]
pub(crate) async fn edit(
    State(app): State<App>,
    principal: Principal,
    At(team): At<String>,
    seen: IfMatch,
    Body(params): Body<EditTeamParams>,
) -> Answer<Response> {
    let team = app.team(&principal, &team).await?;
    let catalogue = app.service.house().catalogue.catalogue();
    let plan = move |team: &Team| {
        if !seen.accepts(&team_tag(team)) {
            return Err(Failure::stale());
        }
        let mut commands = Vec::new();
        if let Some(settings) = params.settings {
            let settings = Box::new(patched(team.settings(), &settings)?);
            check_cap(&catalogue, team, settings.cap)?;
            commands.push(Command::Configure { settings });
        }
        if let Some(name) = params.name {
            // First what the rules may refuse.
            commands.insert(0, Command::RenameTeam { name });
        }
        Ok(commands)
    };
    app.editor.edit(&team, &principal, plan).await?;
    show_as(&app, &team, StatusCode::OK).await
}

/// End a team and erase it with its transcripts.
#[utoipa::path(
    delete,
    path = "/api/teams/{team_id}",
    tag = "teams",
    params(("team_id" = String, Path)),
    responses((status = 204, description = "It is gone"), Problems)
)]
pub(crate) async fn erase(
    State(app): State<App>,
    principal: Principal,
    At(team): At<String>,
) -> Answer<StatusCode> {
    let team = app.team(&principal, &team).await?;
    match app.submit(&team, &principal, None, Command::EndTeam).await {
        Ok(_) => {}
        Err(failure) if failure.code() == "team.team_ended" => {}
        Err(failure) => return Err(failure),
    }
    let workspace = app.read(&team, |team| team.workspace().to_owned()).await?;
    app.service.erase(team.team()).await?;
    app.forget(team.team());
    let (groundwork, id) = (Arc::clone(&app.groundwork), team.team().clone());
    waiting(move || groundwork.forget(&id, Path::new(&workspace))).await?;
    app.feed.erased(team.team());
    Ok(StatusCode::NO_CONTENT)
}

/// Let no member start a turn any more; running turns end by themselves.
#[utoipa::path(
    post,
    path = "/api/teams/{team_id}/pause",
    tag = "teams",
    params(("team_id" = String, Path)),
    responses((status = 202, description = "Accepted", body = CommandAcceptedResponse), Problems)
)]
pub(crate) async fn pause(
    State(app): State<App>,
    principal: Principal,
    At(team): At<String>,
    Key(key): Key,
) -> Answer<Response> {
    tell(&app, &principal, &team, key, Command::PauseTeam).await
}

/// Let members start turns again.
#[utoipa::path(
    post,
    path = "/api/teams/{team_id}/resume",
    tag = "teams",
    params(("team_id" = String, Path)),
    responses((status = 202, description = "Accepted", body = CommandAcceptedResponse), Problems)
)]
pub(crate) async fn resume(
    State(app): State<App>,
    principal: Principal,
    At(team): At<String>,
    Key(key): Key,
) -> Answer<Response> {
    tell(&app, &principal, &team, key, Command::ResumeTeam).await
}

/// Interrupt all running turns and start no more.
#[utoipa::path(
    post,
    path = "/api/teams/{team_id}/stop",
    tag = "teams",
    params(("team_id" = String, Path)),
    responses((status = 202, description = "Accepted", body = CommandAcceptedResponse), Problems)
)]
pub(crate) async fn stop(
    State(app): State<App>,
    principal: Principal,
    At(team): At<String>,
    Key(key): Key,
) -> Answer<Response> {
    tell(&app, &principal, &team, key, Command::StopTeam).await
}

/// End a team. Its history is kept, and nothing happens in it any more.
#[utoipa::path(
    post,
    path = "/api/teams/{team_id}/archive",
    tag = "teams",
    params(("team_id" = String, Path)),
    responses((status = 202, description = "Accepted", body = CommandAcceptedResponse), Problems)
)]
pub(crate) async fn archive(
    State(app): State<App>,
    principal: Principal,
    At(team): At<String>,
    Key(key): Key,
) -> Answer<Response> {
    tell(&app, &principal, &team, key, Command::EndTeam).await
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

pub(super) async fn show_as(app: &App, team: &TeamHandle, status: StatusCode) -> Answer<Response> {
    let (tag, body) = app.read(team, |team| (team_tag(team), team_response(team))).await?;
    Ok((status, tagged(&tag, &body)).into_response())
}

/// Refuses an agent or a model that is not there, with those that are; and one whose price is not
/// known where money is capped.
pub(super) fn check_agent(
    app: &App,
    agent_type: &str,
    model: Option<&str>,
    cap: Option<Cap>,
) -> Answer<()> {
    let catalogue = app.service.house().catalogue.catalogue();
    catalogue.check(agent_type, model).map_err(|why| {
        Failure::invalid("agent.unknown", why)
            .with_choices(catalogue.usable().map(|agent| agent.agent_type.as_str()))
    })?;
    check_price(&catalogue, agent_type, model, cap)
}

/// Refuses a cap on money where somebody's price is not known.
pub(super) fn check_cap(catalogue: &Catalogue, team: &Team, cap: Option<Cap>) -> Answer<()> {
    team.agents()
        .try_for_each(|agent| check_price(catalogue, agent.agent_type(), agent.model(), cap))
}

fn check_price(
    catalogue: &Catalogue,
    agent_type: &str,
    model: Option<&str>,
    cap: Option<Cap>,
) -> Answer<()> {
    match cap {
        Some(cap) if cap.most.micro_usd > 0 => catalogue
            .check_price(agent_type, model)
            .map_err(|why| Failure::invalid("budget.price_unknown", why)),
        Some(_) | None => Ok(()),
    }
}

/// Settings with a change merged in (RFC 7396).
fn patched(settings: &Settings, change: &Map<String, Value>) -> Answer<Settings> {
    let mut merged = serde_json::to_value(settings).unwrap_or_default();
    merge(&mut merged, &Value::Object(change.clone()))
        .map_err(|why| Failure::invalid("settings.invalid", why))?;
    let settings: Settings =
        serde_json::from_value(merged).map_err(|why| Failure::invalid("settings.invalid", why))?;
    for (word, rule) in settings.rules.all() {
        aion_runtime::check_rule(rule).map_err(|why| {
            let detail = format!("rules.{}: {rule}: {why}", word.as_str());
            Failure::invalid("settings.invalid", detail)
        })?;
    }
    Ok(settings)
}

fn merge(into: &mut Value, change: &Value) -> Result<(), String> {
    match (into, change) {
        (Value::Object(fields), Value::Object(changes)) => {
            for (name, change) in changes {
                if change.is_null() {
                    fields.remove(name);
                } else {
                    merge(fields.entry(name.as_str()).or_insert(Value::Null), change)
                        .map_err(|why| format!("{name}: {why}"))?;
                }
            }
        }
        // A list would pass for an object whose fields come in order.
        (Value::Object(_), _) => return Err("it has to be an object".to_owned()),
        (into, change) => *into = change.clone(),
    }
    Ok(())
}

/// The handle of the team that a key makes: its beginning stands for the key, its end for what was
/// asked for with it.
fn keyed(user: &str, key: &str, params: &CreateTeamParams, kind: Kind) -> Answer<(String, TeamId)> {
    let content = serde_json::to_vec(params).unwrap_or_default();
    let of_key = Sha256::new()
        .chain_update((user.len() as u64).to_le_bytes())
        .chain_update(user)
        .chain_update(key)
        .chain_update(match kind {
            Kind::Team => &b""[..],
            Kind::Conversation => b"\0conversation",
        })
        .finalize();
    let beginning = format!("{}-", hex(&of_key[..12]));
    let id = format!("{beginning}{}", hex(&Sha256::digest(content)[..4]));
    let id = TeamId::new(id).map_err(|why| Failure::invalid("team.id", why))?;
    Ok((beginning, id))
}

/// The directory that was asked for, or a fresh one.
async fn workspace(app: &App, team: &TeamId, asked: Option<&str>) -> Answer<String> {
    let Some(asked) = asked.filter(|path| !path.is_empty()) else {
        let fresh = app.workspaces.join(team.as_str());
        tokio::fs::create_dir_all(&fresh).await.map_err(|error| {
            tracing::error!(%error, "a fresh workspace could not be made");
            let detail = "a fresh workspace could not be made";
            Failure::new(StatusCode::SERVICE_UNAVAILABLE, "workspace.unavailable", detail)
        })?;
        return Ok(fresh.display().to_string());
    };
    let bad = |why: &str| Failure::invalid("workspace.unusable", why);
    if !Path::new(asked).is_absolute() {
        return Err(bad("the workspace has to be an absolute path"));
    }
    match tokio::fs::metadata(asked).await {
        Ok(meta) if meta.is_dir() => Ok(asked.to_owned()),
        Ok(_) | Err(_) => Err(bad("the workspace has to be a directory that is there")),
    }
}

fn name_of(workspace: &str) -> String {
    Path::new(workspace)
        .file_name()
        .and_then(|name| name.to_str())
        .map_or_else(|| "team".to_owned(), |name| name.chars().take(40).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_change_field_by_field() {
        let check = |change: Value, expect: Result<(bool, u32), &str>| {
            let fields = change.as_object().unwrap();
            let got = patched(&Settings::default(), fields)
                .map(|settings| (settings.auto_claim, settings.limits.members))
                .map_err(|failure| failure.code().to_owned());
            assert_eq!(got, expect.map_err(str::to_owned), "{change}");
        };
        check(json!({}), Ok((true, 16)));
        check(json!({ "auto_claim": false }), Ok((false, 16)));
        check(json!({ "limits": { "members": 3 } }), Ok((true, 3)));
        check(json!({ "limits": { "members": null } }), Ok((true, 16)));
        check(json!({ "limits": { "members": -1 } }), Err("settings.invalid"));
        check(json!({ "no_such": 1 }), Err("settings.invalid"));
        check(json!({ "limits": [] }), Err("settings.invalid"));
    }
}
