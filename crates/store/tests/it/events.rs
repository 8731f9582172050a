//! Events that fit together, for tests that fill a log; they never decide anything.

use aion_core::agent::{MemberSpec, PermissionMode};
use aion_core::command::{Caller, Settings};
use aion_core::event::{EVENT_VERSION, Event, Recorded};
use aion_core::id::{AgentName, CommandId, ConversationId, MessageId, Seq, SlotId, TeamId, TurnId};
use aion_core::message::{Body, Envelope, Recipient, Sender, Urgency};
use aion_core::time::Timestamp;
use aion_core::transcript::{Content, Item};
use aion_core::turn::TurnOutcome;
use aion_store::Append;

pub(crate) const MATE: SlotId = SlotId(2);

pub(crate) fn team(name: &str) -> TeamId {
    TeamId::new(name).unwrap()
}

pub(crate) fn conversation(name: &str) -> ConversationId {
    ConversationId::new(name).unwrap()
}

pub(crate) fn member(name: &str) -> MemberSpec {
    MemberSpec {
        name: AgentName::try_from(name.to_owned()).unwrap(),
        label: None,
        agent_type: "scripted".to_owned(),
        model: None,
        color: None,
        prompt: "do it".to_owned(),
        mode: PermissionMode::Default,
        conversation: conversation(name),
        parent_call: None,
        parent_conversation: None,
    }
}

pub(crate) fn created(team: &TeamId) -> Event {
    Event::TeamCreated {
        team: team.clone(),
        name: format!("name of {team}"),
        owner: "ann".to_owned(),
        workspace: "/w".to_owned(),
        solo: false,
        lead: member("team-lead"),
        settings: Settings::default(),
    }
}

pub(crate) fn spawned() -> Event {
    Event::AgentSpawned { slot: MATE, member: member("writer"), consent: None, by: Sender::User }
}

pub(crate) fn sent(id: u64, text: &str) -> Event {
    Event::MessageSent {
        message: Envelope {
            id: MessageId(id),
            from: Sender::Agent(SlotId::LEAD),
            to: Recipient::Agent(MATE),
            body: Body::Text(text.to_owned()),
            summary: None,
            urgency: Urgency::Wake,
            files: Vec::new(),
            again: None,
            sent_at: Timestamp(id),
        },
        recipients: vec![MATE],
        held: false,
        key: None,
    }
}

pub(crate) fn turn_started(turn: u64, batch: &[u64]) -> Event {
    Event::TurnStarted {
        turn: TurnId(turn),
        slot: MATE,
        batch: batch.iter().copied().map(MessageId).collect(),
        offer: None,
        reserved: None,
    }
}

pub(crate) fn turn_ended(turn: u64, acknowledged: &[u64]) -> Event {
    Event::TurnEnded {
        turn: TurnId(turn),
        slot: MATE,
        outcome: TurnOutcome::Done { last_text: None },
        acknowledged: acknowledged.iter().copied().map(MessageId).collect(),
        requeued: Vec::new(),
        usage: None,
    }
}

/// Gives events their places after `expected`.
pub(crate) fn recorded(expected: u64, command: &str, events: Vec<Event>) -> Vec<Recorded> {
    events
        .into_iter()
        .zip(expected + 1..)
        .map(|(event, seq)| Recorded {
            seq: Seq(seq),
            at: Timestamp(seq * 10),
            version: EVENT_VERSION,
            actor: Caller::User,
            credential: None,
            command_id: CommandId::new(command).unwrap(),
            event,
        })
        .collect()
}

pub(crate) fn append(team: &TeamId, epoch: u64, expected: u64, events: Vec<Event>) -> Append {
    let events = recorded(expected, &format!("c-{expected}"), events).into();
    Append::new(team.clone(), epoch, Seq(expected), events)
}

pub(crate) fn said(step: u32, text: &str) -> Item {
    Item { turn: TurnId(1), step, content: Content::Said { text: text.to_owned() } }
}
