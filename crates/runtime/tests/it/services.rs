//! A team whose models are behind real sockets, in every format, with all that goes wrong there at
//! once: it leaves the same files as a team that is played in the process.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aion_agent::leash::LeashConfig;
use aion_agent::models::{
    Catalogue, ModelInfo, Patience, Secret, Service, ServiceConfig, ServiceProvider, calls,
};
use aion_agent::provider::Provider;
use aion_agent::runtime::RuntimeConfig;
use aion_agent::sandbox::Sandbox;
use aion_agent::scripted::{Scenario, Scripted};
use aion_agent::tools::ToolConfig;
use aion_backends::{InProcessBackend, InProcessConfig, ProviderSource};
use aion_core::agent::{MemberSpec, PermissionMode};
use aion_core::command::{Caller, Settings};
use aion_core::event::Event;
use aion_core::id::{AgentName, SlotId, TeamId};
use aion_core::message::{Body, Recipient};
use aion_core::transcript::Content;
use aion_core::turn::TurnOutcome;
use aion_runtime::{Backends, House, NewTeam, TeamService};
use aion_store::{EventStore, MemoryStore};
use aion_testkit::model_server::{Fault, Format, ModelServer, Plan, Script, Seen};

use crate::house::{member, message, settings, until};

const KEY: &str = "sk-canary-91cc";

/// A lead brings ann in and writes a file while she reads a long one until she knows it; then she
/// writes hers and tells the lead.
const JOB: &str = r#"
[[agent.team-lead.rule]]
when = [{ given_text = "two poems" }]
think = "One for me, one for ann."
say = "I split the work: the mountain is mine, the sea is hers."
call = [
    { tool = "team_spawn_agent", outcome = "ok", input = { name = "ann", prompt = "You are ann: you write poems." } },
]

[[agent.team-lead.rule]]
when = [{ result_text = "ann is registered" }]
think = "She needs a task."
call = [
    { tool = "team_task_create", expect = 'Task #1 created', input = { subject = "Write the sea", description = "Read notes.txt until you know it.", owner = "ann" } },
    { tool = "Write", outcome = "ok", input = { file_path = "mountain.txt", content = "mountain\n" } },
]
then = "I wait for ann."

[[agent.team-lead.rule]]
when = [{ given_text = "the sea is written" }]
say = "Both poems are written."

[[agent.team-lead.rule]]
otherwise = true
when = [{ given = '(?s).*' }]
say = "Noted."

[[agent.ann.rule]]
when = [{ given_text = "Write the sea" }]
think = "The notes are long."
say = "I read the notes until I know them."
call = [
    { tool = "team_task_update", outcome = "ok", input = { task_id = "1", status = "in_progress" } },
    { tool = "Read", outcome = "ok", input = { file_path = "notes.txt" } },
]

[[agent.ann.rule]]
when = [{ seen_text = "the last line", times = 40 }, { result_text = "the last line" }]
think = "Now I know them."
call = [
    { tool = "Write", outcome = "ok", input = { file_path = "sea.txt", content = "sea\n" } },
    { tool = "team_task_update", outcome = "ok", input = { task_id = "1", status = "completed" } },
    { tool = "team_send_message", outcome = "ok", input = { to = "team-lead", message = "the sea is written" } },
]
then = "Done."

[[agent.ann.rule]]
repeat = true
when = [{ result_text = "the last line" }]
call = [{ tool = "Read", outcome = "ok", input = { file_path = "notes.txt" } }]

[[agent.ann.rule]]
otherwise = true
when = [{ given = '(?s).*' }]
say = "Noted."
"#;

/// One provider for everybody.
#[derive(Debug)]
struct One(Arc<dyn Provider>);

impl ProviderSource for One {
    fn provider(&self, _: &TeamId, _: &str, _: Option<&str>) -> Result<Arc<dyn Provider>, String> {
        Ok(Arc::clone(&self.0))
    }
}

/// What the job left behind.
#[derive(Debug)]
struct Left {
    files: Vec<(String, String)>,
    said: bool,
    summaries: usize,
}

