//! Ctrl+C in its stages, with real signals and a real command that waits on a pipe.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read};

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use serde_json::Value;

use crate::binary::{Going, Home, in_both_ways};

/// Lead and teammate each run a command that waits until somebody opens a pipe.
const WAITS: &str = r#"
[[agent.team-lead.rule]]
when = [{ given = "Begin" }]
call = [
  { tool = "team_spawn_agent", input = { name = "bob", prompt = "Wait for the pipe." } },
  { tool = "Bash", input = { command = "exec 3> lead.life; echo $$ >&3; cat lead.pipe", timeout_seconds = 600 }, outcome = "any" },
]

[[agent.team-lead.rule]]
otherwise = true
when = [{ given = "." }]

[[agent.bob.rule]]
when = [{ given = "Wait for the pipe" }]
call = [{ tool = "Bash", input = { command = "exec 3> bob.life; echo $$ >&3; cat bob.pipe", timeout_seconds = 600 }, outcome = "any" }]
then = "The pipe spoke."

[[agent.bob.rule]]
otherwise = true
when = [{ given = "." }]
"#;

/// A team of which both members are in their commands.
struct Begun {
    going: Going,
    lead: Life,
    bob: Life,
}

fn begin(home: &Home) -> Begun {
    for pipe in ["lead.pipe", "bob.pipe", "lead.life", "bob.life"] {
        nix::unistd::mkfifo(&home.work().join(pipe), Mode::S_IRWXU).unwrap();
    }
    let script = home.scenario(WAITS);
    let script = script.to_str().unwrap();
    let going = Going::start(home.command(["run", "Begin", "--script", script, "--yes", "--json"]));
    Begun { going, lead: Life::of(home, "lead.life"), bob: Life::of(home, "bob.life") }
}

/// A command that runs, with the end of a pipe that it holds as long as anything of it lives.
struct Life {
    pid: i32,
    pipe: BufReader<File>,
}

impl Life {
    /// Waits until the command runs.
    fn of(home: &Home, pipe: &str) -> Self {
        let mut pipe = BufReader::new(File::open(home.work().join(pipe)).unwrap());
        let mut line = String::new();
        pipe.read_line(&mut line).unwrap();
        Self { pid: line.trim().parse().unwrap(), pipe }
    }

    /// Waits until nothing of the command is left.
    fn end(mut self) {
        let mut rest = Vec::new();
        self.pipe.read_to_end(&mut rest).unwrap();
    }

    /// Whether the command is there and no corpse.
    fn is_there(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        let state = stat.rsplit(')').next().unwrap_or_default().trim().chars().next();
        state.is_some_and(|state| state != 'Z')
    }
}

fn is_end_of(line: &Value, slot: u64) -> bool {
    line["event"]["type"] == "turn_ended" && line["event"]["slot"] == slot
}

#[test]
fn the_first_interrupts_the_lead_alone_and_a_teammate_finishes() {
    in_both_ways(|| {
        let home = Home::new();
        let Begun { mut going, lead, bob } = begin(&home);
        going.signal(Signal::SIGINT);
        let ended = going.until(|line| is_end_of(line, 1));
        assert_eq!(ended["event"]["outcome"]["outcome"], "interrupted");
        lead.end();
        assert!(bob.is_there());
        // Opening the pipe lets the teammate's command end by itself.
        drop(OpenOptions::new().write(true).open(home.work().join("bob.pipe")).unwrap());
        let ended = going.until(|line| is_end_of(line, 2));
        assert_eq!(ended["event"]["outcome"]["outcome"], "done");
        let ran = going.end().code(0);
        assert!(ran.stderr.contains("teammates go on"), "{ran:#?}");
        assert_eq!(ran.last()["status"], "completed");
    });
}

#[test]
fn the_second_stops_all_and_keeps_the_state() {
    in_both_ways(|| {
        let home = Home::new();
        let Begun { mut going, lead, bob } = begin(&home);
        going.signal(Signal::SIGINT);
        going.until_event("interrupt_requested");
        going.signal(Signal::SIGINT);
        going.until_event("team_held");
        let ran = going.end().code(130);
        assert_eq!(ran.last()["status"], "incomplete");
        lead.end();
        bob.end();
        let view = home.aion(["team", "show", "--json"]).code(0).json();
        assert_eq!(view["holds"], serde_json::json!(["stopping"]));
        let ran = home.aion(["run", "--resume", "begin", "--json"]).code(0);
        assert_eq!(ran.last()["status"], "completed");
        let view = home.aion(["team", "show", "--json"]).code(0).json();
        assert_eq!(view["holds"], Value::Null);
    });
}

/// A teammate that waits, and a lead that then sends more than a pipe holds.
fn floods() -> String {
    let much = "x".repeat(60_000);
    format!(
        r#"
[[agent.team-lead.rule]]
when = [{{ given = 'Begin' }}]
call = [
  {{ tool = "team_spawn_agent", input = {{ name = "bob", prompt = "Wait for the pipe." }} }},
  {{ tool = "Bash", input = {{ command = "cat lead.pipe", timeout_seconds = 600 }} }},
  {{ tool = "team_send_message", input = {{ to = "user", message = "{much}" }} }},
  {{ tool = "team_send_message", input = {{ to = "user", message = "{much}" }} }},
]

[[agent.bob.rule]]
when = [{{ given = "Wait for the pipe" }}]
call = [{{ tool = "Bash", input = {{ command = "exec 3> bob.life; echo $$ >&3; cat bob.pipe", timeout_seconds = 600 }} }}]
"#
    )
}

#[test]
fn the_last_stage_ends_everything_even_if_nobody_takes_the_output() {
    in_both_ways(|| {
        let home = Home::new();
        for pipe in ["lead.pipe", "bob.pipe", "bob.life"] {
            nix::unistd::mkfifo(&home.work().join(pipe), Mode::S_IRWXU).unwrap();
        }
        let script = home.scenario(&floods());
        let script = script.to_str().unwrap();
        let going =
            Going::start(home.command(["run", "Begin", "--script", script, "--yes", "--json"]));
        let bob = Life::of(&home, "bob.life");
        drop(OpenOptions::new().write(true).open(home.work().join("lead.pipe")).unwrap());
        // Two signals that cannot become one on their way: "stop", and then "at once".
        going.signal(Signal::SIGTERM);
        going.signal(Signal::SIGINT);
        bob.end();
        let code = going.end().code;
        assert!(matches!(code, Some(130 | 143)), "{code:?}");
    });
}

#[test]
fn a_signal_to_stop_stops_at_once_and_keeps_the_state() {
    in_both_ways(|| {
        let home = Home::new();
        let Begun { going, lead, bob } = begin(&home);
        going.signal(Signal::SIGTERM);
        going.end().code(143);
        lead.end();
        bob.end();
        home.aion(["team", "show", "--json"]).code(0);
    });
}

#[test]
fn killing_the_process_leaves_no_process_and_a_team_that_goes_on() {
    let home = Home::new();
    let Begun { going, lead, bob } = begin(&home);
    going.signal(Signal::SIGKILL);
    assert_eq!(going.end().code, None);
    lead.end();
    bob.end();
    let ran = home.aion(["run", "--resume", "begin", "--json"]).code(0);
    assert_eq!(ran.last()["status"], "completed");
    assert_eq!(fs::read_dir(home.data().join("leashes")).unwrap().count(), 0);
}
