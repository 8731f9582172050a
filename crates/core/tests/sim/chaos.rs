//! What goes wrong around a team, and what strangers try; and the patient person at the end.

use std::collections::BTreeSet;

use aion_core::agent::PermissionMode;
use aion_core::budget::Amount;
use aion_core::command::{Fact, SendMessage};
use aion_core::event::Event;
use aion_core::id::{MessageId, SlotId, TaskId, TurnId};
use aion_core::message::{Body, Envelope, Recipient, Sender, Urgency};
use aion_core::request::{Decision, RequestKind};
use aion_core::task::{Task, TaskChange, TaskStatus};
use aion_core::time::{Millis, Timestamp};
use aion_core::turn::{TurnOutcome, Unavailable};
use aion_core::{Caller, Command};

use crate::model::{Phase, Standing};
use crate::world::{Fate, Reply, World};

impl World {
    /// Several want the same, and their commands share one append.
    pub(crate) fn race(&mut self) {
        match self.rng.below(3) {
            0 => self.race_for_task(),
            1 => self.race_for_decision(),
            _ => self.race_with_members(),
        }
    }

    fn race_for_task(&mut self) {
        let Some(task) = self.some_task() else { return };
        let version = self.team().and_then(|t| t.board().open().get(&task)).map(Task::version);
        let batch: Vec<(Caller, Command)> = self
            .model
            .present()
            .map(|(slot, _)| (Caller::Agent(slot), Command::ClaimTask { task, version }))
            .collect();
        let replies = self.submit_all(batch);
        let won = replies.iter().filter(|r| matches!(r, Reply::Done { .. })).count();
        self.model.check(won <= 1, "INV-10", || format!("{won} members claimed {task} at once"));
    }

    fn race_for_decision(&mut self) {
        let open = self.open_requests(|_| true);
        let Some(request) = self.rng.pick(&open).copied() else { return };
        let Some(kind) = self.model.requests.get(&request).map(|a| a.request.kind.clone()) else {
            return;
        };
        let mut batch = Vec::new();
        for caller in [Caller::Agent(SlotId::LEAD), Caller::User, Caller::User] {
            let decision = self.some_decision(&kind);
            batch.push((caller, Command::Decide { request, decision }));
        }
        let replies = self.submit_all(batch);
        let won = replies.iter().filter(|r| matches!(r, Reply::Done { .. })).count();
        self.model.check(won <= 1, "INV-13", || format!("{request} was decided {won} times"));
    }

    /// Broadcasts between members that come, go and are renamed.
    fn race_with_members(&mut self) {
        let mut batch = Vec::new();
        for _ in 0..self.rng.range(3, 6) {
            let slot = self.some_slot();
            let command = match self.rng.below(6) {
                0 => Command::SpawnAgent { member: self.some_member() },
                1 => Command::KillAgent { slot },
                2 => Command::PauseAgent { slot },
                _ => Command::SendMessage(Box::new(SendMessage {
                    to: Recipient::Everyone,
                    text: "to whoever is there".to_owned(),
                    summary: None,
                    urgency: Urgency::Wake,
                    files: Vec::new(),
                    key: None,
                })),
            };
            batch.push((Caller::User, command));
        }
        self.submit_all(batch);
    }

    pub(crate) fn crash_process(&mut self) {
        let running: Vec<(SlotId, u32)> =
            self.procs.iter().map(|(slot, p)| (*slot, p.generation)).collect();
        if let Some((slot, generation)) = self.rng.pick(&running).copied() {
            if self.session.is_none() {
                self.procs.remove(&slot);
            } else {
                self.process_exit(slot, generation, "killed from outside");
            }
        }
    }

    /// For ten minutes no provider answers. Nothing may be given up for it.
    pub(crate) fn outage(&mut self) {
        let dead = self.model.counts.dead;
        let removed = self.model.present().count();
        for _ in 0..4 {
            let live: Vec<(SlotId, TurnId)> = self
                .model
                .present()
                .filter_map(|(slot, m)| m.turn.as_ref().map(|t| (slot, t.id)))
                .collect();
            for (slot, turn) in live {
                let outcome = TurnOutcome::Unavailable {
                    why: Unavailable::Provider,
                    until: Some(self.now() + Millis::minutes(2)),
                    said: None,
                };
                self.submit_with(
                    vec![(Caller::Agent(slot), Command::EndTurn { turn, outcome, usage: None })],
                    Fate::Durable,
                );
            }
            if self.session.is_none() {
                return;
            }
            self.mono += 1_000;
            self.wall += 1_000;
        }
        let gone = self.model.present().count() != removed;
        let after = self.model.counts.dead;
        self.model.check(gone || after == dead, "INV-03", || {
            format!("{} messages died of an outage of the provider", after - dead)
        });
    }

