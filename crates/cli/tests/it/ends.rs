//! How a run ends that does not go well, and how one goes on that waits, is settled or is held.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use serde_json::{Value, json};

use crate::binary::{Going, Home, Ran, in_both_ways};

fn run(home: &Home, scenario: &str, options: &[&str]) -> Ran {
    let script = home.scenario(scenario);
    let script = script.to_str().unwrap();
    home.aion(["run", "Work", "--script", script, "--json"].iter().chain(options))
}

fn resume(home: &Home) -> Ran {
    home.aion(["run", "--resume", "work", "--json"])
}

#[test]
fn a_team_that_waits_or_is_settled_or_is_held_ends_the_same_way_when_it_is_resumed() {
    in_both_ways(|| {
        // It asks the person, and ends its turn.
        let asks = r#"
[[agent.team-lead.rule]]
when = [{ given = "Work" }]
call = [{ tool = "team_ask_user", input = { question = "Which colour?", options = ["red", "blue"] } }]
"#;
        let home = Home::new();
        for ran in [run(&home, asks, &[]), resume(&home), resume(&home)] {
            let result = ran.code(5).last();
            assert_eq!(result["status"], "needs_input");
            assert_eq!(result["reason"], "team-lead asks: Which colour?");
        }

        let done = r#"
[[agent.team-lead.rule]]
when = [{ given = "Work" }]
say = "Done."
"#;
        let home = Home::new();
        for ran in [run(&home, done, &[]), resume(&home)] {
            assert_eq!(ran.code(0).last()["status"], "completed");
        }

        // Its provider wants a login: only a person can go on, and nobody is asked anything.
        let held = r#"
[[agent.team-lead.rule]]
repeat = true
when = [{ given = "Work" }]
fail = "login"
"#;
        let home = Home::new();
        for ran in [run(&home, held, &[]), resume(&home)] {
            assert_eq!(ran.code(5).last()["status"], "needs_input");
        }
    });
}

#[test]
fn a_run_whose_lead_fails_is_no_success() {
    in_both_ways(|| {
        // Nothing in its scenario fits: each turn is a fault.
        let fails = r#"
[[agent.team-lead.rule]]
when = [{ given = "something else" }]
say = "Done."
"#;
        let home = Home::new();
        let result = run(&home, fails, &[]).code(1).last();
        assert_eq!(result["status"], "failed");
        let reason = result["reason"].as_str().unwrap();
        assert!(reason.starts_with("team-lead failed at what it was told: "), "{reason}");
        // Nothing is different the next time.
        assert_eq!(resume(&home).code(1).last()["status"], "failed");
    });
}

#[test]
fn a_lead_that_is_interrupted_alone_has_completed_nothing() {
    in_both_ways(|| {
        let home = Home::new();
        nix::unistd::mkfifo(&home.work().join("life"), Mode::S_IRWXU).unwrap();
        let script = home.scenario(
        r#"
[[agent.team-lead.rule]]
when = [{ given = "Work" }]
call = [{ tool = "Bash", input = { command = "exec 3> life; echo >&3; sleep 1000", timeout_seconds = 600 } }]
"#,
    );
        let script = script.to_str().unwrap();
        let going =
            Going::start(home.command(["run", "Work", "--script", script, "--yes", "--json"]));
        let mut life = BufReader::new(File::open(home.work().join("life")).unwrap());
        life.read_line(&mut String::new()).unwrap();
        going.signal(Signal::SIGINT);
        let result = going.end().code(3).last();
        assert_eq!(result["status"], "incomplete");
        assert_eq!(result["reason"], "the lead was interrupted, and did not go on");
        assert_eq!(resume(&home).code(3).last()["status"], "incomplete");
    });
}

