//! How the daemon's refusals and its silence become failures of a command, in one place.

use std::error::Error;

use aion_api::{Exit, Problem};

use crate::exit::Failure;

/// A refusal.
pub(super) fn refused(problem: &Problem) -> Failure {
    let failure = Failure::new(exit(problem.status), &problem.code, problem.detail.clone());
    if problem.choices.is_empty() {
        return failure;
    }
    failure.with_hint(format!("there is: {}", problem.choices.join(", ")))
}

/// The exit code of an HTTP status.
fn exit(status: u16) -> Exit {
    match status {
        401 | 403 => Exit::Authentication,
        404 => Exit::NotFound,
        409 | 412 => Exit::Conflict,
        400 | 405 | 413 | 415 | 422 => Exit::Usage,
        _ => Exit::Failure,
    }
}

/// An answer that is none of the daemon's.
pub(super) fn not_ours(url: &str, status: u16) -> Failure {
    let message = format!("what answers at {url} (status {status}) is no daemon of aion");
    Failure::new(Exit::Unreachable, "daemon.unknown", message)
}

/// An answer that this version cannot read.
pub(super) fn unreadable(error: &dyn Error) -> Failure {
    let message = format!("the daemon's answer cannot be read: {}", causes(error));
    Failure::new(Exit::Unreachable, "daemon.incompatible", message)
        .with_hint("aion status says which version it is")
}

/// No answer.
pub(super) fn silent(url: &str, error: &dyn Error) -> Failure {
    let message = format!("nothing answers at {url}: {}", causes(error));
    Failure::new(Exit::Unreachable, "daemon.unreachable", message)
}

/// An error with what is behind it, each said once.
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let more = cause.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_exit_code() {
        let codes = [401, 403, 404, 409, 412, 422, 429, 500, 503].map(|status| exit(status).code());
        assert_eq!(codes, [4, 4, 9, 8, 8, 2, 1, 1, 1]);
    }
}
