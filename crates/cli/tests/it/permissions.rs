//! Rules, modes and trust as the real binary obeys them, and requests that outlive a killed daemon.

use std::fs;

use nix::sys::stat::Mode;
use serde_json::Value;

use crate::binary::{Going, Home, Ran, in_both_ways};

/// A lead that runs the command that it is told, and says what came of it.
const TRIES: &str = r#"
[[agent.team-lead.rule]]
repeat = true
when = [{ given = '(?s)Try (?<what>.+?) now' }]
call = [{ tool = "Bash", input = { command = "{{what}}" }, outcome = "any" }]

[[agent.team-lead.rule]]
repeat = true
when = [{ result = '(?s)(?<out>.*)', tool = "Bash" }]
say = "It came to this: {{out}}"

[[agent.team-lead.rule]]
otherwise = true
when = [{ given = "." }]
say = "Noted."
"#;

fn tries(home: &Home, command: &str, options: &[&str]) -> Ran {
    let script = home.scenario(TRIES);
    let task = format!("Try {command} now");
    let all = ["run", &task, "--script", script.to_str().unwrap(), "--json"];
    home.aion(all.iter().chain(options))
}

/// Why a call was refused, as the log tells it.
fn refusal(ran: &Ran) -> String {
    let lines = ran.lines();
    let refused = lines.iter().find_map(|line| line["event"]["verdict"]["reason"].as_str());
    refused.unwrap_or_default().to_owned()
}

#[test]
fn rules_and_modes_of_the_command_line_count() {
    in_both_ways(|| {
        for (command, options, code, done) in [
            ("touch a", &["--allow", "Bash(touch:*)"][..], 0, true),
            ("touch a && rm a", &["--allow", "Bash(touch:*)"], 5, false),
            ("touch a | sh", &["--allow", "Bash(touch:*)"], 5, false),
            ("$(echo touch) a", &["--allow", "Bash(touch:*)"], 5, false),
            ("ls; cat none 2>/dev/null", &[], 0, false),
            ("touch a", &[], 5, false),
            ("touch a", &["--mode", "acceptEdits"], 5, false),
            ("touch a", &["--mode", "bypassPermissions"], 0, true),
            ("touch a", &["--mode", "bypassPermissions", "--ask", "Bash(touch:*)"], 5, false),
            ("env X=1 touch a", &["--mode", "bypass", "--deny", "Bash(touch:*)"], 0, false),
            ("touch a", &["--mode", "dontAsk"], 0, false),
            ("touch a", &["--mode", "dontAsk", "--allow", "Bash(touch a)"], 0, true),
            ("touch a", &["--mode", "plan", "--allow", "Bash"], 0, false),
            ("touch a", &["--yes", "--deny", "Bash(touch:*)"], 0, false),
        ] {
            let home = Home::new();
            let ran = tries(&home, command, options).code(code);
            assert_eq!(home.work().join("a").exists(), done, "{command} {options:?}: {ran:#?}");
            let denied = options.contains(&"--deny");
            let why = "the rule deny Bash(touch:*) in this team's rules forbids this";
            assert_eq!(refusal(&ran).starts_with(why), denied, "{command}: {ran:#?}");
        }
    });
    let home = Home::new();
    for wrong in ["Bsh(x)", "Bash(", "WebFetch(docs.rs)"] {
        tries(&home, "ls", &["--allow", wrong]).code(2);
    }
}

#[test]
fn what_a_project_allows_counts_only_where_it_is_trusted() {
    in_both_ways(|| {
        let home = Home::with_repository();
        fs::create_dir_all(home.work().join(".aion")).unwrap();
        let file = home.work().join(".aion/config.toml");
        let done = || {
            let there = home.work().join("a").exists();
            let _ = fs::remove_file(home.work().join("a"));
            there
        };
        fs::write(&file, "[permissions]\nallow = [\"Bash(touch:*)\"]\ndeny = [\"Bash(rm:*)\"]\n")
            .unwrap();
        // What it denies counts always.
        let ran = tries(&home, "rm -r x", &["--yes"]).code(0);
        assert!(refusal(&ran).contains("deny Bash(rm:*) in the project's settings"), "{ran:#?}");
        let ran = tries(&home, "touch a", &[]).code(5);
        assert!(ran.stderr.contains("is not trusted"), "{ran:#?}");
        assert!(!done());
        home.aion(["trust", "--json"]).code(5);
        let said = home.aion(["trust", "--yes"]).code(0);
        assert!(said.stdout.contains("is trusted"), "{said:#?}");
        tries(&home, "touch a", &[]).code(0);
        assert!(done());
        // Other rules were not trusted with it.
        fs::write(&file, "[permissions]\nallow = [\"Bash(touch a)\"]\n").unwrap();
        tries(&home, "touch a", &[]).code(5);
        assert!(!done());
        tries(&home, "touch a", &["--trust"]).code(0);
        assert!(done());
        let listed = home.aion(["trust", "--ls", "--json"]).code(0).json();
        assert_eq!(listed[0]["counts"], true);
        home.aion(["trust", "--rm"]).code(0);
        tries(&home, "touch a", &[]).code(5);
        assert!(!done());
    });
}

