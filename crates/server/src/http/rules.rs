//! Permissions that stand in a team: shown, and taken back.

use aion_api::{CommandAcceptedResponse, RuleListResponse, RuleRow};
use aion_core::command::Command;
use aion_core::id::GrantId;
use aion_core::permission::{Grant, GrantRule};
use axum::Json;
use axum::extract::State;
use axum::response::Response;

use super::Problems;
use super::answer::accepted;
use crate::app::App;
use crate::auth::Principal;
use crate::error::Answer;
use crate::extract::{At, Key};
use crate::view;

/// List the permissions that stand.
#[utoipa::path(
    get,
    path = "/api/teams/{team_id}/rules",
    tag = "rules",
    params(("team_id" = String, Path)),
    responses((status = 200, description = "The permissions", body = RuleListResponse), Problems)
)]
pub(crate) async fn list(
    State(app): State<App>,
    principal: Principal,
    At(team): At<String>,
) -> Answer<Json<RuleListResponse>> {
    let team = app.team(&principal, &team).await?;
    let rules = app.read(&team, |team| team.grants().map(row).collect()).await?;
    Ok(Json(RuleListResponse { rules }))
}

/// Take a permission back.
#[utoipa::path(
    delete,
    path = "/api/teams/{team_id}/rules/{rule_id}",
    tag = "rules",
    params(("team_id" = String, Path), ("rule_id" = u64, Path)),
    responses((status = 202, description = "Accepted", body = CommandAcceptedResponse), Problems)
)]
pub(crate) async fn revoke(
    State(app): State<App>,
    principal: Principal,
    At((team, rule)): At<(String, u64)>,
    Key(key): Key,
) -> Answer<Response> {
    let team = app.team(&principal, &team).await?;
    let command = Command::RevokeGrant { grant: GrantId(rule) };
    let committed = app.submit(&team, &principal, key, command).await?;
    Ok(accepted(team.team(), &committed))
}

fn row(grant: &Grant) -> RuleRow {
    let (kind, what, once) = match &grant.rule {
        GrantRule::Action { action, once } => ("action", view::word(action), *once),
        GrantRule::Pattern(rule) => ("rule", rule.to_string(), false),
        GrantRule::Tool(tool) => ("tool", tool.clone(), false),
        GrantRule::Host(host) => ("host", host.clone(), false),
    };
    RuleRow {
        id: grant.id.0,
        slot_id: grant.slot.map(|slot| slot.0.into()),
        kind: kind.to_owned(),
        what,
        once,
    }
}
