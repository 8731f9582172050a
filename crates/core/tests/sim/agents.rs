//! Scripted agents as small state machines: what a process does with a turn; it never sees the model's
//! verdicts, only what an agent would see.

use std::collections::BTreeMap;

use aion_core::agent::Agent;
use aion_core::budget::{Amount, Usage};
use aion_core::command::SendMessage;
use aion_core::event::Event;
use aion_core::id::{MessageId, RequestId, SlotId, TurnId};
use aion_core::request::Decision;
use aion_core::time::Millis;
use aion_core::turn::{ToolCallState, Turn, TurnOutcome, Unavailable};
use aion_core::{Caller, Command, Rejection};

use crate::world::{Action, Reply, World};

/// One send that its client wants to be sure of.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) caller: Caller,
    pub(crate) message: SendMessage,
    /// The message that the client was told of.
    pub(crate) accepted: Option<MessageId>,
}

/// What the clients remember.
#[derive(Debug, Default)]
pub(crate) struct Client {
    pub(crate) sends: Vec<Sent>,
    /// Sends without an answer.
    pub(crate) unsure: Vec<usize>,
    pub(crate) names: u32,
}

/// One call of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Waits(RequestId),
    Runs,
}

/// One turn as its agent sees it.
#[derive(Debug)]
pub(crate) struct Script {
    turn: TurnId,
    pub(crate) step: u32,
    left: u32,
    pub(crate) calls: BTreeMap<String, Call>,
    answers: BTreeMap<RequestId, Decision>,
    pub(crate) connections: Vec<RequestId>,
    pub(crate) taken: Vec<MessageId>,
    interrupted: bool,
    mute: bool,
}

/// One process of a member.
#[derive(Debug)]
pub(crate) struct Proc {
    pub(crate) generation: u32,
    /// It lives on when the house falls.
    pub(crate) survives: bool,
    stopping: bool,
    script: Option<Script>,
}

impl Proc {
    pub(crate) fn turn_id(&self) -> Option<TurnId> {
        self.script.as_ref().map(|s| s.turn)
    }

    fn runs_something(&self) -> bool {
        self.script.as_ref().is_some_and(|s| s.calls.values().any(|call| *call == Call::Runs))
    }

    /// The house is gone; nothing that it would still have said arrives.
    pub(crate) fn orphan(&mut self) {
        self.stopping = false;
    }
}

/// What an agent does in one step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Do {
    Finish,
    FinishEmpty,
    Fault,
    Unavailable,
    RateLimit,
    Login,
    Crash,
    Mute,
    Send,
    Broadcast,
    Burst,
    TakeMail,
    ReturnMail,
    Claim,
    Complete,
    CreateTask,
    UpdateTask,
    Tool,
    Network,
    Plan,
    Ask,
    Leave,
    AnswerShutdown,
    DecideAsLead,
    Spawn,
    Withdraw,
    Budget,
    ProposeTeam,
    Usage,
    Trespass,
    EndTeam,
}

impl World {
    pub(crate) fn start_process(&mut self, slot: SlotId, generation: u32) {
        let survives = self.rng.percent(20);
        self.procs.insert(slot, Proc { generation, survives, stopping: false, script: None });
        let after = self.rng.range(1, 3_000);
        let starts = self.calm || self.rng.percent(93);
        self.schedule(
            after,
            if starts { Action::Ready(slot, generation) } else { Action::Exit(slot, generation) },
        );
    }

    pub(crate) fn process_ready(&mut self, slot: SlotId, generation: u32) {
        if self.procs.get(&slot).is_none_or(|p| p.generation != generation) {
            return;
        }
        let reply = self.submit(Caller::System, Command::AgentReady { slot, generation });
        if matches!(reply, Reply::Unavailable) {
            self.schedule(200, Action::Ready(slot, generation));
        }
    }

    pub(crate) fn process_exit(&mut self, slot: SlotId, generation: u32, cause: &str) {
        if self.procs.get(&slot).is_none_or(|p| p.generation != generation) {
            return;
        }
        let cause = cause.to_owned();
        let reply = self.submit(Caller::System, Command::AgentExited { slot, generation, cause });
        if matches!(reply, Reply::Unavailable) {
            self.schedule(200, Action::Exit(slot, generation));
        } else if self.procs.get(&slot).is_some_and(|p| p.generation == generation) {
            self.procs.remove(&slot);
        }
    }

