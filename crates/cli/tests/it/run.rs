//! `aion run`: how runs end, who answers, and what is said meanwhile.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::binary::{Going, Home, Ran, in_both_ways};

/// A lead that makes one task, and does it with one tool call that has to be asked for.
pub(crate) const ASKS: &str = r#"
[[agent.team-lead.rule]]
when = [{ given = 'Write (?<word>\w+)' }]
call = [
  { tool = "team_task_create", input = { subject = "Write {{word}}", description = "-", owner = "me" }, expect = '#(?<task>\d+)' },
]

[[agent.team-lead.rule]]
when = [{ result = "created", tool = "team_task_create" }]
call = [{ tool = "Write", input = { file_path = "{{word}}.txt", content = "{{word}}\n" } }]

[[agent.team-lead.rule]]
when = [{ result = "Created", tool = "Write", ok = true }]
call = [{ tool = "team_task_update", input = { task_id = "{{task}}", status = "completed" } }]
then = "It is written."

[[agent.team-lead.rule]]
when = [{ result = "denied|may not|permission", tool = "Write", ok = false }]
say = "Then not."

[[agent.team-lead.rule]]
otherwise = true
when = [{ given = "is yours and ready" }]
"#;

fn run(home: &Home, options: &[&str]) -> Ran {
    let script = home.scenario(ASKS);
    let script = script.to_str().unwrap();
    let all = ["run", "Write hello", "--script", script, "--json"];
    home.aion(all.iter().chain(options))
}

#[test]
fn a_run_ends_by_what_became_of_its_tasks() {
    in_both_ways(|| {
        let home = Home::new();
        let ran = run(&home, &["--yes"]).code(0);
        let lines = ran.lines();
        assert_eq!(lines[0]["type"], "start");
        assert_eq!(lines[0]["schema"], "aion.run/1");
        assert_eq!(lines[0]["name"], "write-hello");
        let result = ran.last();
        assert_eq!(result["type"], "result");
        assert_eq!(result["status"], "completed");
        assert_eq!(result["tasks"], serde_json::json!({"completed":1,"in_progress":0,"pending":0}));
        assert_eq!(std::fs::read_to_string(home.work().join("hello.txt")).unwrap(), "hello\n");

        let home = Home::new();
        let ran = run(&home, &["--on-approval", "deny"]).code(3);
        assert_eq!(ran.last()["status"], "incomplete");
        assert!(!home.work().join("hello.txt").exists());
    });
}

#[test]
fn where_nobody_can_answer_the_run_says_what_it_waits_for() {
    in_both_ways(|| {
        for options in [&[][..], &["--on-approval", "fail"], &["--on-approval", "wait"]] {
            let home = Home::new();
            let ran = run(&home, options).code(5);
            let result = ran.last();
            assert_eq!(result["status"], "needs_input", "{options:?}");
            let reason = result["reason"].as_str().unwrap();
            assert!(reason.contains("team-lead asks: Write 6 bytes to hello.txt"), "{reason}");
            // The answer can still be given: the team goes on where it was.
            let ran = home.aion(["run", "--resume", "write", "--yes", "--json"]).code(0);
            assert_eq!(ran.last()["status"], "completed");
        }
    });
}

#[test]
fn answers_are_read_from_standard_input() {
    in_both_ways(|| {
        let check = |typed: &str, code: i32, exists: bool| {
            let home = Home::new();
            let script = home.scenario(ASKS);
            let script = script.to_str().unwrap();
            let options = ["--on-approval", "wait", "--json"];
            let mut command =
                home.command(["run", "Write hello", "--script", script].iter().chain(&options));
            command.stdin(Stdio::piped());
            let mut going = Going::start(command);
            let mut stdin = going.stdin();
            let needs = going.until(|line| line["type"] == "needs");
            assert_eq!(needs["kind"], "permission");
            assert_eq!(needs["choices"], serde_json::json!(["allow", "deny"]));
            stdin.write_all(typed.as_bytes()).unwrap();
            let ran = going.end().code(code);
            assert_eq!(home.work().join("hello.txt").exists(), exists, "{typed:?}");
            ran
        };
        check("y\n", 0, true);
        check("\n\nyes\n", 0, true);
        check("n\n", 3, false);
        let ran = check("not in this directory\n", 3, false);
        let refused = ran.lines().into_iter().find(|line| line["event"]["type"] == "tool_refused");
        let reason = refused.unwrap()["event"]["reason"].as_str().unwrap().to_owned();
        assert!(reason.contains("not in this directory"), "{reason}");
    });
}