#[test]
fn always_is_kept_for_the_team_and_for_the_person_who_wants_it() {
    let home = Home::served();
    let script = home.scenario(TRIES);
    let script = script.to_str().unwrap();
    let run = ["run", "Try touch a now", "--script", script, "--detach", "--json"];
    let team = home.aion(run).code(0).json()["team"].as_str().unwrap().to_owned();
    let asked = request(&home);
    assert_eq!(asked["suggestion"], "Bash(touch:*)");
    home.aion(["approve", "yes", "r1", "--always", "--scope", "team"]).code(2);
    let said = home.aion(["approve", "yes", "r1", "--always", "--save"]).code(0).stdout;
    assert!(said.contains("Bash(touch:*) is allowed in "), "{said}");
    home.aion(["run", "--resume", &team, "--json"]).code(0);
    assert!(home.work().join("a").exists());
    let log = home.aion(["export", &team]).code(0).stdout;
    assert!(
        log.contains(r#""kind":"team_permission_update""#)
            || log.contains("team_permission_update"),
        "{log}"
    );
    assert!(log.contains("Bash(touch:*) is allowed for every member without asking"));
    // The same team asks no more, and no other team of this person does.
    home.aion(["message", "send", "lead", "Try touch b now", "--team", &team]).code(0);
    home.aion(["run", "--resume", &team, "--json"]).code(0);
    assert!(home.work().join("b").exists());
    tries(&home, "touch c", &[]).code(0);
    assert!(home.work().join("c").exists());
    let shown = home.aion(["config", "get", "permissions.allow", "--origin"]).code(0).stdout;
    assert!(shown.starts_with("Bash(touch:*)  (") && shown.contains("config.toml"), "{shown}");
    home.aion(["stop"]).code(0);
}

/// The one request that waits, once it does.
fn request(home: &Home) -> Value {
    loop {
        let open = home.aion(["approve", "ls", "--json"]).code(0).json();
        if let Some(request) = open.as_array().unwrap().first() {
            return request.clone();
        }
    }
}

#[test]
fn every_client_that_is_attached_sees_a_request_and_its_one_answer() {
    let home = Home::served();
    let script = home.scenario(TRIES);
    let script = script.to_str().unwrap();
    let run = ["run", "Wait", "--script", script, "--detach", "--json"];
    let team = home.aion(run).code(0).json()["team"].as_str().unwrap().to_owned();
    let attach = || Going::start(home.command(["attach", &team, "--json"]));
    let mut clients = [attach(), attach(), attach()];
    for client in &mut clients {
        client.until(|line| line["type"] == "following");
    }
    home.aion(["message", "send", "lead", "Try touch a now", "--team", &team]).code(0);
    for client in &mut clients {
        client.until_event("request_opened");
    }
    assert_eq!(request(&home)["what"], "Run touch a");
    // Two answer at once: one of them is told that it was late.
    let answers = std::thread::scope(|scope| {
        let say = |word: &'static str| {
            let home = &home;
            scope.spawn(move || home.aion(["approve", word, "r1", "--json"]).code)
        };
        [say("yes"), say("no")].map(|answer| answer.join().unwrap())
    });
    assert_eq!(answers.iter().filter(|code| **code == Some(0)).count(), 1, "{answers:?}");
    for mut client in clients {
        client.until_event("request_decided");
        client.until_event("turn_ended");
        client.signal(nix::sys::signal::Signal::SIGINT);
        client.end().code(130);
    }
    assert_eq!(home.work().join("a").exists(), answers[0] == Some(0));
    home.aion(["stop"]).code(0);
}

#[test]
fn a_request_outlives_a_killed_daemon_is_answered_once_and_its_tool_runs_once() {
    let home = Home::served();
    let script = home.scenario(TRIES);
    let script = script.to_str().unwrap();
    let run = ["run", "Try echo x >> count now", "--script", script, "--detach", "--json"];
    let team = home.aion(run).code(0).json()["team"].as_str().unwrap().to_owned();
    let asked = request(&home);
    for _ in 0..3 {
        home.kill_daemon();
        assert_eq!(request(&home)["request_id"], asked["request_id"]);
        assert!(!home.work().join("count").exists());
    }
    home.aion(["approve", "yes", "r1"]).code(0);
    let again = home.aion(["approve", "no", "r1", "--json"]);
    assert!(matches!(again.code, Some(8 | 9)), "{again:#?}");
    home.aion(["run", "--resume", &team, "--json"]).code(0);
    home.kill_daemon();
    home.aion(["run", "--resume", &team, "--json"]).code(0);
    assert_eq!(fs::read_to_string(home.work().join("count")).unwrap(), "x\n");
    home.aion(["stop"]).code(0);
}

