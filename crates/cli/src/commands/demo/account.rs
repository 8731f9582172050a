//! What happened in the demo, counted from the exported log: who did what, and whether everything
//! that was to be shown was there.

use std::collections::{BTreeMap, BTreeSet};

use aion_core::agent::RemovalReason;
use aion_core::event::{Event, Recorded};
use aion_core::id::{RequestId, SlotId};
use aion_core::message::{Body, ProtocolMessage, Recipient, Sender};
use aion_core::request::{Decision, RequestKind};
use aion_core::task::TaskStatus;
use aion_core::team::Team;
use aion_core::turn::ToolVerdict;

/// An account of a demo.
#[derive(Debug, Default)]
pub(super) struct Account {
    members: BTreeMap<SlotId, Member>,
    shown: BTreeSet<Shown>,
    problems: Vec<String>,
}

/// One member's part.
#[derive(Debug, Default)]
struct Member {
    name: String,
    colour: String,
    turns: u64,
    messages: u64,
    tools: u64,
    tasks: u64,
    crashes: u64,
    left: bool,
}

/// A line about one member.
#[derive(Debug)]
pub(super) struct Line {
    /// Its name.
    pub(super) name: String,
    /// Its colour.
    pub(super) colour: String,
    /// What it did.
    pub(super) did: String,
}

/// What the demo is there to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shown {
    Dependency,
    DirectMessage,
    Broadcast,
    MidTurn,
    Permission,
    PlanReturned,
    PlanApproved,
    ShutdownRefused,
    ShutdownApproved,
    OwnShutdown,
    Restart,
    IdleNotice,
}

/// Everything, each with its words.
const ALL: [(Shown, &str); 12] = [
    (Shown::Dependency, "a task that waits for others"),
    (Shown::DirectMessage, "a message from one member to another"),
    (Shown::Broadcast, "a message to everybody"),
    (Shown::MidTurn, "a message read in the middle of a turn"),
    (Shown::Permission, "a tool call that was stopped, asked for and allowed"),
    (Shown::PlanReturned, "a plan sent back"),
    (Shown::PlanApproved, "a plan approved"),
    (Shown::ShutdownRefused, "a shutdown refused"),
    (Shown::ShutdownApproved, "a shutdown approved"),
    (Shown::OwnShutdown, "a member that asks to leave"),
    (Shown::Restart, "a crashed member started again"),
    (Shown::IdleNotice, "an idle notice"),
];

impl Account {
    /// Counts a whole log.
    pub(super) fn of(events: &[Recorded]) -> Self {
        let mut account = Self::default();
        let mut team = Team::new();
        let mut requests: BTreeMap<RequestId, RequestKind> = BTreeMap::new();
        for recorded in events {
            team.evolve(recorded.at, &recorded.event);
            for agent in team.agents() {
                let member = account.members.entry(agent.slot()).or_default();
                if member.name.is_empty() {
                    let lead = agent.slot() == SlotId::LEAD;
                    let name = if lead { "lead" } else { agent.name().as_str() };
                    name.clone_into(&mut member.name);
                    agent.color().clone_into(&mut member.colour);
                }
            }
            if let Event::RequestOpened { request } = &recorded.event {
                requests.insert(request.id, request.kind.clone());
            }
            account.count(&team, &requests, &recorded.event);
        }
        account
    }

