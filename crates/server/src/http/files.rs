//! Files that go along with messages: given once, named by their content, read back by their owner.

use aion_api::FileResponse;
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;
use utoipa::ToSchema;

use super::Problems;
use crate::app::App;
use crate::auth::Principal;
use crate::error::{Answer, Failure};
use crate::extract::{At, BODY_PATIENCE, slow_body};
use crate::files::too_large;

/// The bytes of a file.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "it stands for bytes in the description of the API")]
pub(crate) struct FileBytes(Vec<u8>);

/// Give the daemon a file, of 16 MiB at most. The same content is kept once.
#[utoipa::path(
    post,
    path = "/api/files",
    tag = "files",
    request_body(content = FileBytes, content_type = "application/octet-stream"),
    responses((status = 201, description = "It is kept, durably", body = FileResponse), Problems)
)]
pub(crate) async fn keep(
    State(app): State<App>,
    principal: Principal,
    request: Request,
) -> Answer<Response> {
    if !is_bytes(request.headers()) {
        let detail = "a file comes as application/octet-stream";
        return Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "body.content_type", detail));
    }
    let body = timeout(BODY_PATIENCE, Bytes::from_request(request, &())).await;
    let bytes = body.map_err(|_| slow_body())?.map_err(|rejection| {
        if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            return too_large();
        }
        Failure::new(StatusCode::BAD_REQUEST, "body.unreadable", rejection.body_text())
    })?;
    let user = principal.user;
    let kept = tokio::task::spawn_blocking(move || app.files.keep(&user, &bytes));
    let kept: FileResponse = kept.await.map_err(|_| unavailable())??;
    Ok((StatusCode::CREATED, Json(kept)).into_response())
}

/// Read a file back.
#[utoipa::path(
    get,
    path = "/api/files/{sha256}",
    tag = "files",
    params(("sha256" = String, Path)),
    responses(
        (
            status = 200,
            description = "Its content",
            body = FileBytes,
            content_type = "application/octet-stream",
        ),
        Problems,
    )
)]
pub(crate) async fn read(
    State(app): State<App>,
    principal: Principal,
    At(sha256): At<String>,
) -> Answer<Response> {
    let read = tokio::task::spawn_blocking(move || app.files.read(&principal.user, &sha256));
    let bytes = read.await.map_err(|_| unavailable())??;
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        // Nothing of it is ever shown as a page.
        (header::CONTENT_DISPOSITION, "attachment"),
    ];
    Ok((headers, Body::from(bytes)).into_response())
}

fn is_bytes(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.trim().eq_ignore_ascii_case("application/octet-stream"))
}

fn unavailable() -> Failure {
    let detail = "the file could not be handled";
    Failure::new(StatusCode::SERVICE_UNAVAILABLE, "file.unavailable", detail)
}
