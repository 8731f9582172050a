//! `Bash`: a command under the leash, with a time limit; it never sees our secrets.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use aion_core::permission::ToolClass;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::time::Instant;

use super::input::{parse, property, spec as tool_spec};
use super::output::HeadAndTail;
use super::place::Root;
use super::{Action, Prepared, SHOWN_INPUT_BYTES, Surroundings, ToolConfig, shown};
use crate::host::{ToolOutput, ToolSpec};
use crate::leash::LeashedCommand;
use crate::permission::{Script, Subject};
use crate::sandbox::{Violation, in_words};

const DEFAULT_SECONDS: u64 = 120;
const MAX_SECONDS: u64 = 600;
/// How long a killed command's helper may take to end everything.
const PATIENCE: Duration = Duration::from_secs(15);
const OUTPUT_BYTES: usize = 30_000;
const SHOWN_COMMAND_BYTES: usize = 200;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    command: String,
    timeout_seconds: Option<u64>,
}

/// A call that is ready.
#[derive(Debug)]
pub(super) struct Bash {
    command: String,
    limit: Duration,
}

pub(super) fn spec() -> ToolSpec {
    tool_spec(
        "Bash",
        "Runs a command with bash in the workspace. Standard output and error come back together; \
         of long output the beginning and the end. Every process that is left when the command \
         ends is ended too. Nothing can be typed in.",
        &["command"],
        &json!({
            "command": property("string", "The command."),
            "timeout_seconds": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_SECONDS,
                "description": "How long it may run; 120 if not given.",
            },
        }),
    )
}

pub(super) fn prepare(root: &Root, input: &Value) -> Result<Prepared, String> {
    let Input { command, timeout_seconds } = parse(&spec(), input)?;
    if command.trim().is_empty() {
        return Err("Bash: the command is empty.".to_owned());
    }
    if command.contains('\0') {
        return Err("Bash: a command cannot hold a NUL character.".to_owned());
    }
    let seconds = timeout_seconds.unwrap_or(DEFAULT_SECONDS);
    if !(1..=MAX_SECONDS).contains(&seconds) {
        return Err(format!("Bash: timeout_seconds has to be from 1 to {MAX_SECONDS}."));
    }
    let bytes = input.to_string().len();
    if bytes > SHOWN_INPUT_BYTES {
        return Err(format!(
            "Bash: the command takes {bytes} bytes; over {SHOWN_INPUT_BYTES} it cannot be shown in whole to the one who has to allow it. Write it to a file with Write, and run that."
        ));
    }
    let script = Script::read(&command);
    // Files that decide what runs may be looked at, and everything is looked at where it leads.
    let inside = |text: &str| root.place(text).is_ok_and(|place| place.is_inside());
    let subject = Subject::of_command(script, &inside);
    Ok(Prepared {
        class: if subject.only_looks() { ToolClass::Read } else { ToolClass::Execute },
        subject,
        description: format!("Run {}", shown(one_line(&command), SHOWN_COMMAND_BYTES)),
        action: Action::Bash(Bash { command, limit: Duration::from_secs(seconds) }),
    })
}

/// A command in one line, in which a line's end is still to be seen: what follows a comment is run.
fn one_line(command: &str) -> String {
    let lines = command.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ⏎ ")
}

impl Bash {
    pub(super) async fn run(
        self,
        workspace: PathBuf,
        config: Arc<ToolConfig>,
        around: Surroundings,
    ) -> ToolOutput {
        let limit = self.limit;
        let refused = Arc::clone(&around.refused);
        let (text, code, told) = match self.execute(workspace, &config, around).await {
            Ok((output, code, told)) => (output.into_text(), code, told),
            Err(error) => {
                return ToolOutput::failed(format!("The command could not be run: {error}."));
            }
        };
        let notes: String = told.iter().map(note).collect();
        let found = if config.sandbox.stands() { in_words(&text) } else { Vec::new() };
        // Every change of it is one addition.
        refused
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(told.into_iter().chain(found));
        match code {
            Some(0) if text.is_empty() && notes.is_empty() => ToolOutput::changed("(no output)"),
            Some(0) => ToolOutput::changed(text + &notes),
            Some(code) => ToolOutput::failed(format!("Exit code {code}\n{text}{notes}")),
            None => ToolOutput::failed(format!(
                "The command did not end within {} seconds and was killed.\n{text}{notes}",
                limit.as_secs(),
            )),
        }
    }

    /// The output, the exit code and what was refused; no code means that the time was up.
    async fn execute(
        self,
        workspace: PathBuf,
        config: &ToolConfig,
        around: Surroundings,
    ) -> std::io::Result<(HeadAndTail, Option<i32>, Vec<Violation>)> {
        let command = LeashedCommand {
            program: "bash".into(),
            arguments: vec!["-c".into(), self.command.into()],
            directory: workspace.clone(),
            environment: config.environment.clone(),
        };
        let sandbox = &config.sandbox;
        let mut child = sandbox.spawn(&config.leash, &workspace, command, around.gate).await?;
        child.hold(around.running.token());
        let mut deadline = Instant::now() + self.limit;
        let mut output = HeadAndTail::new(OUTPUT_BYTES);
        let mut chunk = vec![0; 8 * 1024];
        let mut in_time = true;
        loop {
            tokio::select! {
                read = child.output().read(&mut chunk) => match read? {
                    0 => break,
                    read => output.push(&chunk[..read]),
                },
                () = tokio::time::sleep_until(deadline) => {
                    if !in_time {
                        child.reap().await;
                        break;
                    }
                    in_time = false;
                    deadline = Instant::now() + PATIENCE;
                    child.kill();
                }
            }
        }
        let ended = child.wait().await?;
        Ok((output, in_time.then_some(ended.code), ended.violations))
    }
}

/// What the model is told of a refusal that is not in the command's own output.
fn note(violation: &Violation) -> String {
    format!("\n[sandbox: the command {}: {}]", violation.kind.words(), violation.what)
}
