//! The hash that binds a decision to one action; never more than a hash.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// The hash that binds a decision to exactly one action.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionHash([u8; 32]);

impl ActionHash {
    /// Of a tool call: canonical JSON (RFC 8785) of tool, input and working directory.
    #[must_use]
    pub fn of_tool(tool: &str, input: &serde_json::Value, cwd: &str) -> Self {
        let action = serde_json::json!({ "tool": tool, "input": input, "cwd": cwd });
        // Canonical form fails only on numbers that JSON text cannot hold; such a value is hashed
        // in its plain form, which is just as exact.
        let bytes = serde_json_canonicalizer::to_vec(&action)
            .unwrap_or_else(|_| action.to_string().into_bytes());
        Self(Sha256::digest(bytes).into())
    }

    /// Of a text, for example a plan.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }
}

impl fmt::Display for ActionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ActionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActionHash({self})")
    }
}

impl Serialize for ActionHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ActionHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut out = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return Err(D::Error::custom("a hash has 64 hexadecimal digits"));
        }
        for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(D::Error::custom)?;
            *byte = u8::from_str_radix(pair, 16).map_err(D::Error::custom)?;
        }
        Ok(Self(out))
    }
}
