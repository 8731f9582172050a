//! One turn of an agent: its mail becomes a prompt, and its end becomes the team's; there is never a
//! second prompt beside the first.

use std::time::Duration;

use aion_agent::host::{Delta, HostError};
use aion_agent::runtime::TurnInput;
use aion_core::budget::Usage;
use aion_core::id::TurnId;
use aion_core::time::Millis;
use aion_core::turn::{TurnOutcome, Unavailable};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::ask::{Waiting, cancelled};
use super::calls::Calls;
use super::frame::{Incoming, Refusal};
use super::greet::Fault;
use super::log::Log;
use super::open::Live;
use super::process::Deaf;
use super::seat::{Order, Seat};
use super::stop::Ended;
use super::words;

/// How long nothing is expected while a person is asked.
const LONG: Duration = Duration::from_hours(24 * 365);
/// How long a turn waits that the house could not keep.
const STORE_DOWN: Millis = Millis(30_000);

/// How a turn ended for the one who ran it.
#[derive(Debug)]
pub(super) struct End {
    /// What is to be reported; none where the house has ended the turn already.
    pub(super) report: Option<(TurnOutcome, Option<Usage>)>,
    /// What becomes of the agent's process.
    pub(super) process: Fate,
}

/// What becomes of a process after a turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It goes on.
    Stays,
    /// It is of no use: the next turn has another one.
    Replaced,
    /// It is gone, and its agent with it.
    Gone,
}

/// A turn in progress.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    pub(super) seat: &'a Seat,
    pub(super) live: &'a mut Live,
    pub(super) id: TurnId,
    pub(super) log: Log,
    pub(super) calls: Calls,
    /// Permissions that somebody has to decide.
    pub(super) waiting: Vec<Waiting>,
    pub(super) phase: Phase,
    /// The prompt that has to be answered.
    prompt: u64,
    /// What it told beside the mail, until it is certain that it was read.
    told: Told,
    /// Mail that was handed over in the middle of the turn, until the agent says that it took it.
    steering: Option<(u64, String)>,
    /// Mail that it did not take: it is the turn's next prompt.
    unread: Vec<String>,
    /// The last step for which mail was taken.
    pub(super) mail_step: u32,
    /// A permission was denied.
    pub(super) denied: bool,
    last_sign: Instant,
    /// Those who watch were told that nothing happens.
    noticed: bool,
}

/// What a prompt tells beside the mail.
#[derive(Debug, Default)]
struct Told {
    /// The role that the agent was told before.
    role: Option<String>,
    notes: Vec<String>,
}

/// Where a turn stands.
#[derive(Debug)]
pub(super) enum Phase {
    /// The agent works.
    Working,
    /// It was told to stop, once.
    Stopping { why: Why, until: Instant },
    /// It has answered; what it still has to say may be on its way.
    Draining { why: Option<Why>, answer: Result<Value, Refusal>, quiet: Instant, until: Instant },
}

/// Why a turn is ended from here.
#[derive(Clone, Debug)]
pub(super) enum Why {
    Interrupted,
    Fault(String),
}

/// Why a turn does not go on.
#[derive(Debug)]
pub(super) enum Halt {
    /// The house refused.
    Host(HostError),
    /// The agent does not read.
    Deaf,
    /// Its process is gone.
    Gone,
    /// It is over.
    Over(TurnOutcome, Fate),
}

impl From<HostError> for Halt {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

impl From<Deaf> for Halt {
    fn from(_: Deaf) -> Self {
        Self::Deaf
    }
}

impl<'a> Turn<'a> {
    /// Runs a turn to its end.
    pub(super) async fn run(
        seat: &'a Seat,
        live: &'a mut Live,
        orders: &mut mpsc::Receiver<Order>,
        input: TurnInput,
    ) -> End {
        let turn = Self {
            seat,
            live,
            id: input.turn,
            log: Log::new(input.turn),
            calls: Calls::default(),
            waiting: Vec::new(),
            phase: Phase::Working,
            prompt: 0,
            told: Told::default(),
            steering: None,
            unread: Vec::new(),
            mail_step: 0,
            denied: false,
            last_sign: Instant::now(),
            noticed: false,
        };
        turn.run_out(orders, input).await
    }

