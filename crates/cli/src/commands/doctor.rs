//! `aion doctor`: looks whether all that a team needs is here and well; it repairs nothing.

mod checks;

use aion_api::Exit;
use serde::Serialize;
use serde_json::json;

use crate::args::Doctor;
use crate::exit::{Failure, Outcome};
use crate::output;
use crate::paths::data_dir;
use crate::terminal::{Paint, clean_line};

/// What one look came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    /// A stable name, in parts: `store.chain`.
    id: &'static str,
    /// How bad it is.
    level: Level,
    /// What was seen.
    evidence: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Level {
    /// As it should be.
    Ok,
    /// Works, and something is worth knowing.
    Warning,
    /// Does not work.
    Error,
}

impl Check {
    fn ok(id: &'static str, evidence: impl Into<String>) -> Self {
        Self { id, level: Level::Ok, evidence: evidence.into(), fix: None }
    }

    fn warning(id: &'static str, evidence: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { id, level: Level::Warning, evidence: evidence.into(), fix: Some(fix.into()) }
    }

    fn error(id: &'static str, evidence: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { id, level: Level::Error, evidence: evidence.into(), fix: Some(fix.into()) }
    }

    /// A failure of ours as an error, with its own hint.
    fn failed(id: &'static str, failure: &Failure, fix: &str) -> Self {
        let hint = failure.body().error.hint.clone().unwrap_or_else(|| fix.to_owned());
        Self::error(id, failure.message(), hint)
    }
}

pub(super) async fn run(args: Doctor, json: bool) -> Outcome {
    let dir = data_dir(args.data.data_dir.as_deref())?;
    let checks = checks::all(&dir).await;
    let count = |level: Level| checks.iter().filter(|check| check.level == level).count();
    let (warnings, errors) = (count(Level::Warning), count(Level::Error));
    if json {
        output::json(&json!({ "checks": checks, "warnings": warnings, "errors": errors }))?;
    } else {
        print(&checks)?;
        let ok = count(Level::Ok);
        output::line(&format!("{ok} ok, {warnings} warning(s), {errors} error(s)"))?;
    }
    let unhealthy = errors > 0 || (args.strict && warnings > 0);
    Ok(if unhealthy { Exit::Unhealthy } else { Exit::Success })
}

fn print(checks: &[Check]) -> Result<(), Failure> {
    let paint = Paint::of_stdout();
    let width = checks.iter().map(|check| check.id.len()).max().unwrap_or(0);
    for check in checks {
        let mark = match check.level {
            Level::Ok => paint.good("✓"),
            Level::Warning => paint.warn("!"),
            Level::Error => paint.bad("✗"),
        };
        output::line(&format!(
            "{mark} {:<width$}  {}",
            check.id,
            clean_line(&check.evidence, 300)
        ))?;
        if let Some(fix) = &check.fix {
            let fix = clean_line(fix, 300);
            output::line(&paint.dim(&format!("  {:<width$}  fix: {fix}", "")))?;
        }
    }
    Ok(())
}
