//! A fake agent with its misbehaviours, as the backend starts it.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aion_agent::leash::LeashConfig;
use aion_agent::sandbox::Sandbox;
use aion_agent::tools::ToolConfig;
use aion_backends::acp::{
    AcpBackend, AcpConfig, AcpLimits, AgentSource, Bridge, Launchable, Profile, SessionDirectory,
};
use aion_core::id::RequestId;
use aion_core::transcript::{Content, Item};
use aion_testkit::contract::Bench;
use aion_testkit::house::{House, Judgement};
use futures::channel::mpsc::UnboundedReceiver;
use tempfile::TempDir;

/// The stand-in, which is its own helper as well.
const FAKE: &str = env!("CARGO_BIN_EXE_aion-fake-acp");
/// No wait of a test that does well ends this way.
const LONG: Duration = Duration::from_mins(2);
/// The wait of a test for something that does not come.
pub(crate) const SHORT: Duration = Duration::from_millis(400);

const PROFILE: &str = r#"
id = "fake"
name = "Fake"
launch = { program = "aion-fake-acp" }
login = "fake login"
modes = { default = "ask", plan = "plan", start = "free" }
team_tools = [
    { all = [
        { at = "/request/toolCall/_meta/mcp", is = true },
        { at = "/call/title", is = "mcp.{server}.{tool}" },
    ] },
]
"#;

/// Everything that a fake agent is started with.
pub(crate) struct Fake {
    pub(crate) launch: Launchable,
    pub(crate) limits: AcpLimits,
    pub(crate) kept: TempDir,
    _sessions: TempDir,
}

impl Fake {
    /// An agent with these misbehaviours.
    pub(crate) fn new(odd: &[&str]) -> Self {
        let sessions = tempfile::tempdir().unwrap();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let kept = ("FAKE_ACP_SESSIONS".into(), sessions.path().into());
        Self {
            launch: Launchable {
                profile: Arc::new(toml::from_str(PROFILE).unwrap()),
                program: FAKE.into(),
                args: odd.iter().map(OsString::from).collect(),
                environment: vec![("PATH".into(), path), kept],
            },
            limits: AcpLimits {
                start: LONG,
                open: LONG,
                set: LONG,
                cancel: LONG,
                leave: (LONG, LONG),
                ..AcpLimits::default()
            },
            kept: tempfile::tempdir().unwrap(),
            _sessions: sessions,
        }
    }

    /// With other limits.
    pub(crate) fn limited(mut self, limit: impl FnOnce(&mut AcpLimits)) -> Self {
        limit(&mut self.limits);
        self
    }

    /// With another profile.
    pub(crate) fn known_as(mut self, change: impl FnOnce(&mut Profile)) -> Self {
        change(Arc::make_mut(&mut self.launch.profile));
        self
    }

    /// The same agent in another process, with other misbehaviours.
    pub(crate) fn now(mut self, odd: &[&str]) -> Self {
        self.launch.args = odd.iter().map(OsString::from).collect();
        self
    }

    pub(crate) fn backend(&self) -> AcpBackend {
        let leash = leash();
        let config = AcpConfig {
            tools: Arc::new(ToolConfig::new(leash.clone(), Arc::new(Sandbox::off()), [])),
            leash,
            bridge: Bridge { program: FAKE.into(), arguments: Vec::new() },
            memory: Arc::new(SessionDirectory::open(self.kept.path()).unwrap()),
            limits: Arc::new(self.limits.clone()),
        };
        AcpBackend::new(Arc::new(One(self.launch.clone())), config)
    }

    /// An agent whose commands are asked for and then refused, when it is ready.
    pub(crate) async fn start(&self) -> Bench {
        Bench::start(&self.backend()).await
    }

    /// The same in a house and a workspace that are there.
    pub(crate) async fn start_in(&self, house: &Arc<House>, workspace: &Arc<TempDir>) -> Bench {
        let (_, requests) = in_a_house(Judgement::Run);
        let backend = self.backend();
        let begun =
            Bench::begin(&backend, "bob", Arc::clone(house), requests, Arc::clone(workspace));
        let mut bench = begun.await;
        assert_eq!(bench.signal().await, "ready");
        bench
    }

    /// Why an agent does not become ready.
    pub(crate) async fn failure(&self) -> String {
        let (house, requests) = in_a_house(Judgement::Run);
        let workspace = Arc::new(tempfile::tempdir().unwrap());
        let mut bench = Bench::begin(&self.backend(), "bob", house, requests, workspace).await;
        bench.signal().await
    }

    /// How a turn ends.
    pub(crate) async fn turn(&self, opening: &str) -> String {
        let mut bench = self.start().await;
        bench.turn(1, opening).unwrap();
        bench.signal().await
    }
}

/// How its process is kept.
pub(crate) fn leash() -> LeashConfig {
    LeashConfig { program: FAKE.into(), arguments: vec!["__leash".into()], ledger: None }
}

/// A house that judges all calls alike.
pub(crate) fn in_a_house(judgement: Judgement) -> (Arc<House>, UnboundedReceiver<RequestId>) {
    House::new(move |_| judgement.clone())
}

/// A transcript in short.
pub(crate) fn in_short(items: &[Item]) -> Vec<String> {
    items
        .iter()
        .map(|item| match &item.content {
            Content::Given { text } => format!("given {text}"),
            Content::Said { text } => format!("said {text}"),
            Content::Thought { text, .. } => format!("thought {text}"),
            Content::Called { tool, input, .. } => format!("called {tool} {input}"),
            Content::Got { output, ok, .. } => format!("got {ok} {output}"),
            Content::Summary { .. } => "summary".to_owned(),
        })
        .collect()
}

/// Whether a process is there.
pub(crate) fn lives(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

/// A catalogue with one agent in it.
#[derive(Debug)]
struct One(Launchable);

impl AgentSource for One {
    fn knows(&self, agent_type: &str) -> bool {
        matches!(agent_type, "scripted" | "fake")
    }

    fn agent(&self, _: &str) -> Result<Launchable, String> {
        Ok(self.0.clone())
    }
}