    async fn run_out(mut self, orders: &mut mpsc::Receiver<Order>, input: TurnInput) -> End {
        let halt = match self.begin(input).await {
            Ok(()) => self.drive(orders).await,
            Err(halt) => halt,
        };
        let (outcome, fate) = match halt {
            Halt::Over(outcome, fate) => (Some(outcome), fate),
            Halt::Gone => (None, Fate::Gone),
            Halt::Deaf => {
                let error = "the agent does not read what it is told".to_owned();
                (Some(TurnOutcome::AgentFault { error }), Fate::Replaced)
            }
            Halt::Host(error) => (self.house_failed(error), Fate::Replaced),
        };
        // What counts as delivered is in the transcript, and the agent reads it with its next prompt.
        let unread = self.take_unread();
        for text in &unread {
            self.given_between(text.clone());
        }
        // What it did is durable before its end is told.
        let outcome = match (outcome, self.conclude().await) {
            (Some(_), Err(error)) => self.house_failed(error),
            (outcome, _) => outcome,
        };
        self.live.notes.extend(unread);
        let usage = self.live.meter.take();
        End { report: outcome.map(|outcome| (outcome, usage)), process: fate }
    }

    /// Hands over the mail.
    async fn begin(&mut self, input: TurnInput) -> Result<(), Halt> {
        let Live { exchange, session, options, .. } = &mut *self.live;
        let chosen = self.seat.choose_mode(exchange, session, options, input.mode).await;
        let TurnInput { system, opening, .. } = input;
        self.log.given(opening.clone());
        if let Err(fault) = chosen {
            return Err(self.mode_refused(fault));
        }
        let role = words::role(&system, &self.seat.launch.profile);
        let mut parts = Vec::new();
        self.told.role.clone_from(&self.live.role);
        if self.live.role.as_ref() != Some(&role) {
            let changed = self.live.role.is_some();
            parts.push(words::role_in_prompt(&role, changed));
            self.live.role = Some(role);
        }
        self.told.notes = std::mem::take(&mut self.live.notes);
        parts.extend(self.told.notes.iter().cloned());
        parts.push(opening);
        self.prompt(&parts)?;
        Ok(self.flush().await?)
    }

    fn prompt(&mut self, parts: &[String]) -> Result<(), Deaf> {
        let params = json!({ "sessionId": self.live.session, "prompt": words::blocks(parts) });
        self.prompt = self.live.exchange.peer().request("session/prompt", &params)?;
        self.phase = Phase::Working;
        self.last_sign = Instant::now();
        Ok(())
    }

    fn mode_refused(&self, fault: Fault) -> Halt {
        match fault {
            Fault::Call(_, super::exchange::CallError::Gone) => Halt::Gone,
            Fault::Call(method, error) => Halt::Over(
                TurnOutcome::AgentFault { error: format!("the agent {error} ({method})") },
                Fate::Replaced,
            ),
            Fault::Said(error) => Halt::Over(TurnOutcome::AgentFault { error }, Fate::Stays),
            Fault::Login => Halt::Over(self.seat.login_needed(), Fate::Replaced),
        }
    }

    async fn drive(&mut self, orders: &mut mpsc::Receiver<Order>) -> Halt {
        loop {
            let due = self.due();
            let went_on = tokio::select! {
                biased;
                order = orders.recv() => match order {
                    Some(order) => self.obey(order).await,
                    // Nobody is left to hear of it.
                    None => Err(Halt::Gone),
                },
                () = sleep_until(due) => self.be_due(),
                incoming = self.live.exchange.next() => match incoming {
                    Some(incoming) => self.hear(incoming).await,
                    None => Err(Halt::Gone),
                },
            };
            if let Err(halt) = went_on {
                return halt;
            }
        }
    }

    async fn obey(&mut self, order: Order) -> Result<(), Halt> {
        match order {
            Order::Interrupt => self.stop(Why::Interrupted)?,
            Order::Answer(request) => {
                let found = self.waiting.iter().position(|waiting| waiting.request == request);
                if let Some(found) = found {
                    let waiting = self.waiting.swap_remove(found);
                    self.decided(waiting).await?;
                }
            }
            Order::Deliver(text) => self.hand_over(text)?,
            // A session starts no turn while one runs.
            Order::Turn(_) => {}
        }
        Ok(())
    }

