//! The words of the models' services: how each is asked, and how each answer is read; never sends.
//!
//! Every service has one file. It makes the body of a request from a conversation, and has a
//! reader that turns the frames of an answer into [`ModelEvent`]s. A reader says the stop only
//! where the service itself said that the answer is complete, and hands out no call that is not.

mod amend;
mod anthropic;
mod chat;
mod frame;
mod gemini;
mod ollama;
mod responses;
#[cfg(test)]
mod tests;
mod words;

use std::collections::VecDeque;

use serde_json::Value;

pub(super) use self::amend::amend;
pub(super) use self::chat::failure;
pub(super) use self::frame::{Frame, Frames, Shape};
pub(super) use self::words::{LONGEST, id as known_id, plain, retry_delay, verdict};
use super::service::Service;
use crate::provider::{ModelEvent, ModelRequest, ProviderError};

/// What one request is made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask<'a> {
    pub(super) request: &'a ModelRequest,
    pub(super) model: &'a str,
    /// The most tokens to write, within what the model can.
    pub(super) max_tokens: u32,
    /// The most tokens to think, where thinking is asked for.
    pub(super) thinking: Option<u32>,
    /// The tokens that the model's window holds.
    pub(super) window: u32,
}

/// What comes out of reading.
pub(super) type Out = VecDeque<ModelEvent>;

/// Reads one answer.
pub(super) trait Reader: Send {
    /// Reads one frame.
    fn read(&mut self, frame: Frame, out: &mut Out) -> Result<(), ProviderError>;

    /// The connection ended in order. What was complete is said; a reader that has said the stop
    /// is not asked.
    fn end(&mut self, _out: &mut Out) -> Result<(), ProviderError> {
        Err(broken("the stream ended before the answer did"))
    }
}

/// Where the service lives unless the person says otherwise.
pub(super) fn home(service: Service) -> Option<&'static str> {
    match service {
        Service::Anthropic => Some("https://api.anthropic.com"),
        Service::OpenAi | Service::OpenAiResponses => Some("https://api.openai.com/v1"),
        Service::Gemini => Some("https://generativelanguage.googleapis.com"),
        Service::Ollama => Some("http://127.0.0.1:11434"),
        Service::Compatible => None,
    }
}

/// The words in which a model is spoken to: the service itself takes no tools any more for its
/// models that think, but in its newer words. What stands elsewhere in its stead may know the older
/// ones alone.
pub(super) fn speaks(service: Service, base: &str, model: &str) -> Service {
    match service {
        Service::OpenAi if Some(base) == home(service) && responses::reasons(model) => {
            Service::OpenAiResponses
        }
        Service::Anthropic
        | Service::OpenAi
        | Service::OpenAiResponses
        | Service::Gemini
        | Service::Ollama
        | Service::Compatible => service,
    }
}

/// The tokens that a model's window holds: what is known, else what all models of today hold.
pub(super) fn window(service: Service, known: Option<u32>) -> u32 {
    known.filter(|known| *known > 0).unwrap_or(match service {
        Service::Ollama | Service::Compatible => 32_768,
        Service::Anthropic | Service::OpenAi | Service::OpenAiResponses | Service::Gemini => {
            128_000
        }
    })
}

/// The path of a call, below the service's base.
pub(super) fn path(service: Service, model: &str) -> String {
    match service {
        Service::Anthropic => "/v1/messages".into(),
        Service::OpenAi | Service::Compatible => "/chat/completions".into(),
        Service::OpenAiResponses => "/responses".into(),
        Service::Gemini => {
            format!("/v1beta/models/{}:streamGenerateContent?alt=sse", words::segment(model))
        }
        Service::Ollama => "/api/chat".into(),
    }
}

/// The path that lists models, and the name of the list and of a model's id in the answer.
pub(super) fn listing(service: Service) -> (&'static str, &'static str, &'static str) {
    match service {
        Service::Anthropic => ("/v1/models?limit=1000", "data", "id"),
        Service::OpenAi | Service::OpenAiResponses | Service::Compatible => {
            ("/models", "data", "id")
        }
        Service::Gemini => ("/v1beta/models?pageSize=1000", "models", "name"),
        Service::Ollama => ("/api/tags", "models", "name"),
    }
}

/// The headers of a call: name and value; the value with `true` is secret.
pub(super) fn headers(service: Service, key: Option<&str>) -> Vec<(&'static str, String, bool)> {
    let mut headers = Vec::new();
    match service {
        Service::Anthropic => {
            headers.push(("anthropic-version", "2023-06-01".to_owned(), false));
            headers.extend(key.map(|key| ("x-api-key", key.to_owned(), true)));
        }
        Service::Gemini => headers.extend(key.map(|key| ("x-goog-api-key", key.to_owned(), true))),
        Service::OpenAi | Service::OpenAiResponses | Service::Ollama | Service::Compatible => {
            headers.extend(key.map(|key| ("authorization", format!("Bearer {key}"), true)));
        }
    }
    headers
}

/// A header that only some models of a service know.
pub(super) fn beta(service: Service, model: &str) -> Option<(&'static str, &'static str)> {
    (service == Service::Anthropic && anthropic::binds(model))
        .then_some(("anthropic-beta", "thinking-binding-controls-2026-08-01"))
}

/// The body of a call.
pub(super) fn body(service: Service, ask: &Ask<'_>) -> Value {
    match service {
        Service::Anthropic => anthropic::body(ask),
        Service::OpenAi => chat::body(ask, chat::Dialect::OpenAi),
        Service::Compatible => chat::body(ask, chat::Dialect::Compatible),
        Service::OpenAiResponses => responses::body(ask),
        Service::Gemini => gemini::body(ask),
        Service::Ollama => ollama::body(ask),
    }
}

/// The reader of an answer.
pub(super) fn reader(service: Service, model: &str) -> Box<dyn Reader> {
    match service {
        Service::Anthropic => Box::<anthropic::Answer>::default(),
        Service::OpenAi | Service::Compatible => Box::new(chat::Answer::new(model)),
        Service::OpenAiResponses => Box::<responses::Answer>::default(),
        Service::Gemini => Box::<gemini::Answer>::default(),
        Service::Ollama => Box::<ollama::Answer>::default(),
    }
}

/// How the frames of an answer are told apart.
pub(super) fn shape(service: Service) -> Shape {
    match service {
        Service::Ollama => Shape::Lines,
        Service::Anthropic
        | Service::OpenAi
        | Service::OpenAiResponses
        | Service::Gemini
        | Service::Compatible => Shape::Events,
    }
}

/// An answer that cannot be used, though another may be.
pub(super) fn broken(text: impl Into<String>) -> ProviderError {
    ProviderError::Broken(text.into())
}
