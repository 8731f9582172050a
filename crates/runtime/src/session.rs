//! The loop of a team: decide, store, answer, publish, act, in this order; it never awaits a runner.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use aion_core::Rejection;
use aion_core::command::{Caller, Command, Receipt};
use aion_core::event::{EVENT_VERSION, Recorded};
use aion_core::id::{CommandId, Seq};
use aion_core::team::Team;
use aion_core::time::Millis;
use aion_store::{Append, StoreError};
use tokio::sync::mpsc;

use crate::batch::{Batch, Part, Sealed, Waiting, answer, refuse};
use crate::effects::Effects;
use crate::handle::{Input, Submission, TeamHandle};
use crate::load::{self, OpenError, Opened};
use crate::snapshots::Snapshots;
use crate::timer::Timer;
use crate::world::Shared;
use aion_store::failpoint;

/// The wait after the store failed; it doubles up to the longest.
const RETRY: Millis = Millis(100);
const LONGEST_RETRY: Millis = Millis(5_000);

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It was closed.
    Closed,
    /// Somebody else opened the team.
    Fenced(String),
}

/// What a session begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// A log that exists.
    Open,
    /// A log that may be empty: whoever opens it creates the team next.
    Create,
}

/// A team that is open.
pub(crate) struct Session<'a> {
    shared: Arc<Shared>,
    inbox: &'a mut mpsc::Receiver<Input>,
    /// Commands of the shell itself; they need no channel and cannot be lost in one.
    own: VecDeque<Box<Command>>,
    /// The committed state between two batches, ahead of it inside one.
    state: Team,
    seq: Seq,
    epoch: u64,
    commands: u64,
    /// The last batch had several commands: whoever sent them is about to send the next ones.
    crowded: bool,
    timer: Timer,
    effects: Effects,
    snapshots: Snapshots,
}

impl<'a> Session<'a> {
    /// Loads the team and decides what the opening itself means; nothing runs yet.
    pub(crate) async fn open(
        shared: Arc<Shared>,
        handle: TeamHandle,
        inbox: &'a mut mpsc::Receiver<Input>,
        start: Start,
    ) -> Result<Self, OpenError> {
        failpoint::hit("service.opening");
        let opened = load::open(&shared).await?;
        let first = match start {
            Start::Open if opened.seq == Seq(0) => {
                return Err(OpenError::NoTeam(shared.team.clone()));
            }
            Start::Create if opened.seq == Seq(0) => None,
            Start::Open | Start::Create => Some(load::opened_command(&shared, &opened)),
        };
        shared.start_time(opened.state.now_floor());
        let effects = Effects::new(Arc::clone(&shared), handle, &opened.state);
        Ok(Self {
            timer: Timer::new(Arc::clone(&shared.house.clock)),
            snapshots: Snapshots::new(&shared, opened.snapshot_seq),
            own: first.into_iter().map(Box::new).collect(),
            state: opened.state,
            seq: opened.seq,
            epoch: opened.epoch,
            commands: 0,
            crowded: false,
            shared,
            inbox,
            effects,
        })
    }

    /// Runs until the team is closed or fenced off.
    pub(crate) async fn run(mut self) -> Ended {
        loop {
            let first = if let Some(command) = self.own.pop_front() {
                Input::Own(command)
            } else {
                tokio::select! {
                    biased;
                    () = self.timer.due() => Input::Own(Box::new(Command::Tick)),
                    input = self.inbox.recv() => input.unwrap_or(Input::Close),
                }
            };
            if self.crowded {
                // Otherwise the first of those who were just answered has a commit to itself, and
                // all the others wait for it.
                tokio::task::yield_now().await;
            }
            let batch = self.drain(first);
            self.crowded = batch.commands > 1;
            let closing = batch.closing;
            let ended = self.settle(batch).await.err().or(closing.then_some(Ended::Closed));
            if let Some(ended) = ended {
                self.effects.end().await;
                return ended;
            }
        }
    }

    /// Decides everything that waits, up to one batch.
    fn drain(&mut self, first: Input) -> Batch {
        let mut batch = Batch::default();
        self.take(first, &mut batch);
        while !batch.is_full() {
            let next = self.own.pop_front().map(Input::Own);
            let Some(next) = next.or_else(|| self.inbox.try_recv().ok()) else { break };
            self.take(next, &mut batch);
        }
        batch
    }

    fn take(&mut self, input: Input, batch: &mut Batch) {
        match input {
            Input::Submit(submission) => {
                let Submission { caller, credential, command, reply } = *submission;
                self.decide(
                    caller,
                    credential.as_ref(),
                    &command,
                    batch,
                    |waiting| match waiting {
                        Ok((range, receipt)) => Waiting::Accepted { reply, range, receipt },
                        Err(rejection) => Waiting::Rejected { reply, rejection },
                    },
                );
            }
            Input::Own(command) => {
                self.decide(Caller::System, None, &command.clone(), batch, |_| {
                    Waiting::Own(command)
                });
            }
            Input::Query(query) if batch.events.is_empty() => query(&self.state),
            Input::Query(query) => batch.waiting.push(Waiting::Query(query)),
            Input::Close => batch.closing = true,
        }
    }

