//! `BashOutput` and `KillShell`: what commands in the background write, and their end; they start
//! nothing.

use std::sync::Arc;
use std::time::Duration;

use aion_core::permission::ToolClass;
use serde::Deserialize;
use serde_json::{Value, json};

use super::bash::tell;
use super::input::{parse, property, spec as tool_spec};
use super::shells::Shells;
use super::{Action, Prepared, Surroundings};
use crate::host::{ToolOutput, ToolSpec};
use crate::permission::Subject;

/// The longest that an answer waits for the end of a command.
const MAX_WAIT: u64 = 600;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputInput {
    bash_id: String,
    cursor: Option<u64>,
    wait_seconds: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KillInput {
    shell_id: String,
}

/// A call of `BashOutput` that is ready.
#[derive(Debug)]
pub(super) struct Output {
    id: String,
    cursor: Option<u64>,
    wait: Duration,
}

/// A call of `KillShell` that is ready.
#[derive(Debug)]
pub(super) struct Kill {
    id: String,
}

pub(super) fn output_spec() -> ToolSpec {
    tool_spec(
        "BashOutput",
        "Reads what a command in the background has written since you read it last, and whether it \
         has ended. wait_seconds waits for its end, but no longer; you are told of an end also \
         without asking.",
        &["bash_id"],
        &json!({
            "bash_id": property("string", "Its name, as Bash answered it."),
            "cursor": {
                "type": "integer",
                "minimum": 0,
                "description": "Read from there, to see again what you have read; the last 256 KiB are kept.",
            },
            "wait_seconds": {
                "type": "integer",
                "minimum": 0,
                "maximum": MAX_WAIT,
                "description": "How long to wait for its end; 0 if not given.",
            },
        }),
    )
}

pub(super) fn kill_spec() -> ToolSpec {
    tool_spec(
        "KillShell",
        "Ends a command in the background, with every process that it began.",
        &["shell_id"],
        &json!({ "shell_id": property("string", "Its name, as Bash answered it.") }),
    )
}

pub(super) fn prepare_output(input: &Value) -> Result<Prepared, String> {
    let OutputInput { bash_id, cursor, wait_seconds } = parse(&output_spec(), input)?;
    let wait = wait_seconds.unwrap_or(0);
    if wait > MAX_WAIT {
        return Err(format!("BashOutput: wait_seconds is at most {MAX_WAIT}."));
    }
    Ok(Prepared {
        class: ToolClass::Read,
        subject: Subject::Other,
        description: format!("Read what {bash_id:?} wrote"),
        action: Action::BashOutput(Output { id: bash_id, cursor, wait: Duration::from_secs(wait) }),
    })
}

pub(super) fn prepare_kill(input: &Value) -> Result<Prepared, String> {
    let KillInput { shell_id } = parse(&kill_spec(), input)?;
    Ok(Prepared {
        // What it began itself an agent may end.
        class: ToolClass::Read,
        subject: Subject::Other,
        description: format!("End {shell_id:?}"),
        action: Action::KillShell(Kill { id: shell_id }),
    })
}

impl Output {
    pub(super) async fn run(
        self,
        shells: Arc<Shells>,
        stands: bool,
        around: Surroundings,
    ) -> ToolOutput {
        match shells.output(&self.id, self.cursor, self.wait).await {
            Ok(report) => ToolOutput::read(tell(report.text, report.refused, stands, &around)),
            Err(reason) => ToolOutput::failed(reason),
        }
    }
}

impl Kill {
    pub(super) async fn run(
        self,
        shells: Arc<Shells>,
        stands: bool,
        around: Surroundings,
    ) -> ToolOutput {
        match shells.kill(&self.id).await {
            Ok(report) => ToolOutput::changed(tell(report.text, report.refused, stands, &around)),
            Err(reason) => ToolOutput::failed(reason),
        }
    }
}
