//! The real daemon, killed while it is called, and teams that are deleted in the middle of things:
//! what was accepted is there once, and what was deleted leaves nothing behind.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use aion_core::id::TeamId;
use aion_store::SqliteStore;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::binary::{Going, Home};
use crate::calls::Calls;

const SENDERS: usize = 4;
/// After so many accepted messages the daemon is killed, then again, and so on.
const KILLS: [usize; 8] = [1, 150, 7, 60, 2, 220, 33, 90];

const SCENARIO: &str = r#"
[[agent."*".rule]]
when = [{ given_text = "Begin the long work" }]
call = [{ tool = "Bash", input = { command = "sleep 86397" } }]
then = "Done."

[[agent."*".rule]]
when = [{ given_text = "Wait for me" }]
call = [{ tool = "Bash", input = { command = "touch waited" } }]
then = "Done."

[[agent."*".rule]]
otherwise = true
say = "Read."
"#;

fn serve(home: &Home) -> (Going, Calls) {
    let script = home.scenario(SCENARIO);
    let fixed = ["serve", "--script", script.to_str().unwrap(), "--port", "0", "--json"];
    let mut going = Going::start(home.command(fixed));
    let line = going.until(|line| line["type"] == "serving");
    let calls = Calls::of(&line);
    (going, calls)
}

/// What one sender was promised, and what it has to ask again.
#[derive(Default)]
struct Sender {
    number: usize,
    sent: usize,
    /// The text of every message that was answered, with the number that it was given.
    accepted: BTreeMap<String, String>,
}

impl Sender {
    /// Sends until the daemon is gone. A message that got no answer is the first of the next time.
    fn send(&mut self, calls: &Calls, path: &str, told: &mpsc::Sender<()>) {
        loop {
            let text = format!("message {} of sender {}", self.sent, self.number);
            let body = json!({ "text": text }).to_string();
            let Some(answer) = calls.try_call("POST", path, &[("idempotency-key", &text)], &body)
            else {
                return;
            };
            assert_eq!(answer.status, 202, "{answer:?}");
            let id = answer.body["message_id"].as_str().unwrap().to_owned();
            self.accepted.insert(text, id);
            self.sent += 1;
            // Nobody counts any more once the daemon was killed.
            let _ = told.send(());
        }
    }
}

fn chain_holds(data: &Path, team: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = SqliteStore::open_read_only(data).unwrap();
    runtime.block_on(store.verify(&TeamId::new(team).unwrap())).unwrap();
}

#[test]
fn what_was_accepted_over_the_api_outlives_every_kill_once() {
    let home = Home::new();
    let mut senders: Vec<Sender> =
        (0..SENDERS).map(|number| Sender { number, ..Sender::default() }).collect();
    let mut team = None;
    for kill_after in KILLS {
        let (going, calls) = serve(&home);
        let id = team.get_or_insert_with(|| {
            let limits = json!({ "limits": { "unread": 100_000 } });
            let body = json!({ "name": "web", "settings": limits });
            let made = calls.call("POST", "/api/teams", Some(body)).is(201).body;
            made["id"].as_str().unwrap().to_owned()
        });
        let path = format!("/api/teams/{id}/messages");
        let (told, accepted) = mpsc::channel();
        std::thread::scope(|scope| {
            for sender in &mut senders {
                let (calls, path, told) = (&calls, &path, told.clone());
                scope.spawn(move || sender.send(calls, path, &told));
            }
            for _ in 0..kill_after {
                accepted.recv_timeout(Duration::from_mins(1)).unwrap();
            }
            going.signal(Signal::SIGKILL);
        });
        assert_eq!(going.end().code, None);
        chain_holds(&home.data(), id);
    }

    let (going, calls) = serve(&home);
    let team = team.unwrap();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut after = Some(0);
    while let Some(from) = after {
        let path = format!("/api/teams/{team}/messages?limit=500&after={from}");
        let page = calls.call("GET", &path, None).is(200).body;
        for message in page["messages"].as_array().unwrap() {
            if let Some(text) = message["text"].as_str().filter(|text| text.contains("of sender")) {
                let id = message["message_id"].as_str().unwrap().to_owned();
                found.entry(text.to_owned()).or_default().push(id);
            }
        }
        after = page["next"].as_u64();
    }
    let promised: usize = senders.iter().map(|sender| sender.accepted.len()).sum();
    assert!(promised >= KILLS.iter().sum(), "{promised}");
    for (text, id) in senders.iter().flat_map(|sender| &sender.accepted) {
        assert_eq!(found.get(text), Some(&vec![id.clone()]), "{text}");
    }
    // What got no answer may be there, once.
    assert!(found.values().all(|ids| ids.len() == 1));
    assert!(found.len() <= promised + SENDERS, "{} of {promised}", found.len());
    going.signal(Signal::SIGTERM);
    going.end().code(0);
}

