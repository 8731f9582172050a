//! The world around one team: its log, its house that falls and comes back, its processes, its clocks.
//!
//! The mini session does what the runtime's does: receipt, decision on the working state, append,
//! and only then reply and effects, by key. It never decides anything by itself.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use aion_core::command::Receipt;
use aion_core::event::{EVENT_VERSION, Recorded};
use aion_core::id::{CommandId, RequestId, Seq, SlotId, TurnId};
use aion_core::request::Decision;
use aion_core::team::Team;
use aion_core::time::{Millis, Timestamp};
use aion_core::{Caller, Command, Effect, EffectKey, Rejection};

use crate::agents::{Client, Proc};
use crate::invariants;
use crate::model::Model;
use crate::mutants::{self, Mutant};
use crate::rng::Rng;

/// What one seed did; summed up for the report.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stats {
    pub(crate) operations: u64,
    pub(crate) events: u64,
    pub(crate) crashes: u64,
    pub(crate) nested: u64,
    pub(crate) faults: u64,
    pub(crate) turns: u64,
    pub(crate) accepted: u64,
    pub(crate) acknowledged: u64,
    pub(crate) dead: u64,
    pub(crate) decided: u64,
    pub(crate) restarts: u64,
    pub(crate) rejected: u64,
}

/// What the store does with one append, and when the house falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Durable,
    Failed,
    UnknownApplied,
    UnknownLost,
    DeathBeforeAppend,
    DeathBeforeReply,
    DeathBeforeEffects,
    /// The reply is lost on its way; the caller cannot tell.
    ReplyLost,
}

/// The answer to one command.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Durable: the events from `first` up to `last` of the log.
    Done {
        first: usize,
        last: usize,
    },
    /// It was done before.
    Known(Receipt),
    Rejected(Rejection),
    /// The caller cannot know; it may try again.
    Unavailable,
}

/// What happens at a point of virtual time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    Ready(SlotId, u32),
    Exit(SlotId, u32),
    Step(SlotId, u32, TurnId),
    Yield(SlotId, u32, TurnId),
    Link(RequestId),
    Up,
}

/// The live session of the team.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) team: Team,
    pub(crate) base: Timestamp,
    pub(crate) base_mono: u64,
    pub(crate) in_flight: BTreeSet<EffectKey>,
}

/// One seed.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) rng: Rng,
    /// The monotonic clock of the machine: stands still while it is suspended.
    pub(crate) mono: u64,
    /// The wall clock: jumps.
    pub(crate) wall: i64,
    pub(crate) fallen_at_wall: i64,
    pub(crate) session: Option<Session>,
    pub(crate) log: Vec<Recorded>,
    pub(crate) snapshot: Option<(usize, Vec<u8>)>,
    pub(crate) model: Model,
    pub(crate) procs: BTreeMap<SlotId, Proc>,
    pub(crate) queue: BinaryHeap<Reverse<(u64, u64, Action)>>,
    pub(crate) client: Client,
    pub(crate) stats: Stats,
    pub(crate) faults: bool,
    pub(crate) calm: bool,
    pub(crate) fault_rate: u64,
    pub(crate) mutant: Option<Mutant>,
    pub(crate) mutated: u32,
    pub(crate) verbose: bool,
    /// What this house has performed since it opened.
    pub(crate) performed: BTreeSet<EffectKey>,
    pub(crate) opening: u32,
    commands: u64,
    scheduled: u64,
}

/// The canaries: what is handed to the core, and may never be in a log.
pub(crate) const SECRET_KEY: &str = "canary-key";
pub(crate) const SECRET_INPUT: &str = "canary-input";
pub(crate) const SECRETS: [&str; 3] = [SECRET_KEY, SECRET_INPUT, "canary-credential"];

impl World {
    pub(crate) fn new(seed: u64, mutant: Option<Mutant>) -> Self {
        let mut rng = Rng::new(seed);
        let fault_rate = rng.pick(&[0, 5, 15, 40]).copied().unwrap_or(0);
        Self {
            seed,
            rng,
            mono: 0,
            wall: 1_700_000_000_000,
            fallen_at_wall: 1_700_000_000_000,
            session: None,
            log: Vec::new(),
            snapshot: None,
            model: Model::default(),
            procs: BTreeMap::new(),
            queue: BinaryHeap::new(),
            client: Client::default(),
            stats: Stats::default(),
            faults: true,
            calm: false,
            fault_rate,
            mutant,
            mutated: 0,
            verbose: false,
            commands: 0,
            scheduled: 0,
            performed: BTreeSet::new(),
            opening: 0,
        }
    }

