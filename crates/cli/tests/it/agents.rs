//! Which agents are on a machine: what is found of them, and what it takes to find it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::binary::{Home, Ran};

/// Puts a program on the path of the home.
fn put(home: &Home, name: &str, script: &str) {
    let bin = home.path("bin");
    fs::create_dir_all(&bin).unwrap();
    let place = bin.join(name);
    fs::write(&place, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs the binary where the agents of the home are found.
fn aion(home: &Home, args: &[&str]) -> Ran {
    let mut command = home.command(args);
    let path = format!("{}:/usr/bin:/bin", home.path("bin").display());
    command.env("AION_AGENTS", "installed").env("PATH", path).env("CANARY", "canary");
    Ran::from(command.output().unwrap())
}

fn found(ran: &Ran, agent: &str) -> Value {
    let all = ran.json();
    let agents = all["agents"].as_array().unwrap();
    agents.iter().find(|row| row["agent_type"] == agent).unwrap().clone()
}

#[test]
fn what_is_installed_is_found_with_its_version_and_what_is_missing_with_what_helps() {
    let home = Home::served();
    // A program is asked in a home of its own, without anything of the person's environment.
    let asked = "[ -z \"$CANARY\" ] && [ \"$HOME\" = \"$PWD\" ] && touch \"$HOME/mine\" && echo ";
    put(&home, "goose", &format!("{asked} 'goose 1.9.0'"));
    put(&home, "codex-acp", "exit 1");
    put(&home, "node", &format!("{asked} v18.1.0"));
    for daemon in [false, true] {
        if daemon {
            aion(&home, &["team", "create", "web"]).code(0);
        }
        let ran = aion(&home, &["agent", "detect", "--json"]).code(0);
        let goose = found(&ran, "goose");
        assert_eq!(
            (&goose["available"], &goose["program"]["version"]),
            (&true.into(), &"1.9.0".into())
        );
        assert_eq!(goose["program"]["path"], home.path("bin/goose").to_str().unwrap());
        let codex = found(&ran, "codex");
        let why = codex["reason"].as_str().unwrap();
        assert!(
            why.starts_with("it needs Node 20 or newer") && why.ends_with("is 18.1.0"),
            "{why}"
        );
        let claude = found(&ran, "claude");
        assert_eq!(claude["reason"], "claude-agent-acp is not on the path");
        let fix = "npm install --global @agentclientprotocol/claude-agent-acp@0.101.0";
        assert_eq!(claude["program"]["fix"], fix);
        assert_eq!(ran.json()["daemon"].is_string(), daemon);
    }
    let shown = aion(&home, &["agent", "detect"]).code(0).stdout;
    assert!(shown.contains("goose       yes     1.9.0    cannot be told"), "{shown}");
    assert!(!home.path("mine").exists());
}

#[test]
fn a_login_is_seen_and_never_read() {
    let home = Home::served();
    put(&home, "opencode", "echo 1.18.33");
    let login = home.path(".local/share/opencode");
    fs::create_dir_all(&login).unwrap();
    fs::write(login.join("auth.json"), "canary-1234").unwrap();
    fs::set_permissions(login.join("auth.json"), fs::Permissions::from_mode(0o000)).unwrap();
    let ran = aion(&home, &["agent", "detect", "--json"]).code(0);
    let opencode = found(&ran, "opencode")["program"].clone();
    assert_eq!(opencode["signed_in"], "seen");
    assert_eq!(opencode["signed_in_by"], "~/.local/share/opencode/auth.json");
    assert!(!ran.stdout.contains("canary"));
    let first = ran.json()["agents"][0]["agent_type"].clone();
    assert_eq!(first, "opencode", "the best comes first");
}

#[test]
fn the_persons_own_agents_are_theirs_alone() {
    let home = Home::served();
    put(&home, "mine", "echo 0.1");
    let own =
        "[agents.mine]\ncommand = \"mine\"\nargs = [\"acp\"]\nenv = { KEY = \"env:NOT_SET\" }\n";
    let settings = home.path(".config/aion");
    fs::create_dir_all(&settings).unwrap();
    fs::write(settings.join("config.toml"), own).unwrap();
    let project = home.work().join(".aion");
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join("config.toml"), own.replace("mine", "theirs")).unwrap();
    let ran = aion(&home, &["agent", "detect", "--json"]).code(0);
    let mine = found(&ran, "mine");
    assert_eq!(mine["reason"], "NOT_SET is not set, and your settings name it");
    assert!(!ran.stdout.contains("theirs"), "{}", ran.stdout);
    let ran = aion(&home, &["config", "get", "daemon.agents"]).code(0);
    assert!(ran.stderr.contains("agents counts in your own file alone"), "{}", ran.stderr);
}

/// A program that speaks just enough ACP to be tried.
const SPEAKS: &str = r#"
while read -r line; do
  case "$line" in
    *initialize*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentInfo":{"name":"mine","version":"0.1"},"agentCapabilities":{"loadSession":true}}}' ;;
    *session/new*) echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s","models":{"currentModelId":"small","availableModels":[{"modelId":"large"},{"modelId":"small"}]}}}' ;;
  esac
done"#;

#[test]
fn an_agent_is_tried_and_what_came_of_it_is_kept() {
    let home = Home::served();
    put(&home, "mine", SPEAKS);
    put(&home, "broken", "echo 'no key: canary' >&2; exit 3");
    let settings = home.path(".config/aion");
    fs::create_dir_all(&settings).unwrap();
    let own = "[agents.mine]\ncommand = \"mine\"\n[agents.broken]\ncommand = \"broken\"\n";
    fs::write(settings.join("config.toml"), own).unwrap();
    for daemon in [false, true] {
        if daemon {
            aion(&home, &["team", "create", "web"]).code(0);
        }
        let said = aion(&home, &["agent", "test", "mine", "--json"]).code(0).json();
        assert_eq!((&said["name"], &said["version"]), (&"mine".into(), &"0.1".into()));
        assert_eq!(said["models"], serde_json::json!(["small", "large"]));
        assert_eq!(said["reopens"], true);
        let failed = aion(&home, &["agent", "test", "broken", "--json"]).code(1);
        assert_eq!(failed.error_code(), "agent.failed");
        assert!(failed.stderr.contains("no key: canary"), "the last words: {}", failed.stderr);
        let unknown = aion(&home, &["agent", "test", "scripted", "--json"]).code(9);
        assert_eq!(unknown.error_code(), "agent.unknown");
    }
    // The daemon remembers it.
    let ran = aion(&home, &["agent", "detect", "--json"]).code(0);
    assert_eq!(found(&ran, "mine")["models"], serde_json::json!(["small", "large"]));
    let error = found(&ran, "broken")["program"]["last_error"].clone();
    assert!(error.as_str().unwrap().contains("no key: canary"), "{error}");
}
