//! All routes, with their description in OpenAPI 3.1, which is made from them; no route stands
//! beside it.

use std::sync::Arc;

use aion_api::{
    ControlFrame, Problem, SocketFrame, SocketRequest, StreamFrame, TeamEvent, UserFrame,
};
use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::error::Failure;
use crate::files::FILE_BYTES;
use crate::gate::{Door, gate};
use crate::http::{
    Problems, agents, approvals, conversations, credentials, events, export, files, health,
    messages, rules, session, state, tasks, teams,
};
use crate::mcp::person;
use crate::names::Names;
use crate::ws;

/// The largest body: a message of the largest size whose every character is escaped.
const BODY_BYTES: usize = 1024 * 1024;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "aion",
        description = "Teams of coding agents: REST and WebSocket. Every call needs a credential; \
                       every failure is a problem of RFC 9457 with a stable code."
    ),
    components(schemas(
        Problem, TeamEvent, SocketRequest, SocketFrame, StreamFrame, UserFrame, ControlFrame
    )),
    modifiers(&Credentials),
    security(("token" = []), ("session" = []))
)]
struct Description;

/// The two ways to say who one is.
struct Credentials;

impl Modify for Credentials {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let components = openapi.components.get_or_insert_default();
        for (name, response) in Problems::described() {
            components.responses.insert(name, response.into());
        }
        components.add_security_scheme(
            "token",
            SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build()),
        );
        components.add_security_scheme(
            "session",
            SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::with_description(
                "aion_session",
                "Followed by an underscore and the daemon's port.",
            ))),
        );
    }
}

/// The routes, with a name for each operation that says its noun too.
fn routes() -> OpenApiRouter<App> {
    let mut routes = plain_routes();
    for item in routes.get_openapi_mut().paths.paths.values_mut() {
        let operations =
            [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
        operations.into_iter().flatten().for_each(name_by_noun);
    }
    routes
}

fn name_by_noun(operation: &mut Operation) {
    if let (Some(tag), Some(name)) =
        (operation.tags.as_ref().and_then(|tags| tags.first()), operation.operation_id.as_ref())
    {
        operation.operation_id = Some(format!("{tag}_{name}"));
    }
}

fn plain_routes() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(session::login_page))
        .routes(routes!(session::login, session::session, session::logout))
        .routes(routes!(session::link))
        .routes(routes!(health::health))
        .routes(routes!(health::metrics))
        .routes(routes!(health::catalogue))
        .routes(routes!(health::try_out))
        .routes(routes!(description))
        .routes(routes!(teams::create, teams::list))
        .routes(routes!(teams::show, teams::edit, teams::erase))
        .routes(routes!(teams::pause))
        .routes(routes!(teams::resume))
        .routes(routes!(teams::stop))
        .routes(routes!(teams::archive))
        .routes(routes!(state::usage))
        .routes(routes!(state::set_budget))
        .routes(routes!(export::usage_by_member))
        .routes(routes!(export::export))
        .routes(routes!(state::progress))
        .routes(routes!(teams::keep_scenario))
        .routes(routes!(agents::spawn, agents::list))
        .routes(routes!(agents::show, agents::edit, agents::remove))
        .routes(routes!(agents::interrupt))
        .routes(routes!(agents::pause))
        .routes(routes!(agents::resume))
        .routes(routes!(agents::stop))
        .routes(routes!(agents::kill))
        .routes(routes!(agents::restart))
        .routes(routes!(agents::set_mode))
        .routes(routes!(agents::set_model))
        .routes(routes!(credentials::issue, credentials::show, credentials::end))
        .routes(routes!(messages::send_to_agent))
        .routes(routes!(messages::send, messages::list))
        .routes(routes!(messages::redeliver))
        .routes(routes!(tasks::create, tasks::list))
        .routes(routes!(tasks::show, tasks::edit))
        .routes(routes!(conversations::create, conversations::list))
        .routes(routes!(conversations::show, conversations::edit, conversations::erase))
        .routes(routes!(conversations::send, conversations::list_messages))
        .routes(routes!(conversations::transcript))
        .merge(files_router())
        .routes(routes!(approvals::list))
        .routes(routes!(approvals::decide))
        .routes(routes!(rules::list))
        .routes(routes!(rules::revoke))
        .routes(routes!(events::list))
        .routes(routes!(events::transcript))
        .routes(routes!(state::at))
        .routes(routes!(ws::upgrade))
}

/// Files have larger bodies than all else.
fn files_router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(files::keep))
        .routes(routes!(files::read))
        .layer(DefaultBodyLimit::max(FILE_BYTES))
}

/// The routes behind their gate, for who calls by these names.
pub(crate) fn router(app: App, names: Arc<Names>) -> Router {
    let (router, _) = routes().split_for_parts();
    router
        .route_service("/mcp", person::service(app.clone()))
        .fallback(nothing_here)
        .method_not_allowed_fallback(not_so)
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .layer(CompressionLayer::new())
        .layer(CatchPanicLayer::custom(fell))
        .layer(from_fn_with_state(Door { app: app.clone(), names }, gate))
        .with_state(app)
}

/// The description of the API, as `GET /api/openapi.json` gives it.
pub fn document() -> String {
    let (_, openapi) = routes().split_for_parts();
    openapi.to_pretty_json().unwrap_or_default()
}

/// Describe this API.
#[utoipa::path(
    get,
    path = "/api/openapi.json",
    tag = "daemon",
    responses((status = 200, description = "OpenAPI 3.1", body = Object), Problems)
)]
async fn description(State(_): State<App>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], document()).into_response()
}

async fn nothing_here() -> Failure {
    Failure::not_found("path.not_found", "there is nothing at this path")
}

async fn not_so() -> Failure {
    Failure::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method.not_allowed",
        "this path does not take this method",
    )
}

/// A handler fell. Its panic is in the log; the client learns only that.
fn fell(_: Box<dyn std::any::Any + Send + 'static>) -> Response {
    Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "daemon.fault", "the daemon made a mistake")
        .into_response()
}
