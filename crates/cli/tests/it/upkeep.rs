//! What looks after the installation: copies that can be put back, completions, the manual.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::binary::{Home, Ran};
use crate::run::ASKS;

#[test]
fn a_copy_that_is_made_while_the_daemon_serves_can_be_put_back() {
    let home = Home::served();
    let script = home.scenario(ASKS);
    let script = script.to_str().unwrap();
    home.aion(["backup", "copy", "--json"]).code(9);
    home.aion(["run", "Write hello", "--script", script, "--yes", "--json"]).code(0);
    let events = |home: &Home| home.aion(["log", "--json"]).code(0).lines().len();
    let before = events(&home);
    let copy = home.path("copy");
    let copy = copy.to_str().unwrap();
    let made = home.aion(["backup", copy, "--json"]).code(0).json();
    assert_eq!(made["teams"], 1);
    assert_eq!(made["events"], before);
    assert_eq!(home.aion(["backup", copy, "--json"]).code(8).error_code(), "backup.not_empty");
    // The copy is a data directory: every reading command works in it.
    let view = home.aion(["team", "show", "--json", "--data-dir", copy]).code(0).json();
    assert_eq!(view["task_counts"]["completed"], 1);

    home.aion(["message", "send", "lead", "later"]).code(0);
    let refused = home.aion(["restore", copy, "--yes", "--json"]).code(7);
    assert_eq!(refused.error_code(), "data_dir.locked");
    home.aion(["stop", "--now"]).code(0);
    let unasked = home.aion(["restore", copy, "--json"]).code(5);
    assert_eq!(unasked.error_code(), "unconfirmed");
    let restored = home.aion(["restore", copy, "--yes", "--json"]).code(0).json();
    assert_eq!(restored["events"], before);
    assert_eq!(events(&home), before);
    let kept = restored["kept_at"].as_str().unwrap();
    let kept = home.aion(["log", "--json", "--data-dir", kept]).code(0).lines().len();
    assert!(kept > before);
    // The scenario came back with the team: it goes on.
    home.aion(["run", "--resume", "write-hello", "--json"]).code(0);
    home.aion(["stop"]).code(0);

    // A copy that was damaged is none.
    let database = home.path("copy").join("store.db");
    let mut bytes = fs::read(&database).unwrap();
    for at in 0..bytes.len() - 5 {
        if bytes[at..].starts_with(b"hello") {
            bytes[at] = b'j';
        }
    }
    fs::write(&database, bytes).unwrap();
    let ran = home.aion(["restore", copy, "--yes", "--json"]).code(7);
    assert_eq!(ran.error_code(), "data_dir.damaged");
    home.aion(["team", "show"]).code(0);
}

#[test]
fn shells_and_manuals_are_told_what_there_is() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let text = home.aion(["completions", shell]).code(0).stdout;
        assert!(text.contains("approve") && text.contains("undo"), "{shell}");
    }
    let bash = home.aion(["completions", "bash"]).code(0).stdout;
    let file = home.path("aion.bash");
    fs::write(&file, bash).unwrap();
    let checked = Command::new("bash").arg("-n").arg(&file).stdin(Stdio::null()).output().unwrap();
    Ran::from(checked).code(0);

    let page = home.aion(["man"]).code(0).stdout;
    assert!(page.starts_with(".ie") || page.contains(".TH aion"), "{page}");
    assert!(page.contains("EXIT STATUS") && page.contains("130"), "{page}");
    let dir = home.path("man");
    home.aion(["man", "--dir", dir.to_str().unwrap()]).code(0);
    for name in ["aion.1", "aion-run.1", "aion-team-undo.1", "aion-approve-yes.1"] {
        assert!(dir.join(name).is_file(), "{name}");
    }
    assert!(!dir.join("aion-__leash.1").exists());
}

