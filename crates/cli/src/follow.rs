//! Follows a team until it ends: shows what happens, carries answers and signals to it; the rules
//! alone say what they lead to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aion_core::agent::Hold;
use aion_core::event::{DeadLetterReason, Event};
use aion_core::id::{RequestId, Seq, SlotId};
use aion_core::message::Sender;
use aion_core::request::{RequestKind, RequestState};
use aion_core::team::{Progress, Team};
use aion_core::turn::TurnOutcome;
use futures::FutureExt;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::answer::{self, Answer, Decider, Question};
use crate::describe::Story;
use crate::exit::Failure;
use crate::history::Folded;
use crate::interrupt::{Signalled, Signals, Wish};
use crate::line::{Line, News};
use crate::progress::Watcher;

/// How often what is drawn is drawn again while nothing happens.
const REFRESH: Duration = Duration::from_secs(1);
/// After this long without an event a watcher is told so.
const SILENCE: Duration = Duration::from_secs(30);

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing is left to do.
    Settled {
        /// Whether no task is open.
        all_tasks_completed: bool,
    },
    /// Nothing goes on, because the lead failed, or never got what it was told; why.
    Failed(String),
    /// Nothing goes on, because the lead was interrupted and had no turn since.
    Interrupted,
    /// Only a person can go on, and nobody is there; why.
    NeedsPerson(String),
    /// The budget is used up.
    Budget,
    /// All were asked to stop.
    Stopped(Signalled),
    /// The time was up.
    TimeUp,
    /// The turns were used up.
    TurnsUp,
    /// Everything is to end at once.
    Killed(Signalled),
    /// The terminal went away, and a daemon goes on without it.
    Left,
}

/// A team that is being followed.
pub(crate) struct Follow<'a> {
    line: Line,
    watcher: &'a mut dyn Watcher,
    decider: Decider,
    signals: &'a mut Signals,
    story: Story,
    /// The request that a person is looking at.
    asked: Option<(RequestId, RequestKind)>,
    /// Requests whose answer was accepted.
    given: BTreeSet<RequestId>,
    /// Requests that nobody here has an answer to.
    passed: BTreeSet<RequestId>,
    /// Why the work of the lead came to nothing, if it did.
    broken: Option<End>,
    /// What the lead said last, at the end of a turn.
    last_words: Option<String>,
    /// What the providers of members said that could not go on.
    hindered: BTreeMap<SlotId, String>,
    /// Why something that the person wrote was never read to its end, if so.
    unread: Option<String>,
    /// How many turns may still end before all are asked to stop, where that is limited.
    turns_left: Option<u32>,
    /// Set once all were asked to stop: how it will end.
    stopping: Option<End>,
}

impl<'a> Follow<'a> {
    /// From a state on. `last` is how the lead's last turn before that ended.
    pub(crate) fn new(
        line: Line,
        watcher: &'a mut dyn Watcher,
        decider: Decider,
        signals: &'a mut Signals,
        from: Folded,
        last: Option<&TurnOutcome>,
    ) -> Self {
        let broken = last.and_then(after);
        Self {
            line,
            watcher,
            decider,
            signals,
            story: Story::new(from),
            asked: None,
            given: BTreeSet::new(),
            passed: BTreeSet::new(),
            broken,
            last_words: None,
            hindered: BTreeMap::new(),
            unread: None,
            turns_left: None,
            stopping: None,
        }
    }

    /// Lets the team have so many more turns, and no limit without a number.
    pub(crate) fn limit_turns(&mut self, most: Option<u32>) {
        self.turns_left = most;
    }

    /// The state after what was seen.
    pub(crate) fn team(&self) -> &Team {
        self.story.team()
    }

    /// What the lead said last.
    pub(crate) fn last_words(&self) -> Option<&str> {
        self.last_words.as_deref().map(str::trim).filter(|text| !text.is_empty())
    }