    /// Hands over mail in the middle of the turn, or keeps it for its next prompt.
    pub(super) fn hand_over(&mut self, text: String) -> Result<(), Deaf> {
        if !self.takes_mail() {
            self.unread.push(text);
            return Ok(());
        }
        let prompt = words::blocks(std::slice::from_ref(&text));
        let params = json!({ "sessionId": self.live.session, "prompt": prompt });
        let id = self.live.exchange.peer().request("_session/steering", &params)?;
        self.steering = Some((id, text));
        Ok(())
    }

    /// Whether mail can be handed over at this moment.
    pub(super) fn takes_mail(&self) -> bool {
        self.live.steers && self.steering.is_none() && matches!(self.phase, Phase::Working)
    }

    async fn hear(&mut self, incoming: Incoming) -> Result<(), Halt> {
        let now = Instant::now();
        self.last_sign = now;
        self.noticed = false;
        if let Phase::Draining { quiet, .. } = &mut self.phase {
            *quiet = now + self.seat.limits.drain;
        }
        match incoming {
            Incoming::Answer { id, answer } if id == self.prompt => self.answered(answer)?,
            Incoming::Answer { id, answer } => self.steered(id, answer.is_ok()),
            Incoming::Told(told) if told.session == self.live.session => {
                self.learn(told.update).await?;
            }
            Incoming::Request { id, method, params } if method == "session/request_permission" => {
                self.asked(id, &params).await?;
            }
            Incoming::Request { id, method, .. } => self.live.exchange.decline(&id, &method)?,
            // News of sessions within the session are a sign of life.
            Incoming::Told(_) | Incoming::Other => {}
        }
        Ok(())
    }

    fn steered(&mut self, id: u64, taken: bool) {
        let Some((_, text)) = self.steering.take_if(|(asked, _)| *asked == id) else { return };
        if taken {
            self.given_between(text);
        } else {
            self.unread.push(text);
        }
    }

    /// The agent was given something in the middle of its turn.
    fn given_between(&mut self, text: String) {
        self.log.next_step();
        self.log.given(text);
    }

    /// The prompt was answered.
    fn answered(
        &mut self,
        answer: Result<Box<serde_json::value::RawValue>, Refusal>,
    ) -> Result<(), Deaf> {
        let answer = answer.map(|raw| serde_json::from_str(raw.get()).unwrap_or(Value::Null));
        if let Ok(answer) = &answer {
            self.live.meter.answered(answer);
        }
        // Who does not wait for an answer any more has to be answered all the same.
        self.release()?;
        let now = Instant::now();
        let why = match &self.phase {
            Phase::Working => None,
            Phase::Stopping { why, .. } => Some(why.clone()),
            // It has answered twice: the first one counts.
            Phase::Draining { .. } => return Ok(()),
        };
        let limits = &self.seat.limits;
        let (quiet, until) = (now + limits.drain, now + limits.drain_at_most);
        self.phase = Phase::Draining { why, answer, quiet, until };
        Ok(())
    }

    /// Tells the agent to stop, once; whoever waits for a permission is told before.
    pub(super) fn stop(&mut self, why: Why) -> Result<(), Deaf> {
        match &mut self.phase {
            Phase::Working => {}
            Phase::Stopping { why: known, .. } => {
                *known = why;
                return Ok(());
            }
            Phase::Draining { .. } => return Ok(()),
        }
        self.release()?;
        let params = json!({ "sessionId": self.live.session });
        self.live.exchange.peer().notify("session/cancel", &params)?;
        self.phase = Phase::Stopping { why, until: Instant::now() + self.seat.limits.cancel };
        Ok(())
    }

    fn release(&mut self) -> Result<(), Deaf> {
        for waiting in std::mem::take(&mut self.waiting) {
            self.live.exchange.peer().answer(&waiting.ask.id, &cancelled())?;
        }
        Ok(())
    }

