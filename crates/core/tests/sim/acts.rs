//! What an agent does inside a turn: mail, tasks, tools, requests; never how its turn ends.

use std::collections::BTreeMap;

use aion_core::agent::Agent;
use aion_core::budget::Amount;
use aion_core::command::{SendMessage, ToolProposal};
use aion_core::consent::TeamProposal;
use aion_core::event::Event;
use aion_core::id::{MessageId, RequestId, SlotId, TaskId, TeamId, TurnId};
use aion_core::message::{Recipient, Sender, Urgency};
use aion_core::permission::ToolClass;
use aion_core::request::{ActionHash, Decision, RequestKind};
use aion_core::rule::{Finding, RuleScope, RuleWord};
use aion_core::task::{Task, TaskChange, TaskStatus};
use aion_core::turn::{ToolVerdict, Turn};
use aion_core::{Caller, Command};

use crate::agents::{Call, Do, Sent};
use crate::model::Standing;
use crate::mutants::Mutant;
use crate::world::{Action, Reply, SECRET_INPUT, SECRET_KEY, World};

impl World {
    pub(crate) fn act_in_turn(
        &mut self,
        slot: SlotId,
        generation: u32,
        turn: TurnId,
        caller: Caller,
        choice: Do,
    ) {
        match choice {
            Do::Send => {
                let to = self.some_recipient();
                self.send(caller, to);
            }
            Do::Broadcast => self.send(caller, Recipient::Everyone),
            Do::Burst => {
                for _ in 0..self.rng.range(5, 40) {
                    self.send(caller, Recipient::Everyone);
                }
            }
            Do::TakeMail => self.take_mail(slot, generation, turn),
            Do::ReturnMail => self.return_mail(slot, generation, turn),
            Do::Claim => self.claim(caller),
            Do::Complete => self.complete(slot),
            Do::CreateTask => self.create_task(caller),
            Do::UpdateTask => self.update_task(caller),
            Do::Tool => self.propose_tool(slot, generation, turn),
            Do::Network => self.connect(slot, generation, turn),
            Do::Plan => {
                let text = format!("plan {}", self.rng.below(5));
                self.submit(caller, Command::SubmitPlan { text });
            }
            Do::Ask => {
                self.submit(
                    caller,
                    Command::AskUser { text: "which?".to_owned(), options: vec!["a".to_owned()] },
                );
            }
            Do::Leave => {
                let slot = if slot == SlotId::LEAD { self.some_slot() } else { slot };
                self.submit(caller, Command::RequestShutdown { slot, reason: None });
            }
            Do::AnswerShutdown => self.answer_shutdown(slot),
            Do::DecideAsLead => self.decide_something(caller),
            Do::Spawn => {
                let member = self.some_member();
                self.submit(caller, Command::SpawnAgent { member });
            }
            Do::Withdraw => {
                let own: Vec<RequestId> = self.open_requests(|r| r.from == caller.into());
                if let Some(request) = self.rng.pick(&own).copied() {
                    self.submit(caller, Command::Withdraw { request });
                }
            }
            Do::Budget => {
                let cap = Amount { tokens: 1_000_000, micro_usd: 0 };
                self.submit(caller, Command::RequestBudget { cap, reason: "more work".to_owned() });
            }
            Do::ProposeTeam => {
                let proposal = Box::new(TeamProposal {
                    name: "a team".to_owned(),
                    summary: "together".to_owned(),
                    why: "much to do".to_owned(),
                    members: Vec::new(),
                });
                self.submit(caller, Command::ProposeTeam(proposal));
            }
            Do::Usage => {
                let usage = self.some_usage();
                self.submit(caller, Command::RecordUsage { slot, usage });
            }
            Do::Trespass => self.trespass(caller),
            Do::EndTeam => {
                self.submit(caller, Command::EndTeam);
            }
            Do::Finish
            | Do::FinishEmpty
            | Do::Fault
            | Do::Unavailable
            | Do::RateLimit
            | Do::Login
            | Do::Crash
            | Do::Mute => {}
        }
    }

