//! What the daemon does around its calls: the start of a work tree, its own directory, its log.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::binary::{Going, Home};
use crate::calls::Calls;

const ANSWERS: &str = r#"
[[agent.team-lead.rule]]
otherwise = true
say = "Read."
"#;

fn serve(home: &Home, more: &[&str], log: Option<&str>) -> (Going, Calls) {
    let script = home.scenario(ANSWERS);
    let fixed = ["serve", "--script", script.to_str().unwrap(), "--port", "0", "--json"];
    let mut command = home.command(fixed.iter().chain(more));
    if let Some(log) = log {
        command.env("AION_LOG", log);
    }
    let mut going = Going::start(command);
    let line = going.until(|line| line["type"] == "serving");
    let calls = Calls::of(&line);
    (going, calls)
}

#[test]
fn a_team_made_over_the_api_can_be_undone_like_any_other() {
    let home = Home::with_repository();
    let (going, calls) = serve(&home, &[], None);
    let work = home.work();
    let body = json!({ "name": "web", "workspace": work });
    let team = calls.call("POST", "/api/teams", Some(body)).is(201).body;
    let start = format!("refs/aion/{}/start", team["id"].as_str().unwrap());
    assert!(home.git(["for-each-ref", "refs/aion"]).contains(&start));
    // A directory that is refused leaves no record.
    let inside = json!({ "workspace": home.data().join("workspaces") });
    fs::create_dir_all(home.data().join("workspaces")).unwrap();
    let around = json!({ "workspace": home.data().parent().unwrap() });
    let refused = calls.call("POST", "/api/teams", Some(around)).is(422).body;
    assert_eq!(refused["code"], "data_dir.in_workspace");
    assert!(refused["detail"].as_str().unwrap().contains("data directory"), "{refused}");
    calls.call("POST", "/api/teams", Some(inside)).is(201);
    assert_eq!(home.git(["for-each-ref", "refs/aion"]).matches("/start").count(), 1);
    fs::write(work.join("new.txt"), "made by the team").unwrap();
    going.signal(Signal::SIGTERM);
    going.end().code(0);
    home.aion(["team", "undo", "web", "--yes"]).code(0);
    assert!(!work.join("new.txt").exists());
}

#[test]
fn a_log_in_json_names_every_request_and_holds_no_secret_and_no_text() {
    let home = Home::new();
    let (going, calls) = serve(&home, &["--log-format", "json"], Some("trace"));
    let team = calls.call("POST", "/api/teams", Some(json!({ "name": "web" }))).is(201).body;
    let path = format!("/api/teams/{}/messages?canary-of-a-query=1", team["id"].as_str().unwrap());
    let sent = calls.call("POST", &path, Some(json!({ "text": "canary of a body" }))).is(202);
    let id = sent.header("x-request-id").to_owned();
    assert_eq!(id.len(), 16, "{sent:?}");
    going.signal(Signal::SIGTERM);
    let ran = going.end().code(0);
    let lines: Vec<Value> =
        ran.stderr.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let answered = lines.iter().find(|line| line["request"] == id).expect("the request's line");
    assert_eq!((&answered["status"], &answered["method"]), (&json!(202), &json!("POST")));
    for secret in ["canary", calls.token.as_str(), "authorization", "Bearer"] {
        assert!(!ran.stderr.contains(secret), "{secret}");
    }
}
