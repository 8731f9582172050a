//! How a command fails: one object on standard error and one exit code; never a stack trace.

use serde::{Deserialize, Serialize};

/// What stands on standard error when a command with `--json` fails. Standard output is empty then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The failure.
    pub error: ErrorDetail,
}

/// One failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// A stable word for programs, in parts: `team.not_found`, `data_dir.locked`.
    pub code: String,
    /// A sentence for people.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Where to read more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doc: Option<String>,
}

impl ErrorBody {
    /// A failure without hint and document.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        let error =
            ErrorDetail { code: code.into(), message: message.into(), hint: None, doc: None };
        Self { error }
    }

    /// The same, with a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.error.hint = Some(hint.into());
        self
    }
}

/// How a command ended, for the shell that started it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It did what it was asked to; an empty list is a success.
    Success,
    /// A task, an agent or a tool failed.
    Failure,
    /// The command line cannot be understood.
    Usage,
    /// A run ended before its tasks were completed.
    Incomplete,
    /// A provider is missing, or wants a login.
    Authentication,
    /// Only a person can go on.
    NeedsInput,
    /// The budget is used up.
    Budget,
    /// The daemon, or the data directory, cannot be reached or is not ours.
    Unreachable,
    /// Somebody else changed it first.
    Conflict,
    /// There is no such thing.
    NotFound,
    /// The check-up found an error.
    Unhealthy,
    /// Ended by Ctrl+C.
    Interrupted,
    /// Ended by a signal to stop.
    Terminated,
}

impl Exit {
    /// All of them.
    const ALL: [Self; 13] = [
        Self::Success,
        Self::Failure,
        Self::Usage,
        Self::Incomplete,
        Self::Authentication,
        Self::NeedsInput,
        Self::Budget,
        Self::Unreachable,
        Self::Conflict,
        Self::NotFound,
        Self::Unhealthy,
        Self::Interrupted,
        Self::Terminated,
    ];

    /// What a number that the shell sees means.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|exit| exit.code() == code)
    }

    /// The number that the shell sees.
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::Incomplete => 3,
            Self::Authentication => 4,
            Self::NeedsInput => 5,
            Self::Budget => 6,
            Self::Unreachable => 7,
            Self::Conflict => 8,
            Self::NotFound => 9,
            Self::Unhealthy => 10,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_one_meaning() {
        for exit in Exit::ALL {
            assert_eq!(Exit::from_code(exit.code()), Some(exit));
        }
        assert_eq!(Exit::from_code(77), None);
    }

    #[test]
    fn a_failure_is_one_object() {
        let body =
            ErrorBody::new("team.not_found", "there is no team \"web\"").with_hint("aion team ls");
        assert_eq!(
            serde_json::to_string(&body).unwrap(),
            r#"{"error":{"code":"team.not_found","message":"there is no team \"web\"","hint":"aion team ls"}}"#
        );
    }
}