    /// Sends once, by key; without an answer it is tried again later.
    pub(crate) fn send(&mut self, caller: Caller, to: Recipient) {
        let number = self.client.sends.len();
        let urgency = match (self.rng.below(10), caller) {
            (0 | 1, _) => Urgency::Queue,
            (2, Caller::User | Caller::Agent(SlotId::LEAD)) => Urgency::Interrupt,
            _ => Urgency::Wake,
        };
        let message = SendMessage {
            to,
            text: format!("text {number}"),
            summary: None,
            urgency,
            files: Vec::new(),
            key: Some(format!("{SECRET_KEY} {number}")),
        };
        self.client.sends.push(Sent { caller, message, accepted: None });
        self.try_send(number);
    }

    pub(crate) fn try_send(&mut self, number: usize) {
        let Some(sent) = self.client.sends.get(number) else { return };
        let (caller, mut message) = (sent.caller, sent.message.clone());
        if self.mutant == Some(Mutant::ForgetKey) {
            message.key = None;
        }
        let reply = self.submit(caller, Command::SendMessage(Box::new(message)));
        self.note_reply(number, &reply);
    }

    pub(crate) fn note_reply(&mut self, number: usize, reply: &Reply) {
        let id = match reply {
            Reply::Done { .. } => self.events_of(reply).iter().find_map(|r| match &r.event {
                Event::MessageSent { message, .. } => Some(message.id),
                _ => None,
            }),
            Reply::Known(receipt) => receipt.message,
            Reply::Rejected(_) => None,
            Reply::Unavailable => {
                self.client.unsure.push(number);
                return;
            }
        };
        let now = self.now();
        let known = self.client.sends.get(number).is_none_or(|sent| {
            let command = Command::SendMessage(Box::new(sent.message.clone()));
            let receipt = self.team().and_then(|team| team.receipt(now, sent.caller, &command));
            id.is_none() || self.session.is_none() || receipt.is_some_and(|r| r.message == id)
        });
        let ended = self.model.ended;
        self.model.check(known || ended, "INV-02", || format!("the key of {id:?} is not known"));
        let lied = matches!(reply, Reply::Done { .. }) && id.is_none();
        if let Some(sent) = self.client.sends.get_mut(number) {
            sent.accepted = id;
            let text = sent.message.text.clone();
            if lied && !text.starts_with("shutdown_") {
                self.model.fail("INV-02", format!("{text:?} is accepted, and not in the log"));
            }
        }
    }

    fn take_mail(&mut self, slot: SlotId, generation: u32, turn: TurnId) {
        let step = self.script(slot, generation, turn).map_or(1, |s| s.step.max(1));
        let reply = self.submit(Caller::Agent(slot), Command::TakeMail { turn, step });
        let taken: Vec<MessageId> = self
            .events_of(&reply)
            .iter()
            .filter_map(|r| match r.event {
                Event::MessageDelivered { message, .. } => Some(message),
                _ => None,
            })
            .collect();
        if let Some(script) = self.script(slot, generation, turn) {
            script.taken.extend(taken);
        }
    }

    fn return_mail(&mut self, slot: SlotId, generation: u32, turn: TurnId) {
        let Some(script) = self.script(slot, generation, turn) else { return };
        let mut messages = std::mem::take(&mut script.taken);
        if self.rng.percent(20) {
            // Also what it may not give back: the opening, and what it never had.
            let mail = self.model.members.get(&slot).map(|m| m.mail.keys().copied());
            messages.extend(mail.into_iter().flatten());
        }
        if !messages.is_empty() {
            self.submit(Caller::Agent(slot), Command::ReturnMail { turn, messages });
        }
    }

    pub(crate) fn some_task(&mut self) -> Option<TaskId> {
        let open: Vec<TaskId> = self.model.tasks.keys().copied().collect();
        match self.rng.below(20) {
            0 => Some(TaskId(u32::try_from(self.rng.below(40)).unwrap_or(0))),
            _ => self.rng.pick(&open).copied(),
        }
    }

