//! What looks after the installation: copies that can be put back, completions, the manual.

use std::fs;
use std::process::{Command, Stdio};

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
