//! `aion mcp bridge`: the real bridge between a client that speaks lines and the real daemon.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::thread;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::binary::{Going, Home, Ran};
use crate::serve::serve;

const IDLE: &str = r#"
[[agent.team-lead.rule]]
when = [{ given = "." }]
say = "Done."
"#;

/// A daemon with one team, called over plain HTTP.
struct Daemon {
    going: Going,
    address: String,
    token: String,
    team: String,
}

impl Daemon {
    fn start(home: &Home) -> Self {
        let (going, line) = serve(home, &home.scenario(IDLE));
        Self::over(going, &line)
    }

    fn over(going: Going, line: &Value) -> Self {
        let address = line["url"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
        let token = fs::read_to_string(line["token_file"].as_str().unwrap()).unwrap();
        let mut daemon = Self { going, address, token, team: String::new() };
        let made = daemon.call("POST", "/api/teams", Some(json!({ "name": "web" })));
        daemon.team = format!("/api/teams/{}", made["id"].as_str().unwrap());
        daemon
    }

    fn call(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 2"), "{method} {path}: {answer}");
        serde_json::from_str(body).unwrap_or_default()
    }

    /// The environment of a member's process.
    fn member(&self, slot: u32) -> Vec<(&'static str, String)> {
        let made = self.call("POST", &format!("{}/agents/{slot}/credential", self.team), None);
        vec![
            ("TEAM_MCP_PORT", made["port"].to_string()),
            ("TEAM_MCP_TOKEN", made["token"].as_str().unwrap().to_owned()),
            ("TEAM_AGENT_SLOT_ID", slot.to_string()),
        ]
    }
}

/// A bridge with a client at its side.
struct Bridge {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Bridge {
    fn start(home: &Home, environment: &[(&str, String)]) -> Self {
        let mut command = home.command(["mcp", "bridge"]);
        command.envs(environment.iter().map(|(name, value)| (name, value))).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    fn send(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.send(&request.to_string());
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"))
    }

    fn initialize(&mut self) -> Value {
        let params = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": { "name": "line", "version": "1" },
        });
        let answer = self.ask("initialize", &params);
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        answer
    }

    /// Its end, after the client closed its side where it did.
    fn end(self) -> Ran {
        let Self { child, mut output, .. } = self;
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        let mut ran = Ran::from(child.wait_with_output().unwrap());
        ran.stdout = rest;
        ran
    }
}

#[test]
fn a_client_that_speaks_lines_acts_as_its_member() {
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let mut bridge = Bridge::start(&home, &daemon.member(1));
    let hello = bridge.initialize();
    assert_eq!(hello["result"]["protocolVersion"], "2025-06-18");
    let standing = daemon.call("GET", &format!("{}/agents/1/credential", daemon.team), None);
    assert_eq!(standing, json!({ "slot_id": 1, "ready": true, "connections": 1 }));
    bridge.send("");
    let tools = bridge.ask("tools/list", &json!({}));
    assert!(tools.to_string().contains("team_spawn_agent"), "{tools}");
    let call = json!({
        "name": "team_send_message",
        "arguments": { "to": "user", "message": "over\nthe bridge" },
    });
    let sent = bridge.ask("tools/call", &call);
    assert_eq!(sent["result"]["content"][0]["text"], "Message sent to user");
    let all = daemon.call("GET", &format!("{}/messages", daemon.team), None);
    assert_eq!(all["messages"][0]["text"], "over\nthe bridge");
    // Answers that are on their way when the client closes its side still come.
    let last = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": { "name": "team_whoami" } });
    bridge.send(&last.to_string());
    bridge.input = None;
    let ran = bridge.end().code(0);
    let answer: Value = serde_json::from_str(ran.stdout.trim()).unwrap();
    assert_eq!(answer["id"], 7);
    assert_eq!(ran.stderr, "");

    // What the command line says is all that a program needs.
    let said = home.aion(["agent", "connect", "lead", "--team", "web"]).code(0).stdout;
    let environment: Vec<(&str, String)> = said
        .lines()
        .filter_map(|line| line.trim().split_once('='))
        .map(|(name, value)| (name, value.to_owned()))
        .collect();
    let names: Vec<&str> = environment.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["TEAM_MCP_PORT", "TEAM_MCP_TOKEN", "TEAM_AGENT_SLOT_ID"], "{said}");
    let mut bridge = Bridge::start(&home, &environment);
    bridge.initialize();
    bridge.input = None;
    bridge.end().code(0);
    let made = home.aion(["agent", "connect", "lead", "--team", "web", "--json"]).code(0).json();
    assert_eq!(made["slot_id"], 1);
    let refused = Bridge::start(&home, &environment).end().code(4);
    assert!(refused.stderr.contains("belongs to nobody"), "{refused:#?}");

    // A daemon that ends takes its members' bridges with it.
    let mut bridge = Bridge::start(&home, &daemon.member(1));
    bridge.initialize();
    daemon.going.signal(Signal::SIGTERM);
    daemon.going.end().code(0);
    let ran = bridge.end().code(7);
    assert!(ran.stderr.starts_with("aion: the connection to the team ended"), "{ran:#?}");
}