#[test]
fn the_doctor_sees_what_is_wrong_and_says_what_to_do() {
    let home = Home::new();
    let look = |code: i32| home.aion(["doctor", "--json"]).code(code).json();
    let level = |seen: &Value, id: &str| {
        let checks = seen["checks"].as_array().unwrap();
        let found = checks.iter().find(|check| check["id"] == id);
        found.map(|check| check["level"].as_str().unwrap().to_owned())
    };
    let seen = look(0);
    assert_eq!(level(&seen, "files.data_dir").as_deref(), Some("ok"));
    assert!(!home.data().exists(), "looking makes nothing");
    home.aion(["doctor", "--strict"]).code(10);

    let script = home.scenario(ASKS);
    let script = script.to_str().unwrap();
    home.aion(["run", "Write hello", "--script", script, "--yes", "--json"]).code(0);
    home.aion(["approve", "ls"]).code(0);
    let seen = look(0);
    for id in ["store.chain", "files.token", "daemon.running", "teams.members", "teams.requests"] {
        assert_eq!(level(&seen, id).as_deref(), Some("ok"), "{id}: {seen}");
    }
    home.kill_daemon();
    assert_eq!(level(&look(0), "daemon.running").as_deref(), Some("warning"));

    let token = home.data().join("token");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).unwrap();
    let seen = look(10);
    assert_eq!(level(&seen, "files.token").as_deref(), Some("error"));
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();

    fs::create_dir_all(home.path(".config/aion")).unwrap();
    fs::write(home.path(".config/aion/config.toml"), "[run]\nmaxtime = \"1m\"\n").unwrap();
    assert_eq!(level(&look(0), "config.files").as_deref(), Some("warning"));
    fs::write(home.path(".config/aion/config.toml"), "[run\n").unwrap();
    assert_eq!(level(&look(10), "config.files").as_deref(), Some("error"));
    let shown = home.aion(["doctor"]).code(10).stdout;
    assert!(shown.contains("✗ config.files") && shown.contains("line 1"), "{shown}");
}

#[test]
fn settings_are_set_shown_and_obeyed() {
    let home = Home::served();
    let aion = |args: &[&str]| home.aion(args);
    aion(&["config", "set", "run.on_approval", "deny"]).code(0);
    let file = home.path(".config/aion/config.toml");
    assert_eq!(fs::read_to_string(&file).unwrap(), "[run]\non_approval = \"deny\"\n");
    let shown = aion(&["config", "get", "run.on_approval", "--json"]).code(0).json();
    assert_eq!(shown["value"], "deny");
    assert_eq!(shown["origin"], file.to_str().unwrap());
    assert_eq!(aion(&["config", "get", "daemon.port"]).code(0).stdout, "7717\n");
    let script = home.scenario(ASKS);
    let script = script.to_str().unwrap();
    let run = ["run", "Write hello", "--script", script, "--json"];
    assert_eq!(aion(&run).code(3).last()["status"], "incomplete");
    // The nearer word counts: the project, the environment, the command line.
    aion(&["config", "set", "run.on_approval", "fail", "--project"]).code(0);
    assert!(home.work().join(".aion/config.toml").is_file());
    aion(&run).code(5);
    let mut command = home.command(run);
    command.env("AION_ON_APPROVAL", "deny");
    Ran::from(command.output().unwrap()).code(3);
    aion(&["run", "Write hello", "--script", script, "--json", "--yes"]).code(0);

    aion(&["config", "set", "run.on_approval", "yes", "--json"]).code(2);
    aion(&["config", "set", "daemon.port", "1", "--project", "--json"]).code(2);
    let unknown = aion(&["config", "get", "run.maxtime", "--json"]).code(2);
    assert!(unknown.stderr.contains("run.max_time"), "{unknown:#?}");
    fs::write(&file, "provider.api_key = \"x\"\n").unwrap();
    assert_eq!(aion(&["config", "get", "--json"]).code(2).error_code(), "config.secret");
    fs::write(&file, "[run]\nmaxtime = \"1m\"\n").unwrap();
    let warned = aion(&["config", "get"]).code(0);
    assert!(warned.stderr.contains("is it run.max_time?"), "{warned:#?}");

    let mut command = home.command(["config", "edit"]);
    command.env("EDITOR", "sh -c exit");
    fs::remove_file(&file).unwrap();
    Ran::from(command.output().unwrap()).code(0);
    assert!(fs::read_to_string(&file).unwrap().contains("# max_time ="));
    let paths = aion(&["config", "path", "--json"]).code(0).json();
    assert_eq!((&paths[0]["layer"], &paths[1]["layer"]), (&"managed".into(), &"user".into()));
    assert_eq!(paths[1]["exists"], true);
    home.aion(["stop"]).code(0);
}
