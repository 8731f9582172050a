//! How a command ends: an exit code, and where it failed one message; never a stack trace.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use aion_api::{ErrorBody, Exit};
use aion_core::id::InvalidId;
use aion_store::StoreError;

use crate::terminal::clean_text;

/// What a command comes to.
pub(crate) type Outcome = Result<Exit, Failure>;

/// Why a command failed, and the exit code that goes with it.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    body: ErrorBody,
    /// Nobody reads our output any more; there is nothing to say and nobody to say it to.
    silent: bool,
}

impl Failure {
    /// A failure with a stable code for programs and a sentence for people.
    pub(crate) fn new(exit: Exit, code: &str, message: impl Into<String>) -> Self {
        Self { exit, body: ErrorBody::new(code, message), silent: false }
    }

    /// The same, with what to do about it.
    #[must_use]
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.body = self.body.with_hint(hint);
        self
    }

    /// The stable code.
    pub(crate) fn code(&self) -> &str {
        &self.body.error.code
    }

    /// The sentence for people.
    pub(crate) fn message(&self) -> &str {
        &self.body.error.message
    }

    /// The exit code that goes with it.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// Whether it is only not known to be done, and may be asked for again.
    pub(crate) fn is_unavailable(&self) -> bool {
        matches!(self.code(), "team.unavailable" | "team.closed" | "daemon.unreachable")
    }

    /// It as one JSON object.
    pub(crate) fn body(&self) -> &ErrorBody {
        &self.body
    }

    /// A command line that cannot be carried out as it stands.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", message)
    }

    /// The same for a command whose work stops with its output: then silence would be a lie.
    #[must_use]
    pub(crate) fn aloud(self) -> Self {
        if !self.silent {
            return self;
        }
        Self::new(Exit::Failure, "output.gone", "nobody takes the output any more; all was stopped")
            .with_hint("the team is kept: aion run --resume TEAM")
    }

    /// The same where a daemon goes on with the work.
    #[must_use]
    pub(crate) fn aloud_beside_a_daemon(self) -> Self {
        if !self.silent {
            return self;
        }
        let message = "nobody takes the output any more; the team goes on without it";
        Self::new(Exit::Failure, "output.gone", message)
            .with_hint("follow it with aion attach TEAM, stop it with aion team stop TEAM")
    }

    /// Something the machine did not let us do.
    pub(crate) fn io(what: impl std::fmt::Display, error: &io::Error) -> Self {
        Self::new(Exit::Failure, "io", format!("{what}: {error}"))
    }

    /// Says it on standard error, as one JSON object or as plain words.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        if self.silent {
            return ExitCode::SUCCESS;
        }
        let text = if json {
            serde_json::to_string(&self.body).unwrap_or_default()
        } else {
            let error = &self.body.error;
            let hint = error.hint.as_deref().map_or(String::new(), |hint| format!("\n{hint}"));
            clean_text(&format!("aion: {}{hint}", error.message))
        };
        // Where standard error is gone too, the exit code alone has to do.
        let _ = writeln!(io::stderr(), "{text}");
        ExitCode::from(self.exit.code())
    }
}

impl From<io::Error> for Failure {
    /// A failure to write our own output.
    fn from(error: io::Error) -> Self {
        let silent = error.kind() == ErrorKind::BrokenPipe;
        Self { silent, ..Self::io("write the output", &error) }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        match error {
            StoreError::Locked { .. } => Self::new(Exit::Unreachable, "data_dir.locked", message)
                .with_hint(
                    "wait until it ends, or give another directory with --data-dir DIR; \
                     reading commands (team, task, log, export) work beside it",
                ),
            StoreError::NoTeam(_) => Self::new(Exit::NotFound, "team.not_found", message),
            StoreError::Corrupt(_) => Self::new(Exit::Unreachable, "data_dir.damaged", message),
            StoreError::Newer(_) => Self::new(Exit::Unreachable, "data_dir.newer", message),
            StoreError::Conflict { .. } | StoreError::StaleEpoch { .. } => {
                Self::new(Exit::Conflict, "store.conflict", message)
            }
            StoreError::Unavailable(_) | StoreError::Unknown(_) | StoreError::TooLarge { .. } => {
                Self::new(Exit::Failure, "store.failed", message)
            }
        }
    }
}

impl From<InvalidId> for Failure {
    fn from(error: InvalidId) -> Self {
        Self::usage(error.to_string())
    }
}

/// The table of `aion help exit-codes`.
pub(crate) const EXIT_CODES: &[(Exit, &str)] = &[
    (Exit::Success, "it did what it was asked to; an empty list is a success too"),
    (Exit::Failure, "a task, an agent or a tool failed"),
    (Exit::Usage, "the command line cannot be understood, or an id is ambiguous"),
    (Exit::Incomplete, "the run ended before all its tasks were completed"),
    (
        Exit::Authentication,
        "a model provider is missing or wants a login, or the daemon does not take our token",
    ),
    (Exit::NeedsInput, "only a person can go on: a request waits for a decision"),
    (Exit::Budget, "the budget is used up"),
    (
        Exit::Unreachable,
        "the daemon cannot be reached, or the data directory is in use, damaged, or not ours",
    ),
    (Exit::Conflict, "somebody else changed it first"),
    (Exit::NotFound, "there is no such team, member or file"),
    (Exit::Unhealthy, "aion doctor found an error"),
    (Exit::Interrupted, "ended by Ctrl+C; the team's state is kept"),
    (Exit::Terminated, "ended by a signal to stop; the team's state is kept"),
];