    pub(crate) fn claim(&mut self, caller: Caller) {
        let offered = match caller {
            Caller::Agent(slot) => {
                self.team().and_then(|t| t.agent(slot)).and_then(Agent::turn).and_then(Turn::offer)
            }
            Caller::User | Caller::System => None,
        };
        let task = if self.rng.percent(60) { offered } else { None };
        let Some(task) = task.or_else(|| self.some_task()) else { return };
        let version = self.team().and_then(|t| t.board().open().get(&task)).map(Task::version);
        let seen = match self.rng.below(10) {
            0 => version.map(|v| v + 1),
            1 => version.and_then(|v| v.checked_sub(1)),
            2 => None,
            _ => version,
        };
        let reply = self.submit(caller, Command::ClaimTask { task, version: seen });
        let stale = seen.is_some() && seen != version;
        if stale && matches!(reply, Reply::Done { .. }) {
            self.model
                .fail("INV-10", format!("{task} is claimed at {seen:?}, it was at {version:?}"));
        }
    }

    fn complete(&mut self, slot: SlotId) {
        let own: Vec<TaskId> = self
            .model
            .tasks
            .iter()
            .filter(|(_, t)| t.owner == Some(slot))
            .map(|(id, _)| *id)
            .collect();
        let Some(task) = self.rng.pick(&own).copied() else {
            return self.claim(Caller::Agent(slot));
        };
        let change =
            Box::new(TaskChange { status: Some(TaskStatus::Completed), ..TaskChange::default() });
        self.submit(Caller::Agent(slot), Command::UpdateTask { task, change, version: None });
    }

    pub(crate) fn create_task(&mut self, caller: Caller) {
        let blocked_by = (0..self.rng.below(3)).filter_map(|_| self.some_task()).collect();
        let owner = if self.rng.percent(30) { Some(self.some_slot()) } else { None };
        let command = Command::CreateTask {
            subject: "work".to_owned(),
            description: String::new(),
            active_form: None,
            owner,
            blocked_by,
            metadata: BTreeMap::new(),
        };
        let command = if self.rng.percent(30) {
            let key = format!("{SECRET_KEY} task {}", self.rng.below(30));
            Command::Keyed { key, command: Box::new(command) }
        } else {
            command
        };
        self.submit(caller, command);
    }

    pub(crate) fn update_task(&mut self, caller: Caller) {
        let Some(task) = self.some_task() else { return };
        let mut change = TaskChange::default();
        match self.rng.below(9) {
            0 | 1 => change.owner = Some(Some(self.some_slot())),
            2 => change.owner = Some(None),
            3 => change.status = Some(TaskStatus::InProgress),
            4 => change.status = Some(TaskStatus::Pending),
            5 => change.status = Some(TaskStatus::Deleted),
            6 => change.add_blocked_by.extend(self.some_task()),
            7 => {
                let blockers =
                    self.model.tasks.get(&task).map(|t| t.blocked_by.clone()).unwrap_or_default();
                change.remove_blocked_by.extend(blockers.first());
            }
            _ => change.subject = Some("other work".to_owned()),
        }
        self.submit(caller, Command::UpdateTask { task, change: Box::new(change), version: None });
    }

    fn propose_tool(&mut self, slot: SlotId, generation: u32, turn: TurnId) {
        let number = self.rng.below(4);
        let (tool, class) = self
            .rng
            .pick(&[
                ("read", ToolClass::Read),
                ("edit", ToolClass::Edit),
                ("bash", ToolClass::Execute),
                ("bash", ToolClass::Execute),
            ])
            .copied()
            .unwrap_or(("read", ToolClass::Read));
        let again =
            self.script(slot, generation, turn).and_then(|s| s.calls.keys().next().cloned());
        let step = self.script(slot, generation, turn).map_or(0, |s| s.step);
        let call = match again {
            Some(call) if self.rng.percent(10) => call,
            _ => format!("call-{step}-{}", self.rng.below(1_000)),
        };
        let action = ActionHash::of_text(&format!("{tool} {number}"));
        let finding = self.some_finding(tool);
        // What is asked for is shown to who answers.
        let nobody_judges = class == ToolClass::Read
            && finding.as_ref().is_none_or(|finding| finding.says != RuleWord::Ask);
        let proposal = ToolProposal {
            turn,
            call: call.clone(),
            tool: tool.to_owned(),
            class,
            action,
            description: format!("{tool} {number}"),
            input: if nobody_judges { SECRET_INPUT.to_owned() } else { String::new() },
            cwd: "/w".to_owned(),
            kin: Vec::new(),
            finding,
            suggestion: None,
        };
        let reply = self.submit(Caller::Agent(slot), Command::ProposeTool(Box::new(proposal)));
        let verdict = self.events_of(&reply).iter().find_map(|r| match &r.event {
            Event::ToolProposed { verdict, .. } => Some(verdict.clone()),
            _ => None,
        });
        let Some(script) = self.script(slot, generation, turn) else { return };
        match verdict {
            Some(ToolVerdict::Run) => {
                script.calls.insert(call, Call::Runs);
            }
            Some(ToolVerdict::Ask { request }) => {
                script.calls.insert(call, Call::Waits(request));
            }
            Some(ToolVerdict::Refused { .. }) | None => {}
        }
    }

