//! The team's tools over HTTP at `/mcp`: every request carries the member's secret and stands for
//! itself; there are no sessions that could outlive it.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HeaderName, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::time::timeout;

use super::frames::FRAME_BYTES;
use super::tokens::{CALLS, Member, MemberTokens};
use super::tools::{Server, Tools};
use crate::error::Failure;
use crate::gate::{FETCH_SITE, check_host, forbidden, one};
use crate::names::Names;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const PATH: &str = "/mcp";
/// How long a request may take, its body included: longer than any call is waited for.
const REQUEST_TIME: Duration = Duration::from_secs(90);

/// Where the tools are.
pub(crate) fn endpoint(port: u16) -> String {
    format!("http://127.0.0.1:{port}{PATH}")
}

/// Everything that is served over HTTP here.
pub(crate) fn router(tokens: Arc<MemberTokens>, tools: Tools) -> Router {
    // Host and Origin are checked before, more narrowly than the library does.
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(FRAME_BYTES as usize)
        .enforce_origin_validation();
    let service = StreamableHttpService::new(
        move || Ok(Server::asking(tools.clone())),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    Router::new()
        .route_service(PATH, service)
        .fallback(nothing_here)
        .layer(from_fn_with_state(tokens, gate))
}

/// What every request passes first.
async fn gate(
    State(tokens): State<Arc<MemberTokens>>,
    mut request: Request,
    next: Next,
) -> Response {
    let member = match check(&tokens, &request) {
        Ok(member) => member,
        Err(failure) => return guarded(failure.into_response()),
    };
    let Ok(_place) = Arc::clone(&member.requests).try_acquire_owned() else {
        let detail = format!("{CALLS} calls are on their way; wait until one of them is answered");
        let failure = Failure::new(StatusCode::TOO_MANY_REQUESTS, "mcp.calls", detail);
        return guarded(failure.into_response());
    };
    // Nothing behind this needs the secret, and nothing can write it down by mistake.
    request.headers_mut().remove(AUTHORIZATION);
    let ended = member.ended.clone();
    request.extensions_mut().insert(member);
    tokio::select! {
        response = timeout(REQUEST_TIME, next.run(request)) => guarded(response.unwrap_or_else(|_| {
            let detail = format!("it took longer than {} s", REQUEST_TIME.as_secs());
            Failure::new(StatusCode::REQUEST_TIMEOUT, "mcp.slow", detail).into_response()
        })),
        () = ended.cancelled() => guarded(no_member().into_response()),
    }
}

fn guarded(mut response: Response) -> Response {
    for (name, value) in [("cache-control", "no-store"), ("x-content-type-options", "nosniff")] {
        let name = HeaderName::from_static(name);
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whose request it is.
fn check(tokens: &MemberTokens, request: &Request) -> Result<Arc<Member>, Failure> {
    let headers = request.headers();
    let names = Names::new((Ipv4Addr::LOCALHOST, tokens.port()).into(), false, &[]);
    check_host(&names, request.uri(), headers)?;
    // No page has any business here, of whatever origin.
    if headers.contains_key(ORIGIN) || headers.contains_key(&FETCH_SITE) {
        return Err(forbidden("auth.origin", "no browser is served here"));
    }
    let member = bearer(headers).and_then(|token| tokens.member(token)).ok_or_else(no_member)?;
    if headers.contains_key(&SESSION) {
        return Err(Failure::not_found(
            "mcp.no_session",
            "there are no sessions here: every request carries its own token",
        ));
    }
    Ok(member)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = one(headers, &AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn no_member() -> Failure {
    let detail =
        "a member's token is needed, as a bearer token; this one is none, or none any more";
    Failure::new(StatusCode::UNAUTHORIZED, "auth.required", detail)
}

async fn nothing_here() -> Failure {
    Failure::not_found("path.not_found", "there is nothing at this path; the tools are at /mcp")
}