    /// The team's running clock, as the session reads it.
    pub(crate) fn now(&self) -> Timestamp {
        let Some(session) = &self.session else { return Timestamp(0) };
        if self.mutant == Some(Mutant::WallClock) {
            let moved = self.wall - 1_700_000_000_000;
            return Timestamp(session.base.0.saturating_add_signed(moved).max(session.base.0));
        }
        session.base + Millis(self.mono - session.base_mono)
    }

    /// The team's running clock as it ought to be, whatever the session reads.
    pub(crate) fn true_now(&self) -> Timestamp {
        self.session.as_ref().map_or(Timestamp(0), |s| s.base + Millis(self.mono - s.base_mono))
    }

    pub(crate) fn broken(&self) -> bool {
        !self.model.violations.is_empty()
    }

    pub(crate) fn team(&self) -> Option<&Team> {
        self.session.as_ref().map(|s| &s.team)
    }

    pub(crate) fn schedule(&mut self, after: u64, action: Action) {
        self.scheduled += 1;
        self.queue.push(Reverse((self.mono + after, self.scheduled, action)));
    }

    pub(crate) fn submit(&mut self, caller: Caller, command: Command) -> Reply {
        self.submit_all(vec![(caller, command)]).pop().unwrap_or(Reply::Unavailable)
    }

    /// One batch: every command is decided in turn on the working state, one append, then replies.
    pub(crate) fn submit_all(&mut self, batch: Vec<(Caller, Command)>) -> Vec<Reply> {
        let fate = self.draw_fate();
        self.submit_with(batch, fate)
    }

    fn draw_fate(&mut self) -> Fate {
        if !self.faults || !self.rng.permille(self.fault_rate) {
            return Fate::Durable;
        }
        self.stats.faults += 1;
        self.rng.weighted(&[
            (3, Fate::Failed),
            (2, Fate::UnknownApplied),
            (2, Fate::UnknownLost),
            (3, Fate::DeathBeforeAppend),
            (3, Fate::DeathBeforeReply),
            (3, Fate::DeathBeforeEffects),
            (2, Fate::ReplyLost),
        ])
    }

    pub(crate) fn submit_with(&mut self, batch: Vec<(Caller, Command)>, fate: Fate) -> Vec<Reply> {
        let count = batch.len();
        if self.session.is_none() {
            return vec![Reply::Unavailable; count];
        }
        let mut written = Vec::new();
        let mut replies = Vec::with_capacity(count);
        for (caller, command) in batch {
            let command = match self.mutant {
                Some(mutant) => mutant.mangle_command(command),
                None => command,
            };
            let reply = self.decide(caller, &command, &mut written);
            replies.push(reply);
        }
        if written.is_empty() && fate == Fate::Durable {
            return replies;
        }
        if self.mutant == Some(Mutant::EffectsBeforeAppend) && !written.is_empty() {
            self.perform_effects();
        }
        match fate {
            Fate::Durable => {
                self.append(written);
                self.perform_effects();
                replies
            }
            Fate::ReplyLost => {
                self.append(written);
                self.perform_effects();
                vec![Reply::Unavailable; count]
            }
            Fate::Failed | Fate::UnknownLost => {
                if self.mutant == Some(Mutant::KeepAfterFailure) {
                    self.mutated += u32::from(!written.is_empty());
                } else {
                    self.reload();
                }
                self.perform_effects();
                if self.mutant == Some(Mutant::ReplyBeforeCommit) {
                    self.early(replies)
                } else {
                    vec![Reply::Unavailable; count]
                }
            }
            Fate::UnknownApplied => {
                self.append(written);
                self.reload();
                self.perform_effects();
                vec![Reply::Unavailable; count]
            }
            Fate::DeathBeforeAppend => {
                self.fall();
                if self.mutant == Some(Mutant::ReplyBeforeCommit) {
                    self.early(replies)
                } else {
                    vec![Reply::Unavailable; count]
                }
            }
            Fate::DeathBeforeReply => {
                self.append(written);
                self.fall();
                vec![Reply::Unavailable; count]
            }
            Fate::DeathBeforeEffects => {
                self.append(written);
                self.fall();
                replies
            }
        }
    }

    /// The mutant's replies: said although nothing is durable.
    fn early(&mut self, replies: Vec<Reply>) -> Vec<Reply> {
        self.mutated += 1;
        replies
    }

