//! One place in a team that a foreign agent has: its process comes and goes, the place stays; it runs
//! one turn at a time, and what the agent says between two turns belongs to the last.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aion_agent::host::Host;
use aion_agent::leash::LeashConfig;
use aion_agent::runtime::TurnInput;
use aion_agent::tools::Toolbox;
use aion_core::agent::PermissionMode;
use aion_core::budget::Usage;
use aion_core::id::{ConversationId, RequestId, SlotId, TeamId, TurnId};
use aion_core::turn::{TurnOutcome, Unavailable};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::TaskTracker;

use super::backend::Bridge;
use super::frame::Incoming;
use super::greet::{Failure, House, login_needed};
use super::limits::AcpLimits;
use super::log::Log;
use super::memory::SessionMemory;
use super::open::Live;
use super::options::Setting;
use super::process::Deaf;
use super::profile::{AgentSource, Launchable};
use super::session::Shared;
use super::turn::{End, Fate, Turn};
use super::update::Update;
use crate::{Connection, Signal};

/// How long what is said between two turns waits for more.
const LATE: Duration = Duration::from_secs(1);
/// The most of it that is kept.
const LATE_BYTES: usize = 1024 * 1024;
/// How long processes that were killed are waited for. What does not die in this time is its leash's
/// to end.
const DYING: Duration = Duration::from_secs(15);
/// When nothing is to be waited for.
const FAR: Duration = Duration::from_hours(24 * 365);

/// What a session tells its seat.
#[derive(Debug)]
pub(super) enum Order {
    Turn(Box<TurnInput>),
    Deliver(String),
    Answer(RequestId),
    Interrupt,
}

/// What all processes of one place have in common.
#[derive(Debug)]
pub(super) struct Seat {
    /// Who hears how its starts go.
    pub(super) source: Arc<dyn AgentSource>,
    pub(super) slot: SlotId,
    /// Where its transcript is kept, and its session remembered.
    pub(super) conversation: (TeamId, ConversationId),
    pub(super) workspace: PathBuf,
    pub(super) host: Arc<dyn Host>,
    /// Its way to the team.
    pub(super) connection: Option<Box<Connection>>,
    pub(super) model: Option<String>,
    /// Its role when it was started.
    pub(super) system: String,
    pub(super) mode: PermissionMode,
    pub(super) launch: Launchable,
    pub(super) leash: LeashConfig,
    pub(super) limits: Arc<AcpLimits>,
    pub(super) bridge: Bridge,
    pub(super) memory: Arc<dyn SessionMemory>,
    /// Our own tools, by which foreign calls are understood. None of them runs here.
    pub(super) toolbox: Toolbox,
    pub(super) processes: TaskTracker,
}

impl Seat {
    pub(super) fn house(&self) -> House<'_> {
        House { leash: &self.leash, limits: &self.limits, processes: &self.processes }
    }

    /// The names of the team's tools for this member.
    pub(super) fn team_tools(&self) -> Vec<String> {
        self.host.team_tools().iter().map(|spec| spec.name.clone()).collect()
    }

    fn heard(&self, went: Result<Vec<String>, &str>) {
        self.source.heard(&self.launch.profile.id, went);
    }

    /// How a turn ends for want of a login.
    pub(super) fn login_needed(&self) -> TurnOutcome {
        let said = Some(login_needed(&self.launch.profile));
        TurnOutcome::Unavailable { why: Unavailable::Login, until: None, said }
    }

    /// Serves one agent until it is gone, with everything that it began.
    pub(super) async fn run(
        self,
        shared: Arc<Shared>,
        orders: mpsc::Receiver<Order>,
        signals: mpsc::Sender<Box<Signal>>,
    ) {
        let mut sitting = Sitting { seat: &self, shared: &shared, orders, signals, live: None };
        let cause = tokio::select! {
            biased;
            () = shared.killed() => "killed".to_owned(),
            cause = sitting.serve() => cause,
        };
        let Sitting { live, signals, .. } = sitting;
        if let Some(live) = live {
            let process = live.exchange.into_process();
            tokio::select! {
                biased;
                () = shared.killed() => {}
                () = process.part() => {}
            }
        }
        // Whoever hears that it is gone takes its processes for gone, too.
        self.processes.close();
        let _ = tokio::time::timeout(DYING, self.processes.wait()).await;
        shared.be_gone();
        // That nobody listens any more is not the agent's concern.
        let _ = signals.send(Box::new(Signal::Exited { cause })).await;
    }
}

/// An agent in its place.
struct Sitting<'a> {
    seat: &'a Seat,
    shared: &'a Shared,
    orders: mpsc::Receiver<Order>,
    signals: mpsc::Sender<Box<Signal>>,
    live: Option<Live>,
}

