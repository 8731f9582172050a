//! Members' credentials, for programs that a person lets act as a member; the owner alone has them
//! made.

use aion_api::{CredentialResponse, CredentialStateResponse};
use aion_core::id::SlotId;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::Problems;
use crate::app::App;
use crate::auth::Principal;
use crate::error::{Answer, Failure};
use crate::extract::At;
use crate::mcp::{alive, endpoint};

/// Make a credential with which a program acts as this member, by the team's tools (MCP). An earlier
/// one of the member ends. It is shown this once.
#[utoipa::path(
    post,
    path = "/api/teams/{team_id}/agents/{slot_id}/credential",
    tag = "credentials",
    params(("team_id" = String, Path), ("slot_id" = u32, Path)),
    responses((status = 201, description = "Made", body = CredentialResponse), Problems)
)]
pub(crate) async fn issue(
    State(app): State<App>,
    principal: Principal,
    At((team, slot)): At<(String, u32)>,
) -> Answer<Response> {
    let team = app.team(&principal, &team).await?;
    let slot = SlotId(slot);
    let (generation, lives) = app
        .read(&team, move |team| {
            let generation = team.agent(slot)?.generation();
            Some((generation, alive(team, slot, generation).is_some()))
        })
        .await?
        .ok_or_else(nobody)?;
    if !lives {
        let detail = "the member has failed; start it again first";
        return Err(Failure::new(StatusCode::CONFLICT, "credential.failed_member", detail));
    }
    let issued = app.members.draw(team.team(), slot, generation).ok_or_else(|| {
        let detail = "the member was started again meanwhile; ask again";
        Failure::new(StatusCode::CONFLICT, "credential.earlier_start", detail)
    })?;
    let body = CredentialResponse {
        slot_id: slot.0.into(),
        url: endpoint(issued.port),
        port: issued.port,
        token: issued.token.reveal().to_owned(),
    };
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

/// Show how the holder of a member's credential is doing.
#[utoipa::path(
    get,
    path = "/api/teams/{team_id}/agents/{slot_id}/credential",
    tag = "credentials",
    params(("team_id" = String, Path), ("slot_id" = u32, Path)),
    responses((status = 200, description = "It is there", body = CredentialStateResponse), Problems)
)]
pub(crate) async fn show(
    State(app): State<App>,
    principal: Principal,
    At((team, slot)): At<(String, u32)>,
) -> Answer<Json<CredentialStateResponse>> {
    let team = app.team(&principal, &team).await?;
    let standing = app.members.standing(team.team(), SlotId(slot)).ok_or_else(none)?;
    Ok(Json(CredentialStateResponse {
        slot_id: slot.into(),
        ready: standing.ready,
        connections: standing.connections as u64,
    }))
}

/// End a member's credential, and what is connected by it.
#[utoipa::path(
    delete,
    path = "/api/teams/{team_id}/agents/{slot_id}/credential",
    tag = "credentials",
    params(("team_id" = String, Path), ("slot_id" = u32, Path)),
    responses((status = 204, description = "Ended"), Problems)
)]
pub(crate) async fn end(
    State(app): State<App>,
    principal: Principal,
    At((team, slot)): At<(String, u32)>,
) -> Answer<StatusCode> {
    let team = app.team(&principal, &team).await?;
    if app.members.end_slot(team.team(), SlotId(slot)) {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(none())
    }
}

fn nobody() -> Failure {
    Failure::not_found("team.unknown_agent", "nobody has that slot")
}

fn none() -> Failure {
    Failure::not_found("credential.none", "the member has no credential")
}
