//! What the daemon does around its calls: the start of a work tree, its own directory, its log.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

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

/// A collector of spans: takes requests of OTLP over HTTP and hands their spans on.
fn collector() -> (String, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (send, spans) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or(0) == 0 {
                    break;
                }
                assert_eq!(line, "POST /v1/traces HTTP/1.1\r\n");
                let (mut length, mut json, mut secret) = (0, false, false);
                while line != "\r\n" {
                    line.clear();
                    reader.read_line(&mut line).unwrap();
                    let header = line.trim().to_ascii_lowercase();
                    if let Some(digits) = header.strip_prefix("content-length: ") {
                        length = digits.parse().unwrap();
                    }
                    json |= header == "content-type: application/json";
                    secret |= header == "x-key: 42";
                }
                assert!(json && secret);
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                let body: Value = serde_json::from_slice(&body).unwrap();
                let resource = &body["resourceSpans"][0];
                assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "aion");
                for span in resource["scopeSpans"][0]["spans"].as_array().unwrap() {
                    let _ = send.send(span.clone());
                }
                let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
                reader.get_mut().write_all(answer.as_bytes()).unwrap();
            }
        }
    });
    (url, spans)
}

fn attribute(span: &Value, key: &str) -> Value {
    let all = span["attributes"].as_array().unwrap();
    let found = all.iter().find(|attribute| attribute["key"] == key);
    let value = found.map_or(&Value::Null, |attribute| &attribute["value"]);
    value.as_object().and_then(|kinds| kinds.values().next()).cloned().unwrap_or_default()
}

#[test]
fn a_collector_sees_a_message_its_turn_and_the_tools_of_the_turn() {
    let home = Home::new();
    let script = home.scenario(
        r#"
[[agent.team-lead.rule]]
when = [{ given_text = "canary of a task" }]
call = [{ tool = "Bash", input = { command = "true" } }]
then = "canary of an answer"
usage = { input = 11, output = 7 }
"#,
    );
    let (url, spans) = collector();
    let fixed = ["serve", "--script", script.to_str().unwrap(), "--port", "0", "--json"];
    let mut command = home.command(fixed);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", url).env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=42");
    let mut going = Going::start(command);
    let calls = Calls::of(&going.until(|line| line["type"] == "serving"));
    let body = json!({ "name": "web", "lead": { "permission_mode": "bypassPermissions" } });
    let team = calls.call("POST", "/api/teams", Some(body)).is(201).body;
    let path = format!("/api/teams/{}/messages", team["id"].as_str().unwrap());
    calls.call("POST", &path, Some(json!({ "text": "canary of a task" }))).is(202);

    let mut seen: BTreeMap<String, Value> = BTreeMap::new();
    while seen.len() < 3 {
        let span = spans.recv_timeout(Duration::from_mins(1)).unwrap();
        assert!(!span.to_string().contains("canary"), "{span}");
        seen.insert(span["name"].as_str().unwrap().to_owned(), span);
    }
    let message = &seen["send lead"];
    let turn = &seen["invoke_agent team-lead"];
    let tool = &seen["execute_tool Bash"];
    assert_eq!(
        (&turn["parentSpanId"], &turn["traceId"]),
        (&message["spanId"], &message["traceId"])
    );
    assert_eq!((&tool["parentSpanId"], &tool["traceId"]), (&turn["spanId"], &turn["traceId"]));
    assert_eq!(message["traceId"].as_str().unwrap().len(), 32);
    assert_eq!(attribute(message, "messaging.operation.type"), "send");
    assert_eq!(attribute(turn, "gen_ai.operation.name"), "invoke_agent");
    assert_eq!(attribute(turn, "gen_ai.agent.name"), "team-lead");
    assert_eq!(attribute(turn, "gen_ai.provider.name"), "scripted");
    assert!(!attribute(turn, "gen_ai.usage.input_tokens").is_null(), "{turn}");
    assert_eq!(attribute(turn, "aion.turn.outcome"), "done");
    assert_eq!(attribute(tool, "gen_ai.operation.name"), "execute_tool");
    assert_eq!(attribute(tool, "gen_ai.tool.name"), "Bash");
    let time = |span: &Value, key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
    assert!(time(turn, "startTimeUnixNano") <= time(tool, "startTimeUnixNano"));
    assert!(time(tool, "endTimeUnixNano") <= time(turn, "endTimeUnixNano"));
    going.signal(Signal::SIGTERM);
    going.end().code(0);
}

#[test]
fn more_clients_than_a_shell_allows_files_are_served() {
    let home = Home::new();
    let script = home.scenario(ANSWERS);
    let words = ["serve", "--script", script.to_str().unwrap(), "--port", "0", "--json"];
    let daemon = home.command(words);
    // A person's shell often allows few files.
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "ulimit -S -n 64 && exec \"$@\"", "sh"])
        .arg(daemon.get_program())
        .args(words);
    let variables = daemon.get_envs().filter_map(|(name, value)| Some((name, value?)));
    shell.env_clear().envs(variables).current_dir(home.work());
    shell.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut going = Going::start(shell);
    let calls = Calls::of(&going.until(|line| line["type"] == "serving"));
    let limits = fs::read_to_string(format!("/proc/{}/limits", going.id())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let soft: u64 = files.split_whitespace().nth(3).unwrap().parse().unwrap();
    assert!(soft > 64, "{files}");
    let held: Vec<TcpStream> =
        (0..200).map(|_| TcpStream::connect(&calls.address).unwrap()).collect();
    calls.call("GET", "/api/health", None).is(200);
    drop(held);
    going.signal(Signal::SIGTERM);
    going.end().code(0);
}