    fn decide(&mut self, caller: Caller, command: &Command, written: &mut Vec<Recorded>) -> Reply {
        let now = self.now();
        let Some(session) = &mut self.session else { return Reply::Unavailable };
        if let Some(receipt) = session.team.receipt(now, caller, command) {
            return Reply::Known(receipt);
        }
        let sampled = self.rng.permille(20);
        let before = (self.mutant.is_some() || sampled).then(|| session.team.clone());
        let events = match session.team.handle(now, caller, command) {
            Ok(events) => events,
            Err(rejection) => {
                self.stats.rejected += 1;
                if before.is_some_and(|before| before != session.team) {
                    let text = format!("{command:?} is refused, and the state has changed");
                    self.model.fail("STATE", text);
                }
                if self.verbose {
                    println!("{:>8} {caller:?} {command:?} -> {rejection}", now.0);
                }
                return Reply::Rejected(rejection);
            }
        };
        if sampled {
            let more = session.team.react(now);
            if !more.is_empty() {
                self.model.fail("INV-08", format!("{more:?} should have followed {command:?}"));
            }
        }
        let mut events = events;
        if let (Some(mutant), Some(before)) = (self.mutant, before) {
            let changed = mutant.mangle(&mut events, &before, &self.model, caller, &mut self.rng);
            if changed {
                self.mutated += 1;
                session.team = before;
                for event in &events {
                    session.team.evolve(now, event);
                }
            } else if mutant == Mutant::KeepAcknowledged {
                self.mutated += u32::from(mutants::keep_messages(&mut session.team, &before));
            }
        }
        if self.verbose {
            println!("{:>8} {caller:?} {command:?}", now.0);
        }
        self.commands += 1;
        let id = CommandId::new(format!("c{}", self.commands)).expect("a slug");
        let first = self.log.len() + written.len();
        for event in events {
            let seq = (self.log.len() + written.len()) as u64 + 1;
            let mut recorded = Recorded {
                seq: Seq(seq),
                at: now,
                version: EVENT_VERSION,
                actor: caller,
                credential: credential(caller),
                command_id: id.clone(),
                event,
            };
            if let Some(mutant) = self.mutant {
                self.mutated += u32::from(mutant.mangle_record(&mut recorded, &mut self.rng));
            }
            written.push(recorded);
        }
        Reply::Done { first, last: self.log.len() + written.len() }
    }

    /// What is durable is what the model learns.
    fn append(&mut self, written: Vec<Recorded>) {
        let true_now = self.true_now();
        self.stats.events += written.len() as u64;
        let commands: BTreeSet<&str> = written.iter().map(|r| r.command_id.as_str()).collect();
        let several = commands.len() > 1;
        let mut last: Option<CommandId> = None;
        for recorded in written {
            if self.verbose {
                println!("{:>8}   {} {:?}", recorded.at.0, recorded.seq, recorded.event);
            }
            if several && last.as_ref().is_some_and(|id| *id != recorded.command_id) {
                invariants::after_command(&mut self.model);
            }
            last = Some(recorded.command_id.clone());
            self.model.apply(&recorded);
            if recorded.at > true_now {
                self.model.fail(
                    "INV-23",
                    format!("{} is dated {}, ahead of {true_now}", recorded.seq, recorded.at),
                );
            }
            self.log.push(recorded);
        }
        if last.is_some() {
            invariants::after_command(&mut self.model);
        }
        if let Some(session) = &self.session {
            invariants::after_commit(&mut self.model, &session.team);
        }
        if self.model.ended {
            // The house ends every process of a team that has ended.
            self.procs.clear();
            self.queue.retain(|Reverse((.., action))| *action == Action::Up);
        }
    }

    /// `outstanding − in flight`, by key. Nothing is performed before its event is durable.
    pub(crate) fn perform_effects(&mut self) {
        let Some(session) = &mut self.session else { return };
        let outstanding = session.team.outstanding();
        let keys: BTreeSet<EffectKey> = outstanding.iter().map(Effect::key).collect();
        session.in_flight.retain(|key| keys.contains(key));
        if self.mutant == Some(Mutant::ForgetInFlight) {
            self.mutated += u32::from(!session.in_flight.is_empty());
            session.in_flight.clear();
        }
        let fresh: Vec<Effect> = outstanding
            .into_iter()
            .filter(|effect| session.in_flight.insert(effect.key()))
            .collect();
        for effect in fresh {
            if self.verbose {
                println!("{:>8}     => {}", self.mono, effect.key());
            }
            invariants::before_effect(&mut self.model, &effect);
            let once = self.performed.insert(effect.key());
            self.model.check(once, "EFFECT", || format!("{} is performed twice", effect.key()));
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Spawn { slot, generation } => self.start_process(slot, generation),
            Effect::RunTurn { slot, turn } => self.run_turn(slot, turn),
            Effect::Interrupt { slot, turn } => self.interrupt_turn(slot, turn),
            Effect::Answer { slot, turn, request, decision } => {
                self.answer_turn(slot, turn, request, &decision);
            }
            Effect::Stop { slot, generation, kill } => self.stop_process(slot, generation, kill),
            Effect::CreateTeam { request } => {
                let after = self.rng.range(1, 200);
                self.schedule(after, Action::Link(request));
            }
        }
    }