/// Processes whose command line holds a word.
fn processes(word: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.starts_with("sleep ") && line.contains(word)).collect()
}

/// Asks until it is so.
fn until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !so() {
        assert!(Instant::now() < deadline, "it did not come to this: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_team_that_is_deleted_in_any_state_leaves_nothing_behind() {
    let home = Home::new();
    let (going, calls) = serve(&home);
    let make = |mode: &str| {
        let body = json!({ "name": "web", "lead": { "permission_mode": mode } });
        let made = calls.call("POST", "/api/teams", Some(body)).is(201).body;
        format!("/api/teams/{}", made["id"].as_str().unwrap())
    };
    let status = |team: &str| calls.call("GET", team, None).body["agents"][0]["status"].clone();
    let say = |team: &str, text: &str| {
        let body = json!({ "text": text });
        calls.call("POST", &format!("{team}/messages"), Some(body)).is(202);
    };
    let check = |state: &str, team: &str| {
        calls.call("DELETE", team, None).is(204);
        assert_eq!(processes("86397"), Vec::<String>::new(), "{state}");
        let late = calls.call("POST", &format!("{team}/messages"), Some(json!({ "text": "late" })));
        assert_eq!(late.is(404).body["code"], "team.not_found", "{state}");
        for path in ["", "/events", "/messages", "/agents", "/transcript"] {
            assert_eq!(calls.call("GET", &format!("{team}{path}"), None).status, 404, "{state}");
        }
        let open = calls.call("GET", "/api/approvals", None).is(200).body;
        assert_eq!(open, json!({ "approvals": [] }), "{state}");
        assert_eq!(calls.call("DELETE", team, None).status, 404, "{state}");
    };

    check("just made", &make("default"));

    let idle = make("default");
    until("idle", || status(&idle) == "idle");
    check("idle", &idle);

    let working = make("bypassPermissions");
    say(&working, "Begin the long work");
    until("a command runs", || !processes("86397").is_empty());
    check("a command runs", &working);

    let asking = make("default");
    say(&asking, "Wait for me");
    until("a request is open", || {
        calls.call("GET", "/api/approvals", None).body["approvals"] != json!([])
    });
    check("a request is open", &asking);

    let held = make("default");
    calls.call("POST", &format!("{held}/pause"), None).is(202);
    say(&held, "This waits");
    check("held, with mail", &held);

    let ended = make("default");
    calls.call("POST", &format!("{ended}/stop"), None).is(202);
    check("stopped", &ended);

    let lists: Value = calls.call("GET", "/api/teams", None).is(200).body;
    assert_eq!(lists, json!({ "teams": [] }));
    going.signal(Signal::SIGTERM);
    going.end().code(0);
    // Nothing of them is kept on the disk either.
    let store = fs::read(home.data().join("store.db")).unwrap();
    assert!(!store.windows(10).any(|bytes| bytes == b"This waits"), "a text outlived its team");
}
