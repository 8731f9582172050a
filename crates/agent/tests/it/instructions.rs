//! What a project says about itself, and to whom it is shown.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use aion_agent::host::Rules;
use aion_agent::permission::Layer;
use aion_agent::provider::StopReason;
use aion_agent::tools::Toolbox;
use aion_core::rule::{Rule, RuleScope, RuleWord};
use aion_testkit::house::{House, Judgement};

use crate::fixture::{done, input, play, runtime, toolbox};
use crate::turns::{Canned, stop, text};

/// The files that are shown, and all of it.
async fn shown(tools: &Toolbox, rules: Rules) -> (Vec<String>, String) {
    let text = tools.instructions(rules).await.unwrap_or_default();
    let files =
        text.split(" file=\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned());
    (files.collect(), text.clone())
}

async fn files(dir: &Path) -> Vec<String> {
    shown(&toolbox(dir), Rules::default()).await.0
}

#[tokio::test]
async fn what_the_workspace_itself_holds_is_read_once() {
    let dir = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    assert!(files(dir.path()).await.is_empty());
    fs::write(outside.path().join("secret"), "a key").unwrap();
    symlink(outside.path().join("secret"), path("AGENTS.md")).unwrap();
    assert!(files(dir.path()).await.is_empty());
    fs::remove_file(path("AGENTS.md")).unwrap();
    fs::write(path("AGENTS.md"), "Use tabs.").unwrap();
    symlink("AGENTS.md", path("CLAUDE.md")).unwrap();
    assert_eq!(files(dir.path()).await, ["AGENTS.md"]);
    fs::remove_file(path("CLAUDE.md")).unwrap();
    fs::write(path("CLAUDE.md"), "x".repeat(40_000)).unwrap();

    let tools = toolbox(dir.path());
    let (both, text) = shown(&tools, Rules::default()).await;
    assert_eq!(both, ["AGENTS.md", "CLAUDE.md"]);
    assert!(text.contains("[The file has 40000 bytes; read on with Read.]") && text.len() < 34_000);
    // The same is shown in the same way, and what is new with another mark.
    assert_eq!(shown(&tools, Rules::default()).await.1, text);
    fs::write(path("AGENTS.md"), "Use spaces.").unwrap();
    let mark = |text: &str| text.split("<project-instructions-").nth(1).unwrap()[..16].to_owned();
    assert_ne!(mark(&shown(&tools, Rules::default()).await.1), mark(&text));

    let rule: Rule = "Read(CLAUDE.md)".parse().unwrap();
    let denies = Layer { word: RuleWord::Deny, rule, scope: RuleScope::User, grant: None };
    let rules = Rules { layers: vec![denies], fault: None };
    assert_eq!(shown(&tools, rules).await.0, ["AGENTS.md"]);
    fs::write(path("AGENTS.md"), b"\0\x01").unwrap();
    fs::write(path("CLAUDE.md"), " \n").unwrap();
    assert!(files(dir.path()).await.is_empty());
}

#[tokio::test]
async fn only_a_trusted_workspace_is_listened_to() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("AGENTS.md"), "Use tabs.").unwrap();
    let answer = || vec![Ok(text("Yes.")), Ok(stop(StopReason::EndTurn))];
    let provider = Canned::new(vec![answer(), answer()]);
    let (house, mut requests) = House::new(|_| Judgement::Run);
    let runtime = runtime(Arc::clone(&provider) as _, &house, dir.path());
    assert_eq!(play(&runtime, &mut requests, input(1, "Well?")).await, done("Yes."));
    house.trust();
    assert_eq!(play(&runtime, &mut requests, input(2, "Well?")).await, done("Yes."));
    let sent = provider.requests();
    assert_eq!(sent[0].system, "You are bob.");
    assert!(sent[1].system.starts_with("You are bob.\n\n# This project's instructions\n\n"));
    assert!(sent[1].system.contains("\nUse tabs.\n"));
}
