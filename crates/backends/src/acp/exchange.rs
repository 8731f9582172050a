//! Asking an agent something and waiting for the answer, while whatever else it says is kept for
//! later; no wait is without an end.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::frame::{Incoming, Refusal};
use super::process::{Deaf, Peer, Process};
use super::update::Told;

/// News that may wait until somebody looks at them; older ones are dropped first.
const ASIDE: usize = 256;

/// The protocol's codes that mean something to us.
pub(super) const LOGIN_NEEDED: i64 = -32_000;
const NO_SUCH_METHOD: i64 = -32_601;

/// A process, and what it said while something else was waited for.
#[derive(Debug)]
pub(super) struct Exchange {
    process: Process,
    aside: VecDeque<Told>,
}

/// Why a request was not answered as it was meant.
#[derive(Debug)]
pub(super) enum CallError {
    /// The agent said "no".
    Refused(Refusal),
    /// It did not answer in this time.
    Silent(Duration),
    /// It does not read what it is told.
    Deaf,
    /// It is gone.
    Gone,
}

impl From<Deaf> for CallError {
    fn from(_: Deaf) -> Self {
        Self::Deaf
    }
}

/// What was said, to be put after "the agent".
impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => write!(f, "answered: {refusal}"),
            Self::Silent(limit) => write!(f, "did not answer within {} s", limit.as_secs_f32()),
            Self::Deaf => f.write_str("does not read what it is told"),
            Self::Gone => f.write_str("is gone"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {}", self.message, self.code)?;
        if let Some(data) = &self.data {
            write!(f, ", {data}")?;
        }
        f.write_str(")")
    }
}

impl Exchange {
    pub(super) fn new(process: Process) -> Self {
        Self { process, aside: VecDeque::new() }
    }

    pub(super) fn peer(&mut self) -> &mut Peer {
        self.process.peer()
    }

    /// What it said beside the protocol.
    pub(super) fn words(&self) -> String {
        self.process.words()
    }

    pub(super) fn into_process(self) -> Process {
        self.process
    }

    /// What it says next; what was kept comes first. None when it is gone.
    pub(super) async fn next(&mut self) -> Option<Incoming> {
        match self.aside.pop_front() {
            Some(told) => Some(Incoming::Told(told)),
            None => self.process.next().await,
        }
    }

    /// Drops what was kept; answers how much of it was said or done in a session.
    pub(super) fn forget(&mut self) -> usize {
        self.aside.drain(..).filter(Told::is_of_a_turn).count()
    }

    /// Asks, and waits for the answer.
    pub(super) async fn call(
        &mut self,
        method: &str,
        params: &Value,
        limit: Duration,
    ) -> Result<Value, CallError> {
        let id = self.peer().request(method, params)?;
        let deadline = Instant::now() + limit;
        loop {
            let next = timeout_at(deadline, self.process.next());
            match next.await.map_err(|_| CallError::Silent(limit))?.ok_or(CallError::Gone)? {
                Incoming::Answer { id: answered, answer } if answered == id => {
                    let answer = answer.map_err(CallError::Refused)?;
                    // It was read as JSON before.
                    return Ok(serde_json::from_str(answer.get()).unwrap_or_default());
                }
                Incoming::Told(told) => self.keep(told),
                Incoming::Request { id, method, .. } => self.decline(&id, &method)?,
                Incoming::Answer { .. } | Incoming::Other => {}
            }
        }
    }

    /// The same with what it says until it has said nothing for a while.
    pub(super) async fn drain(
        &mut self,
        quiet: Duration,
        most: Duration,
    ) -> Result<usize, CallError> {
        let last = Instant::now() + most;
        let mut dropped = 0;
        loop {
            let until = last.min(Instant::now() + quiet);
            let Ok(next) = timeout_at(until, self.process.next()).await else { return Ok(dropped) };
            match next.ok_or(CallError::Gone)? {
                Incoming::Request { id, method, .. } => self.decline(&id, &method)?,
                Incoming::Told(told) => dropped += usize::from(told.is_of_a_turn()),
                Incoming::Answer { .. } | Incoming::Other => {}
            }
        }
    }

    /// Answers a request that nobody here can grant: nothing may stay open.
    pub(super) fn decline(&mut self, id: &RawValue, method: &str) -> Result<(), Deaf> {
        let peer = self.peer();
        match method {
            // Outside of a turn nobody can be asked.
            "session/request_permission" => {
                peer.answer(id, &json!({ "outcome": { "outcome": "cancelled" } }))
            }
            "elicitation/create" => peer.answer(id, &json!({ "action": "decline" })),
            _ => {
                tracing::debug!(method, "an agent asked for what is not offered");
                peer.refuse(id, NO_SUCH_METHOD, &format!("{method} is not offered here"))
            }
        }
    }

    fn keep(&mut self, told: Told) {
        if self.aside.len() == ASIDE {
            self.aside.pop_front();
        }
        self.aside.push_back(told);
    }
}