impl Sitting<'_> {
    /// Serves until the agent is to leave, or is gone; answers why.
    async fn serve(&mut self) -> String {
        let opened = tokio::select! {
            opened = self.seat.open() => opened,
            reason = self.shared.told_to_leave() => return reason,
        };
        match opened {
            Ok(live) => {
                self.seat.heard(Ok(live.options.offered(Setting::Model)));
                self.live = Some(live);
            }
            Err(failure) => {
                let words = failure.into_words();
                self.seat.heard(Err(&words));
                return words;
            }
        }
        self.report(Signal::Ready).await;
        let mut late = None;
        loop {
            let due = late.as_ref().map_or_else(far, |(_, due)| *due);
            tokio::select! {
                biased;
                reason = self.shared.told_to_leave() => {
                    self.keep_late(&mut late).await;
                    return reason;
                }
                order = self.orders.recv() => match order {
                    Some(Order::Turn(input)) => {
                        self.keep_late(&mut late).await;
                        let turn = input.turn;
                        if let Err(cause) = self.turn(*input).await {
                            return cause;
                        }
                        late = Some((Log::new(turn), far()));
                    }
                    // What a turn was to hear came after its end.
                    Some(Order::Deliver(_) | Order::Answer(_) | Order::Interrupt) => {}
                    None => return "killed".to_owned(),
                },
                () = sleep_until(due) => self.keep_late(&mut late).await,
                incoming = next(&mut self.live) => match incoming {
                    Some(incoming) => {
                        if self.hear_late(&mut late, incoming).is_err() {
                            return "the agent does not read what it is told".to_owned();
                        }
                    }
                    None => return self.obituary().await,
                },
            }
        }
    }

    /// Runs a turn, in the process that is there or in a new one. An error ends the agent.
    async fn turn(&mut self, input: TurnInput) -> Result<(), String> {
        let turn = input.turn;
        if self.live.is_none() {
            let opened = tokio::select! {
                opened = self.seat.open() => opened,
                () = interrupted(&mut self.orders) => {
                    self.end_turn(turn, TurnOutcome::Interrupted, None).await;
                    return Ok(());
                }
            };
            match opened {
                Ok(live) => self.live = Some(live),
                Err(Failure::Login(said)) => {
                    let (why, until) = (Unavailable::Login, None);
                    let outcome = TurnOutcome::Unavailable { why, until, said: Some(said) };
                    self.end_turn(turn, outcome, None).await;
                    return Ok(());
                }
                Err(failure) => return Err(failure.into_words()),
            }
        }
        let Some(live) = &mut self.live else { return Err("the agent is gone".to_owned()) };
        let End { report, process } = Turn::run(self.seat, live, &mut self.orders, input).await;
        match process {
            Fate::Stays => {}
            Fate::Gone => return Err(self.obituary().await),
            Fate::Replaced => {
                if let Some(live) = self.live.take() {
                    live.exchange.into_process().kill().await;
                }
            }
        }
        match report {
            Some((outcome, usage)) => self.end_turn(turn, outcome, usage).await,
            None => self.shared.leave_turn(),
        }
        Ok(())
    }

    async fn end_turn(&self, turn: TurnId, outcome: TurnOutcome, usage: Option<Usage>) {
        // Idle before the report: whoever hears of the end may start the next turn.
        self.shared.leave_turn();
        self.report(Signal::TurnEnded { turn, outcome, usage }).await;
    }

    async fn report(&self, signal: Signal) {
        let _ = self.signals.send(Box::new(signal)).await;
    }

    async fn obituary(&mut self) -> String {
        match self.live.take() {
            Some(live) => live.exchange.into_process().obituary().await,
            None => "the agent is gone".to_owned(),
        }
    }

    /// Takes in what is said between two turns.
    fn hear_late(
        &mut self,
        late: &mut Option<(Log, Instant)>,
        incoming: Incoming,
    ) -> Result<(), Deaf> {
        let Some(live) = &mut self.live else { return Ok(()) };
        match incoming {
            Incoming::Request { id, method, .. } => live.exchange.decline(&id, &method)?,
            Incoming::Told(told) if told.session == live.session => match told.update {
                Update::Mode(mode) => live.options.mode_is(&mode),
                Update::Options(options) => live.options.replace(options),
                Update::Cost(cost) => live.meter.cost(cost),
                Update::Said(text) => note(late, |log| log.said(&text)),
                Update::Thought(text) => note(late, |log| log.thought(&text)),
                Update::Call(_) | Update::Other => {}
            },
            Incoming::Told(_) | Incoming::Answer { .. } | Incoming::Other => {}
        }
        Ok(())
    }

    /// Makes durable what was said after the end of the last turn.
    async fn keep_late(&self, late: &mut Option<(Log, Instant)>) {
        let Some((log, due)) = late else { return };
        *due = far();
        let items = log.take(true);
        if items.is_empty() {
            return;
        }
        if let Err(error) = self.seat.host.record(items).await {
            tracing::warn!(slot = %self.seat.slot, %error, "late words of an agent were not kept");
        }
    }
}

/// Notes what was said after a turn. Before the first turn there is nothing that it belongs to.
fn note(late: &mut Option<(Log, Instant)>, say: impl FnOnce(&mut Log)) {
    let Some((log, due)) = late else { return };
    if log.bytes() < LATE_BYTES {
        say(log);
        *due = (*due).min(Instant::now() + LATE);
    }
}

fn far() -> Instant {
    Instant::now() + FAR
}

/// What the agent says next; never where there is none.
async fn next(live: &mut Option<Live>) -> Option<Incoming> {
    match live {
        Some(live) => live.exchange.next().await,
        None => std::future::pending().await,
    }
}

/// Waits until the turn is to be interrupted.
async fn interrupted(orders: &mut mpsc::Receiver<Order>) {
    loop {
        match orders.recv().await {
            Some(Order::Interrupt) => return,
            Some(Order::Turn(_) | Order::Deliver(_) | Order::Answer(_)) => {}
            None => std::future::pending().await,
        }
    }
}