    /// Follows to the end.
    pub(crate) async fn run(&mut self, most: Option<Duration>) -> Result<End, Failure> {
        let deadline = most.map(|most| Instant::now() + most);
        let mut refresh = every(REFRESH);
        let mut last = Instant::now();
        // A team that is followed from its middle may wait already.
        if let Some(end) = self.consider().await? {
            return self.finish(end);
        }
        loop {
            let seen = self.story.seq();
            tokio::select! {
                biased;
                wish = self.signals.next() => {
                    if let Some(end) = self.obey(wish).await? {
                        return self.finish(end);
                    }
                }
                next = self.line.next(seen) => {
                    last = Instant::now();
                    self.take(next)?;
                    self.take_ready()?;
                    self.watcher.refresh(self.story.team())?;
                    if let Some(end) = self.consider().await? {
                        return self.finish(end);
                    }
                    if self.turns_left == Some(0) && self.stopping.is_none() {
                        let text = "The turns are used up: all are asked to stop.";
                        self.watcher.note(self.story.team(), text)?;
                        self.stop(End::TurnsUp).await?;
                        if let Some(end) = self.consider().await? {
                            return self.finish(end);
                        }
                    }
                }
                typed = next_line(&mut self.decider, self.asked.is_some()) => {
                    if let Some(end) = self.answer(typed).await? {
                        return self.finish(end);
                    }
                }
                () = until(deadline), if self.stopping.is_none() => {
                    let text = "The time is up: all are asked to stop.";
                    self.watcher.note(self.story.team(), text)?;
                    self.stop(End::TimeUp).await?;
                    if let Some(end) = self.consider().await? {
                        return self.finish(end);
                    }
                }
                _ = refresh.tick() => {
                    self.watcher.refresh(self.story.team())?;
                    if last.elapsed() >= SILENCE {
                        last = Instant::now();
                        self.watcher.silence(self.story.team())?;
                    }
                }
            }
        }
    }

    fn finish(&mut self, end: End) -> Result<End, Failure> {
        self.watcher.end(self.story.team())?;
        Ok(end)
    }

    /// Shows one event.
    fn take(&mut self, next: Result<News, Failure>) -> Result<(), Failure> {
        match next? {
            News::Event(recorded) => {
                self.judge(&recorded.event);
                let happening = self.story.tell(&recorded);
                self.watcher.happened(self.story.team(), &recorded, &happening)
            }
            News::Note(note) => self.watcher.note(self.story.team(), &note),
        }
    }

    /// Keeps what an end is worth: a team that settles because its lead broke down, or never read
    /// what the person wrote, completed nothing.
    fn judge(&mut self, event: &Event) {
        if let (Event::TurnEnded { .. }, Some(left)) = (event, &mut self.turns_left) {
            *left = left.saturating_sub(1);
        }
        if let Event::TurnEnded { slot, outcome, .. } = event {
            match outcome {
                TurnOutcome::Unavailable { said: Some(said), .. } => {
                    self.hindered.insert(*slot, said.clone());
                }
                TurnOutcome::Unavailable { said: None, .. }
                | TurnOutcome::Done { .. }
                | TurnOutcome::Interrupted
                | TurnOutcome::Lost
                | TurnOutcome::AgentFault { .. } => {
                    self.hindered.remove(slot);
                }
            }
        }
        match event {
            Event::TurnEnded { slot: SlotId::LEAD, outcome, .. } => {
                self.broken = after(outcome);
                if let TurnOutcome::Done { last_text } = outcome {
                    self.last_words.clone_from(last_text);
                }
            }
            Event::MessageDeadLettered {
                message,
                slot,
                reason: DeadLetterReason::Attempts { error },
            } => {
                let team = self.story.team();
                if team.message(*message).is_some_and(|message| message.from == Sender::User) {
                    let name = crate::view::name_of(team, *slot);
                    self.unread = Some(format!("{name} failed at what it was told: {error}"));
                }
            }
            _ => {}
        }
    }

    /// What it means that nothing is left to do.
    fn settled(&self, all_tasks_completed: bool) -> End {
        match (&self.unread, &self.broken) {
            (Some(why), _) => End::Failed(why.clone()),
            (None, Some(end)) => end.clone(),
            (None, None) => End::Settled { all_tasks_completed },
        }
    }

    /// Shows what is there already.
    fn take_ready(&mut self) -> Result<(), Failure> {
        while let Some(next) = self.line.next(self.story.seq()).now_or_never() {
            self.take(next)?;
        }
        Ok(())
    }

    /// Shows everything up to an event that is known to be stored.
    async fn take_up_to(&mut self, seq: Seq) -> Result<(), Failure> {
        while self.story.seq() < seq {
            let next = self.line.next(self.story.seq()).await;
            self.take(next)?;
        }
        Ok(())
    }