    /// When something has to happen although nothing does.
    fn due(&self) -> Instant {
        let limits = &self.seat.limits;
        match &self.phase {
            Phase::Working if !self.waiting.is_empty() => self.last_sign + LONG,
            Phase::Working if self.noticed => self.last_sign + self.patience(),
            Phase::Working => self.last_sign + limits.notice.min(self.patience()),
            Phase::Stopping { until, .. } => *until,
            Phase::Draining { quiet, until, .. } => *quiet.min(until),
        }
    }

    /// How long nothing may come.
    fn patience(&self) -> Duration {
        let limits = &self.seat.limits;
        if self.calls.are_open() { limits.busy } else { limits.quiet }
    }

    fn be_due(&mut self) -> Result<(), Halt> {
        let patient = self.last_sign.elapsed() < self.patience();
        match &mut self.phase {
            Phase::Working if patient => {
                self.noticed = true;
                self.show_silence();
                Ok(())
            }
            Phase::Working => {
                let silence = self.last_sign.elapsed().as_secs();
                let fault = format!("the agent gave no sign of life for {silence} s");
                Ok(self.stop(Why::Fault(fault))?)
            }
            // It does not stop: its process is ended, and the session opened again in another.
            Phase::Stopping { why, .. } => Err(Halt::Over(why.clone().outcome(), Fate::Replaced)),
            Phase::Draining { why, answer, .. } => {
                let answer = std::mem::replace(answer, Ok(Value::Null));
                if let Some(why) = why.take() {
                    return Err(Halt::Over(why.outcome(), Fate::Stays));
                }
                self.be_done(answer)
            }
        }
    }

    /// The agent has ended its prompt by itself.
    fn be_done(&mut self, answer: Result<Value, Refusal>) -> Result<(), Halt> {
        let parts = self.take_unread();
        if answer.is_ok() && !parts.is_empty() {
            self.given_between(parts.join("\n\n"));
            return Ok(self.prompt(&parts)?);
        }
        self.unread = parts;
        if answer.is_err() {
            // Whether it read its role and what was said before is not known.
            self.live.role = self.told.role.take();
            self.live.notes.splice(0..0, std::mem::take(&mut self.told.notes));
        }
        let ended = Ended {
            profile: &self.seat.launch.profile,
            now: self.seat.host.now(),
            last_text: self.log.last_text(),
            silent: self.log.is_silent(),
            denied: self.denied,
            unconnected: self.seat.connection.as_ref().is_some_and(|way| !way.is_ready()),
        };
        Err(Halt::Over(ended.outcome(answer), Fate::Stays))
    }

    /// Those who watch see that nothing happens.
    fn show_silence(&self) {
        let silence = self.seat.limits.notice.as_secs();
        let text = format!("[nothing has come from the agent for {silence} s]\n");
        self.seat.host.delta(self.id, Delta::Thought { step: self.log.step(), text });
    }

    /// Mail that the agent did not take, or of which it did not say so.
    fn take_unread(&mut self) -> Vec<String> {
        let steering = self.steering.take().map(|(_, text)| text);
        steering.into_iter().chain(std::mem::take(&mut self.unread)).collect()
    }

    /// How a turn ends that the house cannot keep; none where it has ended it.
    fn house_failed(&self, error: HostError) -> Option<TurnOutcome> {
        Some(match error {
            HostError::TurnOver => return None,
            HostError::OverBudget => {
                TurnOutcome::Unavailable { why: Unavailable::Budget, until: None, said: None }
            }
            HostError::Unavailable(_) => TurnOutcome::Lost,
            HostError::NoTranscript(error) => TurnOutcome::Unavailable {
                why: Unavailable::Provider,
                until: Some(self.seat.host.now() + STORE_DOWN),
                said: Some(format!("its transcript could not be written: {error}")),
            },
            error @ HostError::Refused(_) => TurnOutcome::AgentFault { error: error.to_string() },
        })
    }
}

impl Why {
    fn outcome(self) -> TurnOutcome {
        match self {
            Self::Interrupted => TurnOutcome::Interrupted,
            Self::Fault(error) => TurnOutcome::AgentFault { error },
        }
    }
}
