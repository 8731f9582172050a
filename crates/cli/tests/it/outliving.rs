//! Runs that use the daemon: it may die, the client may die, and somebody else may look and answer.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::process::Stdio;

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use serde_json::{Value, json};

use crate::binary::{Going, Home, Ran};
use crate::run::ASKS;

/// A lead whose command waits for a pipe, and who then makes and completes a task.
const WAITS: &str = r#"
[[agent.team-lead.rule]]
when = [{ given = "Begin" }]
call = [{ tool = "team_task_create", input = { subject = "Wait", description = "-", owner = "me" }, expect = '#(?<task>\d+)' }]

[[agent.team-lead.rule]]
when = [{ result = "created", tool = "team_task_create" }]
call = [{ tool = "Bash", input = { command = "echo started > started; cat lead.pipe", timeout_seconds = 600 }, outcome = "any" }]

[[agent.team-lead.rule]]
when = [{ result = "(?s).*", tool = "Bash" }]
call = [{ tool = "team_task_update", input = { task_id = "{{task}}", status = "completed" } }]
then = "It is done."

[[agent.team-lead.rule]]
otherwise = true
when = [{ given = "." }]
say = "Noted."
"#;

fn begin(home: &Home) -> Going {
    nix::unistd::mkfifo(&home.work().join("lead.pipe"), Mode::S_IRWXU).unwrap();
    nix::unistd::mkfifo(&home.work().join("started"), Mode::S_IRWXU).unwrap();
    let script = home.scenario(WAITS);
    let script = script.to_str().unwrap();
    let run = ["run", "Begin", "--script", script, "--yes", "--json"];
    let going = Going::start(home.command(run));
    assert_eq!(fs::read_to_string(home.work().join("started")).unwrap(), "started\n");
    going
}

/// Lets the lead's command end.
fn release(home: &Home) {
    drop(OpenOptions::new().write(true).open(home.work().join("lead.pipe")).unwrap());
}

#[test]
fn a_daemon_that_is_killed_is_started_again_and_the_run_goes_on() {
    let home = Home::served();
    let going = begin(&home);
    let first = home.daemon().unwrap();
    home.kill_daemon();
    // The command that it ran died with it, and is not run again; the lead is told so.
    let ran = going.end().code(0);
    assert_eq!(ran.last()["status"], "completed", "{ran:#?}");
    assert!(ran.stderr.contains("started again"), "{ran:#?}");
    assert_ne!(home.daemon().unwrap(), first);
    let seqs: Vec<u64> = ran.lines().iter().filter_map(|line| line["seq"].as_u64()).collect();
    assert!(seqs.windows(2).all(|pair| pair[0] + 1 == pair[1]), "each event once: {seqs:?}");
    home.aion(["stop"]).code(0);
}

#[test]
fn a_client_that_is_killed_leaves_the_team_at_work() {
    let home = Home::served();
    let going = begin(&home);
    going.signal(Signal::SIGKILL);
    assert_eq!(going.end().code, None);
    let status = home.aion(["status", "--json"]).code(0).json();
    assert_eq!(status["working"], 1);
    release(&home);
    // Whoever comes back sees it to its end.
    let ran = home.aion(["run", "--resume", "begin", "--json"]).code(0);
    assert_eq!(ran.last()["status"], "completed");
    home.aion(["stop"]).code(0);
}

#[test]
fn a_terminal_that_goes_away_leaves_the_team_at_work() {
    let home = Home::served();
    let going = begin(&home);
    going.signal(Signal::SIGHUP);
    going.end().code(143);
    assert_eq!(home.aion(["status", "--json"]).code(0).json()["working"], 1);
    release(&home);
    let ran = home.aion(["run", "--resume", "begin", "--json"]).code(0);
    assert_eq!(ran.last()["status"], "completed");
    home.aion(["stop"]).code(0);
}

#[test]
fn a_run_that_is_left_behind_is_answered_and_followed_by_other_commands() {
    let home = Home::served();
    let script = home.scenario(ASKS);
    let run = ["run", "Write hello", "--script", script.to_str().unwrap(), "--detach", "--json"];
    let team = home.aion(run).code(0).json()["team"].as_str().unwrap().to_owned();
    let mut attach = Going::start(home.command(["attach", &team, "--json"]));
    // It may ask before or after somebody follows it.
    let asked = loop {
        let open = home.aion(["approve", "ls", "--json"]).code(0).json();
        if let Some(request) = open.as_array().unwrap().first() {
            break request.clone();
        }
    };
    assert_eq!(asked["tool"], "Write");
    let shown = home.aion(["approve", "show", "r1"]).code(0).stdout;
    assert!(shown.contains("hello.txt"), "{shown}");
    let table = home.aion(["approve", "ls"]).code(0).stdout;
    assert!(table.contains("write-hello/team-lead"), "{table}");
    home.aion(["approve", "yes", "r9"]).code(9);
    home.aion(["approve", "yes", "r1"]).code(0);
    attach.until_event("turn_ended");
    attach.signal(Signal::SIGINT);
    attach.end().code(130);
    assert_eq!(fs::read_to_string(home.work().join("hello.txt")).unwrap(), "hello\n");
    assert_eq!(home.aion(["approve", "ls"]).code(0).stdout, "nothing waits for you\n");
    home.aion(["stop"]).code(0);
}

