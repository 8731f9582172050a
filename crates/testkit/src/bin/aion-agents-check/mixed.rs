//! One job by a mixed team: Claude leads, Codex and an agent of the daemon are brought in by it, and
//! each makes a part; it is looked at by the files and the board that it leaves.

use std::fs;
use std::time::Duration;

use aion_agent::scripted::Scenario;
use aion_testkit::chance::Chance;
use aion_testkit::model_server::{Callers, Format, ModelServer, Script};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::Ground;
use crate::checks::{LEAD, none_left};
use crate::daemon::{Daemon, Home};
use crate::recipe::{MODEL, recipes};

/// How long the job may take on a slow machine.
const JOB: Duration = Duration::from_mins(5);

/// What the agents of others do. They are played turn by turn: what a turn does depends on the mail
/// that began it.
const OTHERS: &str = r#"
[[agent.team-lead.rule]]
name = "divide"
when = [{ given = "JOB (?P<job>[0-9a-f]{16})" }]
call = [
  { tool = "team_spawn_agent", input = { name = "cody", agent_type = "codex", prompt = "Stand by for your task." } },
  { tool = "team_spawn_agent", input = { name = "ann", agent_type = "compatible", prompt = "Stand by for your task." } },
]

[[agent.team-lead.rule]]
after = ["divide"]
when = [{ result = "cody is registered" }, { result = "ann is registered" }]
call = [
  { tool = "team_task_create", input = { subject = "The first part", description = "FIRST {{job}}", owner = "cody" } },
  { tool = "team_task_create", input = { subject = "The second part", description = "SECOND {{job}}", owner = "ann" } },
]
then = "Both parts are given out."

[[agent.team-lead.rule]]
when = [{ given = "DONE [0-9a-f]{16}" }]
call = [{ tool = "Bash", input = { command = "cat first.txt second.txt > page.txt", description = "Join the parts" }, outcome = "any" }]
then = "The parts that there are are joined."

[[agent.team-lead.rule]]
otherwise = true
say = "Noted."

[[agent.cody.rule]]
name = "write"
when = [{ given = "FIRST (?P<job>[0-9a-f]{16})" }]
call = [{ tool = "exec_command", input = { cmd = "echo first-{{job}} > first.txt", sandbox_permissions = "require_escalated", justification = "May the first part be written?" } }]

[[agent.cody.rule]]
after = ["write"]
when = [{ result = "(?s).+", tool = "exec_command" }]
call = [
  { tool = "team_task_update", input = { task_id = 1, status = "completed" } },
  { tool = "team_send_message", input = { to = "team-lead", message = "DONE {{job}}" } },
]
then = "The first part is written."

[[agent.cody.rule]]
otherwise = true
say = "Noted."
"#;

/// What the daemon's own agent does.
const OURS: &str = r#"
[[agent.ann.rule]]
name = "write"
when = [{ given = "SECOND (?P<job>[0-9a-f]{16})" }]
call = [{ tool = "Write", input = { file_path = "second.txt", content = "second-{{job}}\n" } }]

[[agent.ann.rule]]
after = ["write"]
when = [{ result = "(?s).+", tool = "Write" }]
call = [
  { tool = "team_task_update", input = { task_id = 2, status = "completed" } },
  { tool = "team_send_message", input = { to = "team-lead", message = "DONE {{job}}" } },
]
then = "The second part is written."

[[agent.ann.rule]]
otherwise = true
say = "Noted."
"#;

/// Has the job done; answers what was done, in a line.
pub(crate) async fn run(ground: &Ground) -> Result<String> {
    let others = serve(OTHERS, Callers::Others).await?;
    let ours = serve(OURS, Callers::Ours).await?;
    let all = recipes();
    let chosen: Vec<_> =
        all.iter().filter(|recipe| matches!(recipe.name, "claude" | "codex")).collect();
    let home = Home::new(ground, &others.base_url(Format::Anthropic), &chosen)?;
    home.settings(&format!(
        "\n[providers.compatible]\nbase_url = \"{}\"\nmodel = \"{MODEL}\"\n",
        ours.base_url(Format::Chat)
    ))?;
    let daemon = home.serve(LEAD).await?;
    let job = format!("{:016x}", Chance::of(&home.root().display().to_string()).draw());
    let team = json!({
        "name": "mixed", "workspace": home.work(), "prompt": format!("JOB {job}"),
        "lead": { "agent_type": "claude" },
    });
    let began = Instant::now();
    let team = daemon.call("POST", "/api/teams", Some(team)).await?;
    let path = format!("/api/teams/{}", team["id"].as_str().context("a team has an id")?);
    let page = format!("first-{job}\nsecond-{job}\n");
    let allowed = attend(&daemon, &path, &|| {
        fs::read_to_string(home.work().join("page.txt")).is_ok_and(|text| text == page)
    })
    .await;
    let allowed = allowed.with_context(|| format!("everything is in {}", home.root().display()))?;
    let took = began.elapsed();
    ensure!(ours.violations().is_empty(), "the daemon's own agent: {:?}", ours.violations());
    let tasks = daemon.get(&format!("{path}/tasks")).await?;
    let done = tasks["tasks"]
        .as_array()
        .map_or(0, |all| all.iter().filter(|task| task["status"] == "completed").count());
    ensure!(done == 2, "the board is not done: {tasks}");
    let members = daemon.get(&format!("{path}/agents")).await?;
    let types: Vec<&str> = members["agents"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|member| member["agent_type"].as_str())
        .collect();
    ensure!(types == ["claude", "codex", "compatible"], "the members are {types:?}");
    daemon.end().await?;
    none_left(&[], None).await?;
    Ok(format!(
        "claude led codex and an agent of the daemon: 2 tasks, {allowed} permissions, the page is \
         joined; {:.0} s",
        took.as_secs_f64()
    ))
}

async fn serve(scenario: &str, callers: Callers) -> Result<ModelServer> {
    let scenario = Scenario::parse("mixed", scenario)?;
    let script = Script { callers, ..Script::new(scenario) };
    ModelServer::start(script).await.context("start a model server")
}

/// Allows what is asked for, until the job is done and nobody works any more.
async fn attend(daemon: &Daemon, path: &str, done: &dyn Fn() -> bool) -> Result<usize> {
    let deadline = Instant::now() + JOB;
    let mut allowed = 0;
    loop {
        let approvals = daemon.get("/api/approvals").await?;
        for request in approvals["approvals"].as_array().into_iter().flatten() {
            let id = request["request_id"].as_str().context("a request has an id")?;
            let allow = json!({ "decision": "allow" });
            daemon.call("POST", &format!("/api/approvals/{id}"), Some(allow)).await?;
            allowed += 1;
        }
        let members = daemon.get(&format!("{path}/agents")).await?;
        let idle = |member: &Value| member["status"] == "idle" && member["unread"] == 0;
        let rests = members["agents"].as_array().is_some_and(|all| all.iter().all(idle));
        if rests && done() {
            return Ok(allowed);
        }
        ensure!(Instant::now() < deadline, "the job was not done in time: {members}");
        sleep(Duration::from_millis(50)).await;
    }
}