/// A lead that asks for one member more often than there is a name.
const TWINS: &str = r#"
[[agent.team-lead.rule]]
when = [{ given = "Work" }]
call = [
  { tool = "team_spawn_agent", input = { name = "a1", prompt = "." } },
  { tool = "team_spawn_agent", input = { name = "a2", prompt = "." } },
  { tool = "team_spawn_agent", input = { name = "a3", prompt = "." } },
  { tool = "team_spawn_agent", input = { name = "a4", prompt = "." } },
  { tool = "team_spawn_agent", input = { name = "a5", prompt = "." } },
  { tool = "team_spawn_agent", input = { name = "bob", prompt = "Hello." } },
  { tool = "team_spawn_agent", input = { name = "bob", prompt = "Hello again." } },
]

[[agent.team-lead.rule]]
otherwise = true
when = [{ given = "." }]

[[agent."*".rule]]
otherwise = true
when = [{ given = "." }]
"#;

#[test]
fn an_answer_that_is_refused_is_asked_for_again() {
    in_both_ways(|| {
        let home = Home::new();
        let script = home.scenario(TWINS);
        let script = script.to_str().unwrap();
        let options = ["--on-approval", "wait", "--json"];
        let mut command = home.command(["run", "Work", "--script", script].iter().chain(&options));
        command.stdin(Stdio::piped());
        let mut going = Going::start(command);
        let mut stdin = going.stdin();
        // Both are open before the first is answered; the question may come before or after.
        let (mut opened, mut asked) = (0, None);
        while opened < 2 || asked.is_none() {
            let line = going
                .until(|line| line["type"] == "needs" || line["event"]["type"] == "request_opened");
            if line["type"] == "needs" {
                asked = Some(line);
            } else {
                opened += 1;
            }
        }
        let first = asked.unwrap();
        stdin.write_all(b"y\n").unwrap();
        let second = going.until(|line| line["type"] == "needs");
        assert_ne!(first["id"], second["id"]);
        stdin.write_all(b"y\n").unwrap();
        // The name is taken by then.
        let again = going.until(|line| line["type"] == "needs");
        assert_eq!(second["id"], again["id"]);
        stdin.write_all(b"n\n").unwrap();
        let ran = going.end().code(0);
        assert!(ran.stderr.contains("taken"), "{ran:#?}");

        // Where nobody is asked, what cannot be granted is declined.
        let home = Home::new();
        let script = home.scenario(TWINS);
        let script = script.to_str().unwrap();
        let mut command = home.command(["run", "Work", "--script", script].iter().chain(&options));
        command.stdin(Stdio::piped());
        let mut going = Going::start(command);
        let stdin = going.stdin();
        for _ in 0..2 {
            going.until_event("request_opened");
        }
        drop(stdin);
        going.end().code(5);
        let ran = home.aion(["run", "--resume", "work", "--yes", "--json"]).code(0);
        let decisions: Vec<Value> = ran
            .lines()
            .iter()
            .filter(|line| line["event"]["type"] == "request_decided")
            .map(|line| line["event"]["decision"]["decision"].clone())
            .collect();
        assert_eq!(decisions, [json!("consent"), json!("decline")]);
    });
}

#[test]
fn what_is_to_be_allowed_is_shown_as_it_will_run() {
    in_both_ways(|| {
        let hides = r##"
[[agent.team-lead.rule]]
when = [{ given = "Work" }]
call = [{ tool = "Bash", input = { command = "# count the files\nrm -rf site \u001b[8m; ls\n" } }]

[[agent.team-lead.rule]]
when = [{ result = "." }]
"##;
        let home = Home::new();
        let script = home.scenario(hides);
        let script = script.to_str().unwrap();
        let plain = home.aion(["run", "Work", "--script", script]).code(5);
        let expected = "    command:\n    │ # count the files\n    │ rm -rf site \\u{1b}[8m; ls\n";
        assert!(plain.stderr.contains(expected), "{plain:#?}");

        let ran = run(&Home::new(), hides, &[]).code(5);
        let needs = ran.lines().into_iter().find(|line| line["type"] == "needs").unwrap();
        assert_eq!(needs["tool"], "Bash");
        let input: Value = serde_json::from_str(needs["input"].as_str().unwrap()).unwrap();
        assert_eq!(input["command"], "# count the files\nrm -rf site \u{1b}[8m; ls\n");
    });
}