#[test]
fn what_is_typed_to_an_attached_member_is_answered() {
    let home = Home::served();
    let echo = r#"
[[agent.team-lead.rule]]
repeat = true
when = [{ given = 'say (?<word>\w+)' }]
say = "First line\nand {{word}}."
"#;
    let script = home.scenario(echo);
    let create = ["team", "create", "echo", "--script", script.to_str().unwrap(), "--json"];
    home.aion(create).code(0);
    let mut command = home.command(["attach", "echo/lead"]);
    command.stdin(Stdio::piped());
    let mut going = Going::start(command);
    let mut stdin = going.stdin();
    writeln!(stdin, "say hello").unwrap();
    let seen = going.until_text("and hello.");
    assert!(seen.contains("you → team-lead: say hello"), "{seen}");
    assert!(seen.contains("team-lead: First line\nteam-lead: and hello."), "{seen}");
    home.aion(["team", "archive", "echo", "--yes"]).code(0);
    going.end().code(0);
    home.aion(["stop"]).code(0);
}

#[test]
fn a_team_is_steered_by_verbs() {
    let home = Home::served();
    let script = home.scenario(ASKS);
    let script = script.to_str().unwrap();
    let aion = |args: &[&str]| home.aion(args);
    let json = |args: &[&str]| home.aion(args.iter().chain(&["--json"])).code(0).json();
    let work = home.work();
    let work = work.to_str().unwrap();
    json(&["team", "create", "web", "--script", script, "--workspace", work]);
    json(&["agent", "add", "bob", "--prompt", "Stand by.", "--plan"]);
    let members = json(&["agent", "ls"]);
    assert_eq!(members[1]["agent_name"], "bob");
    assert_eq!(members[1]["permission_mode"], "plan");
    assert!(aion(&["agent", "ls"]).code(0).stdout.contains("bob"));
    json(&["agent", "mode", "bob", "edits"]);
    json(&["agent", "model", "bob", "large"]);
    json(&["agent", "pause", "bo"]);
    let bob = json(&["agent", "show", "s2"]);
    assert_eq!(bob["permission_mode"], "acceptEdits");
    assert_eq!(bob["model"], "large");
    assert_eq!(bob["reason"], "held");
    json(&["agent", "resume", "bob"]);
    assert_eq!(json(&["agent", "rename", "bob", "ann"])["agent_name"], "ann");
    assert!(aion(&["agent", "show", "nobody", "--json"]).code(9).stderr.contains("team-lead"));
    aion(&["agent", "kill", "ann", "--json"]).code(5);
    json(&["agent", "kill", "ann", "--yes"]);

    json(&["task", "add", "Plan it"]);
    let second = json(&["task", "add", "Do it", "--after", "1", "--owner", "lead"]);
    assert_eq!(second["blocked_by"], json!([1]));
    assert_eq!(json(&["task", "assign", "2", "-"])["owner"], Value::Null);
    aion(&["task", "move", "2", "in-progress", "--json"]).code(8);
    assert_eq!(json(&["task", "done", "1"])["status"], "completed");
    assert_eq!(json(&["task", "cancel", "#2", "--yes"])["deleted"], true);
    aion(&["task", "show", "7", "--json"]).code(9);
    aion(&["task", "show", "x", "--json"]).code(2);

    json(&["message", "send", "lead", "nothing that it knows"]);
    let messages = json(&["message", "ls"]);
    let last = messages.as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["from"], "user");
    assert_eq!(last["text"], "nothing that it knows");

    json(&["team", "pause", "web"]);
    assert_eq!(json(&["team", "show", "web"])["holds"], json!(["user"]));
    json(&["team", "resume", "web"]);
    assert_eq!(json(&["team", "rename", "web", "page"])["name"], "page");
    aion(&["team", "rm", "page", "--json"]).code(5);
    json(&["team", "rm", "page", "--yes"]);
    assert_eq!(json(&["team", "ls"]), json!([]));
    home.aion(["stop"]).code(0);
}

#[test]
fn stopping_waits_for_turns_and_says_who_is_paused() {
    let home = Home::served();
    let going = begin(&home);
    let mut stop = home.command(["stop", "--json"]);
    let stopping = stop.stdout(Stdio::piped()).spawn().unwrap();
    // The turn goes on until its command ends.
    let paused = loop {
        let view = home.aion(["team", "show", "--json"]).code(0).json();
        if view["holds"] == json!(["user"]) {
            break view;
        }
    };
    assert_eq!(paused["agents"][0]["status"], "active");
    release(&home);
    let stopped = Ran::from(stopping.wait_with_output().unwrap()).code(0).json();
    assert_eq!(stopped["paused"], json!(["begin"]));
    // The run that followed it says that the daemon was stopped, or that the team is held.
    let code = going.end().code;
    assert!(matches!(code, Some(0 | 5 | 7)), "{code:?}");
    let view = home.aion(["team", "show", "--json"]).code(0).json();
    assert_eq!(view["task_counts"]["completed"], 1);
}
