//! Runs commands one after the other and tells how each went; knows no command itself.

use std::env;
use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// One command of a suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it is called in the output.
    pub name: &'static str,
    /// The program.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Lines of its output that hold one of these are repeated at the end.
    pub repeat: &'static [&'static str],
}

impl Step {
    /// A cargo command.
    pub fn cargo(name: &'static str, arguments: &[&str]) -> Self {
        Self::new(name, "cargo", arguments)
    }

    /// Any command.
    pub fn new(name: &'static str, program: &str, arguments: &[&str]) -> Self {
        Self {
            name,
            program: program.to_owned(),
            arguments: arguments.iter().map(|&a| a.to_owned()).collect(),
            repeat: &[],
        }
    }

    /// The same, with lines to be repeated at the end.
    #[must_use]
    pub fn repeating(self, repeat: &'static [&'static str]) -> Self {
        Self { repeat, ..self }
    }

    /// The command as a person would type it.
    pub fn command_line(&self) -> String {
        let quoted = self.arguments.iter().map(|argument| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,".contains(c);
            if argument.chars().all(plain) { argument.clone() } else { format!("'{argument}'") }
        });
        std::iter::once(self.program.clone()).chain(quoted).collect::<Vec<_>>().join(" ")
    }
}

/// How a step that ran went.
#[derive(Clone, Debug)]
pub struct Done {
    /// The step's name.
    pub name: &'static str,
    /// How long it took.
    pub took: Duration,
    /// The lines of its output that are worth repeating.
    pub lines: Vec<String>,
}

/// The step at which a suite stopped.
#[derive(Debug)]
pub struct Failed {
    /// The step's name.
    pub name: &'static str,
    /// What happened.
    pub what: String,
    /// What to type to see it again.
    pub again: String,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}. To repeat it: {}", self.name, self.what, self.again)
    }
}

impl std::error::Error for Failed {}

/// Runs a step in `root` to its end.
pub fn run(root: &Path, step: &Step) -> Result<Done, Failed> {
    tell(&format!("\n==> {}: {}", step.name, step.command_line()));
    let begun = Instant::now();
    let failed = |what: String| Failed { name: step.name, what, again: step.command_line() };
    let mut command = command(root, step);
    let lines = if step.repeat.is_empty() {
        let status = command.status().map_err(|e| failed(format!("`{}`: {e}", step.program)))?;
        if !status.success() {
            return Err(failed(format!("it ended with {status}")));
        }
        Vec::new()
    } else {
        let (status, lines) = watched(&mut command, step.repeat)
            .map_err(|e| failed(format!("`{}`: {e}", step.program)))?;
        if !status.success() {
            return Err(failed(format!("it ended with {status}")));
        }
        lines
    };
    let took = begun.elapsed();
    tell(&format!("    {} took {:.1} s", step.name, took.as_secs_f64()));
    Ok(Done { name: step.name, took, lines })
}

/// Whether a program can be started and answers `arguments` with success.
pub fn answers(root: &Path, program: &str, arguments: &[&str]) -> bool {
    let step = Step::new("probe", program, arguments);
    command(root, &step)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Writes one line about progress to standard error, so that standard output is the command's own.
pub fn tell(line: &str) {
    let mut out = io::stderr().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Writes one line of results to standard output. A reader who left ends nothing.
pub fn say(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn command(root: &Path, step: &Step) -> Command {
    let mut command = Command::new(&step.program);
    command.args(&step.arguments).current_dir(root);
    // What cargo tells this program about itself is not meant for the cargo it starts.
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        let about_us = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"];
        if about_us.iter().any(|prefix| name.starts_with(prefix)) || name == "CARGO_PRIMARY_PACKAGE"
        {
            command.env_remove(name.as_ref());
        }
    }
    command
}

/// Runs a command, passes its output on, and keeps the lines that hold one of `repeat`.
fn watched(
    command: &mut Command,
    repeat: &'static [&'static str],
) -> io::Result<(std::process::ExitStatus, Vec<String>)> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (send, receive) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        let send = send.clone();
        thread::spawn(move || pass_on(stdout, io::stdout(), &send));
    }
    if let Some(stderr) = child.stderr.take() {
        thread::spawn(move || pass_on(stderr, io::stderr(), &send));
    } else {
        drop(send);
    }
    let lines = receive
        .into_iter()
        .filter(|line: &String| repeat.iter().any(|part| line.contains(part)))
        .map(|line| line.trim().to_owned())
        .collect();
    Ok((child.wait()?, lines))
}

fn pass_on(from: impl io::Read, mut to: impl Write, lines: &mpsc::Sender<String>) {
    for line in BufReader::new(from).split(b'\n') {
        let Ok(line) = line else { return };
        let line = String::from_utf8_lossy(&line).into_owned();
        let _ = writeln!(to, "{line}").and_then(|()| to.flush());
        // The receiver lives until both streams have ended.
        let _ = lines.send(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_be_typed() {
        let step = Step::cargo("a", &["nextest", "run", "-E", "not test(x)"]);
        assert_eq!(step.command_line(), "cargo nextest run -E 'not test(x)'");
    }

    #[test]
    fn chosen_lines_are_kept() {
        let step = Step::new("a", "sh", &["-c", "echo one; echo two >&2; echo three"])
            .repeating(&["two", "three"]);
        let mut lines = run(Path::new("."), &step).unwrap().lines;
        lines.sort();
        assert_eq!(lines, ["three", "two"]);
    }

    #[test]
    fn a_failure_says_what_to_type() {
        let step = Step::new("probe", "sh", &["-c", "exit 3"]);
        let failed = run(Path::new("."), &step).unwrap_err();
        let text = failed.to_string();
        assert!(text.starts_with("probe failed: it ended with exit status: 3."), "{text}");
        assert!(text.ends_with("To repeat it: sh -c 'exit 3'"), "{text}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let step = Step::new("probe", "aion-no-such-program", &[]);
        let text = run(Path::new("."), &step).unwrap_err().to_string();
        assert!(text.contains("`aion-no-such-program`"), "{text}");
    }
}
