//! A foreign agent in a real team: when it falls its mail is kept, and nobody else notices.

use std::sync::Arc;

use aion_core::agent::{Agent, MemberSpec, PermissionMode};
use aion_core::command::{Caller, Command, SendMessage, Settings};
use aion_core::event::{Event, Recorded};
use aion_core::id::{AgentName, ConversationId, Seq, SlotId};
use aion_core::message::{Recipient, Urgency};
use aion_core::turn::TurnOutcome;
use aion_runtime::tools::Catalogue;
use aion_runtime::{Backends, House, NewTeam, TeamHandle, TeamService};
use aion_testkit::MemoryStore;
use aion_testkit::backend::{Stage, StandIn};

use super::fixture::Fake;

const BOB: SlotId = SlotId(2);

/// A team whose lead is a stand-in, and whose bob is a fake agent.
struct Crew {
    _service: TeamService,
    handle: TeamHandle,
    stage: Stage,
    _workspace: tempfile::TempDir,
}

impl Crew {
    async fn with(fake: &Fake) -> Self {
        let workspace = tempfile::tempdir().unwrap();
        let (stand_in, stage) = StandIn::new();
        let backends = Backends::all(stand_in as _).also(Arc::new(fake.backend()));
        let house = House::new(Arc::new(MemoryStore::new()), backends, Catalogue::default());
        let service = TeamService::new(house);
        let new = NewTeam {
            name: "Crew".to_owned(),
            owner: "ada".to_owned(),
            workspace: workspace.path().display().to_string(),
            solo: false,
            lead: member("whoever", "stand-in"),
            settings: Settings::default(),
        };
        let handle = service.create(Caller::User, None, new).await.unwrap();
        let member = Box::new(member("bob", "fake"));
        handle.submit(Caller::User, None, Command::SpawnAgent { member }).await.unwrap();
        Self { _service: service, handle, stage, _workspace: workspace }
    }

    async fn tell(&self, to: Recipient, text: &str) {
        let message = SendMessage {
            to,
            text: text.to_owned(),
            summary: None,
            urgency: Urgency::Wake,
            files: Vec::new(),
            key: None,
        };
        let message = Command::SendMessage(Box::new(message));
        self.handle.submit(Caller::User, None, message).await.unwrap();
    }

    /// Waits until an event is in the log, past or future.
    async fn until(&self, mut wanted: impl FnMut(&Event) -> bool) -> Recorded {
        let mut events = self.handle.subscribe(Seq(0));
        loop {
            let recorded = events.next().await.unwrap().unwrap();
            if wanted(&recorded.event) {
                return recorded;
            }
        }
    }

    /// The lead takes a message and answers it.
    async fn lead_goes_on(&mut self) {
        self.tell(Recipient::Lead, "are you there?").await;
        let (lead, input) = self.stage.turn().await;
        lead.done(input.turn, "I am").await;
        self.until(|event| {
            matches!(event, Event::TurnEnded { slot: SlotId::LEAD, acknowledged, .. } if acknowledged.len() == 1)
        })
        .await;
    }
}

fn member(name: &str, agent_type: &str) -> MemberSpec {
    MemberSpec {
        name: AgentName::parse(name).unwrap(),
        label: None,
        agent_type: agent_type.to_owned(),
        model: None,
        color: None,
        prompt: String::new(),
        mode: PermissionMode::Default,
        conversation: ConversationId::new(format!("conversation-{name}")).unwrap(),
        parent_call: None,
        parent_conversation: None,
    }
}

#[tokio::test]
async fn an_agent_that_falls_gets_its_mail_again_in_another_process() {
    let fake = Fake::new(&["resumes"]);
    let mut crew = Crew::with(&fake).await;
    crew.tell(Recipient::Agent(BOB), "do not stumble over this").await;
    let failed = crew.until(|event| matches!(event, Event::AgentFailed { slot: BOB, .. })).await;
    let Event::AgentFailed { cause, .. } = failed.event else { unreachable!() };
    assert!(cause.contains("exit code 3; its last words were: thread 'main'"), "{cause}");
    crew.lead_goes_on().await;
    let ended = crew
        .until(|event| matches!(event, Event::TurnEnded { slot: BOB, acknowledged, .. } if !acknowledged.is_empty()))
        .await;
    let Event::TurnEnded { outcome, acknowledged, .. } = ended.event else { unreachable!() };
    let last_text = Some("back on my feet".to_owned());
    assert_eq!((outcome, acknowledged.len()), (TurnOutcome::Done { last_text }, 1));
}

#[tokio::test]
async fn an_agent_that_never_starts_has_failed_and_keeps_its_mail() {
    let mut crew = Crew::with(&Fake::new(&["exits"])).await;
    crew.tell(Recipient::Agent(BOB), "precious").await;
    let failed = crew.until(|event| matches!(event, Event::AgentFailed { slot: BOB, .. })).await;
    let Event::AgentFailed { cause, .. } = failed.event else { unreachable!() };
    assert!(cause.contains("exit code 7; its last words were: cannot find module"), "{cause}");
    let mail = |agent: &Agent| agent.mailbox().entries().len();
    let kept = crew.handle.query(move |team| team.agent(BOB).map(mail)).await.unwrap();
    assert_eq!(kept, Some(1));
    crew.lead_goes_on().await;
}
