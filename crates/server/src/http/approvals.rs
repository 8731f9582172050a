//! The inbox: what waits for the person's decision in all teams, and the decision.

use aion_api::{ApprovalListResponse, CommandAcceptedResponse, DecisionParams};
use axum::Json;
use axum::extract::State;
use axum::response::Response;

use super::Problems;
use super::answer::accepted;
use crate::app::App;
use crate::auth::Principal;
use crate::convert::{approvals, decision_command, parse_request_handle};
use crate::error::{Answer, Failure};
use crate::extract::{At, Body, Key};

/// List what waits for a decision, in all your teams.
#[utoipa::path(
    get,
    path = "/api/approvals",
    tag = "approvals",
    responses((status = 200, description = "The requests", body = ApprovalListResponse), Problems)
)]
pub(crate) async fn list(
    State(app): State<App>,
    principal: Principal,
) -> Answer<Json<ApprovalListResponse>> {
    let mut all = Vec::new();
    for row in app.teams(&principal).await? {
        if row.ended || row.requests_open == 0 {
            continue;
        }
        let team = app.team(&principal, row.team.as_str()).await?;
        let now = team.now();
        all.extend(app.read(&team, move |team| approvals(team, now)).await?);
    }
    Ok(Json(ApprovalListResponse { approvals: all }))
}

/// Decide a request. The first valid decision counts; a later one is refused.
#[utoipa::path(
    post,
    path = "/api/approvals/{request_id}",
    tag = "approvals",
    params(
        ("request_id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "Decide once per key"),
    ),
    request_body = DecisionParams,
    responses((status = 202, description = "Decided", body = CommandAcceptedResponse), Problems)
)]
pub(crate) async fn decide(
    State(app): State<App>,
    principal: Principal,
    At(handle): At<String>,
    Key(key): Key,
    Body(params): Body<DecisionParams>,
) -> Answer<Response> {
    let none = || Failure::not_found("team.unknown_request", "there is no such request");
    let (team, request) = parse_request_handle(&handle).ok_or_else(none)?;
    let team = app
        .team(&principal, team.as_str())
        .await
        .map_err(|failure| if failure == Failure::no_team() { none() } else { failure })?;
    let command = decision_command(request, params)?;
    let committed = app.submit(&team, &principal, key, command).await?;
    Ok(accepted(team.team(), &committed))
}
