//! Signing a browser in and out, and links for that; the only calls without a credential.

use std::sync::Arc;

use aion_api::{LoginLinkResponse, LoginParams, SessionResponse};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::{Extension, Json};

use super::Problems;
use crate::app::App;
use crate::auth::{Begun, CODE_LIFE, Principal, Via};
use crate::error::{Answer, Failure};
use crate::extract::{Asked, Body};
use crate::names::Names;

const SIGNED_IN: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>aion</title>\
<h1>Signed in</h1><p>This browser is signed in to aion. The API is at <code>/api</code>, described \
by <code>/api/openapi.json</code>.</p></html>";

/// Use a login link: it signs the browser in that opens it, once.
#[utoipa::path(
    get,
    path = "/login",
    tag = "session",
    security(()),
    params(("code" = String, Query, description = "The code of the link")),
    responses(
        (status = 200, description = "Signed in", body = String, content_type = "text/html"),
        Problems,
    )
)]
pub(crate) async fn login_page(
    State(app): State<App>,
    Extension(names): Extension<Arc<Names>>,
    Asked(params): Asked<LoginParams>,
) -> Answer<Response> {
    let begun = begin(&app, &params.code)?;
    Ok(([(header::SET_COOKIE, cookie(&names, &begun.cookie))], Html(SIGNED_IN)).into_response())
}

/// Exchange a login code for a session.
#[utoipa::path(
    post,
    path = "/api/session",
    tag = "session",
    security(()),
    request_body = LoginParams,
    responses((status = 201, description = "Signed in", body = SessionResponse), Problems)
)]
pub(crate) async fn login(
    State(app): State<App>,
    Extension(names): Extension<Arc<Names>>,
    Body(params): Body<LoginParams>,
) -> Answer<Response> {
    let begun = begin(&app, &params.code)?;
    let body = SessionResponse {
        user_id: app.access.user().to_owned(),
        csrf_token: Some(begun.csrf.clone()),
    };
    let cookie = [(header::SET_COOKIE, cookie(&names, &begun.cookie))];
    Ok((StatusCode::CREATED, cookie, Json(body)).into_response())
}

/// Say who is signed in, and the token that changes carry.
#[utoipa::path(
    get,
    path = "/api/session",
    tag = "session",
    responses((status = 200, description = "Who is signed in", body = SessionResponse), Problems)
)]
pub(crate) async fn session(State(app): State<App>, principal: Principal) -> Json<SessionResponse> {
    let csrf_token = match &principal.via {
        Via::Bearer => None,
        Via::Session { id } => app.access.csrf(id),
    };
    Json(SessionResponse { user_id: principal.user, csrf_token })
}

/// Sign out.
#[utoipa::path(
    delete,
    path = "/api/session",
    tag = "session",
    responses((status = 204, description = "Signed out"), Problems)
)]
pub(crate) async fn logout(
    State(app): State<App>,
    Extension(names): Extension<Arc<Names>>,
    principal: Principal,
) -> Response {
    if let Via::Session { id } = &principal.via {
        app.access.logout(id);
    }
    let gone = format!("{}; Max-Age=0", cookie(&names, ""));
    (StatusCode::NO_CONTENT, [(header::SET_COOKIE, gone)]).into_response()
}

/// Make a link that signs a browser in, once. Only the command line's token may.
#[utoipa::path(
    post,
    path = "/api/login-links",
    tag = "session",
    responses((status = 201, description = "The link", body = LoginLinkResponse), Problems)
)]
pub(crate) async fn link(
    State(app): State<App>,
    Extension(names): Extension<Arc<Names>>,
    principal: Principal,
) -> Answer<Response> {
    if principal.via != Via::Bearer {
        return Err(Failure::new(
            StatusCode::FORBIDDEN,
            "auth.token_needed",
            "only the command line makes login links",
        ));
    }
    let body = LoginLinkResponse {
        url: names.login_link(&app.access.login_code()),
        expires_in_s: CODE_LIFE.as_secs(),
    };
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

fn begin(app: &App, code: &str) -> Answer<Begun> {
    app.access.login(code).ok_or_else(|| {
        Failure::new(
            StatusCode::UNAUTHORIZED,
            "auth.code",
            "the login link was used, has expired, or is none; make another",
        )
    })
}

fn cookie(names: &Names, value: &str) -> String {
    let (name, security) = (names.cookie(), names.cookie_security());
    format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{security}")
}