    pub(crate) fn stop_process(&mut self, slot: SlotId, generation: u32, kill: bool) {
        let known = self.procs.get_mut(&slot).filter(|p| p.generation == generation);
        let busy = if let Some(proc) = known {
            proc.stopping = true;
            proc.script.is_some()
        } else {
            let proc = Proc { generation, survives: false, stopping: true, script: None };
            self.procs.insert(slot, proc);
            false
        };
        // A polite stop waits for the turn, which ends it.
        if kill || !busy {
            let after = self.rng.range(1, 500);
            self.schedule(after, Action::Exit(slot, generation));
        }
    }

    pub(crate) fn run_turn(&mut self, slot: SlotId, turn: TurnId) {
        let Some(agent) = self.team().and_then(|t| t.agent(slot)) else { return };
        let generation = agent.generation();
        let calls: BTreeMap<String, Call> = agent
            .turn()
            .into_iter()
            .flat_map(Turn::calls)
            .map(|(id, state)| match state {
                ToolCallState::Asked { request, .. } => (id.clone(), Call::Waits(*request)),
                ToolCallState::Started { .. } => (id.clone(), Call::Runs),
            })
            .collect();
        let connections: Vec<RequestId> = agent
            .turn()
            .into_iter()
            .flat_map(Turn::blocked_on)
            .copied()
            .filter(|r| !calls.values().any(|c| *c == Call::Waits(*r)))
            .collect();
        let left = u32::try_from(self.rng.range(1, 8)).unwrap_or(1);
        let survives = self.rng.percent(20);
        let proc = self.procs.entry(slot).or_insert(Proc {
            generation,
            survives,
            stopping: false,
            script: None,
        });
        proc.generation = generation;
        if proc.script.as_ref().is_some_and(|s| s.turn == turn) {
            // It lives on from before the fall of the house.
            return self.schedule(50, Action::Step(slot, generation, turn));
        }
        proc.script = Some(Script {
            turn,
            step: 0,
            left,
            calls,
            answers: BTreeMap::new(),
            connections,
            taken: Vec::new(),
            interrupted: false,
            mute: false,
        });
        let after = self.rng.range(1, 2_000);
        self.schedule(after, Action::Step(slot, generation, turn));
    }

    pub(crate) fn script(
        &mut self,
        slot: SlotId,
        generation: u32,
        turn: TurnId,
    ) -> Option<&mut Script> {
        let proc = self.procs.get_mut(&slot).filter(|p| p.generation == generation)?;
        proc.script.as_mut().filter(|s| s.turn == turn)
    }

    pub(crate) fn interrupt_turn(&mut self, slot: SlotId, turn: TurnId) {
        let Some(generation) = self.procs.get(&slot).map(|p| p.generation) else { return };
        if let Some(script) = self.script(slot, generation, turn) {
            script.interrupted = true;
            let after = self.rng.range(1, 800);
            self.schedule(after, Action::Yield(slot, generation, turn));
        }
    }

    pub(crate) fn answer_turn(
        &mut self,
        slot: SlotId,
        turn: TurnId,
        request: RequestId,
        decision: &Decision,
    ) {
        let Some(generation) = self.procs.get(&slot).map(|p| p.generation) else { return };
        if let Some(script) = self.script(slot, generation, turn) {
            script.answers.insert(request, decision.clone());
            let after = self.rng.range(1, 300);
            self.schedule(after, Action::Step(slot, generation, turn));
        }
    }

    /// An interrupted turn ends, whatever its agent was doing.
    pub(crate) fn yield_turn(&mut self, slot: SlotId, generation: u32, turn: TurnId) {
        if self.script(slot, generation, turn).is_some() {
            self.end_turn(slot, generation, turn, TurnOutcome::Interrupted);
        }
    }

    fn end_turn(&mut self, slot: SlotId, generation: u32, turn: TurnId, outcome: TurnOutcome) {
        let budgeted = self
            .team()
            .and_then(|t| t.agent(slot))
            .and_then(Agent::turn)
            .is_some_and(Turn::budgeted);
        let usage = (budgeted || self.rng.percent(30)).then(|| self.some_usage());
        let reply = self.submit(Caller::Agent(slot), Command::EndTurn { turn, outcome, usage });
        match reply {
            Reply::Unavailable => self.schedule(300, Action::Yield(slot, generation, turn)),
            Reply::Done { .. } | Reply::Known(_) | Reply::Rejected(_) => {
                if let Some(proc) = self.procs.get_mut(&slot).filter(|p| p.generation == generation)
                {
                    if proc.turn_id() == Some(turn) {
                        proc.script = None;
                    }
                    if proc.stopping {
                        self.schedule(20, Action::Exit(slot, generation));
                    }
                }
            }
        }
    }