    /// Lets time pass up to the next thing that happens, and lets it happen.
    pub(crate) fn advance(&mut self) -> bool {
        let Some(Reverse((at, _, action))) = self.queue.pop() else { return false };
        self.pass_until(at);
        self.act(&action);
        true
    }

    /// Lets time pass, with a tick wherever the team asked for one.
    pub(crate) fn pass_until(&mut self, at: u64) {
        let mut ticks = 0;
        while let Some(session) = &self.session {
            let Some((due, reason)) = session.team.poll_timeout() else { break };
            let due_mono = session.base_mono + (due - session.base).0;
            if due_mono > at.max(self.mono) {
                break;
            }
            let moved = due_mono.saturating_sub(self.mono);
            self.mono = self.mono.max(due_mono);
            self.wall += i64::try_from(moved).unwrap_or(0);
            ticks += u32::from(moved == 0);
            if ticks > 50 {
                self.model.fail("INV-08", format!("the timer {reason:?} at {due} fires for ever"));
                return;
            }
            let reply = self.submit(Caller::System, Command::Tick);
            if self.session.is_some() && matches!(reply, Reply::Done { .. }) {
                // Also where nothing was recorded, nothing may be overdue.
                let recorded = std::mem::replace(&mut self.model.at, due);
                self.model.at = self.model.at.max(recorded);
                invariants::after_command(&mut self.model);
                self.model.at = recorded;
            }
            if self.broken() {
                return;
            }
            if matches!(reply, Reply::Rejected(_)) {
                self.model.fail("INV-08", format!("a tick for {reason:?} is refused: {reply:?}"));
                return;
            }
        }
        let moved = at.saturating_sub(self.mono);
        self.mono = self.mono.max(at);
        self.wall += i64::try_from(moved).unwrap_or(0);
    }

    fn act(&mut self, action: &Action) {
        match *action {
            Action::Ready(slot, generation) => self.process_ready(slot, generation),
            Action::Exit(slot, generation) => self.process_exit(slot, generation, "it ended"),
            Action::Step(slot, generation, turn) => self.step(slot, generation, turn),
            Action::Yield(slot, generation, turn) => self.yield_turn(slot, generation, turn),
            Action::Link(request) => self.link_team(request),
            Action::Up => self.open(),
        }
    }

    /// The messages that a reply made, by the log.
    pub(crate) fn events_of(&self, reply: &Reply) -> &[Recorded] {
        match reply {
            Reply::Done { first, last } => self.log.get(*first..*last).unwrap_or(&[]),
            Reply::Known(_) | Reply::Rejected(_) | Reply::Unavailable => &[],
        }
    }

    /// The decision of a request, if it is made.
    pub(crate) fn decision(&self, request: RequestId) -> Option<Decision> {
        match &self.model.requests.get(&request)?.standing {
            crate::model::Standing::Decided(decision) => Some(decision.clone()),
            crate::model::Standing::Open | crate::model::Standing::Withdrawn => None,
        }
    }

    pub(crate) fn keep_snapshot(&mut self) {
        if let Some(session) = &self.session {
            self.snapshot = Some((
                self.log.len(),
                serde_json::to_vec(&session.team).expect("a team is serialised"),
            ));
        }
    }

    /// A hash over everything that was recorded.
    pub(crate) fn trace(&self) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for recorded in &self.log {
            for byte in serde_json::to_vec(recorded).expect("an event is serialised") {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
        hash ^ self.mono
    }
}

fn credential(caller: Caller) -> Option<String> {
    match caller {
        Caller::User => Some("canary-credential-user".to_owned()),
        Caller::Agent(slot) => Some(format!("canary-credential-{}", slot.0)),
        Caller::System => None,
    }
}
