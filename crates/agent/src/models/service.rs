//! Which services there are, and how one of them is reached; never calls them.

use super::Secret;

/// A service's way of speaking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Service {
    /// Anthropic's Messages.
    Anthropic,
    /// `OpenAI`'s Chat Completions.
    OpenAi,
    /// `OpenAI`'s Responses.
    OpenAiResponses,
    /// Google's Gemini.
    Gemini,
    /// Ollama's own chat.
    Ollama,
    /// Anything that speaks Chat Completions.
    Compatible,
}

impl Service {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Anthropic,
        Self::OpenAi,
        Self::OpenAiResponses,
        Self::Gemini,
        Self::Ollama,
        Self::Compatible,
    ];

    /// The one of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|service| service.name() == name)
    }

    /// Where it lives unless the person says otherwise.
    #[must_use]
    pub fn home(self) -> Option<&'static str> {
        super::wire::home(self)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
            Self::Compatible => "compatible",
        }
    }
}

/// How a service is reached.
#[derive(Clone, Debug)]
pub struct ServiceConfig {
    /// The service.
    pub service: Service,
    /// Where it lives, if not at its usual place.
    pub base_url: Option<String>,
    /// The key, where it wants one.
    pub key: Option<Secret>,
}
