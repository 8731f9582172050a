//! What every request passes before any handler: Host, Origin, credential, CSRF; it lets nobody in
//! for coming from this machine.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use tracing::Instrument;

use crate::app::App;
use crate::auth::{Principal, Via, hex};
use crate::error::Failure;
use crate::extract::no_credential;
use crate::names::Names;

const CSRF: HeaderName = HeaderName::from_static("x-csrf-token");
pub(crate) const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What all answers carry: nothing of ours is framed, sniffed, cached, or read by other origins.
const ALWAYS: [(&str, &str); 6] = [
    ("x-content-type-options", "nosniff"),
    ("cache-control", "no-store"),
    ("cross-origin-resource-policy", "same-origin"),
    ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
    ("referrer-policy", "no-referrer"),
    ("x-frame-options", "DENY"),
];

/// Where requests come in, and what it is called by those who come.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    pub(crate) app: App,
    pub(crate) names: Arc<Names>,
}

/// The gate, around all routes and the answer for routes that do not exist.
pub(crate) async fn gate(State(door): State<Door>, mut request: Request, next: Next) -> Response {
    let id = request_id();
    // The path alone: what follows the question mark may be a login code.
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let mut response = match check(&door, &request) {
        Ok(principal) => {
            if let Some(principal) = principal {
                request.extensions_mut().insert(principal);
            }
            request.extensions_mut().insert(Arc::clone(&door.names));
            let span = tracing::info_span!("request", request = id);
            next.run(request).instrument(span).await
        }
        Err(failure) => failure.into_response(),
    };
    let status = response.status().as_u16();
    door.app.counts.answered(status);
    tracing::debug!(request = id, %method, path, status, "answered");
    let headers = response.headers_mut();
    for (name, value) in ALWAYS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    response
}

/// Who is calling; nobody where the request asks for a session.
fn check(door: &Door, request: &Request) -> Result<Option<Principal>, Failure> {
    let (app, names) = (&door.app, &*door.names);
    let headers = request.headers();
    check_host(names, request.uri(), headers)?;
    let origin = check_origin(names, headers)?;
    let (method, path) = (request.method(), request.uri().path());
    let login = (method == Method::GET && path == "/login")
        || (method == Method::POST && path == "/api/session");
    if login {
        return Ok(None);
    }
    check_site(headers)?;
    let principal = authenticate(app, names, headers)?;
    if let Via::Session { id } = &principal.via {
        let reads = matches!(*method, Method::GET | Method::HEAD);
        if reads && is_upgrade(headers) && !origin {
            return Err(forbidden("auth.origin", "a WebSocket by a cookie says its Origin"));
        }
        let given = one(headers, &CSRF).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if !reads && !app.access.is_csrf(id, given) {
            return Err(forbidden(
                "auth.csrf",
                "a change by a session carries its X-CSRF-Token; GET /api/session says it",
            ));
        }
    }
    Ok(Some(principal))
}

/// The daemon answers to its own names alone, so that no other name can be pointed at it.
pub(crate) fn check_host(names: &Names, uri: &Uri, headers: &HeaderMap) -> Result<(), Failure> {
    let named = |text: &str| names.is_host(text);
    let host = one(headers, &HOST).and_then(|host| host.to_str().ok());
    let authority = uri.authority().is_none_or(|authority| named(authority.as_str()));
    match host {
        Some(host) if named(host) && authority => Ok(()),
        Some(_) | None => Err(forbidden("auth.host", "the Host header names another place")),
    }
}

/// Pages of other origins get nothing. Says whether there is an origin at all.
fn check_origin(names: &Names, headers: &HeaderMap) -> Result<bool, Failure> {
    if !headers.contains_key(ORIGIN) {
        return Ok(false);
    }
    match one(headers, &ORIGIN).and_then(|origin| origin.to_str().ok()) {
        Some(origin) if names.is_origin(origin) => Ok(true),
        Some(_) | None => Err(forbidden("auth.origin", "the Origin is another place")),
    }
}

/// A browser says where a request began: pages of other sites, and of other ports here, get nothing.
fn check_site(headers: &HeaderMap) -> Result<(), Failure> {
    if !headers.contains_key(&FETCH_SITE) {
        return Ok(());
    }
    match one(headers, &FETCH_SITE).map(HeaderValue::as_bytes) {
        Some(b"same-origin" | b"none") => Ok(()),
        Some(_) | None => Err(forbidden("auth.origin", "the request began at another place")),
    }
}

fn authenticate(app: &App, names: &Names, headers: &HeaderMap) -> Result<Principal, Failure> {
    if headers.contains_key(AUTHORIZATION) {
        // A header that is wrong is wrong, whatever cookies come with it.
        return one(headers, &AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .and_then(|(_, token)| app.access.bearer(token.trim()))
            .ok_or_else(no_credential);
    }
    let name = names.cookie();
    cookies(headers, &name).find_map(|cookie| app.access.session(cookie)).ok_or_else(no_credential)
}

/// The values of our cookie.
fn cookies<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(move |(given, _)| *given == name)
        .map(|(_, value)| value)
}

/// A header that stands exactly once.
pub(crate) fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    values.next().is_none().then_some(first)
}

fn is_upgrade(headers: &HeaderMap) -> bool {
    headers.contains_key(axum::http::header::UPGRADE)
}

pub(crate) fn forbidden(code: &str, detail: &str) -> Failure {
    Failure::new(StatusCode::FORBIDDEN, code, detail)
}

/// A name for a request, for the log and the client to speak of it.
fn request_id() -> String {
    let mut bytes = [0_u8; 8];
    // It need not be secret: without randomness all requests have the same name.
    let _ = getrandom::fill(&mut bytes);
    hex(&bytes)
}