#[test]
fn progress_is_lines_json_or_nothing_where_there_is_no_terminal() {
    in_both_ways(|| {
        let home = Home::new();
        let script = home.scenario(ASKS);
        let script = script.to_str().unwrap();
        let show = |progress: &str| {
            let home = Home::new();
            home.aion(["run", "Write hello", "--script", script, "--yes", "--progress", progress])
                .code(0)
        };
        for progress in ["auto", "plain"] {
            let ran = show(progress);
            let line = ran.stdout.lines().find(|line| line.contains("needs_you")).unwrap();
            let rest = line.split_once('Z').unwrap().1;
            let expected = " write-hello team-lead needs_you permission=r1 what=\"Write 6 bytes to hello.txt\"";
            assert_eq!(rest, expected);
            assert!(!ran.stdout.contains('\u{1b}'));
        }
        let ran = show("none");
        assert!(ran.stdout.starts_with("\nIt is written.\n\ncompleted"), "{ran:#?}");
        assert!(show("json").lines().len() > 5);
    });
}

#[test]
fn members_from_the_command_line_are_in_the_team_from_the_start() {
    in_both_ways(|| {
        let home = Home::new();
        let script = home.scenario(
            r#"
[[agent."*".rule]]
otherwise = true
when = [{ given = "." }]
say = "Here I am."
"#,
        );
        let script = script.to_str().unwrap();
        let ran = home.aion([
            "run",
            "Hello",
            "--script",
            script,
            "--json",
            "--member",
            "ann:scripted",
            "--member",
            "Bob",
        ]);
        // Without a task nothing is incomplete.
        let ran = ran.code(0);
        assert_eq!(ran.last()["status"], "completed");
        // They are there before the lead hears of its task.
        let events: Vec<Value> = ran.lines().iter().map(|line| line["event"].clone()).collect();
        let at = |fits: &dyn Fn(&Value) -> bool| events.iter().rposition(fits).unwrap();
        let told =
            at(&|event| event["type"] == "message_sent" && event["message"]["from"] == "user");
        assert!(at(&|event| event["type"] == "agent_spawned") < told, "{events:#?}");
        let view = home.aion(["team", "show", "--json"]).code(0).json();
        let names: Vec<&str> = view["agents"]
            .as_array()
            .unwrap()
            .iter()
            .map(|agent| agent["agent_name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["team-lead", "ann", "bob"]);
    });
}

#[test]
fn time_that_is_up_stops_the_team_and_keeps_it() {
    in_both_ways(|| {
        let home = Home::new();
        let script = home.scenario(
            r#"
[[agent.team-lead.rule]]
when = [{ given = "Wait" }]
fail = "hang"
"#,
        );
        let script = script.to_str().unwrap();
        let ran =
            home.aion(["run", "Wait", "--script", script, "--json", "--max-time", "1s"]).code(3);
        let result = ran.last();
        assert_eq!(result["status"], "incomplete");
        assert_eq!(result["reason"], "the time was up");
    });
}

#[test]
fn a_reader_that_goes_away_stops_the_run_and_is_no_success() {
    in_both_ways(|| {
        let home = Home::new();
        let script = home.scenario(ASKS);
        let script = script.to_str().unwrap();
        let options = ["--on-approval", "wait", "--json"];
        let mut command =
            home.command(["run", "Write hello", "--script", script].iter().chain(&options));
        command.stdin(Stdio::piped());
        let mut going = Going::start(command);
        let mut stdin = going.stdin();
        going.until(|line| line["type"] == "needs");
        let child = going.leave();
        stdin.write_all(b"y\n").unwrap();
        let ran = Ran::from(child.wait_with_output().unwrap()).code(1);
        assert_eq!(ran.error_code(), "output.gone");
        home.aion(["team", "show", "write", "--json"]).code(0);
    });
}

#[test]
fn hostile_text_reaches_no_terminal_as_it_is() {
    in_both_ways(|| {
        let home = Home::new();
        let script = home.scenario(
        r#"
[[agent.team-lead.rule]]
when = [{ given = "Shout" }]
say = "\u001b[2Jgone\u001b]0;title\u0007 \u202eback"
call = [{ tool = "team_send_message", input = { to = "user", message = "\u001b[31mred\u009b1mbold" } }]
"#,
    );
        let script = script.to_str().unwrap();
        let ran = home.aion(["run", "Shout", "--script", script]).code(0);
        let log = home.aion(["log"]).code(0);
        let report = home.aion(["export", "shout", "--format", "md"]).code(0);
        for text in [&ran.stdout, &ran.stderr, &log.stdout, &report.stdout] {
            let bad = text.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
            assert_eq!(bad, None, "{text:?}");
        }
        assert!(log.stdout.contains("redbold"), "{log:#?}");
        // For programs it stays exact.
        let json = home.aion(["log", "--json"]).code(0);
        let exact = json.lines().iter().any(|line: &Value| {
            line["event"]["message"]["body"]["text"] == "\u{1b}[31mred\u{9b}1mbold"
        });
        assert!(exact, "{json:#?}");
    });
}
