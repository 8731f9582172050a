//! Commands that run on when their call is answered.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use aion_agent::tools::{Surroundings, Toolbox};
use aion_core::permission::ToolClass;
use aion_testkit::house::{House, Judgement};
use serde_json::{Value, json};

use crate::fixture::{done, input, lines, play, runtime, scripted, toolbox};

async fn call(tools: &Toolbox, tool: &str, input: Value) -> Result<String, String> {
    let prepared = tools.prepare(tool, &input)?;
    let output = tools.run(prepared, Surroundings::default()).await;
    if output.ok { Ok(output.text) } else { Err(output.text) }
}

/// Starts a command and answers its name.
async fn start(tools: &Toolbox, command: &str) -> String {
    let input = json!({ "command": command, "run_in_background": true });
    let answer = call(tools, "Bash", input).await.unwrap();
    let name = answer.strip_prefix("Runs in the background as ").unwrap();
    name.split('.').next().unwrap().to_owned()
}

async fn read(tools: &Toolbox, id: &str, wait: u64) -> String {
    call(tools, "BashOutput", json!({ "bash_id": id, "wait_seconds": wait })).await.unwrap()
}

/// Reads until something is there.
async fn read_some(tools: &Toolbox, id: &str, text: &str) -> String {
    loop {
        let report = read(tools, id, 0).await;
        if report.contains(text) {
            return report;
        }
        tokio::task::yield_now().await;
    }
}

fn pipe(dir: &Path, name: &str) {
    let made = std::process::Command::new("mkfifo").arg(dir.join(name)).status().unwrap();
    assert!(made.success());
}

#[tokio::test]
async fn a_command_runs_on_and_is_read_piece_by_piece() {
    let dir = tempfile::tempdir().unwrap();
    let tools = toolbox(dir.path());
    pipe(dir.path(), "go");
    let id = start(&tools, "echo one; cat go; echo three; exit 4").await;
    let command = "echo one; cat go; echo three; exit 4";
    assert_eq!(
        read_some(&tools, &id, "one\n[").await,
        format!("[{id} runs: {command}]\none\n[cursor 4]")
    );
    assert_eq!(read(&tools, &id, 0).await, format!("[{id} runs: {command}]\n[cursor 4]"));
    fs::write(dir.path().join("go"), "two\n").unwrap();
    assert_eq!(
        read(&tools, &id, 60).await,
        format!("[{id} ended: exit code 4]\ntwo\nthree\n[cursor 14]")
    );
    let again = call(&tools, "BashOutput", json!({ "bash_id": id, "cursor": 8 })).await.unwrap();
    assert_eq!(again, format!("[{id} ended: exit code 4]\nthree\n[cursor 14]"));
    assert_eq!(
        call(&tools, "KillShell", json!({ "shell_id": id })).await.unwrap_err(),
        format!("{id} has ended already. BashOutput reads what it wrote.")
    );
    assert_eq!(
        call(&tools, "BashOutput", json!({ "bash_id": "bash_0" })).await.unwrap_err(),
        format!(
            "There is no command \"bash_0\" in the background. There are {id}; those of before have ended."
        )
    );
    let reads = tools.prepare("BashOutput", &json!({ "bash_id": id })).unwrap();
    assert_eq!(reads.class, ToolClass::Read);
    let runs = json!({ "command": "make", "run_in_background": true });
    let runs = tools.prepare("Bash", &runs).unwrap();
    assert_eq!(
        (runs.class, runs.description),
        (ToolClass::Execute, "Run in the background: make".into())
    );
}

/// A command that says its own process and waits for ever; the process ends when a pipe closes.
const FOREVER: &str = "exec 3<>held; echo started; (trap '' TERM; cat held)";

#[tokio::test]
async fn so_many_run_at_a_time_and_are_killed_with_what_they_began() {
    let dir = tempfile::tempdir().unwrap();
    let tools = toolbox(dir.path());
    pipe(dir.path(), "held");
    let mut ids = Vec::new();
    for _ in 0..8 {
        ids.push(start(&tools, FOREVER).await);
    }
    let input = json!({ "command": "true", "run_in_background": true });
    let refused = call(&tools, "Bash", input).await.unwrap_err();
    assert!(refused.starts_with("8 commands run in the background already (bash_"), "{refused}");
    read_some(&tools, &ids[0], "started\n[").await;
    let killed = call(&tools, "KillShell", json!({ "shell_id": ids[0] })).await.unwrap();
    assert_eq!(killed, format!("[{} ended: killed]\n[cursor 8]", ids[0]));
    start(&tools, "true").await;
    assert!(tools.is_busy());
    tools.quiet().await;
    assert!(!tools.is_busy());
}

#[tokio::test]
async fn an_agent_is_told_of_ends_that_it_did_not_ask_for() {
    let dir = tempfile::tempdir().unwrap();
    let (house, mut requests) = House::new(|_| Judgement::Run);
    let provider = scripted(
        r#"
        [[agent.bob.rule]]
        when = [{ given = 'begin' }]
        call = [{ tool = "Bash", input = { command = "echo hello", run_in_background = true }, outcome = "ok" }]

        [[agent.bob.rule]]
        when = [{ result_text = "Runs in the background" }]
        say = "It runs."

        [[agent.bob.rule]]
        when = [{ given = '\[(?<id>bash_\w+) ended: exit code 0. It was: echo hello' }]
        call = [{ tool = "BashOutput", input = { bash_id = "{{id}}" }, expect = 'hello' }]
        then = "It said hello."

        [[agent.bob.rule]]
        when = [{ given = 'anew' }]
        say = "I see."
        "#,
    );
    let runtime = runtime(provider, &house, dir.path());
    let mut end = play(&runtime, &mut requests, input(1, "begin")).await;
    if end == done("It runs.") {
        // It ended after the turn: the next one is told.
        let id = lines(&house.transcript()).join(" ");
        let id = id.split("background as ").nth(1).unwrap().split('.').next().unwrap().to_owned();
        let ended = format!("[{id} ended: exit code 0]");
        let wait = json!({ "bash_id": id, "wait_seconds": 60 });
        assert!(call(&runtime.tools, "BashOutput", wait).await.unwrap().starts_with(&ended));
        end = done("It said hello.");
    }
    assert_eq!(end, done("It said hello."));
}

#[tokio::test]
async fn after_a_restart_the_agent_is_told_that_its_commands_are_gone() {
    let dir = tempfile::tempdir().unwrap();
    pipe(dir.path(), "held");
    let (house, mut requests) = House::new(|_| Judgement::Run);
    let provider = scripted(
        r#"
        [[agent.bob.rule]]
        when = [{ given = 'begin' }]
        call = [{ tool = "Bash", input = { command = "cat held", run_in_background = true }, outcome = "ok" }]
        then = "It runs."

        [[agent.bob.rule]]
        when = [{ given = '\[bash_\w+ ended: the program that it ran under was stopped' }]
        say = "Then again."
        "#,
    );
    let first = runtime(Arc::clone(&provider) as _, &house, dir.path());
    assert_eq!(play(&first, &mut requests, input(1, "begin")).await, done("It runs."));
    drop(first);
    let second = runtime(Arc::clone(&provider) as _, &house, dir.path());
    assert_eq!(play(&second, &mut requests, input(2, "go on")).await, done("Then again."));
    // It is told once.
    drop(second);
    let third = runtime(provider, &house, dir.path());
    play(&third, &mut requests, input(3, "well")).await;
    let told = lines(&house.transcript());
    let told = told.iter().filter(|line| line.contains("ended: the program")).count();
    assert_eq!(told, 1);
}