    /// Looks whether somebody is to be asked, and whether the team goes on by itself.
    async fn consider(&mut self) -> Result<Option<End>, Failure> {
        if let Some(end) = self.stopping.clone() {
            if self.line.standing(self.story.team()).await?.busy.is_empty() {
                self.catch_up().await?;
                return Ok(Some(end));
            }
            return Ok(None);
        }
        loop {
            if let Some(end) = self.put_questions(false).await? {
                return Ok(Some(end));
            }
            let progress = self.line.standing(self.story.team()).await?.progress;
            if progress == Progress::Working {
                return Ok(None);
            }
            // What was asked is true of the team at some event; show everything up to it.
            if self.catch_up().await? {
                continue;
            }
            match progress {
                Progress::Working => return Ok(None),
                Progress::Settled { all_tasks_completed } => {
                    return Ok(Some(self.settled(all_tasks_completed)));
                }
                Progress::Waiting { requests, held } => {
                    let given = self.given.len();
                    if let Some(end) = self.put_questions(true).await? {
                        return Ok(Some(end));
                    }
                    // An answer was accepted: the team may go on.
                    if self.given.len() == given {
                        return Ok(self.wait(&requests, &held));
                    }
                }
            }
        }
    }

    /// Shows everything that is stored; says whether there was anything.
    async fn catch_up(&mut self) -> Result<bool, Failure> {
        let before = self.story.seq();
        let end = self.line.end().await?;
        self.take_up_to(end).await?;
        Ok(self.story.seq() > before)
    }

    /// The team waits for people.
    fn wait(&self, requests: &[RequestId], held: &[SlotId]) -> Option<End> {
        if self.asked.is_some() {
            return None;
        }
        let team = self.story.team();
        let over = |slot: &SlotId| {
            team.agent(*slot).is_some_and(|agent| agent.holds().any(|hold| hold == Hold::Budget))
        };
        if requests.is_empty() && !held.is_empty() && held.iter().all(over) {
            return Some(End::Budget);
        }
        Some(End::NeedsPerson(self.why(requests, held)))
    }

    fn why(&self, requests: &[RequestId], held: &[SlotId]) -> String {
        let team = self.story.team();
        if let Some(request) = requests.first().and_then(|id| team.request(*id)) {
            let question = Question::of(team, request.0);
            let more = match requests.len() {
                1 => String::new(),
                several => format!(" (and {} more)", several - 1),
            };
            return format!("{} asks: {}{more}", question.from, question.what);
        }
        if let Some(hold) = team.holds().next() {
            return format!("the team is held: {}", crate::view::word(&hold));
        }
        let names: Vec<String> =
            held.iter().map(|slot| crate::view::name_of(team, *slot)).collect();
        let why = held.iter().find_map(|slot| self.hindered.get(slot));
        let why = why.map_or(String::new(), |why| format!(": {why}"));
        format!("{} cannot go on alone{why}", names.join(", "))
    }

    /// Puts open requests to whoever decides. With `all` also those that others should answer.
    async fn put_questions(&mut self, all: bool) -> Result<Option<End>, Failure> {
        let team = self.story.team();
        let gone = |(id, _): &(RequestId, RequestKind)| {
            !matches!(team.request(*id), Some((_, RequestState::Open | RequestState::Orphaned)))
        };
        if self.asked.as_ref().is_some_and(gone) {
            self.asked = None;
            self.watcher.answered(team, "That is decided already.")?;
        }
        let open: Vec<_> = team
            .requests()
            .filter(|(request, state)| {
                !matches!(state, RequestState::Decided { .. })
                    && !self.given.contains(&request.id)
                    && !self.passed.contains(&request.id)
                    && (all || answer::is_for_person(request))
            })
            .map(|(request, _)| request.clone())
            .collect();
        for request in open {
            let question = Question::of(self.story.team(), &request);
            match &mut self.decider {
                Decider::Person(typed) => {
                    if self.asked.is_none() {
                        if typed.live {
                            typed.forget();
                        }
                        self.watcher.ask(self.story.team(), &question)?;
                        self.asked = Some((request.id, request.kind));
                    }
                    return Ok(None);
                }
                Decider::Auto(answer) => {
                    let wanted = answer(&request.kind);
                    let otherwise = answer::no(&request.kind);
                    let given = self.say(request.id, wanted.clone()).await?
                        // What cannot be granted is declined, or nobody would ever answer.
                        || (otherwise != wanted && self.say(request.id, otherwise).await?);
                    if !given {
                        self.passed.insert(request.id);
                    }
                }
                Decider::Nobody => {
                    self.passed.insert(request.id);
                    self.watcher.ask(self.story.team(), &question.unanswered())?;
                    self.watcher.answered(self.story.team(), "")?;
                }
                Decider::Fail => {
                    let why = format!("{} asks: {}", question.from, question.what);
                    self.watcher.ask(self.story.team(), &question.unanswered())?;
                    self.watcher.answered(self.story.team(), "")?;
                    return Ok(Some(End::NeedsPerson(why)));
                }
            }
        }
        Ok(None)
    }

