//! What handlers have in common: an accepted command, a thing with its tag, and the problems that
//! every call may answer with; never a noun's own answer.

use std::collections::BTreeMap;

use aion_api::CommandAcceptedResponse;
use aion_core::event::Event;
use aion_core::id::TeamId;
use aion_runtime::Committed;
use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde::Serialize;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};

use crate::convert::request_handle;

/// The problems that every call may answer with, for the description of the API.
pub(crate) struct Problems;

/// Each status with what it means here.
const PROBLEMS: [(&str, &str); 13] = [
    ("400", "The request cannot be read: its query, its headers, or JSON that is none."),
    ("401", "A credential is needed."),
    ("403", "Another Host or Origin, no CSRF token, or the rules do not allow it."),
    ("404", "There is no such thing, or it belongs to somebody else."),
    ("405", "Not with this method."),
    ("408", "The body did not come in time."),
    ("409", "It does not fit the state as it is."),
    ("412", "It has changed since you read it."),
    ("413", "The body is too large."),
    ("415", "The body has to be application/json."),
    ("422", "The body is JSON, and what it asks for is not possible."),
    ("429", "Too much at once; try again."),
    ("503", "It is not known to be durable; try again with the same idempotency key."),
];

impl Problems {
    /// The problems by the name under which every call refers to them.
    pub(crate) fn described() -> impl Iterator<Item = (String, Response)> {
        PROBLEMS.into_iter().map(|(status, meaning)| {
            let schema = Some(Ref::from_schema_name("Problem"));
            let content = ContentBuilder::new().schema(schema).build();
            let response = ResponseBuilder::new()
                .description(meaning)
                .content("application/problem+json", content)
                .build();
            (name(status), response)
        })
    }
}

impl utoipa::IntoResponses for Problems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        PROBLEMS
            .into_iter()
            .map(|(status, _)| (status.to_owned(), Ref::from_response_name(name(status)).into()))
            .collect()
    }
}

fn name(status: &str) -> String {
    format!("Problem{status}")
}

/// A command that was accepted.
pub(super) fn accepted(team: &TeamId, committed: &Committed) -> axum::response::Response {
    let opened = committed.events.iter().find_map(|recorded| match &recorded.event {
        Event::RequestOpened { request } => Some(request.id),
        _ => None,
    });
    let request = opened.or_else(|| committed.receipt.as_ref().and_then(|receipt| receipt.request));
    let body = CommandAcceptedResponse {
        seq: committed.seq.0,
        request_id: request.map(|request| request_handle(team, request)),
    };
    (StatusCode::ACCEPTED, Json(body)).into_response()
}

/// A thing with the tag by which an edit of it says what it saw.
pub(super) fn tagged(tag: &str, body: &impl Serialize) -> axum::response::Response {
    ([(header::ETAG, format!("\"{tag}\""))], Json(body)).into_response()
}
