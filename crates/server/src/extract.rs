//! Reads what a request carries, and refuses what it cannot read as a problem; it never guesses.

use std::time::Duration;

use aion_core::Rejection;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Json, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use crate::auth::Principal;
use crate::error::Failure;

/// How long a body may take to come.
pub(crate) const BODY_PATIENCE: Duration = Duration::from_secs(30);
/// The longest idempotency key.
const KEY_BYTES: usize = 255;

/// A JSON body.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        fields(json(request, state).await?).map(Self)
    }
}

/// A JSON body, or nothing at all, which is the same as an empty object.
pub(crate) struct MaybeBody<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for MaybeBody<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let empty = !request.headers().contains_key(header::CONTENT_TYPE)
            && !request.headers().contains_key(header::TRANSFER_ENCODING)
            && request.headers().get(header::CONTENT_LENGTH).is_none_or(|length| length == "0");
        if empty {
            return Ok(Self(T::default()));
        }
        match json(request, state).await? {
            Value::Null => Ok(Self(T::default())),
            value => fields(value).map(Self),
        }
    }
}

async fn json<S: Send + Sync>(request: Request, state: &S) -> Result<Value, Failure> {
    match timeout(BODY_PATIENCE, Json::from_request(request, state)).await {
        Ok(Ok(Json(value))) => Ok(value),
        Ok(Err(rejection)) => Err(body_failure(&rejection)),
        Err(_) => Err(slow_body()),
    }
}

/// The body did not come.
pub(crate) fn slow_body() -> Failure {
    let detail = "the body did not come in time; send it again at once";
    Failure::new(StatusCode::REQUEST_TIMEOUT, "body.slow", detail)
}

/// Reads an object. A list would pass for one whose fields come in order.
fn fields<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
    let invalid = |why: String| Failure::invalid("body.invalid", why);
    if !value.is_object() {
        return Err(invalid("the body has to be a JSON object".to_owned()));
    }
    serde_json::from_value(value).map_err(|why| invalid(why.to_string()))
}

fn body_failure(rejection: &JsonRejection) -> Failure {
    let code = match rejection {
        JsonRejection::JsonDataError(_) => "body.invalid",
        JsonRejection::JsonSyntaxError(_) => "body.no_json",
        JsonRejection::MissingJsonContentType(_) => "body.content_type",
        _ if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => "body.too_large",
        _ => "body.unreadable",
    };
    Failure::new(rejection.status(), code, rejection.body_text())
}

/// The variables of the path.
pub(crate) struct At<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for At<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(value)) => Ok(Self(value)),
            Err(rejection) => Err(path_failure(&rejection)),
        }
    }
}

fn path_failure(rejection: &PathRejection) -> Failure {
    // A path that cannot be read names nothing that exists.
    Failure::not_found("path.not_found", rejection.body_text())
}

/// The variables behind the question mark.
pub(crate) struct Asked<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(value)) => Ok(Self(value)),
            Err(rejection) => Err(query_failure(&rejection)),
        }
    }
}

fn query_failure(rejection: &QueryRejection) -> Failure {
    Failure::new(StatusCode::BAD_REQUEST, "query.invalid", rejection.body_text())
}

impl<S: Send + Sync> FromRequestParts<S> for Principal {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        // The gate puts it there before any handler runs.
        parts.extensions.get::<Self>().cloned().ok_or_else(no_credential)
    }
}

/// Nobody is let in without a credential.
pub(crate) fn no_credential() -> Failure {
    Failure::new(
        StatusCode::UNAUTHORIZED,
        "auth.required",
        "a credential is needed: the token of the data directory, or a session by a login link",
    )
}

/// The client's idempotency key.
pub(crate) struct Key(pub(crate) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for Key {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let key = one(&parts.headers, &HeaderName::from_static("idempotency-key"))?;
        match key {
            Some(key) if key.is_empty() || key.len() > KEY_BYTES => Err(Failure::new(
                StatusCode::BAD_REQUEST,
                "header.invalid",
                format!("an Idempotency-Key has 1 to {KEY_BYTES} visible ASCII characters"),
            )),
            key => Ok(Self(key.map(str::to_owned))),
        }
    }
}

/// What the client saw of the thing that it edits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IfMatch {
    /// It does not say.
    Anything,
    /// One of these.
    OneOf(Vec<String>),
}

impl IfMatch {
    /// Whether the present tag is what the client saw.
    pub(crate) fn accepts(&self, tag: &str) -> bool {
        match self {
            Self::Anything => true,
            Self::OneOf(tags) => tags.iter().any(|seen| seen == tag),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let Some(text) = one(&parts.headers, &header::IF_MATCH)? else { return Ok(Self::Anything) };
        if text.trim() == "*" {
            return Ok(Self::Anything);
        }
        let tags = text.split(',').map(str::trim).map(|tag| {
            tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).map(str::to_owned)
        });
        tags.collect::<Option<Vec<String>>>().map(Self::OneOf).ok_or_else(|| {
            Failure::new(
                StatusCode::BAD_REQUEST,
                "header.invalid",
                "If-Match holds the ETag that you read, in quotes, or *",
            )
        })
    }
}

/// A header that stands once at most, as text.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Failure> {
    let mut values = headers.get_all(name).iter();
    let bad = || {
        Failure::new(
            StatusCode::BAD_REQUEST,
            "header.invalid",
            format!("the header {name} stands once, in visible ASCII characters"),
        )
    };
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| bad()),
        (Some(_), Some(_)) => Err(bad()),
    }
}

/// A limit on a page.
pub(crate) fn page_limit(asked: Option<u32>) -> Result<usize, Failure> {
    match asked {
        None => Ok(100),
        Some(limit @ 1..=500) => Ok(limit as usize),
        Some(limit) => Err(Failure::new(
            StatusCode::BAD_REQUEST,
            "query.invalid",
            format!("limit is 1 to 500, not {limit}"),
        )),
    }
}

/// Says what a person's edit of core's own values means where it does not fit.
pub(crate) fn bad_name(why: aion_core::id::InvalidName) -> Failure {
    Rejection::BadName(why).into()
}
