//! What goes wrong before a team begins: each has its own exit code, one message, and no trace.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::binary::{Going, Home};

const IDLE: &str = r#"
[[agent.team-lead.rule]]
when = [{ given = "." }]
say = "Done."
"#;

const HANGS: &str = r#"
[[agent.team-lead.rule]]
when = [{ given = "." }]
fail = "hang"
"#;

#[test]
fn every_mistake_has_its_exit_code() {
    let home = Home::new();
    let bad = home.path("bad.toml");
    fs::write(&bad, "[[agent.x.rule]]\nwhat = 1\n").unwrap();
    let bad = bad.to_str().unwrap();
    let script = home.scenario(IDLE);
    let script = script.to_str().unwrap();
    let check = |args: &[&str], code: i32, error: &str| {
        let ran = home.aion(args.iter().copied().chain(["--json"])).code(code);
        assert_eq!(ran.error_code(), error, "{args:?}");
    };
    check(&["run", "task"], 4, "provider.missing");
    check(&["run", "task", "--script", "nowhere.toml"], 9, "scenario.unreadable");
    check(&["run", "task", "--script", bad], 2, "scenario.invalid");
    check(&["run", "  ", "--script", script], 2, "usage");
    check(&["run", "task", "--script", script, "--workspace", "nowhere"], 9, "workspace.missing");
    check(&["run", "task", "--script", script, "--member", "bob:nobody"], 2, "usage");
    check(&["run", "--resume", "nobody"], 9, "team.not_found");
    check(&["run", "--resume", "nobody", "--workspace", "."], 2, "usage");
    check(&["run", "--resume", "nobody", "--name", "other"], 2, "usage");
    check(&["team", "show"], 9, "team.not_found");
    check(&["team", "show", "nobody"], 9, "team.not_found");
    check(&["team", "undo", "nobody"], 9, "team.not_found");
    check(&["log", "nobody"], 9, "team.not_found");
    check(&["replay", "nobody"], 9, "team.not_found");
    check(&["help", "nothing"], 2, "usage");

    // So is what the parser of the command line refuses, for people in its own words.
    check(&["nonsense"], 2, "usage");
    check(&["run", "x", "--max-time", "soon"], 2, "usage");
    check(&["run", "x", "--progress", "loud"], 2, "usage");
    home.aion(["nonsense"]).code(2);
    home.aion(["run"]).code(2);
    home.aion(["run", "x", "--max-time", "soon"]).code(2);
    assert_eq!(home.aion(["team", "ls", "--json"]).code(0).stdout, "[]\n");
    assert!(!home.data().exists(), "reading makes nothing");
}

#[test]
fn names_that_would_deceive_are_refused() {
    let home = Home::new();
    let script = home.scenario(IDLE);
    let script = script.to_str().unwrap();
    let long = "x".repeat(300);
    for name in ["..", "a/b", "", "team-lead", "Team-Lead", "tearn-lead", "user", "bоb", &long] {
        let member = format!("{name}:scripted");
        let ran = home.aion(["run", "t", "--script", script, "--json", "--member", &member]);
        assert_eq!(ran.code(2).error_code(), "usage", "{name:?}");
    }
    let twins = ["--member", "bob", "--member", "b0b"];
    let ran = home.aion(["run", "t", "--script", script, "--json"].iter().chain(&twins)).code(2);
    assert_eq!(ran.error_code(), "team.name_taken");
    for name in ["", "  ", "a\u{7}b", &"n".repeat(101)] {
        let ran = home.aion(["run", "t", "--script", script, "--json", "--name", name]).code(2);
        assert!(ran.stderr.contains("team."), "{name:?}: {ran:#?}");
    }
    let teams = home.aion(["team", "ls", "--json"]).code(0).json();
    assert_eq!(teams, serde_json::json!([]), "a refused team was made");
}

#[test]
fn a_refused_team_leaves_nothing_in_the_repository() {
    let home = Home::with_repository();
    let script = home.scenario(IDLE);
    let script = script.to_str().unwrap();
    home.aion(["run", "t", "--script", script, "--json", "--name", "a\u{7}b"]).code(2);
    assert_eq!(home.git(["for-each-ref", "refs/aion"]), "");
    home.aion(["run", "t", "--script", script, "--json"]).code(0);
    assert_eq!(home.git(["for-each-ref", "refs/aion"]).lines().count(), 2);
}

#[test]
fn help_and_version_are_there() {
    let home = Home::new();
    let version = home.aion(["--version"]).code(0).stdout;
    assert_eq!(version, format!("aion {}\n", env!("CARGO_PKG_VERSION")));
    let help = home.aion(["--help"]).code(0).stdout;
    for command in ["demo", "run", "team", "task", "log", "replay", "export", "help"] {
        assert!(help.contains(&format!("  {command} ")), "{command}: {help}");
    }
    assert!(!help.contains("leash"));
    assert!(home.aion(["help", "team", "undo"]).code(0).stdout.contains("--yes"));
    let codes = home.aion(["help", "exit-codes"]).code(0).stdout;
    for code in ["0 ", "2 ", "3 ", "4 ", "5 ", "7 ", "9 ", "130", "143"] {
        assert!(codes.lines().any(|line| line.starts_with(code)), "{code}: {codes}");
    }
    home.aion(["help", "exit-codes", "--json"]).code(0).json();
}

#[test]
fn a_data_directory_that_others_can_read_is_refused() {
    let home = Home::new();
    fs::create_dir(home.data()).unwrap();
    fs::set_permissions(home.data(), fs::Permissions::from_mode(0o755)).unwrap();
    let ran = home.aion(["team", "ls", "--json"]).code(7);
    assert_eq!(ran.error_code(), "data_dir.mode");
    fs::set_permissions(home.data(), fs::Permissions::from_mode(0o700)).unwrap();
    home.aion(["team", "ls", "--json"]).code(0);
}

#[test]
fn a_second_run_names_the_first_and_reading_goes_on() {
    let home = Home::new();
    let script = home.scenario(HANGS);
    let script = script.to_str().unwrap();
    let mut command = home.command(["run", "first", "--script", script, "--json"]);
    command.stdin(Stdio::null());
    let mut first = Going::start(command);
    first.until_event("turn_started");

    let ran = home.aion(["run", "second", "--script", script, "--json"]).code(7);
    assert_eq!(ran.error_code(), "data_dir.locked");
    assert!(ran.stderr.contains(&first.id().to_string()), "{ran:#?}");
    assert!(ran.stderr.contains("--data-dir"), "{ran:#?}");
    let other = home.path("other");
    let idle = home.path("idle.toml");
    fs::write(&idle, IDLE).unwrap();
    let idle = idle.to_str().unwrap();
    home.aion(["run", "second", "--script", idle, "--data-dir", other.to_str().unwrap()]).code(0);

    let teams = home.aion(["team", "ls", "--json"]).code(0).json();
    assert_eq!(teams.as_array().unwrap().len(), 1);
    let view = home.aion(["team", "show", "--json"]).code(0).json();
    assert_eq!(view["agents"][0]["status"], "active");
    first.signal(nix::sys::signal::Signal::SIGTERM);
    first.end().code(143);
}