    pub(crate) fn some_usage(&mut self) -> Usage {
        Usage {
            input: self.rng.below(200),
            output: self.rng.below(100),
            cache_read: self.rng.below(50),
            micro_usd: self.rng.below(40),
            ..Usage::default()
        }
    }

    pub(crate) fn step(&mut self, slot: SlotId, generation: u32, turn: TurnId) {
        if self.session.is_none() {
            if self.procs.get(&slot).is_some_and(|p| p.survives) {
                self.schedule(1_000, Action::Step(slot, generation, turn));
            }
            return;
        }
        let calm = self.calm;
        let Some(script) = self.script(slot, generation, turn) else { return };
        if script.interrupted {
            return;
        }
        script.step += 1;
        script.left = script.left.saturating_sub(1);
        let (done, mute) = (script.left == 0, script.mute);
        if mute && !calm {
            return;
        }
        if self.go_on_with_calls(slot, generation, turn) {
            return;
        }
        if self.budgeted_call(slot, generation, turn) {
            return;
        }
        let choice = if calm {
            self.calm_choice(slot)
        } else if done {
            Do::Finish
        } else {
            self.choose(slot)
        };
        if self.do_step(slot, generation, turn, choice) {
            let after = self.rng.range(1, 1_500);
            self.schedule(after, Action::Step(slot, generation, turn));
        }
    }

    /// Calls that were answered go on; running ones end. Says whether the agent waits for the rest.
    fn go_on_with_calls(&mut self, slot: SlotId, generation: u32, turn: TurnId) -> bool {
        let Some(script) = self.script(slot, generation, turn) else { return true };
        let calls: Vec<(String, Call)> =
            script.calls.iter().map(|(c, s)| (c.clone(), *s)).collect();
        let answers = script.answers.clone();
        let connections = std::mem::take(&mut script.connections);
        let caller = Caller::Agent(slot);
        let mut waits = false;
        let mut open = Vec::new();
        for request in connections {
            if !answers.contains_key(&request) && self.decision(request).is_none() {
                waits = true;
                open.push(request);
                continue;
            }
            if matches!(
                self.submit(caller, Command::TakeAnswer { turn, request }),
                Reply::Unavailable
            ) {
                open.push(request);
            }
        }
        if let Some(script) = self.script(slot, generation, turn) {
            script.connections = open;
        }
        for (call, state) in calls {
            let next = match state {
                Call::Waits(request)
                    if answers.contains_key(&request) || self.decision(request).is_some() =>
                {
                    let reply =
                        self.submit(caller, Command::StartTool { turn, call: call.clone() });
                    let runs = self
                        .events_of(&reply)
                        .iter()
                        .any(|r| matches!(r.event, Event::ToolStarted { .. }));
                    match reply {
                        Reply::Done { .. } if runs => Some(Call::Runs),
                        Reply::Unavailable => Some(state),
                        Reply::Done { .. } | Reply::Known(_) | Reply::Rejected(_) => None,
                    }
                }
                Call::Waits(_) => {
                    waits = true;
                    Some(state)
                }
                Call::Runs => {
                    if !self.calm && self.rng.percent(40) {
                        Some(state)
                    } else {
                        let (ok, changed) = (self.rng.percent(80), self.rng.percent(50));
                        let finish = Command::FinishTool { turn, call: call.clone(), ok, changed };
                        matches!(self.submit(caller, finish), Reply::Unavailable).then_some(state)
                    }
                }
            };
            if let Some(script) = self.script(slot, generation, turn) {
                match next {
                    Some(next) => script.calls.insert(call, next),
                    None => script.calls.remove(&call),
                };
            }
        }
        // Mostly it waits; now and then it does something else, as parallel calls do.
        if waits && (self.calm || self.rng.percent(70)) {
            let decided = self.script(slot, generation, turn).is_none();
            if !decided {
                self.schedule(2_000, Action::Step(slot, generation, turn));
            }
            return true;
        }
        self.script(slot, generation, turn).is_none()
    }

