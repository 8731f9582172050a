//! Secrets that are planted in the environment, in what the settings name and in what `aion auth`
//! keeps: after a day's work they are nowhere but where they were planted.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aion_testkit::model_server::Format;

use crate::binary::{Going, Home};
use crate::providers::{Service, with};

const IN_ENVIRONMENT: &str = "canary-environment-1f6b";
const BY_SETTINGS: &str = "canary-settings-83aa";
const KEPT: &str = "canary-kept-c07d";
const CANARIES: [&str; 3] = [IN_ENVIRONMENT, BY_SETTINGS, KEPT];

/// A lead that brings somebody in, and looks for secrets wherever a command can look.
const NOSY: &str = r#"
[[agent.team-lead.rule]]
when = [{ given = "Look around" }]
call = [
  { tool = "Bash", input = { command = "env > seen.txt; cat /proc/self/environ /proc/1/environ /proc/1/cmdline \"$HOME/.config/aion/credentials.toml\" \"$HOME/.config/aion/config.toml\" >> seen.txt 2>&1; until [ -e go ]; do sleep 0.05; done" }, outcome = "any" },
  { tool = "Read", input = { file_path = "CREDENTIALS" }, outcome = "any" },
]

[[agent.team-lead.rule]]
repeat = true
when = [{ result = "." }]
say = "I looked around."
"#;

/// Every process with its parent.
fn parents() -> BTreeMap<i32, i32> {
    let entries = fs::read_dir("/proc").unwrap();
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let rest = stat.rsplit(')').next()?;
        Some((pid, rest.split_whitespace().nth(1)?.parse().ok()?))
    })
    .collect()
}

/// What can be read of the processes below one: their arguments and their environments.
fn below(pid: i32) -> Vec<(i32, String)> {
    let parents = parents();
    let is_below = |mut at: i32| {
        while let Some(parent) = parents.get(&at) {
            if *parent == pid {
                return true;
            }
            at = *parent;
        }
        false
    };
    let read = |pid: i32| {
        let of = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let all = [of("cmdline"), of("environ")].concat();
        (pid, String::from_utf8_lossy(&all).into_owned())
    };
    parents.keys().copied().filter(|at| is_below(*at)).map(read).collect()
}

/// Every file below a directory.
fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().filter_map(Result::ok) {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files(&entry.path(), found);
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
}

#[track_caller]
fn clean(what: &str, text: &str) {
    for canary in CANARIES {
        assert!(!text.contains(canary), "{what} holds {canary}");
    }
}

#[test]
fn no_key_is_anywhere_but_where_it_was_planted() {
    let home = Home::served();
    let credentials = home.path(".config/aion/credentials.toml");
    let nosy = NOSY.replace("CREDENTIALS", credentials.to_str().unwrap());
    // Each key opens one service; all three are in the house at once.
    let services = [
        (Service::start(&nosy, Some(IN_ENVIRONMENT)), Format::Chat, "openai"),
        (Service::start(&nosy, Some(BY_SETTINGS)), Format::Chat, "compatible"),
        (Service::start(&nosy, Some(KEPT)), Format::Anthropic, "anthropic"),
    ];
    for (service, format, name) in &services {
        let key = format!("providers.{name}.base_url");
        home.aion(["config", "set", &key, &service.url(*format)]).code(0);
    }
    home.aion(["config", "set", "providers.compatible.key", "env:OWN_KEY"]).code(0);
    fs::write(&credentials, format!("[anthropic]\nkey = {KEPT:?}\n")).unwrap();
    fs::set_permissions(&credentials, fs::Permissions::from_mode(0o600)).unwrap();
    let variables =
        [("OPENAI_API_KEY", IN_ENVIRONMENT), ("OWN_KEY", BY_SETTINGS), ("AION_LOG", "debug")];
    for (service, _, name) in &services {
        let task = format!("Look around with {name}");
        let mut command =
            home.command(["run", &task, "--provider", name, "--name", name, "--yes", "--json"]);
        command.envs(variables);
        let mut going = Going::start(command);
        going.until_event("tool_started");
        // The command runs as soon as it has written what it sees.
        let daemon = home.daemon().unwrap();
        let seen = home.work().join("seen.txt");
        let deadline = Instant::now() + Duration::from_mins(1);
        while !fs::read_to_string(&seen).is_ok_and(|text| text.contains("config.toml")) {
            assert!(Instant::now() < deadline, "the command does not run");
            std::thread::yield_now();
        }
        let processes = below(daemon);
        assert!(processes.iter().any(|(_, text)| text.contains("__leash")), "{processes:?}");
        for (pid, text) in processes {
            clean(&format!("process {pid}"), &text);
        }
        let mine = fs::read_to_string(format!("/proc/{}/cmdline", going.id())).unwrap();
        clean("the command line", &mine);
        fs::write(home.work().join("go"), "").unwrap();
        let ran = going.end().code(0);
        clean("the output", &format!("{ran:?}"));
        assert!(!service.server().seen().is_empty());
        clean("what a command sees", &fs::read_to_string(&seen).unwrap());
        for seen in service.server().seen() {
            clean("what a model sees", &seen.body.to_string());
        }
        for args in [
            &["export", name, "--format", "md"][..],
            &["export", name],
            &["log", name],
            &["agent", "show", "lead", "--team", name, "--json"],
        ] {
            clean(
                &format!("{args:?}"),
                &format!("{:?}", with(&home, args.iter().copied(), &variables)),
            );
        }
        fs::remove_file(home.work().join("go")).unwrap();
        fs::remove_file(&seen).unwrap();
    }
    for args in [
        &["providers"][..],
        &["providers", "--check", "--json"],
        &["auth", "ls"],
        &["doctor", "--json"],
        &["config", "get"],
        &["status", "--json"],
        &["stop"],
    ] {
        clean(
            &format!("{args:?}"),
            &format!("{:?}", with(&home, args.iter().copied(), &variables)),
        );
    }
    let mut all = Vec::new();
    files(home.data().parent().unwrap(), &mut all);
    let kept: Vec<_> = all.iter().filter(|path| **path != credentials).collect();
    assert!(kept.iter().any(|path| path.ends_with("daemon.log")), "{kept:?}");
    for path in kept {
        clean(&path.display().to_string(), &String::from_utf8_lossy(&fs::read(path).unwrap()));
    }
}