async fn work(provider: Arc<dyn Provider>) -> Left {
    let dir = tempfile::tempdir().unwrap();
    let notes = format!("{}the last line\n", "a line of the notes\n".repeat(200));
    std::fs::write(dir.path().join("notes.txt"), notes).unwrap();
    // Nobody here starts a process.
    let leash = LeashConfig { program: "/nonexistent".into(), arguments: vec![], ledger: None };
    let sandbox = Arc::new(Sandbox::off());
    let tools = ToolConfig::new(leash, sandbox, std::iter::empty::<(OsString, OsString)>());
    let runtime = RuntimeConfig { max_tokens: 2_000, ..RuntimeConfig::default() };
    let config = InProcessConfig { runtime: Arc::new(runtime), tools: Arc::new(tools) };
    let backend = Arc::new(InProcessBackend::new(Arc::new(One(provider)), config));
    let store = Arc::new(MemoryStore::new());
    let catalogue = aion_runtime::tools::Catalogue::default();
    let house = House::new(Arc::clone(&store) as _, Backends::all(backend), catalogue);
    let service = TeamService::new(house);
    let lead = MemberSpec {
        name: AgentName::lead(),
        mode: PermissionMode::BypassPermissions,
        ..member("lead-of-test", "")
    };
    let conversation = lead.conversation.clone();
    let new = NewTeam {
        name: "Poets".to_owned(),
        owner: "ada".to_owned(),
        workspace: dir.path().display().to_string(),
        solo: false,
        lead,
        settings: Settings { member_mode: Some(PermissionMode::BypassPermissions), ..settings() },
    };
    let team = service.create(Caller::User, None, new).await.unwrap();
    team.submit(Caller::User, None, message(Recipient::Lead, "Write two poems.")).await.unwrap();
    // The lead has read what ann wrote to it when the turn ends that follows.
    let mut written = false;
    until(&team, |event| match event {
        Event::MessageSent { message, .. } => {
            written |= message.body == Body::Text("the sea is written".to_owned());
            false
        }
        Event::TurnEnded { outcome: outcome @ TurnOutcome::AgentFault { .. }, .. } => {
            panic!("{outcome:?}")
        }
        Event::TurnEnded { slot: SlotId::LEAD, .. } => written,
        _ => false,
    })
    .await;
    let anns = team
        .query(|team| team.agents().nth(1).map(|ann| ann.conversation().clone()))
        .await
        .unwrap()
        .unwrap();
    let mut summaries = 0;
    let mut said = false;
    for conversation in [conversation, anns] {
        let items = store.items(&conversation, 0, 10_000).await.unwrap();
        said |= items.iter().any(
            |i| matches!(&i.content, Content::Said { text } if text == "Both poems are written."),
        );
        summaries += items.iter().filter(|i| matches!(i.content, Content::Summary { .. })).count();
    }
    service.stop_all().await;
    Left { files: files(dir.path()), said, summaries }
}

fn files(dir: &Path) -> Vec<(String, String)> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// Everything that goes wrong, for the lead and for ann.
fn faults(seen: &Seen) -> Fault {
    let status = |status| Fault::Status { status, retry_after: Some("0".to_owned()) };
    match seen.of_agent {
        1 => status(429),
        2 => Fault::Cut { after: 3 },
        3 => Fault::MaxTokens,
        5 => status(529),
        6 => Fault::Malformed { after: 1 },
        _ => Fault::None,
    }
}

#[tokio::test]
async fn a_team_does_the_same_whatever_its_services_speak_and_however_they_fail() {
    let played = Scripted::new(Scenario::parse("job.toml", JOB).unwrap());
    let expected = work(Arc::new(played)).await;
    assert!(expected.said);
    assert_eq!(expected.files.len(), 3);
    for (service, format) in [
        (Service::Anthropic, Format::Anthropic),
        (Service::OpenAi, Format::Chat),
        (Service::OpenAiResponses, Format::Responses),
        (Service::Gemini, Format::Gemini),
        (Service::Ollama, Format::Ollama),
    ] {
        let script = Script {
            plan: Plan::new(faults),
            key: Some(KEY.to_owned()),
            split: Some(11),
            pings: true,
            ..Script::new(Scenario::parse("job.toml", JOB).unwrap())
        };
        let server = ModelServer::start(script).await.unwrap();
        let left = work(Arc::new(provider(&server, service, format))).await;
        assert_eq!(server.violations(), Vec::<String>::new(), "{service:?}");
        assert_eq!((&left.files, &left.said), (&expected.files, &expected.said), "{service:?}");
        assert!(left.summaries >= 10, "{service:?}: {} summaries", left.summaries);
        let seen = server.seen();
        for kind in ["team-lead", "ann"] {
            assert!(seen.iter().filter(|seen| seen.agent == kind).count() > 6, "{service:?}");
        }
        let of_ann: Vec<String> = seen
            .iter()
            .filter(|seen| seen.agent == "ann")
            .map(|seen| seen.body.to_string())
            .collect();
        for (before, after) in of_ann.iter().zip(of_ann.iter().skip(1)) {
            if !before.contains("outgrow your window") {
                continue;
            }
            // The roster, the open task with what is to be done, and the mail of the turn.
            for needed in [
                "- team-lead: lead",
                "- ann (you)",
                "#1 [in progress, yours] Write the sea",
                "Read notes.txt until you know it.",
                "task_assignment",
            ] {
                assert!(after.contains(needed), "{service:?} forgot {needed:?}: {after}");
            }
        }
    }
}

fn provider(server: &ModelServer, service: Service, format: Format) -> ServiceProvider {
    let config = ServiceConfig {
        service,
        base_url: Some(server.base_url(format)),
        key: Some(Secret::new(KEY)),
    };
    let info = ModelInfo {
        id: "stand-in".into(),
        service,
        context_window: 13_000,
        max_output: 2_000,
        price: None,
    };
    let catalogue = Arc::new(Catalogue::new(vec![info]));
    let http = calls(reqwest::Client::builder()).unwrap();
    let patience = Patience { first_wait: Duration::ZERO, ..Patience::default() };
    ServiceProvider::new(config, "stand-in".into(), catalogue, http)
        .unwrap()
        .with_patience(patience)
}