    /// What the rules of a person, or of the team, say about one call in six.
    fn some_finding(&mut self, tool: &str) -> Option<Finding> {
        if !self.rng.percent(16) {
            return None;
        }
        let says =
            self.rng.weighted(&[(2, RuleWord::Allow), (1, RuleWord::Ask), (1, RuleWord::Deny)]);
        let scope = self.rng.weighted(&[(2, RuleScope::User), (1, RuleScope::Session)]);
        Some(Finding { says, rule: tool.to_owned(), scope, grant: None })
    }

    fn connect(&mut self, slot: SlotId, generation: u32, turn: TurnId) {
        let Some(script) = self.script(slot, generation, turn) else { return };
        let Some(call) =
            script.calls.iter().find(|(_, c)| **c == Call::Runs).map(|(id, _)| id.clone())
        else {
            return;
        };
        let host = format!("host-{}.example", self.rng.below(3));
        let reply = self.submit(
            Caller::Agent(slot),
            Command::RequestNetwork { turn, call, host, finding: None },
        );
        let asked = self.events_of(&reply).iter().find_map(|r| match &r.event {
            Event::RequestOpened { request } => Some(request.id),
            _ => None,
        });
        if let (Some(script), Some(asked)) = (self.script(slot, generation, turn), asked) {
            script.connections.push(asked);
        }
    }

    /// The open handshake that this member has to answer.
    pub(crate) fn shutdown_of(&self, slot: SlotId) -> Option<RequestId> {
        self.model.requests.iter().find_map(|(id, asked)| match &asked.request.kind {
            RequestKind::Shutdown(h)
                if asked.standing == Standing::Open
                    && (h.slot == slot) != (h.by == Caller::Agent(h.slot).into())
                    && (h.slot == slot || slot == SlotId::LEAD) =>
            {
                Some(*id)
            }
            _ => None,
        })
    }

    fn answer_shutdown(&mut self, slot: SlotId) {
        let Some(request) = self.shutdown_of(slot) else { return };
        let asker = self.model.requests.get(&request).map(|a| a.request.from);
        let approve = self.rng.percent(50);
        if let (Some(Sender::Agent(asker)), true) = (asker, self.rng.percent(20)) {
            // The one compatible answer in text.
            let text = if approve { "shutdown_approved" } else { "shutdown_rejected: busy" };
            let message = SendMessage {
                to: Recipient::Agent(asker),
                text: text.to_owned(),
                summary: None,
                urgency: Urgency::Wake,
                files: Vec::new(),
                key: None,
            };
            self.submit(Caller::Agent(slot), Command::SendMessage(Box::new(message)));
            return;
        }
        let decision = if approve {
            Decision::ApproveShutdown
        } else {
            Decision::RejectShutdown { reason: "still busy".to_owned() }
        };
        self.submit(Caller::Agent(slot), Command::Decide { request, decision });
    }

    pub(crate) fn link_team(&mut self, request: RequestId) {
        let team = TeamId::new(format!("from-{}", request.0)).expect("a slug");
        if matches!(
            self.submit(Caller::System, Command::LinkTeam { request, team }),
            Reply::Unavailable
        ) {
            self.schedule(200, Action::Link(request));
        }
    }
}
