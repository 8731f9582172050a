//! How the daemon is: health, numbers, and what agents it knows.

use aion_api::{CatalogueParams, CatalogueResponse, HealthResponse, TrialResponse};
use aion_runtime::tools::TrialError;
use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::Problems;
use crate::app::App;
use crate::auth::Principal;
use crate::catalogue::catalogue_rows;
use crate::error::{Answer, Failure};
use crate::extract::{Asked, At};

/// Say whether the daemon is well.
#[utoipa::path(
    get,
    path = "/api/health",
    tag = "daemon",
    responses((status = 200, description = "It is", body = HealthResponse), Problems)
)]
pub(crate) async fn health(
    State(app): State<App>,
    principal: Principal,
) -> Answer<Json<HealthResponse>> {
    let teams = app.teams(&principal).await?;
    Ok(Json(HealthResponse {
        status: "ok".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        teams: teams.len() as u64,
    }))
}

/// Give the daemon's numbers, as Prometheus reads them.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "daemon",
    responses(
        (status = 200, description = "The numbers", body = String, content_type = "text/plain"),
        Problems,
    )
)]
pub(crate) async fn metrics(State(app): State<App>, principal: Principal) -> Answer<Response> {
    let teams = app.teams(&principal).await?;
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Ok((kind, app.counts.text(&teams)).into_response())
}

/// Start an agent that is a program, let it introduce itself and open a session, and end it. It is
/// asked nothing, so that it costs nothing.
#[utoipa::path(
    post,
    path = "/api/agents/{agent_type}/test",
    tag = "daemon",
    params(("agent_type" = String, Path)),
    responses((status = 200, description = "It is as it should be", body = TrialResponse), Problems)
)]
pub(crate) async fn try_out(
    State(app): State<App>,
    At(agent_type): At<String>,
) -> Answer<Json<TrialResponse>> {
    let tried = app.service.house().catalogue.try_out(&agent_type).await;
    let trial = tried.map_err(|error| {
        let (status, code) = match &error {
            TrialError::Unknown(_) => (StatusCode::NOT_FOUND, "agent.unknown"),
            TrialError::Failed(_) => (StatusCode::BAD_GATEWAY, "agent.failed"),
        };
        Failure::new(status, code, error.to_string())
    })?;
    Ok(Json(TrialResponse {
        agent_type,
        name: trial.name,
        version: trial.version,
        modes: trial.modes,
        models: trial.models,
        reopens: trial.reopens,
        steers: trial.steers,
        took_ms: u64::try_from(trial.took.as_millis()).unwrap_or(u64::MAX),
    }))
}

/// List the agents that members can be, with why some cannot be used.
#[utoipa::path(
    get,
    path = "/api/agents",
    tag = "daemon",
    params(CatalogueParams),
    responses((status = 200, description = "The agents", body = CatalogueResponse), Problems)
)]
pub(crate) async fn catalogue(
    State(app): State<App>,
    Asked(params): Asked<CatalogueParams>,
) -> Json<CatalogueResponse> {
    let known = &app.service.house().catalogue;
    let catalogue = if params.refresh { known.look_again().await } else { known.catalogue() };
    Json(CatalogueResponse { agents: catalogue_rows(&catalogue) })
}