#[test]
fn a_tool_that_a_kill_met_under_way_runs_at_most_once_and_its_agent_is_told() {
    let home = Home::served();
    nix::unistd::mkfifo(&home.work().join("pipe"), Mode::S_IRWXU).unwrap();
    nix::unistd::mkfifo(&home.work().join("started"), Mode::S_IRWXU).unwrap();
    let script = home.scenario(TRIES);
    let script = script.to_str().unwrap();
    let task = "Try echo x >> count; echo y > started; cat pipe now";
    let run = ["run", task, "--script", script, "--detach", "--json"];
    let team = home.aion(run).code(0).json()["team"].as_str().unwrap().to_owned();
    request(&home);
    home.aion(["approve", "yes", "r1"]).code(0);
    assert_eq!(fs::read_to_string(home.work().join("started")).unwrap(), "y\n");
    home.kill_daemon();
    home.aion(["run", "--resume", &team, "--json"]).code(0);
    assert_eq!(fs::read_to_string(home.work().join("count")).unwrap(), "x\n");
    let said = home.aion(["export", &team, "--format", "md"]).code(0).stdout;
    assert!(said.contains("It may have run"), "{said}");
    home.aion(["stop"]).code(0);
}

#[test]
fn a_plan_is_read_sent_back_word_for_word_and_approved_before_anything_runs() {
    let plans = r#"
[[agent.team-lead.rule]]
when = [{ given = "Plan it" }]
call = [
  { tool = "Bash", input = { command = "ls -a; cat notes" } },
  { tool = "Bash", input = { command = "touch early" }, outcome = "any" },
  { tool = "Write", input = { file_path = "early", content = "x" }, outcome = "any" },
  { tool = "ExitPlanMode", input = { plan = "Touch a file." } },
]

[[agent.team-lead.rule]]
when = [{ given = '(?s)Feedback: (?<what>[^\n]+)' }]
call = [{ tool = "ExitPlanMode", input = { plan = "Changed: {{what}}" } }]

[[agent.team-lead.rule]]
when = [{ given = "Your plan is approved" }]
call = [{ tool = "Bash", input = { command = "touch done" } }]
then = "Done."

[[agent.team-lead.rule]]
otherwise = true
when = [{ given = "." }]
say = "Noted."
"#;
    let home = Home::served();
    fs::write(home.work().join("notes"), "to do").unwrap();
    let script = home.scenario(plans);
    let script = script.to_str().unwrap();
    let allow = ["--allow", "Bash(touch:*)", "--allow", "Edit", "--mode", "plan"];
    let run = ["run", "Plan it", "--script", script, "--detach", "--json"];
    let team = home.aion(run.iter().chain(&allow)).code(0).json();
    let team = team["team"].as_str().unwrap();
    let first = request(&home);
    assert_eq!(first["kind"], "plan", "{first}");
    assert!(!home.work().join("early").exists());
    let words = "name the file, <exactly> \"so\"";
    home.aion(["approve", "no", "r1", "-m", words]).code(0);
    let second = loop {
        let open = request(&home);
        if open["id"] != first["id"] {
            break open;
        }
    };
    let what = second["what"].as_str().unwrap();
    assert!(what.contains(&format!("Changed: {words}")), "{what}");
    assert!(!home.work().join("done").exists());
    // The plan that was sent back cannot be approved any more.
    let late = home.aion(["approve", "yes", "r1", "--json"]);
    assert!(matches!(late.code, Some(8 | 9)), "{late:#?}");
    home.aion(["approve", "yes", "r2"]).code(0);
    home.aion(["run", "--resume", team, "--json"]).code(0);
    assert!(home.work().join("done").exists() && !home.work().join("early").exists());
    home.aion(["stop"]).code(0);
}

#[test]
fn a_run_in_a_script_ends_by_its_limits() {
    in_both_ways(|| {
        let home = Home::new();
        let ran = tries(&home, "ls", &["--max-turns", "1"]).code(0);
        assert_eq!(ran.last()["status"], "completed");
        // Two that go on talking are stopped after so many turns.
        let talk = r#"
[[agent."*".rule]]
otherwise = true
when = [{ given = "." }]
call = [{ tool = "team_send_message", input = { to = "user", message = "more" } }]
then = "More."
"#;
        let home = Home::new();
        let script = home.scenario(talk);
        let script = script.to_str().unwrap();
        let mut command = home.command([
            "run",
            "Talk",
            "--script",
            script,
            "--json",
            "--max-turns",
            "1",
            "--budget",
            "2",
        ]);
        let ran = Ran::from(command.output().unwrap());
        assert!(matches!(ran.code, Some(0 | 3)), "{ran:#?}");
        let created =
            ran.lines().into_iter().find(|line| line["event"]["type"] == "team_created").unwrap();
        assert_eq!(created["event"]["settings"]["cap"]["most"]["micro_usd"], 2_000_000);
    });
}