    pub(crate) fn jump(&mut self) {
        let span = self.rng.pick(&[3_600_000, 315_360_000_000]).copied().unwrap_or(0);
        if self.rng.percent(50) {
            self.wall += span;
        } else {
            self.wall -= span;
        }
    }

    /// Something from a turn that is over, or was never this member's.
    pub(crate) fn late_result(&mut self) {
        if self.model.last_turn == 0 || self.session.is_none() {
            return;
        }
        let turn = TurnId(self.rng.range(1, self.model.last_turn));
        let slot = self.some_slot();
        let own = self
            .model
            .members
            .get(&slot)
            .and_then(|m| m.turn.as_ref())
            .is_some_and(|t| t.id == turn);
        if own {
            return;
        }
        let command = match self.rng.below(5) {
            0 => Command::TakeMail { turn, step: 1 },
            1 => Command::FinishTool { turn, call: "call-1-1".to_owned(), ok: true, changed: true },
            2 => Command::StartTool { turn, call: "call-1-1".to_owned() },
            3 => Command::ReserveCall { turn, usage: self.some_usage(), worst: Amount::default() },
            _ => Command::EndTurn {
                turn,
                outcome: TurnOutcome::Done { last_text: None },
                usage: None,
            },
        };
        let reply = self.submit(Caller::Agent(slot), command);
        if matches!(reply, Reply::Done { .. } | Reply::Known(_)) {
            self.model.fail("INV-09", format!("a late result of {turn} by {slot} was taken"));
        }
    }

    /// News of a start that is over.
    pub(crate) fn stale_process(&mut self) {
        let slot = self.some_slot();
        let Some(generation) = self.model.members.get(&slot).map(|m| m.generation) else { return };
        let generation =
            if self.rng.percent(50) { generation + 1 } else { generation.saturating_sub(1) };
        let before = self.log.len();
        let command = if self.rng.percent(50) {
            Command::AgentReady { slot, generation }
        } else {
            Command::AgentExited { slot, generation, cause: "long ago".to_owned() }
        };
        self.submit_with(vec![(Caller::System, command)], Fate::Durable);
        let about = self.log[before..]
            .iter()
            .any(|r| matches!(r.event, Event::AgentReady { .. } | Event::AgentFailed { .. }));
        self.model.check(!about, "INV-09", || format!("old news of {slot} were believed"));
    }

    pub(crate) fn observe(&mut self) {
        let slot = self.some_slot();
        let fact = match self.rng.below(8) {
            0 | 3 => Fact::Sent { slot, to: self.some_recipient(), text: "by itself".to_owned() },
            1 => {
                Fact::CreatedTask { slot, subject: "found".to_owned(), description: String::new() }
            }
            _ => {
                let Some(task) = self.some_task() else { return };
                let change =
                    TaskChange { status: Some(TaskStatus::Completed), ..TaskChange::default() };
                Fact::ChangedTask { slot, task, change }
            }
        };
        let reply = self.submit(Caller::System, Command::Observe(Box::new(fact)));
        let refused = matches!(reply, Reply::Rejected(_)) && !self.model.ended;
        self.model.check(!refused, "INV-10", || "a fact was refused".to_owned());
    }

