//! Every failure as a problem of RFC 9457, in one place; it never hides which rule was met.

use std::fmt;

use aion_api::Problem;
use aion_core::Rejection;
use aion_core::task::TaskRefusal;
use aion_runtime::{CreateError, OpenError, StoreError, SubmitError};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::groundwork::GroundworkError;

/// A failure on its way to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    status: StatusCode,
    code: String,
    detail: String,
    choices: Vec<String>,
}

/// What a handler answers.
pub(crate) type Answer<T> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Self { status, code: code.to_owned(), detail: detail.into(), choices: Vec::new() }
    }

    #[must_use]
    pub(crate) fn with_choices<T: ToString>(
        mut self,
        choices: impl IntoIterator<Item = T>,
    ) -> Self {
        self.choices = choices.into_iter().map(|choice| choice.to_string()).collect();
        self
    }

    /// There is no such team for this user; whether there is one for somebody else is not said.
    pub(crate) fn no_team() -> Self {
        Self::new(StatusCode::NOT_FOUND, "team.not_found", "there is no such team")
    }

    /// There is no such thing in the team.
    pub(crate) fn not_found(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, detail)
    }

    /// What was sent is well formed, and means nothing.
    pub(crate) fn invalid(code: &str, detail: impl fmt::Display) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail.to_string())
    }

    /// The version that the client saw is not the present one.
    pub(crate) fn stale() -> Self {
        Self::new(
            StatusCode::PRECONDITION_FAILED,
            "edit.stale",
            "it has changed since you read it; read it again",
        )
    }

    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let problem = Problem {
            kind: "about:blank".to_owned(),
            title: self.status.canonical_reason().unwrap_or("Error").to_owned(),
            status: self.status.as_u16(),
            detail: self.detail,
            code: self.code,
            choices: self.choices,
        };
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = (self.status, body).into_response();
        let mut set = |name: HeaderName, value: &'static str| {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        };
        set(header::CONTENT_TYPE, "application/problem+json");
        if self.status == StatusCode::SERVICE_UNAVAILABLE
            || self.status == StatusCode::TOO_MANY_REQUESTS
        {
            set(header::RETRY_AFTER, "1");
        }
        if self.status == StatusCode::UNAUTHORIZED {
            set(header::WWW_AUTHENTICATE, "Bearer");
        }
        response
    }
}

impl From<Rejection> for Failure {
    fn from(rejection: Rejection) -> Self {
        let failure = Self::new(
            status(&rejection),
            &format!("team.{}", rejection.code()),
            rejection.to_string(),
        );
        match &rejection {
            Rejection::UnknownAgent { known, .. } => failure.with_choices(known),
            Rejection::WrongDecision { choices, .. } => failure.with_choices(*choices),
            Rejection::Task(TaskRefusal::Blocked { by, .. }) => failure.with_choices(by),
            _ => failure,
        }
    }
}

/// The HTTP status of a refusal by the rules.
fn status(rejection: &Rejection) -> StatusCode {
    match rejection {
        Rejection::NoTeam
        | Rejection::UnknownAgent { .. }
        | Rejection::UnknownRequest { .. }
        | Rejection::UnknownGrant { .. }
        | Rejection::Task(TaskRefusal::Unknown(_)) => StatusCode::NOT_FOUND,
        Rejection::NotAllowed { .. } | Rejection::DeniedByRule { .. } | Rejection::OwnRequest => {
            StatusCode::FORBIDDEN
        }
        Rejection::TeamExists
        | Rejection::TeamEnded
        | Rejection::RecipientGone { .. }
        | Rejection::NameTaken { .. }
        | Rejection::LeadStays
        | Rejection::NoSuchTurn { .. }
        | Rejection::NoSuchCall { .. }
        | Rejection::NotDecided { .. }
        | Rejection::AlreadyDecided { .. }
        | Rejection::WrongState { .. }
        | Rejection::OverBudget
        | Rejection::StaleGeneration { .. }
        | Rejection::AlreadyAsked { .. }
        | Rejection::Task(
            TaskRefusal::Closed(_) | TaskRefusal::Taken { .. } | TaskRefusal::Blocked { .. },
        ) => StatusCode::CONFLICT,
        Rejection::Task(TaskRefusal::Stale { .. }) => StatusCode::PRECONDITION_FAILED,
        Rejection::BadName(_)
        | Rejection::ToSelf
        | Rejection::Empty { .. }
        | Rejection::Limit { .. }
        | Rejection::KeyReused
        | Rejection::ZeroLimit { .. }
        | Rejection::NoRaise
        | Rejection::WrongDecision { .. }
        | Rejection::UnfitRule { .. }
        | Rejection::Task(TaskRefusal::Cycle { .. } | TaskRefusal::NoOwner(_)) => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        Rejection::InboxFull { .. } => StatusCode::TOO_MANY_REQUESTS,
    }
}

impl From<SubmitError> for Failure {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Rejected(rejection) => rejection.into(),
            SubmitError::Unavailable(_) => unavailable("team.unavailable", &error),
            SubmitError::Closed => unavailable("team.closed", &error),
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::NoTeam(_) => Self::no_team(),
            OpenError::Store(error) => error.into(),
            OpenError::Fallen(_) => unavailable("team.unavailable", &error),
        }
    }
}

impl From<CreateError> for Failure {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Submit(error) => error.into(),
            CreateError::Open(error) => error.into(),
        }
    }
}

impl From<GroundworkError> for Failure {
    fn from(error: GroundworkError) -> Self {
        match error {
            GroundworkError::Refused { code, detail } => Self::invalid(&code, detail),
            GroundworkError::Failed(_) => {
                tracing::error!(%error, "a team could not be prepared");
                unavailable("team.not_prepared", &error)
            }
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NoTeam(_) => Self::no_team(),
            StoreError::TooLarge { .. } => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "store.too_large", error.to_string())
            }
            StoreError::Conflict { .. }
            | StoreError::StaleEpoch { .. }
            | StoreError::Unavailable(_)
            | StoreError::Unknown(_)
            | StoreError::Corrupt(_)
            | StoreError::Newer(_)
            | StoreError::Locked { .. } => {
                tracing::error!(%error, "the store failed");
                unavailable("store.unavailable", &error)
            }
        }
    }
}

fn unavailable(code: &str, error: &impl fmt::Display) -> Failure {
    Failure::new(StatusCode::SERVICE_UNAVAILABLE, code, error.to_string())
}
