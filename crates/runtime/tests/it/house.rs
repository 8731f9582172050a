//! A house for tests: what is put together, and the few steps that every test takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aion_core::agent::{MemberSpec, PermissionMode};
use aion_core::command::{Caller, Command, SendMessage, Settings};
use aion_core::event::{Event, Recorded};
use aion_core::id::{AgentName, ConversationId, Seq, SlotId, TeamId};
use aion_core::message::{Recipient, Urgency};
use aion_runtime::tools::Catalogue;
use aion_runtime::{Backends, House, Ids, ManualClock, NewTeam, TeamHandle, TeamService};
use aion_store::{EventStore, MemoryStore};
use aion_testkit::backend::{Stage, StandIn, StandInAgent};
use aion_testkit::faults::{Fault, FaultPlan, FaultyStore, Operation};
use aion_testkit::gate::GatedStore;

pub(crate) const LEAD: SlotId = SlotId::LEAD;
pub(crate) const BOB: SlotId = SlotId(2);

/// Draws 1, 2, 3.
#[derive(Debug, Default)]
struct CountingIds(AtomicU64);

impl Ids for CountingIds {
    fn draw(&self) -> String {
        format!("{:032x}", self.0.fetch_add(1, Ordering::SeqCst) + 1)
    }
}

pub(crate) struct TestHouse {
    pub(crate) service: TeamService,
    pub(crate) stage: Stage,
    pub(crate) backend: Arc<StandIn>,
    pub(crate) gate: Arc<GatedStore>,
    pub(crate) store: Arc<FaultyStore<MemoryStore>>,
    pub(crate) clock: Arc<ManualClock>,
}

impl TestHouse {
    pub(crate) fn new() -> Self {
        Self::on(Arc::new(FaultyStore::new(MemoryStore::new(), FaultPlan::none())))
    }

    /// Another house on the same store, as after a crash.
    pub(crate) fn again(&self) -> Self {
        Self::on(Arc::clone(&self.store))
    }

    /// Lets the next append fail.
    pub(crate) fn fail(&self, fault: Fault) {
        self.store.fail_next(Operation::Append, fault);
    }

    pub(crate) fn appends(&self) -> u64 {
        self.store.calls(Operation::Append)
    }

    fn on(store: Arc<FaultyStore<MemoryStore>>) -> Self {
        let gate = Arc::new(GatedStore::new(Arc::clone(&store) as Arc<dyn EventStore>));
        let clock = Arc::new(ManualClock::new(0));
        let (backend, stage) = StandIn::new();
        let backends = Backends::all(Arc::clone(&backend) as _);
        let mut house = House::new(Arc::clone(&gate) as _, backends, Catalogue::default());
        house.clock = Arc::clone(&clock) as _;
        house.ids = Arc::new(CountingIds::default());
        Self { service: TeamService::new(house), stage, backend, gate, store, clock }
    }

    /// A team whose lead is ready and idle, with settings.
    pub(crate) async fn team_with(&mut self, settings: Settings) -> (TeamHandle, StandInAgent) {
        let new = NewTeam {
            name: "Crew".to_owned(),
            owner: "ada".to_owned(),
            workspace: "/work".to_owned(),
            solo: false,
            lead: member("lead-of-test", ""),
            settings,
        };
        let handle = self.service.create(Caller::User, None, new).await.unwrap();
        let lead = self.stage.spawned().await;
        until_idle(&handle, LEAD).await;
        (handle, lead)
    }

    pub(crate) async fn team(&mut self) -> (TeamHandle, StandInAgent) {
        self.team_with(settings()).await
    }

    /// A team with a lead and bob, both idle.
    pub(crate) async fn pair(&mut self) -> (TeamHandle, StandInAgent, StandInAgent) {
        let (handle, lead) = self.team().await;
        let spawn = Command::SpawnAgent { member: Box::new(member("bob", "")) };
        handle.submit(Caller::User, None, spawn).await.unwrap();
        let bob = self.stage.spawned().await;
        until_idle(&handle, BOB).await;
        (handle, lead, bob)
    }
}

/// Limits that no test meets by accident.
pub(crate) fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.limits.messages_per_minute = 0;
    settings.limits.open_requests = 64;
    settings
}

pub(crate) fn member(name: &str, prompt: &str) -> MemberSpec {
    MemberSpec {
        name: AgentName::parse(name).unwrap(),
        label: None,
        agent_type: "stand-in".to_owned(),
        model: None,
        color: None,
        prompt: prompt.to_owned(),
        mode: PermissionMode::Default,
        conversation: ConversationId::new(format!("conversation-{name}")).unwrap(),
        parent_call: None,
        parent_conversation: None,
    }
}

pub(crate) fn message(to: Recipient, text: &str) -> Command {
    Command::SendMessage(Box::new(SendMessage {
        to,
        text: text.to_owned(),
        summary: None,
        urgency: Urgency::Wake,
        files: Vec::new(),
        key: None,
    }))
}

pub(crate) fn keyed(to: Recipient, text: &str, key: &str) -> Command {
    let mut command = message(to, text);
    if let Command::SendMessage(message) = &mut command {
        message.key = Some(key.to_owned());
    }
    command
}

/// Waits until an event is in the log, past or future, and answers it.
pub(crate) async fn until(handle: &TeamHandle, mut wanted: impl FnMut(&Event) -> bool) -> Recorded {
    let mut events = handle.subscribe(Seq(0));
    loop {
        let recorded = events.next().await.unwrap().unwrap();
        if wanted(&recorded.event) {
            return recorded;
        }
    }
}

pub(crate) async fn until_idle(handle: &TeamHandle, slot: SlotId) {
    until(handle, |event| matches!(event, Event::AgentReady { slot: ready, .. } if *ready == slot))
        .await;
}

/// The names of all events in the log.
pub(crate) async fn log(store: &dyn EventStore, team: &TeamId) -> Vec<Recorded> {
    store.read(team, Seq(0), 100_000).await.unwrap()
}

pub(crate) fn count(log: &[Recorded], wanted: impl Fn(&Event) -> bool) -> usize {
    log.iter().filter(|recorded| wanted(&recorded.event)).count()
}