    fn decide(
        &mut self,
        caller: Caller,
        credential: Option<&String>,
        command: &Command,
        batch: &mut Batch,
        waiting: impl FnOnce(Result<(Range<usize>, Option<Receipt>), Rejection>) -> Waiting,
    ) {
        batch.commands += 1;
        let now = self.shared.now();
        let begin = batch.events.len();
        let decided = if let Some(receipt) = self.state.receipt(now, caller, command) {
            Ok((begin..begin, Some(receipt)))
        } else {
            self.state.handle(now, caller, command).map(|events| {
                let id = self.command_id();
                for event in events {
                    batch.push(Recorded {
                        seq: Seq(self.seq.0 + 1 + batch.events.len() as u64),
                        at: now,
                        version: EVENT_VERSION,
                        actor: caller,
                        credential: credential.cloned(),
                        command_id: id.clone(),
                        event,
                    });
                }
                (begin..batch.events.len(), None)
            })
        };
        let waiting = waiting(decided);
        // What rests on committed state alone need not wait for the disk.
        if batch.events.is_empty() {
            answer(waiting, &self.state, self.seq, &Arc::default());
        } else {
            batch.waiting.push(waiting);
        }
    }

    /// A handle that no other command of this team ever had: the epoch is this opening's alone.
    #[expect(clippy::expect_used, reason = "digits and a hyphen are always a valid handle")]
    fn command_id(&mut self) -> CommandId {
        self.commands += 1;
        CommandId::new(format!("{}-{}", self.epoch, self.commands))
            .expect("digits and a hyphen are a valid handle")
    }

    /// Stores a batch; only then answers, publishes and acts.
    async fn settle(&mut self, batch: Batch) -> Result<(), Ended> {
        if batch.events.is_empty() && self.timer.is_set() {
            return Ok(());
        }
        if !batch.events.is_empty() {
            failpoint::hit("session.before_append");
            let (batch, parts) = batch.seal();
            match self.append(parts).await {
                Ok(()) => self.committed(batch),
                Err(error) => self.recover(error, batch).await?,
            }
            self.snapshots.consider(self.seq, &self.state);
        }
        self.timer.set(self.state.poll_timeout().map(|(at, _)| self.shared.reaches(at)));
        Ok(())
    }

    async fn append(&mut self, parts: Vec<Part>) -> Result<(), StoreError> {
        for Part { events, bodies } in parts {
            let end = Seq(self.seq.0 + events.len() as u64);
            let (team, epoch, expected) = (self.shared.team.clone(), self.epoch, self.seq);
            let append = Append { team, epoch, expected, events, bodies };
            self.shared.house.store.append(append).await?;
            self.seq = end;
        }
        failpoint::hit("session.after_append");
        Ok(())
    }

    fn committed(&mut self, batch: Sealed) {
        failpoint::hit("session.before_reply");
        for waiting in batch.waiting {
            answer(waiting, &self.state, self.seq, &batch.events);
        }
        self.shared.bus.publish(&batch.events);
        failpoint::hit("session.before_effects");
        self.act();
    }

    fn act(&mut self) {
        self.own.extend(self.effects.perform(&self.state).into_iter().map(Box::new));
    }

    /// After a failed or unknown append the working state is worth nothing: load what is true, and
    /// answer by it.
    async fn recover(&mut self, error: StoreError, batch: Sealed) -> Result<(), Ended> {
        tracing::warn!(team = %self.shared.team, %error, "an append failed; the team is reloaded");
        let mut reason = error.to_string();
        if let StoreError::StaleEpoch { .. } = error {
            self.refuse_all(batch, &reason);
            return Err(Ended::Fenced(reason));
        }
        let mut batch = Some(batch);
        let mut wait = RETRY;
        loop {
            match load::open(&self.shared).await {
                Ok(opened) => {
                    self.reloaded(opened, batch, &reason);
                    if self.own.is_empty() {
                        return Ok(());
                    }
                    // What the shell itself has to say would only fail again at once.
                    return self.refuse_for(RETRY, &reason).await;
                }
                Err(error) => reason = error.to_string(),
            }
            if let Some(batch) = batch.take() {
                self.refuse_all(batch, &reason);
            }
            self.refuse_for(wait, &reason).await?;
            wait = Millis((wait.0 * 2).min(LONGEST_RETRY.0));
        }
    }

    fn reloaded(&mut self, opened: Opened, batch: Option<Sealed>, reason: &str) {
        self.state = opened.state;
        self.seq = opened.seq;
        self.epoch = opened.epoch;
        let Some(batch) = batch else { return self.act() };
        // What nobody else can have written is there to its end, or it is not there.
        let id = |event: &Recorded| (event.seq, event.command_id.clone());
        if opened.tail.last().map(id) == batch.end().map(id) {
            self.committed(batch);
        } else {
            self.refuse_all(batch, reason);
            self.act();
        }
    }

    fn refuse_all(&mut self, batch: Sealed, reason: &str) {
        for waiting in batch.waiting {
            match waiting {
                Waiting::Accepted { reply, .. } | Waiting::Rejected { reply, .. } => {
                    refuse(reply, reason);
                }
                Waiting::Own(command) => self.own.push_back(command),
                Waiting::Query(query) => drop(query),
            }
        }
    }

    /// Answers everybody "unavailable" until it is time to try again.
    async fn refuse_for(&mut self, wait: Millis, reason: &str) -> Result<(), Ended> {
        let clock = Arc::clone(&self.shared.house.clock);
        let mut again = clock.sleep_until(Millis(clock.monotonic().0 + wait.0));
        loop {
            let input = tokio::select! {
                () = &mut again => return Ok(()),
                input = self.inbox.recv() => input.unwrap_or(Input::Close),
            };
            match input {
                Input::Submit(submission) => refuse(submission.reply, reason),
                Input::Own(command) => self.own.push_back(command),
                // Whoever asked learns from the dropped answer that there is none.
                Input::Query(query) => drop(query),
                Input::Close => return Err(Ended::Closed),
            }
        }
    }
}
