//! What an agent was given, said, thought, called and got; never stored in the team's own log.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use crate::id::CallId;
use crate::id::TurnId;

/// One item of an agent's transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// The turn it belongs to.
    pub turn: TurnId,
    /// The model step within the turn, from 0.
    pub step: u32,
    /// What it is.
    #[serde(flatten)]
    pub content: Content,
}

/// The content of an item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "item", rename_all = "snake_case")]
pub enum Content {
    /// What the agent was given: the opening of a turn, or mail in the middle of it.
    Given {
        /// The rendered text.
        text: String,
    },
    /// What it said.
    Said {
        /// The text.
        text: String,
    },
    /// What it thought.
    Thought {
        /// The text.
        text: String,
        /// The provider's signature, replayed with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// What came before, in fewer words, because the model's window was nearly full. The conversation
    /// begins with it.
    Summary {
        /// The text.
        text: String,
        /// The turn whose items stay in the conversation as they are, from `from_step` on.
        from_turn: TurnId,
        /// The step from which on they stay.
        from_step: u32,
    },
    /// A tool it called.
    Called {
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// The input.
        input: serde_json::Value,
    },
    /// What the tool answered.
    Got {
        /// The call.
        call: CallId,
        /// The output.
        output: String,
        /// Whether the tool did what it was asked to.
        ok: bool,
        /// Images that it showed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Image>,
    },
}

/// An image that a tool showed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Its kind: `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub media_type: String,
    /// The file.
    pub data: Base64,
}

/// A file's bytes in Base64, which all who hold them share.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Base64(Arc<str>);

impl Base64 {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for Base64 {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl fmt::Debug for Base64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Base64({} bytes)", self.0.len())
    }
}