    fn budgeted_call(&mut self, slot: SlotId, generation: u32, turn: TurnId) -> bool {
        let budgeted = self
            .team()
            .and_then(|t| t.agent(slot))
            .and_then(Agent::turn)
            .is_some_and(Turn::budgeted);
        if !budgeted {
            return false;
        }
        let usage = self.some_usage();
        let worst = Amount { tokens: self.rng.below(500), micro_usd: self.rng.below(100) };
        let reply = self.submit(Caller::Agent(slot), Command::ReserveCall { turn, usage, worst });
        if matches!(reply, Reply::Rejected(Rejection::OverBudget)) {
            let outcome =
                TurnOutcome::Unavailable { why: Unavailable::Budget, until: None, said: None };
            self.end_turn(slot, generation, turn, outcome);
            return true;
        }
        false
    }

    fn calm_choice(&mut self, slot: SlotId) -> Do {
        let asked = self.shutdown_of(slot).is_some();
        if asked { Do::AnswerShutdown } else { Do::Finish }
    }

    fn choose(&mut self, slot: SlotId) -> Do {
        if self.shutdown_of(slot).is_some() && self.rng.percent(50) {
            return Do::AnswerShutdown;
        }
        let runs = self.procs.get(&slot).is_some_and(Proc::runs_something);
        if runs && self.rng.percent(25) {
            return Do::Network;
        }
        if self.model.solo && self.rng.percent(20) {
            return Do::ProposeTeam;
        }
        if slot == SlotId::LEAD {
            self.rng.weighted(&[
                (10, Do::Finish),
                (4, Do::FinishEmpty),
                (2, Do::Fault),
                (2, Do::Unavailable),
                (1, Do::RateLimit),
                (1, Do::Crash),
                (1, Do::Mute),
                (14, Do::Send),
                (4, Do::Broadcast),
                (1, Do::Burst),
                (10, Do::TakeMail),
                (6, Do::ReturnMail),
                (12, Do::CreateTask),
                (5, Do::UpdateTask),
                (2, Do::Claim),
                (8, Do::Tool),
                (6, Do::Network),
                (12, Do::DecideAsLead),
                (5, Do::Spawn),
                (3, Do::Leave),
                (2, Do::Ask),
                (1, Do::Budget),
                (2, Do::Withdraw),
                (3, Do::Trespass),
                (1, Do::EndTeam),
            ])
        } else {
            self.rng.weighted(&[
                (10, Do::Finish),
                (4, Do::FinishEmpty),
                (3, Do::Fault),
                (2, Do::Unavailable),
                (1, Do::RateLimit),
                (1, Do::Login),
                (2, Do::Crash),
                (1, Do::Mute),
                (12, Do::Send),
                (2, Do::Broadcast),
                (1, Do::Burst),
                (10, Do::TakeMail),
                (6, Do::ReturnMail),
                (12, Do::Claim),
                (10, Do::Complete),
                (4, Do::CreateTask),
                (4, Do::UpdateTask),
                (14, Do::Tool),
                (6, Do::Network),
                (5, Do::Plan),
                (2, Do::Ask),
                (2, Do::Leave),
                (2, Do::Withdraw),
                (1, Do::Usage),
                (4, Do::Trespass),
            ])
        }
    }

    /// Does one thing; says whether the turn goes on.
    fn do_step(&mut self, slot: SlotId, generation: u32, turn: TurnId, choice: Do) -> bool {
        let now = self.now();
        let caller = Caller::Agent(slot);
        let outcome = match choice {
            Do::Finish => TurnOutcome::Done { last_text: Some(format!("done with {turn}")) },
            Do::FinishEmpty => TurnOutcome::Done { last_text: None },
            Do::Fault => {
                TurnOutcome::AgentFault { error: "the model answered nonsense".to_owned() }
            }
            Do::Unavailable => {
                let wait = self.rng.pick(&[5_000, 60_000, 600_000]).copied().unwrap_or(0);
                let until = Some(now + Millis(wait));
                TurnOutcome::Unavailable { why: Unavailable::Provider, until, said: None }
            }
            Do::RateLimit => {
                let until = Some(now + Millis::seconds(30));
                TurnOutcome::Unavailable { why: Unavailable::RateLimit, until, said: None }
            }
            Do::Login => {
                TurnOutcome::Unavailable { why: Unavailable::Login, until: None, said: None }
            }
            Do::Crash => {
                self.process_exit(slot, generation, "it crashed");
                return false;
            }
            Do::Mute => {
                if let Some(script) = self.script(slot, generation, turn) {
                    script.mute = true;
                }
                return false;
            }
            other => {
                self.act_in_turn(slot, generation, turn, caller, other);
                return self.script(slot, generation, turn).is_some();
            }
        };
        self.end_turn(slot, generation, turn, outcome);
        false
    }
}
