//! The loop of one agent: model, tools, mail, until the turn ends; it decides nothing about teams.
//!
//! Every outward act follows the transcript: what the model said is durable before its tools are
//! proposed, and what a tool returned is durable before its end is journalled. A turn is therefore
//! taken up again from its transcript and the house's tool journal alone, at any point: nothing is
//! done twice, and where a tool may have run the model is told so.

mod answers;
mod compact;
mod conversation;
mod images;
mod model;
mod tools;
mod turn;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aion_core::agent::PermissionMode;
use aion_core::budget::Usage;
use aion_core::id::{AgentName, TurnId};
use aion_core::turn::{CallId, ToolCallState, TurnOutcome};
use tokio_util::sync::CancellationToken;

pub use self::answers::Answers;
use crate::host::Host;
use crate::provider::Provider;
use crate::tools::Toolbox;

/// One turn to run.
#[derive(Clone, Debug)]
pub struct TurnInput {
    /// The turn.
    pub turn: TurnId,
    /// The system prompt: role, rules, roster.
    pub system: String,
    /// The agent's permission mode as the turn begins. The house judges by the mode of the moment.
    pub mode: PermissionMode,
    /// The rendered opening: its mail, and the task it is offered.
    pub opening: String,
    /// Whether every further model call has to be reserved first.
    pub budgeted: bool,
    /// Set when the turn is taken up again: what was proposed or started before the house fell.
    pub resume: Option<BTreeMap<CallId, ToolCallState>>,
}

/// How a turn ended for the one who ran it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnEnd {
    /// Report it. Everything it said and did is durable.
    Ended {
        /// How.
        outcome: TurnOutcome,
        /// What is not settled yet: the last model call of a budgeted turn, else all of them.
        usage: Option<Usage>,
    },
    /// The house has ended it already: nothing is to be reported.
    Over,
}

/// What reaches a running turn from outside.
#[derive(Debug, Default)]
pub struct Controls {
    /// Decisions.
    pub answers: Answers,
    /// Ends the turn, which reports [`TurnOutcome::Interrupted`].
    pub interrupt: CancellationToken,
    inbox: Mutex<Inbox>,
}

/// Text on its way into a turn.
#[derive(Debug)]
enum Inbox {
    Open(Vec<String>),
    /// The turn reads nothing more.
    Closed,
}

impl Default for Inbox {
    fn default() -> Self {
        Self::Open(Vec::new())
    }
}

impl Controls {
    /// Hands over text that the agent reads before its next model step. False means that the turn
    /// reads nothing more: the text was not taken.
    #[must_use]
    pub fn deliver(&self, text: String) -> bool {
        match &mut *self.inbox() {
            Inbox::Open(texts) => {
                texts.push(text);
                true
            }
            Inbox::Closed => false,
        }
    }

    fn take_delivered(&self) -> Vec<String> {
        match &mut *self.inbox() {
            Inbox::Open(texts) => std::mem::take(texts),
            Inbox::Closed => Vec::new(),
        }
    }

    /// Takes what was delivered; if that is nothing, nothing more is.
    fn take_last(&self) -> Vec<String> {
        let mut inbox = self.inbox();
        match &mut *inbox {
            Inbox::Open(texts) if !texts.is_empty() => std::mem::take(texts),
            Inbox::Open(_) | Inbox::Closed => {
                *inbox = Inbox::Closed;
                Vec::new()
            }
        }
    }

    /// Lets nothing more in, and takes what is there.
    fn close(&self) -> Vec<String> {
        match std::mem::replace(&mut *self.inbox(), Inbox::Closed) {
            Inbox::Open(texts) => texts,
            Inbox::Closed => Vec::new(),
        }
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        // Every change of it is one assignment or one push.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The limits of the loop.
#[derive(Clone, Debug)]
pub struct RuntimeConfig {
    /// Model steps in one turn; more end it as a fault.
    pub max_steps: u32,
    /// The most tokens that one model step may write.
    pub max_tokens: u32,
    /// How often a model call whose answer broke off is made again.
    pub retries: u32,
    /// How often in a turn the model may go on after it reached `max_tokens`.
    pub continuations: u32,
    /// How long to wait for a service that is down and does not say how long.
    pub unavailable_wait: Duration,
    /// How long to wait for a service that asks for a pause and does not say how long.
    pub rate_limit_wait: Duration,
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        Self {
            max_steps: 200,
            max_tokens: 32_000,
            retries: 2,
            continuations: 3,
            unavailable_wait: Duration::from_secs(30),
            rate_limit_wait: Duration::from_mins(1),
        }
    }
}

/// What an agent's turns run with. It holds nothing of a conversation between two turns.
#[derive(Clone, Debug)]
pub struct AgentRuntime {
    /// The agent's name.
    pub agent: AgentName,
    /// Its model, if not the provider's own choice.
    pub model: Option<String>,
    /// Who answers.
    pub provider: Arc<dyn Provider>,
    /// The house around it.
    pub host: Arc<dyn Host>,
    /// Its coding tools.
    pub tools: Arc<Toolbox>,
    /// The limits of the loop.
    pub config: Arc<RuntimeConfig>,
}

impl AgentRuntime {
    /// Runs one turn to its end. Dropping the future ends the turn and every process it began.
    pub async fn run(&self, input: TurnInput, controls: &Controls) -> TurnEnd {
        turn::Turn::new(self, input, controls).run().await
    }
}
