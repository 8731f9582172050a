//! A team in a test: every step is checked to be replayable, every refusal to change nothing.

use std::collections::{BTreeMap, BTreeSet};

use aion_core::agent::MemberSpec;
use aion_core::command::{SendMessage, Settings, ToolProposal};
use aion_core::hash::ActionHash;
use aion_core::id::{
    AgentName, ConversationId, MessageId, RequestId, SlotId, TaskId, TeamId, TurnId,
};
use aion_core::message::{Body, ProtocolMessage, Recipient, Urgency};
use aion_core::mode::PermissionMode;
use aion_core::permission::ToolClass;
use aion_core::time::{Millis, Timestamp};
use aion_core::turn::TurnOutcome;
use aion_core::{Caller, Command, Event, Rejection, Team};

pub(crate) const LEAD: SlotId = SlotId::LEAD;
pub(crate) const ANN: SlotId = SlotId(2);
pub(crate) const BOB: SlotId = SlotId(3);
pub(crate) const USER: Caller = Caller::User;

pub(crate) struct World {
    pub(crate) team: Team,
    pub(crate) now: Timestamp,
    pub(crate) log: Vec<(Timestamp, Event)>,
}

pub(crate) fn spec(name: &str) -> MemberSpec {
    MemberSpec {
        name: AgentName::try_from(name.to_owned()).unwrap(),
        label: None,
        agent_type: "scripted".to_owned(),
        model: None,
        color: None,
        prompt: String::new(),
        mode: PermissionMode::Default,
        conversation: ConversationId::new(format!("c-{name}")).unwrap(),
        parent_call: None,
        parent_conversation: None,
    }
}

pub(crate) fn text(to: Recipient, text: &str) -> Command {
    Command::SendMessage(Box::new(SendMessage {
        to,
        text: text.to_owned(),
        summary: None,
        urgency: Urgency::Wake,
        files: Vec::new(),
        key: None,
    }))
}

pub(crate) fn proposal(turn: TurnId, call: &str, tool: &str, class: ToolClass) -> Command {
    let input = serde_json::json!({ "call": tool });
    Command::ProposeTool(Box::new(ToolProposal {
        turn,
        call: call.to_owned(),
        tool: tool.to_owned(),
        class,
        action: ActionHash::of_tool(tool, &input, "/w"),
        description: format!("use {tool}"),
        input: input.to_string(),
        cwd: "/w".to_owned(),
        kin: Vec::new(),
        finding: None,
        suggestion: None,
    }))
}

pub(crate) fn task(subject: &str, blocked_by: &[u32]) -> Command {
    Command::CreateTask {
        subject: subject.to_owned(),
        description: String::new(),
        active_form: None,
        owner: None,
        blocked_by: blocked_by.iter().map(|n| TaskId(*n)).collect(),
        metadata: BTreeMap::new(),
    }
}

impl World {
    /// A lead, Ann and Bob, all ready and idle; nothing is offered by itself.
    pub(crate) fn new() -> Self {
        Self::with(|settings| settings.auto_claim = false)
    }