#[test]
fn no_token_is_ever_written_down() {
    let home = Home::new();
    let script = home.scenario(IDLE);
    let mut command =
        home.command(["serve", "--script", script.to_str().unwrap(), "--port", "0", "--json"]);
    let log = home.path("log");
    command.env("AION_LOG", "trace").stderr(File::create(&log).unwrap());
    let mut going = Going::start(command);
    let line = going.until(|line| line["type"] == "serving");
    let daemon = Daemon::over(going, &line);
    let own = daemon.member(1);
    let (drawn, check) = own[1].1.split_once('.').unwrap();
    let mut bridge = Bridge::start(&home, &own);
    bridge.initialize();
    assert_eq!(bridge.ask("ping", &json!({}))["result"], json!({}));
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    let at = format!("127.0.0.1:{}", own[0].1);
    for token in [own[1].1.as_str(), drawn, "aionm_wrong"] {
        let mut stream = TcpStream::connect(&at).unwrap();
        write!(
            stream,
            "POST /mcp HTTP/1.1\r\nHost: {at}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{list}",
            list.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let expected = if token == "aionm_wrong" { "HTTP/1.1 401" } else { "HTTP/1.1 200" };
        assert!(answer.starts_with(expected), "{answer}");
    }
    bridge.input = None;
    bridge.end().code(0);
    daemon.going.signal(Signal::SIGTERM);
    daemon.going.end().code(0);
    let log = fs::read_to_string(&log).unwrap();
    assert!(log.contains("a credential was made"));
    assert!(!log.contains(&drawn[6..]) && !log.contains(check) && !log.contains("aionm_"));
    // Nor in what is kept of the team.
    for file in fs::read_dir(home.data()).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap_or_default();
        for secret in [&drawn[6..], check] {
            assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()));
        }
    }
}

#[test]
fn a_bridge_that_cannot_work_says_why() {
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let own = daemon.member(1);
    let with = |name: &str, value: &str| {
        let mut all = own.clone();
        let entry = all.iter_mut().find(|(known, _)| *known == name).unwrap();
        value.clone_into(&mut entry.1);
        all
    };
    let check = |environment: &[(&str, String)], code: i32, expect: &str| {
        let ran = Bridge::start(&home, environment).end().code(code);
        assert!(ran.stderr.contains(expect), "{ran:#?}");
        assert_eq!(ran.stdout, "");
        assert!(!ran.stderr.contains(&own[1].1[..20]), "{ran:#?}");
    };
    check(&[], 2, "TEAM_MCP_PORT is not set");
    check(&own[..1], 2, "TEAM_MCP_TOKEN is not set");
    check(&with("TEAM_MCP_PORT", "x"), 2, "TEAM_MCP_PORT is no port");
    check(&with("TEAM_MCP_TOKEN", "aionm_1"), 2, "TEAM_MCP_TOKEN is not whole");
    check(&with("TEAM_AGENT_SLOT_ID", "2"), 4, "the token belongs to another member");
    check(&with("TEAM_MCP_TOKEN", "aionm_1.2"), 4, "this token belongs to nobody");
    // A token whose second part is wrong is let in, and does not trust who let it in.
    let drawn = own[1].1.split_once('.').unwrap().0;
    check(&with("TEAM_MCP_TOKEN", &format!("{drawn}.1")), 4, "is not this team's daemon");

    // Somebody else at that port, who would like to be the daemon.
    for answer in [
        json!({ "type": "welcome", "slot_id": 1, "proof": "0".repeat(64) }),
        json!({ "type": "welcome", "slot_id": 1 }),
        json!({ "hello": "there" }),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let other = thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let text = answer.to_string();
            stream.write_all(&u32::try_from(text.len()).unwrap().to_be_bytes()).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
            let mut said = Vec::new();
            stream.read_to_end(&mut said).unwrap();
            said
        });
        check(&with("TEAM_MCP_PORT", &port.to_string()), 4, "is not this team's daemon");
        let said = String::from_utf8_lossy(&other.join().unwrap()).into_owned();
        // The part that proves the daemon is never said.
        let check = own[1].1.split_once('.').unwrap().1;
        assert!(said.contains("hello") && !said.contains(check) && !said.contains("mcp_ready"));
    }
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    check(&with("TEAM_MCP_PORT", &free.to_string()), 7, "reach the team at 127.0.0.1:");

    let mut bridge = Bridge::start(&home, &own);
    bridge.initialize();
    // The pipe may break while this is written: the bridge does not read it to its end.
    let _ = bridge.input.as_mut().unwrap().write_all(&vec![b'x'; 2 * 1024 * 1024]);
    let ran = bridge.end().code(2);
    assert!(ran.stderr.contains("longer than 1048576 bytes"), "{ran:#?}");
    daemon.going.signal(Signal::SIGTERM);
    daemon.going.end().code(0);
}
