//! What the loop asks of a model, and what it hears back; never which vendor answers.
//!
//! A provider is given the whole conversation each time and answers with a stream of
//! [`ModelEvent`]s that ends in [`ModelEvent::Stop`]. It keeps nothing between two requests that
//! it could not do without: after a crash the next request alone has to be enough.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aion_core::budget::{Amount, Usage};
use aion_core::id::{AgentName, TurnId};
use aion_core::transcript::Image;
use aion_core::turn::CallId;
use futures::StreamExt;
use futures::stream::{self, BoxStream};

use crate::host::ToolSpec;

/// A source of model answers.
pub trait Provider: Send + Sync + fmt::Debug + 'static {
    /// Answers one request. Dropping the stream ends the call.
    fn stream(
        &self,
        request: ModelRequest,
    ) -> BoxStream<'static, Result<ModelEvent, ProviderError>>;

    /// How much a model holds, if that is known: a conversation is made shorter before it outgrows it.
    fn window(&self, model: Option<&str>) -> Option<Window> {
        let _ = model;
        None
    }

    /// What the request may use at worst, for the budget: by default a token for every two bytes
    /// that are sent, and every token that may be written; no money.
    fn worst_case(&self, request: &ModelRequest) -> Amount {
        let read = request.bytes() as u64 / 2;
        Amount { tokens: read.saturating_add(u64::from(request.max_tokens)), micro_usd: 0 }
    }
}

/// What an image counts as in [`ModelRequest::bytes`]: services count its size on a screen, and not
/// its bytes; for most that is at most some 1,600 tokens.
pub const IMAGE_BYTES: usize = 6 * 1024;

/// How much a model holds, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// A request and its answer together.
    pub whole: u32,
    /// The most that is written in one answer.
    pub answer: u32,
}

impl Window {
    /// The most tokens of an answer where `wanted` are asked for: at least three quarters of the
    /// window stay for the conversation.
    #[must_use]
    pub fn most(self, wanted: u32) -> u32 {
        wanted.min(self.answer).min(self.whole / 4)
    }
}

/// One model call.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// Who asks.
    pub agent: AgentName,
    /// The model, if not the provider's own choice.
    pub model: Option<String>,
    /// The turn it belongs to.
    pub turn: TurnId,
    /// The model step within the turn, from 0.
    pub step: u32,
    /// The system prompt.
    pub system: String,
    /// The conversation, oldest first. It ends with something the agent received.
    pub messages: Vec<Message>,
    /// What may be called.
    pub tools: Vec<Arc<ToolSpec>>,
    /// The most tokens to write.
    pub max_tokens: u32,
}

impl ModelRequest {
    /// Bytes of what is sent; an image counts as [`IMAGE_BYTES`].
    pub fn bytes(&self) -> usize {
        self.bytes_around() + self.messages.iter().map(Message::bytes).sum::<usize>()
    }

    /// Bytes of what is sent with every conversation: the system prompt and the tools.
    pub fn bytes_around(&self) -> usize {
        let tools: usize = self
            .tools
            .iter()
            .map(|tool| tool.description.len() + tool.input_schema.to_string().len())
            .sum();
        self.system.len() + tools
    }
}

/// One entry of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// What the agent was given: mail, or the house's own words.
    Given {
        /// The turn.
        turn: TurnId,
        /// The text.
        text: String,
    },
    /// One answer of the model. Without parts it said nothing; a provider whose service refuses
    /// empty answers leaves it out.
    Answer {
        /// The turn.
        turn: TurnId,
        /// The model step within the turn.
        step: u32,
        /// What it consists of, in order.
        parts: Vec<Part>,
    },
    /// What the tools of the answer before it returned, one entry for each of its calls.
    Results {
        /// The turn.
        turn: TurnId,
        /// The results, in the order in which the calls ended.
        results: Vec<ToolResult>,
    },
}

impl Message {
    fn bytes(&self) -> usize {
        match self {
            Self::Given { text, .. } => text.len(),
            Self::Answer { parts, .. } => parts
                .iter()
                .map(|part| match part {
                    Part::Text { text } | Part::Thought { text, .. } => text.len(),
                    Part::Call { tool, input, .. } => tool.len() + input.to_string().len(),
                })
                .sum(),
            Self::Results { results, .. } => results
                .iter()
                .map(|result| result.text.len() + result.images.len() * IMAGE_BYTES)
                .sum(),
        }
    }
}

/// A part of a model's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// Thinking, to be sent back as it came.
    Thought {
        /// The text.
        text: String,
        /// The provider's signature.
        signature: Option<String>,
    },
    /// A tool call.
    Call {
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// The input.
        input: serde_json::Value,
    },
}

/// What a tool returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// The call.
    pub call: CallId,
    /// The text.
    pub text: String,
    /// Whether the tool did what it was asked to.
    pub ok: bool,
    /// Images that it showed.
    pub images: Vec<Image>,
}

/// A piece of a model's answer. Text and thinking may come in many pieces; pieces of one kind that
/// follow one another are one part.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// Text.
    Text(String),
    /// Thinking; the signature ends the part.
    Thought {
        /// The piece.
        text: String,
        /// The signature, with the last piece.
        signature: Option<String>,
    },
    /// A complete tool call. An answer may hold several.
    ToolCall {
        /// The call, unique in its turn.
        call: CallId,
        /// The tool.
        tool: String,
        /// The input.
        input: serde_json::Value,
    },
    /// What the call used so far; the last one counts.
    Usage(Usage),
    /// The answer is complete. The last event.
    Stop(StopReason),
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// It had nothing more to say.
    EndTurn,
    /// It waits for its tools.
    ToolUse,
    /// It reached the most tokens it may write.
    MaxTokens,
    /// It declines to answer.
    Refusal,
}

/// Why there is no answer. Named for what the caller can do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The service is down or out of reach: wait.
    #[error("reach the model: {text}")]
    Unavailable {
        /// What happened.
        text: String,
        /// How long to wait, if the service said so.
        retry_after: Option<Duration>,
    },
    /// The service asks for a pause: wait.
    #[error("call the model: it asks for a pause")]
    RateLimit {
        /// How long to wait, if the service said so.
        retry_after: Option<Duration>,
    },
    /// The service wants a login: a person has to act.
    #[error("log in to the model's service: {0}")]
    Login(String),
    /// The answer broke off: the call may be made again.
    #[error("read the model's answer to its end: {0}")]
    Broken(String),
    /// The conversation is too long for the model: it has to be made shorter.
    #[error("fit the conversation into the model's window: {0}")]
    TooLong(String),
    /// Asking again would fail again.
    #[error("use the model's answer: {0}")]
    Fatal(String),
}

/// A provider that answers one fixed text at once; for measurements.
#[derive(Clone, Debug)]
pub struct Immediate {
    text: String,
}

impl Immediate {
    /// Answers `text` to everything.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }
}

impl Provider for Immediate {
    fn stream(&self, _: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ProviderError>> {
        let events = [ModelEvent::Text(self.text.clone()), ModelEvent::Stop(StopReason::EndTurn)];
        stream::iter(events.map(Ok)).boxed()
    }
}
