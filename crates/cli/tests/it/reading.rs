//! The reading commands on logs that a person brings along.

use std::fs;

use aion_core::agent::{MemberSpec, PermissionMode};
use aion_core::command::{Caller, Settings};
use aion_core::event::{EVENT_VERSION, Event, Recorded};
use aion_core::id::{AgentName, CommandId, ConversationId, Seq, TeamId};
use aion_core::time::Timestamp;
use aion_store::{Append, EventStore, SqliteOptions, SqliteStore};

use crate::binary::{Going, Home};

const TWO: &str = r#"
[[agent.team-lead.rule]]
when = [{ given = "Ask" }]
call = [{ tool = "team_ask_user", input = { question = "Which?", options = ["red", "blue"] } }]

[[agent.team-lead.rule]]
when = [{ given = 'Which\?\): (?<choice>\w+)' }]
say = "Then {{choice}}."
"#;

#[test]
fn teams_are_found_by_beginnings_and_ambiguity_is_told() {
    let home = Home::new();
    let script = home.scenario(TWO);
    let script = script.to_str().unwrap();
    for name in ["web", "webshop"] {
        home.aion(["run", "Ask", "--script", script, "--name", name, "--yes"]).code(0);
    }
    let shown =
        |wanted: &str| home.aion(["team", "show", wanted, "--json"]).code(0).json()["name"].clone();
    assert_eq!(shown("web"), "web");
    assert_eq!(shown("webs"), "webshop");
    let ran = home.aion(["team", "show", "we", "--json"]).code(2);
    assert_eq!(ran.error_code(), "team.ambiguous");
    assert!(ran.stderr.contains("webshop"), "{ran:#?}");
    assert_eq!(home.aion(["task", "ls", "webs", "--json"]).code(0).json(), serde_json::json!([]));
}

#[test]
fn a_thousand_teams_are_listed() {
    let home = Home::new();
    let many = 1_000;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = SqliteStore::open(&home.data(), &SqliteOptions::default()).unwrap();
    runtime.block_on(futures::future::join_all((0..many).map(|n| begun(&store, n))));
    drop(store);
    let rows = home.aion(["team", "ls", "--json"]).code(0).json();
    assert_eq!(rows.as_array().unwrap().len(), many);
    assert_eq!(
        home.aion(["team", "show", "team-0999", "--json"]).code(0).json()["name"],
        "team-0999"
    );
    assert_eq!(home.aion(["team", "ls"]).code(0).stdout.lines().count(), many + 1);
}

/// A team of which only the beginning is known.
async fn begun(store: &SqliteStore, n: usize) {
    let team = TeamId::new(format!("{n:032x}")).unwrap();
    let epoch = store.open(&team).await.unwrap().epoch;
    let lead = MemberSpec {
        name: AgentName::lead(),
        label: None,
        agent_type: "scripted".to_owned(),
        model: None,
        color: None,
        prompt: String::new(),
        mode: PermissionMode::Default,
        conversation: ConversationId::new(format!("c{n}")).unwrap(),
        parent_call: None,
        parent_conversation: None,
    };
    let event = Event::TeamCreated {
        team: team.clone(),
        name: format!("team-{n:04}"),
        owner: "local".to_owned(),
        workspace: "/nowhere".to_owned(),
        solo: false,
        lead,
        settings: Settings::default(),
    };
    let recorded = Recorded {
        seq: Seq(1),
        at: Timestamp(0),
        version: EVENT_VERSION,
        actor: Caller::User,
        credential: None,
        command_id: CommandId::new(format!("k{n}")).unwrap(),
        event,
    };
    store.append(Append::new(team, epoch, Seq(0), vec![recorded].into())).await.unwrap();
}

#[test]
fn a_log_that_is_not_whole_is_refused_with_its_line() {
    let home = Home::new();
    let script = home.scenario(TWO);
    let script = script.to_str().unwrap();
    home.aion(["run", "Ask", "--script", script, "--yes"]).code(0);
    let log = home.aion(["export", "ask"]).code(0).stdout;
    let lines: Vec<&str> = log.lines().collect();
    let check = |lines: &[String], code: i32, error: &str, words: &str| {
        let file = home.path("log.jsonl");
        fs::write(&file, lines.join("\n")).unwrap();
        let ran = home.aion(["replay", file.to_str().unwrap(), "--json"]).code(code);
        assert_eq!(ran.error_code(), error);
        assert!(ran.stderr.contains(words), "{ran:#?}");
    };
    let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let mut gap = owned(&lines);
    gap.remove(2);
    check(&gap, 1, "replay.gap", "line 3: event 4 follows, and 3 is missing");
    let mut cut = owned(&lines);
    let half = cut[3].len() / 2;
    cut[3].truncate(half);
    check(&cut, 1, "replay.unreadable", "line 4");
    let mut newer = owned(&lines);
    newer[1] = newer[1].replace("\"version\":1", "\"version\":99");
    check(&newer, 1, "replay.newer", "format 99");
    check(&[], 9, "replay.empty", "no event");
    let file = home.path("whole.jsonl");
    fs::write(&file, &log).unwrap();
    let file = file.to_str().unwrap();
    for at in ["0", "9999"] {
        let ran = home.aion(["replay", file, "--at", at, "--json"]).code(9);
        assert_eq!(ran.error_code(), "replay.out_of_range");
    }
    home.aion(["replay", file]).code(0);
}

#[test]
fn a_followed_log_shows_what_another_process_does() {
    let home = Home::new();
    let script = home.scenario(TWO);
    let script = script.to_str().unwrap();
    home.aion(["run", "Ask", "--script", script]).code(5);
    let mut follower = Going::start(home.command(["log", "ask", "-f", "--json"]));
    follower.until_event("request_opened");
    home.aion(["run", "--resume", "ask", "--yes"]).code(0);
    follower.until_event("request_decided");
    follower.until_event("turn_ended");
    follower.signal(nix::sys::signal::Signal::SIGINT);
    follower.end().code(130);
}
