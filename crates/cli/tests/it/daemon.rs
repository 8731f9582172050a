//! The daemon on demand: started, found, told from one that is gone, stopped; by the real binary.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::binary::{Going, Home};

const IDLE: &str = r#"
[[agent.team-lead.rule]]
when = [{ given = "." }]
say = "Done."
"#;

/// What a daemon says of itself.
fn daemon_file(home: &Home) -> Value {
    serde_json::from_slice(&fs::read(home.data().join("daemon.json")).unwrap()).unwrap()
}

fn tamper(home: &Home, field: &str, value: Value) {
    let mut file = daemon_file(home);
    file[field] = value;
    fs::write(home.data().join("daemon.json"), file.to_string()).unwrap();
}

#[test]
fn a_command_starts_the_daemon_and_the_next_one_finds_it() {
    let home = Home::new();
    assert_eq!(home.aion(["status", "--json"]).code(7).json()["running"], false);
    assert!(!home.data().exists(), "asking makes nothing");
    home.aion(["approve", "ls"]).code(0);
    let mode = fs::metadata(home.data().join("daemon.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let first = home.aion(["status", "--json"]).code(0).json();
    assert_eq!(first["running"], true);
    assert_eq!(first["on_demand"], true);
    home.aion(["agent", "ls"]).code(9);
    assert_eq!(home.aion(["status", "--json"]).code(0).json()["pid"], first["pid"]);

    // It is in a session of its own: its session is its process.
    let stat = fs::read_to_string(format!("/proc/{}/stat", first["pid"])).unwrap();
    let session = stat.rsplit(')').next().unwrap().split_whitespace().nth(3).unwrap().to_owned();
    assert_eq!(session, first["pid"].to_string());

    let stopped = home.aion(["stop", "--json"]).code(0).json();
    assert_eq!(stopped["pid"], first["pid"]);
    assert!(!home.data().join("daemon.json").exists());
    assert_eq!(home.aion(["stop", "--json"]).code(0).json()["stopped"], false);
    let log = fs::read_to_string(home.data().join("daemon.log")).unwrap();
    assert!(log.contains("serving") && log.contains("asked to stop"), "{log}");
}

#[test]
fn a_daemon_that_was_killed_is_told_from_one_that_lives() {
    let home = Home::new();
    home.aion(["serve", "--detach", "--port", "0"]).code(0);
    let pid = home.daemon().unwrap();
    home.kill_daemon();
    let status = home.aion(["status", "--json"]).code(7).json();
    assert_eq!(status["died_pid"], pid);
    assert!(home.aion(["status"]).code(7).stdout.contains("without being stopped"));
    home.aion(["approve", "ls"]).code(0);
    assert_ne!(home.daemon().unwrap(), pid);
    home.aion(["stop"]).code(0);

    // Its number is another process's by now: that one is neither called nor stopped.
    home.aion(["serve", "--detach", "--port", "0"]).code(0);
    let file = daemon_file(&home);
    home.aion(["stop"]).code(0);
    fs::write(home.data().join("daemon.json"), file.to_string()).unwrap();
    tamper(&home, "pid", std::process::id().into());
    home.aion(["status"]).code(7);
    assert_eq!(home.aion(["stop", "--json"]).code(0).json()["stopped"], false);
    home.aion(["approve", "ls"]).code(0);
    home.aion(["stop"]).code(0);
}

#[test]
fn a_second_daemon_says_where_the_first_is() {
    let home = Home::new();
    home.aion(["serve", "--detach", "--port", "0"]).code(0);
    let url = daemon_file(&home)["url"].as_str().unwrap().to_owned();
    for args in [["serve", "--json"], ["serve", "--detach"]] {
        let ran = home.aion(args).code(7);
        assert!(ran.stderr.contains(&url), "{ran:#?}");
    }
    home.aion(["stop", "--now"]).code(0);
}

#[test]
fn a_port_that_is_taken_is_an_error_only_where_it_was_asked_for() {
    let (first, second) = (Home::new(), Home::new());
    first.aion(["serve", "--detach"]).code(0);
    second.aion(["serve", "--detach"]).code(0);
    let url = |home: &Home| daemon_file(home)["url"].as_str().unwrap().to_owned();
    assert_ne!(url(&first), url(&second));
    let port = url(&first).rsplit(':').next().unwrap().to_owned();
    second.aion(["stop"]).code(0);
    let ran = second.aion(["serve", "--detach", "--json", "--port", &port]).code(7);
    assert_eq!(ran.error_code(), "serve.address");
    assert!(ran.stderr.contains("--port"), "{ran:#?}");
    first.aion(["stop"]).code(0);
}

#[test]
fn a_daemon_that_cannot_start_says_why() {
    let home = Home::new();
    let script =
        home.scenario("[[agent.team-lead.rule]]\nwhen = [{ given = \".\" }]\nfail = \"hang\"\n");
    let script = script.to_str().unwrap();
    let run = ["run", "task", "--script", script, "--json"];
    let mut going = Going::start(home.command(run));
    going.until_event("turn_started");
    let ran = home.aion(["approve", "ls", "--json"]).code(7);
    assert_eq!(ran.error_code(), "data_dir.locked");
    assert!(ran.stderr.contains(&going.id().to_string()), "{ran:#?}");
    going.signal(Signal::SIGTERM);
    going.end().code(143);

    fs::create_dir_all(home.path("bad")).unwrap();
    fs::set_permissions(home.path("bad"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(home.path("bad").join("store.db"), "this is no database, and never was one").unwrap();
    let bad = home.path("bad");
    let ran = home.aion(["approve", "ls", "--json", "--data-dir", bad.to_str().unwrap()]);
    assert!(ran.stderr.contains("the daemon did not start"), "{ran:#?}");
}

#[test]
fn another_version_is_not_spoken_to() {
    let home = Home::new();
    home.aion(["serve", "--detach", "--port", "0"]).code(0);
    tamper(&home, "version", "0.0.1".into());
    let ran = home.aion(["approve", "ls", "--json"]).code(7);
    assert_eq!(ran.error_code(), "daemon.version");
    assert!(ran.stderr.contains("0.0.1") && ran.stderr.contains("aion stop"), "{ran:#?}");
    assert!(home.aion(["status"]).code(0).stdout.contains("aion stop"));
    home.aion(["stop"]).code(0);
    home.aion(["approve", "ls"]).code(0);
    home.aion(["stop"]).code(0);
}

#[test]
fn nobody_needs_it_and_it_ends_by_itself() {
    let home = Home::new();
    let args = ["serve", "--port", "0", "--json", "--idle-exit", "1s"];
    let mut going = Going::start(home.command(args));
    going.until(|line| line["type"] == "serving");
    going.end().code(0);
    assert!(!home.data().join("daemon.json").exists());
}

#[test]
fn another_machines_daemon_is_called_by_its_address_and_token() {
    let home = Home::new();
    home.aion(["serve", "--detach", "--port", "0"]).code(0);
    let script = home.scenario(IDLE);
    let created = ["team", "create", "far", "--json", "--script", script.to_str().unwrap()];
    home.aion(created).code(0);
    let url = daemon_file(&home)["url"].as_str().unwrap().to_owned();
    let token = fs::read_to_string(home.data().join("token")).unwrap();
    let other = Home::new();
    let call = |token: Option<&str>, url: &str, args: &[&str]| {
        let mut command = other.command(args.iter().chain(&["--json"]));
        command.env("AION_URL", url);
        if let Some(token) = token {
            command.env("AION_TOKEN", token);
        }
        crate::binary::Ran::from(command.output().unwrap())
    };
    let teams = call(Some(&token), &url, &["team", "ls"]).code(0).json();
    assert_eq!(teams[0]["name"], "far");
    let shown = call(Some(&token), &url, &["team", "show", "far"]).code(0).json();
    assert_eq!(shown["name"], "far");
    let here = home.aion(["team", "show", "far", "--json"]).code(0).json();
    assert_eq!(shown["totals"], here["totals"]);
    let log = call(Some(&token), &url, &["log", "far", "--type", "team_"]).code(0).lines();
    assert_eq!(log[0]["event"]["type"], "team_created");
    assert!(log.iter().all(|line| line["event"]["type"].as_str().unwrap().starts_with("team_")));
    let tasks = call(Some(&token), &url, &["task", "ls", "far"]).code(0).json();
    assert_eq!(tasks, json!([]));
    assert_eq!(call(Some(&token), &url, &["status"]).code(0).json()["pid"], Value::Null);
    assert_eq!(call(None, &url, &["team", "ls"]).code(4).error_code(), "daemon.no_token");
    call(Some("aion_wrong"), &url, &["team", "ls"]).code(4);
    assert_eq!(call(Some(&token), "nonsense", &["team", "ls"]).code(2).error_code(), "usage");
    home.aion(["stop"]).code(0);
    let nobody = call(Some(&token), &url, &["team", "ls"]).code(7);
    assert_eq!(nobody.error_code(), "daemon.unreachable");
    assert!(!other.data().exists(), "nothing is made here");
}

#[test]
fn a_token_goes_neither_to_a_proxy_nor_where_an_answer_points() {
    let home = Home::new();
    home.aion(["serve", "--detach", "--port", "0"]).code(0);
    let url = daemon_file(&home)["url"].as_str().unwrap().to_owned();
    let token = fs::read_to_string(home.data().join("token")).unwrap();
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    stranger.set_nonblocking(true).unwrap();
    let proxy = format!("http://{}", stranger.local_addr().unwrap());
    let call = |url: Option<&str>, args: &[&str]| {
        let mut command = home.command(args.iter().chain(&["--json"]));
        for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"] {
            command.env(name, &proxy);
        }
        if let Some(url) = url {
            command.env("AION_URL", url).env("AION_TOKEN", &token);
        }
        crate::binary::Ran::from(command.output().unwrap())
    };
    let unseen = || stranger.accept().unwrap_err().kind() == std::io::ErrorKind::WouldBlock;
    call(None, &["team", "ls"]).code(0);
    for host in ["127.0.0.1", "localhost"] {
        let ran = call(Some(&url.replace("127.0.0.1", host)), &["team", "ls"]);
        assert!(unseen(), "{host}: {ran:#?}");
        ran.code(0);
    }
    home.aion(["stop"]).code(0);

    // What sends calls elsewhere is no daemon, and its word is not followed.
    let false_daemon = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", false_daemon.local_addr().unwrap());
    let answer = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: {proxy}/api/teams\r\n\
         content-length: 0\r\nconnection: close\r\n\r\n"
    );
    let answers = std::thread::spawn(move || {
        let (mut stream, _) = false_daemon.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let ran = call(Some(&url), &["team", "ls"]);
    answers.join().unwrap();
    assert!(unseen(), "{ran:#?}");
    assert_eq!(ran.code(7).error_code(), "daemon.unknown");
}

#[test]
fn open_prints_a_link_that_works_once() {
    let home = Home::new();
    let opened = home.aion(["open", "--json"]).code(0).json();
    assert_eq!(opened["opened"], false);
    assert!(opened["login_url"].as_str().unwrap().contains("/login?code="));
    assert_eq!(opened["page"], Value::Null);

    // A browser of the person's own is handed a page that only they can read.
    let browser = home.path("browser.sh");
    fs::write(&browser, format!("#!/bin/sh\necho \"$1\" > {}\n", home.path("seen").display()))
        .unwrap();
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
    nix::unistd::mkfifo(&home.path("seen"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut command = home.command(["open", "--json"]);
    command.env("BROWSER", &browser);
    let ran = crate::binary::Ran::from(command.output().unwrap()).code(0).json();
    assert_eq!(ran["opened"], json!(true));
    let seen = fs::read_to_string(home.path("seen")).unwrap();
    let page = std::path::Path::new(seen.trim());
    assert_eq!(fs::metadata(page).unwrap().permissions().mode() & 0o777, 0o600);
    let link = ran["login_url"].as_str().unwrap();
    assert!(fs::read_to_string(page).unwrap().contains(&format!("url={link}\"")));
    home.aion(["stop"]).code(0);
}

#[test]
fn a_daemon_elsewhere_is_called_by_tls_alone() {
    let home = Home::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (home.path("cert.pem"), home.path("key.pem"));
    fs::write(&cert, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let args = ["serve", "--port", "0", "--json", "--remote", "127.0.0.1:0", "--name", "localhost"];
    let tls = ["--tls-cert", cert, "--tls-key", key];
    let mut going = Going::start(home.command(args.iter().chain(&tls)));
    let line = going.until(|line| line["type"] == "serving");
    let port = line["remote_url"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
    let url = format!("https://localhost:{port}");
    let token = fs::read_to_string(home.data().join("token")).unwrap();
    let script = home.scenario(IDLE);
    let script = script.to_str().unwrap();
    let other = Home::new();
    let call = |url: &str, ca: Option<&str>, args: &[&str]| {
        let mut command = other.command(args.iter().chain(&["--json"]));
        command.env("AION_URL", url).env("AION_TOKEN", &token);
        if let Some(ca) = ca {
            command.env("AION_CA", ca);
        }
        command
    };
    let ran =
        |command: &mut std::process::Command| crate::binary::Ran::from(command.output().unwrap());
    ran(&mut call(&url, Some(cert), &["team", "create", "far", "--script", script])).code(0);
    let unknown = ran(&mut call(&url, None, &["team", "ls"])).code(7);
    assert_eq!(unknown.error_code(), "daemon.unreachable");
    assert!(unknown.stderr.contains("certificate"), "{unknown:#?}");
    let clear = ran(&mut call("http://team.example:1", None, &["team", "ls"])).code(2);
    assert!(clear.stderr.contains("others can read it"), "{clear:#?}");

    // The WebSocket goes the same way.
    let mut attached = Going::start(call(&url, Some(cert), &["attach", "far"]));
    attached.until(|line| line["type"] == "following");
    ran(&mut call(&url, Some(cert), &["message", "send", "lead", "hello"])).code(0);
    attached.until_event("message_sent");
    attached.signal(Signal::SIGINT);
    attached.end().code(130);
    going.signal(Signal::SIGTERM);
    going.end().code(0);
}
