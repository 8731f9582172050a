//! Conversations with one agent: teams of one, by the code of teams; what is not one is not found.

use aion_api::{
    CreateTeamParams, EditTeamParams, MessageAcceptedResponse, MessageListResponse, MessageParams,
    PageParams, TeamListResponse, TeamResponse, TranscriptParams, TranscriptResponse,
};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::teams::Kind;
use super::{Problems, events, messages, teams};
use crate::app::App;
use crate::auth::Principal;
use crate::error::Answer;
use crate::extract::{Asked, At, Body, IfMatch, Key};

/// Begin a conversation with one agent, which `lead` says. All that is said of
/// `/api/teams/{team_id}/…` goes for its id too.
#[utoipa::path(
    post,
    path = "/api/conversations",
    tag = "conversations",
    params(("Idempotency-Key" = Option<String>, Header, description = "Begin it once per key")),
    request_body = CreateTeamParams,
    responses(
        (status = 201, description = "The conversation", body = TeamResponse),
        (status = 200, description = "The one that this key began before", body = TeamResponse),
        Problems,
    )
)]
pub(crate) async fn create(
    State(app): State<App>,
    principal: Principal,
    Key(key): Key,
    Body(params): Body<CreateTeamParams>,
) -> Answer<Response> {
    teams::make(&app, &principal, key, params, Kind::Conversation).await
}

/// List your conversations.
#[utoipa::path(
    get,
    path = "/api/conversations",
    tag = "conversations",
    responses((status = 200, description = "They", body = TeamListResponse), Problems)
)]
pub(crate) async fn list(
    State(app): State<App>,
    principal: Principal,
) -> Answer<Json<TeamListResponse>> {
    let teams = teams::rows(&app, &principal, Kind::Conversation).await?;
    Ok(Json(TeamListResponse { teams }))
}

/// Show a conversation. The `ETag` stands for its name and settings.
#[utoipa::path(
    get,
    path = "/api/conversations/{conversation_id}",
    tag = "conversations",
    params(("conversation_id" = String, Path)),
    responses((status = 200, description = "The conversation", body = TeamResponse), Problems)
)]
pub(crate) async fn show(
    State(app): State<App>,
    principal: Principal,
    At(id): At<String>,
) -> Answer<Response> {
    let conversation = app.conversation(&principal, &id).await?;
    teams::show_as(&app, &conversation, StatusCode::OK).await
}

/// Change a conversation's name or settings.
#[utoipa::path(
    patch,
    path = "/api/conversations/{conversation_id}",
    tag = "conversations",
    params(
        ("conversation_id" = String, Path),
        ("If-Match" = Option<String>, Header, description = "The ETag that you read"),
    ),
    request_body = EditTeamParams,
    responses((status = 200, description = "The conversation", body = TeamResponse), Problems)
)]
pub(crate) async fn edit(
    State(app): State<App>,
    principal: Principal,
    At(id): At<String>,
    seen: IfMatch,
    body: Body<EditTeamParams>,
) -> Answer<Response> {
    app.conversation(&principal, &id).await?;
    teams::edit(State(app), principal, At(id), seen, body).await
}

/// End a conversation and erase it with its transcript.
#[utoipa::path(
    delete,
    path = "/api/conversations/{conversation_id}",
    tag = "conversations",
    params(("conversation_id" = String, Path)),
    responses((status = 204, description = "It is gone"), Problems)
)]
pub(crate) async fn erase(
    State(app): State<App>,
    principal: Principal,
    At(id): At<String>,
) -> Answer<StatusCode> {
    app.conversation(&principal, &id).await?;
    teams::erase(State(app), principal, At(id)).await
}

/// Write to the agent. The answer comes when the message is durable.
#[utoipa::path(
    post,
    path = "/api/conversations/{conversation_id}/messages",
    tag = "conversations",
    params(
        ("conversation_id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "Send it once per key"),
    ),
    request_body = MessageParams,
    responses(
        (status = 202, description = "Accepted, durably", body = MessageAcceptedResponse),
        Problems,
    )
)]
pub(crate) async fn send(
    State(app): State<App>,
    principal: Principal,
    At(id): At<String>,
    key: Key,
    body: Body<MessageParams>,
) -> Answer<Response> {
    app.conversation(&principal, &id).await?;
    messages::send(State(app), principal, At(id), key, body).await
}

/// List the messages of a conversation, also those that are done with.
#[utoipa::path(
    get,
    path = "/api/conversations/{conversation_id}/messages",
    tag = "conversations",
    params(("conversation_id" = String, Path), PageParams),
    responses((status = 200, description = "A page", body = MessageListResponse), Problems)
)]
pub(crate) async fn list_messages(
    State(app): State<App>,
    principal: Principal,
    At(id): At<String>,
    page: Asked<PageParams>,
) -> Answer<Json<MessageListResponse>> {
    app.conversation(&principal, &id).await?;
    messages::list(State(app), principal, At(id), page).await
}

/// Read what the agent was given, said, thought, called and got.
#[utoipa::path(
    get,
    path = "/api/conversations/{conversation_id}/transcript",
    tag = "conversations",
    params(("conversation_id" = String, Path), TranscriptParams),
    responses((status = 200, description = "A page", body = TranscriptResponse), Problems)
)]
pub(crate) async fn transcript(
    State(app): State<App>,
    principal: Principal,
    At(id): At<String>,
    page: Asked<TranscriptParams>,
) -> Answer<Json<TranscriptResponse>> {
    app.conversation(&principal, &id).await?;
    events::transcript(State(app), principal, At(id), page).await
}