    /// Hands an answer over, and says whether it was accepted. That somebody was faster is no failure.
    async fn say(&mut self, request: RequestId, answer: Answer) -> Result<bool, Failure> {
        match self.line.answer(request, answer).await? {
            None => {
                self.given.insert(request);
                Ok(true)
            }
            Some(why) => {
                self.watcher.note(self.story.team(), &format!("{request}: {why}"))?;
                // Whether it is still open is told by what happened meanwhile.
                self.catch_up().await?;
                Ok(false)
            }
        }
    }

    /// A person typed a line, or has gone.
    async fn answer(&mut self, typed: Option<String>) -> Result<Option<End>, Failure> {
        let Some(line) = typed else {
            self.decider = Decider::Nobody;
            self.asked = None;
            self.watcher.answered(self.story.team(), "")?;
            return self.consider().await;
        };
        let Some((request, kind)) = self.asked.take() else {
            return Ok(None);
        };
        match answer::parse(&kind, &line) {
            Some(answer) => {
                self.watcher.answered(self.story.team(), "")?;
                // Refused, it is put again.
                self.say(request, answer).await?;
            }
            // Not an answer: the question is put again.
            None => self.watcher.answered(self.story.team(), "")?,
        }
        self.consider().await
    }

    async fn obey(&mut self, wish: Wish) -> Result<Option<End>, Failure> {
        match wish {
            Wish::InterruptLead => {
                let standing = self.line.standing(self.story.team()).await?;
                let busy = standing.busy.contains(&SlotId::LEAD);
                let text = if busy {
                    "The lead's turn is interrupted; teammates go on. Ctrl+C again asks all to stop."
                } else {
                    "The lead is not in a turn; teammates go on. Ctrl+C again asks all to stop."
                };
                self.line.interrupt(SlotId::LEAD).await?;
                self.watcher.note(self.story.team(), text)?;
                Ok(None)
            }
            Wish::StopTeam(Signalled::HangUp) if self.line.is_there() => Ok(Some(End::Left)),
            Wish::StopTeam(signalled) => {
                let text = "All are asked to stop; the team's state is kept. Once more ends everything at once.";
                self.watcher.note(self.story.team(), text)?;
                self.stop(End::Stopped(signalled)).await?;
                self.consider().await
            }
            Wish::Kill(signalled) => Ok(Some(End::Killed(signalled))),
        }
    }

    async fn stop(&mut self, end: End) -> Result<(), Failure> {
        self.stopping = Some(end);
        self.asked = None;
        self.line.stop().await
    }
}

/// What a lead's last turn means for an end. A turn that is taken up again is no end.
fn after(outcome: &TurnOutcome) -> Option<End> {
    match outcome {
        TurnOutcome::Done { .. } | TurnOutcome::Unavailable { .. } | TurnOutcome::Lost => None,
        TurnOutcome::Interrupted => Some(End::Interrupted),
        TurnOutcome::AgentFault { error } => Some(End::Failed(format!("the lead failed: {error}"))),
    }
}

fn every(span: Duration) -> Interval {
    let mut interval = tokio::time::interval(span);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// The next line of a person who was asked something.
async fn next_line(decider: &mut Decider, asked: bool) -> Option<String> {
    match decider {
        Decider::Person(typed) if asked => typed.next().await,
        Decider::Person(_) | Decider::Auto(_) | Decider::Nobody | Decider::Fail => {
            std::future::pending().await
        }
    }
}