    fn count(&mut self, team: &Team, requests: &BTreeMap<RequestId, RequestKind>, event: &Event) {
        match event {
            Event::TurnEnded { slot, .. } => self.member(*slot).turns += 1,
            Event::MessageSent { message, .. } => {
                if let (Sender::Agent(slot), Body::Text(_)) = (message.from, &message.body) {
                    self.member(slot).messages += 1;
                    self.shown.insert(match message.to {
                        Recipient::Everyone => Shown::Broadcast,
                        Recipient::Agent(_) | Recipient::Lead | Recipient::User => {
                            Shown::DirectMessage
                        }
                    });
                }
                if matches!(message.body, Body::Protocol(ProtocolMessage::IdleNotification { .. }))
                {
                    self.shown.insert(Shown::IdleNotice);
                }
            }
            Event::MessageDelivered { message, step, .. } if *step > 0 => {
                let text = team.message(*message).map(|message| &message.body);
                if matches!(text, Some(Body::Text(_))) {
                    self.shown.insert(Shown::MidTurn);
                }
            }
            Event::ToolProposed { slot, verdict: ToolVerdict::Run, .. } => {
                self.member(*slot).tools += 1;
            }
            Event::ToolStarted { slot, .. } => {
                self.member(*slot).tools += 1;
                self.shown.insert(Shown::Permission);
            }
            Event::TaskCreated { blocked_by, .. } if !blocked_by.is_empty() => {
                self.shown.insert(Shown::Dependency);
            }
            Event::TaskChanged { change, by: Sender::Agent(slot), .. }
                if change.status == Some(TaskStatus::Completed) =>
            {
                self.member(*slot).tasks += 1;
            }
            Event::RequestDecided { request, decision, .. } => {
                self.decided(requests.get(request), decision);
            }
            Event::AgentRestarting { slot, .. } => {
                self.member(*slot).crashes += 1;
                self.shown.insert(Shown::Restart);
            }
            Event::AgentRemoved { slot, reason: RemovalReason::ShutdownApproved { .. } } => {
                self.member(*slot).left = true;
            }
            _ => {}
        }
    }

    fn decided(&mut self, kind: Option<&RequestKind>, decision: &Decision) {
        match (kind, decision) {
            (Some(RequestKind::Plan(_)), Decision::ReturnPlan { .. }) => {
                self.shown.insert(Shown::PlanReturned);
            }
            (Some(RequestKind::Plan(_)), Decision::ApprovePlan { .. }) => {
                self.shown.insert(Shown::PlanApproved);
            }
            (Some(RequestKind::Shutdown(_)), Decision::RejectShutdown { .. }) => {
                self.shown.insert(Shown::ShutdownRefused);
            }
            (Some(RequestKind::Shutdown(handshake)), Decision::ApproveShutdown) => {
                self.shown.insert(if handshake.by == Sender::Agent(handshake.slot) {
                    Shown::OwnShutdown
                } else {
                    Shown::ShutdownApproved
                });
            }
            _ => {}
        }
    }

    fn member(&mut self, slot: SlotId) -> &mut Member {
        self.members.entry(slot).or_default()
    }

    /// Notes a promise; `problem` says what is wrong where it does not hold.
    pub(super) fn expect(&mut self, holds: bool, problem: impl FnOnce() -> String) {
        if !holds {
            self.problems.push(problem());
        }
    }

    /// Whether every promise holds.
    pub(super) fn ok(&self) -> bool {
        self.problems.is_empty() && self.missing().next().is_none()
    }

    /// The promises that do not hold. What was not to be seen follows from whatever went wrong, and
    /// is named only where nothing did.
    pub(super) fn problems(&self) -> Vec<String> {
        if self.problems.is_empty() {
            self.missing().map(|words| format!("there was not: {words}")).collect()
        } else {
            self.problems.clone()
        }
    }

    fn missing(&self) -> impl Iterator<Item = &'static str> + '_ {
        ALL.iter().filter(|(shown, _)| !self.shown.contains(shown)).map(|(_, words)| *words)
    }

    /// What each member did.
    pub(super) fn members(&self) -> impl Iterator<Item = Line> + '_ {
        self.members.values().map(|member| {
            let mut did = vec![
                count(member.turns, "turn"),
                count(member.messages, "message"),
                count(member.tools, "tool call"),
            ];
            if member.tasks > 0 {
                did.push(format!("{} completed", count(member.tasks, "task")));
            }
            if member.crashes > 0 {
                did.push("crashed and came back".to_owned());
            }
            if member.left {
                did.push("has left".to_owned());
            }
            Line { name: member.name.clone(), colour: member.colour.clone(), did: did.join(" · ") }
        })
    }
}

/// A number with its noun.
pub(super) fn count(n: u64, what: &str) -> String {
    let end = if n == 1 { "" } else { "s" };
    format!("{n} {what}{end}")
}