    pub(crate) fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let mut world = Self::empty();
        let mut settings = Settings::default();
        change(&mut settings);
        world.ok(
            USER,
            &Command::CreateTeam {
                team: TeamId::new("t-1").unwrap(),
                name: "demo".to_owned(),
                owner: "me".to_owned(),
                workspace: "/w".to_owned(),
                solo: false,
                lead: Box::new(spec("chief")),
                settings: Box::new(settings),
            },
        );
        world.ok(USER, &Command::SpawnAgent { member: Box::new(spec("ann")) });
        world.ok(USER, &Command::SpawnAgent { member: Box::new(spec("bob")) });
        for slot in [LEAD, ANN, BOB] {
            world.ok(Caller::System, &Command::AgentReady { slot, generation: 1 });
        }
        world
    }

    pub(crate) fn empty() -> Self {
        Self { team: Team::new(), now: Timestamp(1_000), log: Vec::new() }
    }

    /// Does it, and checks that replaying the log gives the same state.
    #[track_caller]
    pub(crate) fn ok(&mut self, caller: Caller, command: &Command) -> Vec<Event> {
        let events = match self.team.handle(self.now, caller, command) {
            Ok(events) => events,
            Err(rejection) => panic!("{command:?} was refused: {rejection}"),
        };
        self.log.extend(events.iter().map(|e| (self.now, e.clone())));
        assert_eq!(self.replayed(), self.team, "the log and the state disagree after {command:?}");
        let snapshot = serde_json::to_vec(&self.team).unwrap();
        let restored: Team = serde_json::from_slice(&snapshot).unwrap();
        assert_eq!(restored, self.team, "the snapshot and the state disagree after {command:?}");
        events
    }

    /// Does it where the rules take it.
    pub(crate) fn try_it(&mut self, caller: Caller, command: &Command) -> Option<Vec<Event>> {
        let events = self.team.handle(self.now, caller, command).ok()?;
        self.log.extend(events.iter().map(|e| (self.now, e.clone())));
        Some(events)
    }

    /// Has it refused, and checks that nothing changed.
    #[track_caller]
    pub(crate) fn no(&mut self, caller: Caller, command: &Command) -> Rejection {
        let before = self.team.clone();
        let rejection = self.team.handle(self.now, caller, command).unwrap_err();
        assert_eq!(before, self.team);
        rejection
    }

    pub(crate) fn replayed(&self) -> Team {
        let mut team = Team::new();
        for (at, event) in &self.log {
            let json = serde_json::to_string(event).unwrap();
            team.evolve(*at, &serde_json::from_str(&json).unwrap());
        }
        team
    }

    pub(crate) fn wait(&mut self, span: Millis) -> Vec<Event> {
        self.now = self.now + span;
        self.ok(Caller::System, &Command::Tick)
    }

    #[track_caller]
    pub(crate) fn turn(&self, slot: SlotId) -> TurnId {
        self.team.agent(slot).unwrap().turn().expect("in a turn").id()
    }

    pub(crate) fn is_active(&self, slot: SlotId) -> bool {
        self.team.agent(slot).unwrap().turn().is_some()
    }

    pub(crate) fn end_as(&mut self, slot: SlotId, outcome: TurnOutcome) -> Vec<Event> {
        let turn = self.turn(slot);
        self.ok(Caller::System, &Command::EndTurn { turn, outcome, usage: None })
    }

    pub(crate) fn end(&mut self, slot: SlotId) -> Vec<Event> {
        self.end_as(slot, TurnOutcome::Done { last_text: Some("done".to_owned()) })
    }

    /// Ends turns until nobody has one.
    pub(crate) fn settle(&mut self) {
        for _ in 0..50 {
            let Some(slot) =
                self.team.agents().find(|a| a.turn().is_some()).map(aion_core::agent::Agent::slot)
            else {
                return;
            };
            self.end(slot);
        }
        panic!("the team does not come to rest");
    }

    pub(crate) fn say(&mut self, caller: Caller, to: SlotId, words: &str) -> MessageId {
        let events = self.ok(caller, &text(Recipient::Agent(to), words));
        sent(&events)[0].0
    }

    /// Puts a member into a turn by a message of the user.
    pub(crate) fn wake(&mut self, slot: SlotId) -> TurnId {
        self.say(USER, slot, "go on");
        self.turn(slot)
    }

    pub(crate) fn open_request(&self) -> RequestId {
        self.team.requests().last().expect("a request").0.id
    }

    pub(crate) fn unread(&self, slot: SlotId) -> usize {
        self.team.agent(slot).unwrap().mailbox().unread()
    }

    pub(crate) fn crash(&mut self, resumable: bool) -> Vec<Event> {
        // What a new process knows is the log.
        self.team = self.replayed();
        let resumable: BTreeSet<TurnId> = self
            .team
            .agents()
            .filter_map(|a| a.turn().map(aion_core::turn::Turn::id))
            .filter(|_| resumable)
            .collect();
        let command = Command::Opened { downtime_ms: 5, resumable, detached: BTreeMap::new() };
        self.ok(Caller::System, &command)
    }
}

/// The messages among events: number, mailboxes, kind of protocol message or "text".
pub(crate) fn sent(events: &[Event]) -> Vec<(MessageId, Vec<SlotId>, &'static str)> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::MessageSent { message, recipients, .. } => {
                let kind = match &message.body {
                    Body::Text(_) => "text",
                    Body::Protocol(protocol) => protocol.kind(),
                };
                Some((message.id, recipients.clone(), kind))
            }
            _ => None,
        })
        .collect()
}

pub(crate) fn protocol<'a>(events: &'a [Event], kind: &str) -> &'a ProtocolMessage {
    events
        .iter()
        .find_map(|event| match event {
            Event::MessageSent { message, .. } => match &message.body {
                Body::Protocol(protocol) if protocol.kind() == kind => Some(protocol),
                _ => None,
            },
            _ => None,
        })
        .unwrap_or_else(|| panic!("no {kind} among {events:?}"))
}

pub(crate) fn names(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(Event::name).collect()
}
