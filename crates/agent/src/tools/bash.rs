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
use super::shells::Shells;
use super::{Action, Prepared, SHOWN_INPUT_BYTES, Surroundings, ToolConfig, shown};
use crate::host::{ToolOutput, ToolSpec};
use crate::leash::LeashedCommand;
use crate::permission::{Script, Subject};
use crate::sandbox::{Violation, Walled, in_words};

const DEFAULT_SECONDS: u64 = 120;
const MAX_SECONDS: u64 = 600;
const DEFAULT_BACKGROUND_SECONDS: u64 = 60 * 60;
const MAX_BACKGROUND_SECONDS: u64 = 8 * 60 * 60;
/// How long a killed command's helper may take to end everything.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);
const OUTPUT_BYTES: usize = 30_000;
const SHOWN_COMMAND_BYTES: usize = 200;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    command: String,
    timeout_seconds: Option<u64>,
    #[serde(default)]
    run_in_background: bool,
}

/// A call that is ready.
#[derive(Debug)]
pub(super) struct Bash {
    command: String,
    limit: Duration,
    background: bool,
}

pub(super) fn spec() -> ToolSpec {
    tool_spec(
        "Bash",
        "Runs a command with bash in the workspace. Standard output and error come back together; \
         of long output the beginning and the end. Every process that is left when the command \
         ends is ended too. Nothing can be typed in. With run_in_background it is answered at once with a \
         name, and runs on while you work: for servers and long builds. There it reaches no host \
         that would have to be asked for.",
        &["command"],
        &json!({
            "command": property("string", "The command."),
            "timeout_seconds": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_BACKGROUND_SECONDS,
                "description": "How long it may run: 120 if not given, 600 at most; in the background 3600 and 28800.",
            },
            "run_in_background": property("boolean", "Answer at once and let it run on."),
        }),
    )
}

pub(super) fn prepare(root: &Root, input: &Value) -> Result<Prepared, String> {
    let Input { command, timeout_seconds, run_in_background: background } = parse(&spec(), input)?;
    if command.trim().is_empty() {
        return Err("Bash: the command is empty.".to_owned());
    }
    if command.contains('\0') {
        return Err("Bash: a command cannot hold a NUL character.".to_owned());
    }
    let (usual, most) = if background {
        (DEFAULT_BACKGROUND_SECONDS, MAX_BACKGROUND_SECONDS)
    } else {
        (DEFAULT_SECONDS, MAX_SECONDS)
    };
    let seconds = timeout_seconds.unwrap_or(usual);
    if !(1..=most).contains(&seconds) {
        return Err(format!("Bash: timeout_seconds has to be from 1 to {most}."));
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
        description: format!(
            "Run {}{}",
            if background { "in the background: " } else { "" },
            shown(one_line(&command), SHOWN_COMMAND_BYTES)
        ),
        action: Action::Bash(Bash { command, limit: Duration::from_secs(seconds), background }),
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
        shells: Arc<Shells>,
        around: Surroundings,
    ) -> ToolOutput {
        if self.background {
            return self.run_in_background(workspace, &config, &shells, around).await;
        }
        let limit = self.limit;
        let (text, code, told) = match self.execute(workspace, &config, around.clone()).await {
            Ok((output, code, told)) => (output.into_text(), code, told),
            Err(error) => {
                return ToolOutput::failed(format!("The command could not be run: {error}."));
            }
        };
        let text = tell(text, told, config.sandbox.stands(), &around);
        match code {
            Some(0) if text.is_empty() => ToolOutput::changed("(no output)"),
            Some(0) => ToolOutput::changed(text),
            Some(code) => ToolOutput::failed(format!("Exit code {code}\n{text}")),
            None => ToolOutput::failed(format!(
                "The command did not end within {} seconds and was killed.\n{text}",
                limit.as_secs(),
            )),
        }
    }

    async fn run_in_background(
        self,
        workspace: PathBuf,
        config: &ToolConfig,
        shells: &Shells,
        around: Surroundings,
    ) -> ToolOutput {
        let (limit, shown) = (self.limit, shown(one_line(&self.command), SHOWN_COMMAND_BYTES));
        if let Err(reason) = shells.check_room() {
            return ToolOutput::failed(reason);
        }
        // Nobody is there any more who could decide about a host.
        let child = self.start(workspace, config, Surroundings { gate: None, ..around }).await;
        let followed = child.map_err(|error| error.to_string());
        match followed.and_then(|child| shells.follow(child, shown, limit)) {
            Ok(answer) => ToolOutput::changed(answer),
            Err(error) => ToolOutput::failed(format!("The command could not be run: {error}.")),
        }
    }

    async fn start(
        self,
        workspace: PathBuf,
        config: &ToolConfig,
        around: Surroundings,
    ) -> std::io::Result<Walled> {
        let command = LeashedCommand {
            program: "bash".into(),
            arguments: vec!["-c".into(), self.command.into()],
            directory: workspace.clone(),
            environment: config.environment.clone(),
        };
        let mut child =
            config.sandbox.spawn(&config.leash, &workspace, command, around.gate).await?;
        child.hold(around.running.token());
        Ok(child)
    }

    /// The output, the exit code and what was refused; no code means that the time was up.
    async fn execute(
        self,
        workspace: PathBuf,
        config: &ToolConfig,
        around: Surroundings,
    ) -> std::io::Result<(HeadAndTail, Option<i32>, Vec<Violation>)> {
        let mut deadline = Instant::now() + self.limit;
        let mut child = self.start(workspace, config, around).await?;
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

/// A command's output with what it was refused, which is kept for those who watch as well.
pub(super) fn tell(
    text: String,
    refused: Vec<Violation>,
    stands: bool,
    around: &Surroundings,
) -> String {
    let notes: String = refused.iter().map(note).collect();
    let found = if stands { in_words(&text) } else { Vec::new() };
    // Every change of it is one addition.
    around
        .refused
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .extend(refused.into_iter().chain(found));
    text + &notes
}

/// What the model is told of a refusal that is not in the command's own output.
fn note(violation: &Violation) -> String {
    format!("\n[sandbox: the command {}: {}]", violation.kind.words(), violation.what)
}