    /// What a member may not do, tried on purpose. The model sees whether it was let through.
    pub(crate) fn trespass(&mut self, caller: Caller) {
        let slot = self.some_slot();
        let command = match self.rng.below(17) {
            0 => Command::SpawnAgent { member: self.some_member() },
            1 => Command::KillAgent { slot },
            2 => Command::SetMode { slot, mode: PermissionMode::BypassPermissions },
            3 => Command::PauseTeam,
            4 => Command::SetCap { cap: None },
            5 => Command::Delegate { delegation: self.some_delegation() },
            6 => Command::RequestShutdown { slot, reason: None },
            7 => {
                self.decide_something(caller);
                return;
            }
            8 => {
                let Some(task) = self.some_task() else { return };
                Command::ClaimTask {
                    task,
                    version: Some(u32::try_from(self.rng.below(5)).unwrap_or(0)),
                }
            }
            9 => {
                // A circle, if it were let in.
                let (Some(a), Some(b)) = (self.some_task(), self.some_task()) else { return };
                let on: BTreeSet<TaskId> = [b].into();
                let change = TaskChange { add_blocked_by: on, ..TaskChange::default() };
                self.submit(
                    Caller::User,
                    Command::UpdateTask { task: a, change: Box::new(change), version: None },
                );
                let on: BTreeSet<TaskId> = [a].into();
                let change = TaskChange { add_blocked_by: on, ..TaskChange::default() };
                Command::UpdateTask { task: b, change: Box::new(change), version: None }
            }
            10 => {
                self.rename(caller);
                return;
            }
            11 => Command::SendMessage(Box::new(SendMessage {
                to: Recipient::Agent(slot),
                text: "now".to_owned(),
                summary: None,
                urgency: Urgency::Interrupt,
                files: Vec::new(),
                key: None,
            })),
            12 => Command::Interrupt { slot },
            13 => {
                // Words in the name of another.
                let message = Envelope {
                    id: MessageId(1),
                    from: Sender::Agent(slot),
                    to: Recipient::Lead,
                    body: Body::Text("I said so".to_owned()),
                    summary: None,
                    urgency: Urgency::Wake,
                    files: Vec::new(),
                    again: None,
                    sent_at: Timestamp(0),
                };
                Command::SendAgain { slot: SlotId::LEAD, message: Box::new(message) }
            }
            15 => Command::ResumeAgent { slot },
            14 => Command::SendMessage(Box::new(SendMessage {
                to: self.some_recipient(),
                text: "x".repeat(70_000),
                summary: None,
                urgency: Urgency::Wake,
                files: Vec::new(),
                key: None,
            })),
            _ => Command::RestartAgent { slot },
        };
        self.submit(caller, command);
    }
}

impl World {
    /// What a patient person does so that a team comes to rest; says whether there was anything to do.
    pub(crate) fn settle_by_person(&mut self, restart: bool) -> bool {
        if self.model.ended {
            return false;
        }
        let user = Caller::User;
        let before = self.log.len();
        if !self.model.team_holds.is_empty() {
            self.submit(user, Command::ResumeTeam);
        }
        if self.model.cap.is_some() {
            self.submit(user, Command::SetCap { cap: None });
        }
        let slots: Vec<SlotId> = self.model.present().map(|(slot, _)| slot).collect();
        for slot in slots {
            let Some(member) = self.model.members.get(&slot) else { continue };
            if !member.holds.is_empty() {
                self.submit(user, Command::ResumeAgent { slot });
            }
            let Some(member) = self.model.members.get(&slot) else { continue };
            let dead = member.phase == Phase::Failed;
            if dead && restart && member.retry_at.is_none() {
                self.submit(user, Command::RestartAgent { slot });
            }
            let Some(member) = self.model.members.get(&slot) else { continue };
            if member.turn.as_ref().is_some_and(|t| !t.interrupted) && member.phase == Phase::Active
            {
                self.submit(user, Command::Interrupt { slot });
            } else if member.phase == Phase::Stopping && slot != SlotId::LEAD {
                self.submit(user, Command::KillAgent { slot });
            }
        }
        for request in self.open_requests(|_| true) {
            let Some(kind) = self.model.requests.get(&request).map(|a| a.request.kind.clone())
            else {
                continue;
            };
            let decision = match &kind {
                RequestKind::Spawn(_) | RequestKind::DeleteTeam => {
                    Decision::Decline { reason: None }
                }
                kind => self.some_decision(kind),
            };
            self.submit(user, Command::Decide { request, decision });
            let open =
                self.model.requests.get(&request).is_some_and(|a| a.standing == Standing::Open);
            if open && matches!(kind, RequestKind::Shutdown(_)) {
                // The answer would have been the member's own.
                self.submit(user, Command::Withdraw { request });
            }
        }
        self.pass_until(self.mono + 120_000);
        self.log.len() != before || !self.queue.is_empty()
    }
}
