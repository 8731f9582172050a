//! What the commands print, word for word; names, times and places that differ are blotted out.

use insta::{Settings, assert_snapshot};

use crate::binary::Home;

/// A lead that makes one task, asks for one permission, and says what it costs.
const ASKS: &str = r#"
[[agent.team-lead.rule]]
when = [{ given = 'Write (?<word>\w+)' }]
usage = { input = 1200, output = 340, micro_usd = 12345 }
call = [
  { tool = "team_task_create", input = { subject = "Write {{word}}", description = "One word.", owner = "me" }, expect = '#(?<task>\d+)' },
]

[[agent.team-lead.rule]]
when = [{ result = "created", tool = "team_task_create" }]
call = [{ tool = "Write", input = { file_path = "{{word}}.txt", content = "{{word}}\n" } }]

[[agent.team-lead.rule]]
when = [{ result = "Created", tool = "Write", ok = true }]
call = [{ tool = "team_task_update", input = { task_id = "{{task}}", status = "completed" } }]
then = "It is written."

[[agent.team-lead.rule]]
otherwise = true
when = [{ given = "is yours and ready" }]
"#;

fn blotted(home: &Home, team: &str) -> Settings {
    let mut settings = Settings::clone_current();
    let root = home.work().parent().unwrap().display().to_string();
    settings.add_filter(&root, "[HOME]");
    settings.add_filter(team, "[TEAM]");
    settings.add_filter(&team[..8], "[TEAM]");
    settings.add_filter(r"\d+-\d\d-\d\d \d\d:\d\d:\d\dZ", "[TIME]");
    settings.add_filter(r"\b\d+:\d\d:\d\d\.\d{3}", "[AFTER]");
    settings.add_filter(r"\b\d+:\d\d\b", "[WAITING]");
    settings.add_filter(r"process( +)\d+", "process$1[PID]");
    settings.add_filter(r"127\.0\.0\.1:\[WAITING\]|127\.0\.0\.1:\d+", "127.0.0.1:[PORT]");
    settings.add_filter(r"code=[0-9a-f]{64}", "code=[CODE]");
    settings.add_filter(r"aion \d+\.\d+\.\d+", "aion [VERSION]");
    settings
}

#[test]
fn a_teams_day_in_tables() {
    let home = Home::served();
    let script = home.scenario(ASKS);
    let script = script.to_str().unwrap();
    let run = ["run", "Write hello", "--script", script, "--detach", "--json"];
    let team = home.aion(run).code(0).json()["team"].as_str().unwrap().to_owned();
    while home.aion(["approve", "ls", "--json"]).code(0).stdout == "[]\n" {}
    let print = |args: &[&str]| home.aion(args).code(0).stdout;
    blotted(&home, &team).bind(|| {
        assert_snapshot!("approve-ls", print(&["approve", "ls"]));
        assert_snapshot!("approve-show", print(&["approve", "show", "r1"]));
        assert_snapshot!("agent-ls-waiting", print(&["agent", "ls"]));
        assert_snapshot!("status", print(&["status"]));
        assert_snapshot!("approve-yes", print(&["approve", "yes", "r1"]));
        home.aion(["run", "--resume", "write-hello", "--json"]).code(0);
        assert_snapshot!("approve-ls-empty", print(&["approve", "ls"]));
        assert_snapshot!("team-ls", print(&["team", "ls"]));
        assert_snapshot!("team-show", print(&["team", "show"]));
        assert_snapshot!("task-ls", print(&["task", "ls"]));
        assert_snapshot!("agent-show", print(&["agent", "show", "lead"]));
        assert_snapshot!(
            "message-send",
            print(&["message", "send", "lead", "Thank you", "--urgency", "queue"])
        );
        assert_snapshot!("message-ls", print(&["message", "ls", "-n", "1"]));
        assert_snapshot!("cost", print(&["cost"]));
        assert_snapshot!("cost-csv", print(&["cost", "--by", "model", "--csv"]));
        assert_snapshot!("log-tasks", print(&["log", "--type", "task"]));
        assert_snapshot!("team-pause", print(&["team", "pause", "write-hello"]));
        assert_snapshot!("open", print(&["open", "write-hello", "--print"]));
        assert_snapshot!("stop", print(&["stop"]));
        assert_snapshot!("status-none", home.aion(["status"]).code(7).stdout);
    });
}

#[test]
fn help_in_its_own_words() {
    let home = Home::new();
    let print = |args: &[&str]| home.aion(args).code(0).stdout;
    assert_snapshot!("help", print(&["--help"]));
    assert_snapshot!("help-run", print(&["help", "run"]));
    assert_snapshot!("help-approve-yes", print(&["help", "approve", "yes"]));
    assert_snapshot!("help-exit-codes", print(&["help", "exit-codes"]));
    assert_snapshot!("config-get", print(&["config", "get"]));
}

#[test]
fn failures_in_one_or_two_lines() {
    let home = Home::served();
    let said = |args: &[&str], code: i32| home.aion(args).code(code).stderr;
    assert_snapshot!("error-no-team", said(&["message", "send", "lead", "hello"], 9));
    assert_snapshot!("error-no-request", said(&["approve", "yes", "r7"], 9));
    assert_snapshot!("error-no-provider", said(&["run", "task"], 4));
    assert_snapshot!("error-setting", said(&["config", "set", "run.maxtime", "1m"], 2));
    home.aion(["stop"]).code(0);
}
