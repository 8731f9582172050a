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
        // The canonical form writes every number as a double. An input with an integer that a double
        // cannot hold is hashed in its plain form, whose keys are in order as well.
        let canonical = if is_exact_in_doubles(&action) {
            serde_json_canonicalizer::to_vec(&action).ok()
        } else {
            None
        };
        let bytes = canonical.unwrap_or_else(|| action.to_string().into_bytes());
        Self(Sha256::digest(bytes).into())
    }

    /// Of a host.
    #[must_use]
    pub fn of_host(host: &str) -> Self {
        Self::of_text(&format!("host {host}"))
    }

    /// Of a text, for example a plan.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }
}

/// Whether every integer is one that a double holds exactly.
fn is_exact_in_doubles(value: &serde_json::Value) -> bool {
    const MOST: u64 = 1 << 53;
    match value {
        serde_json::Value::Number(n) => {
            n.as_u64().is_none_or(|n| n <= MOST)
                && n.as_i64().is_none_or(|n| n.unsigned_abs() <= MOST)
        }
        serde_json::Value::Array(items) => items.iter().all(is_exact_in_doubles),
        serde_json::Value::Object(fields) => fields.values().all(is_exact_in_doubles),
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::String(_) => true,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_difference_in_an_input_is_another_hash() {
        let hash =
            |json: &str| ActionHash::of_tool("T", &serde_json::from_str(json).unwrap(), "/w");
        assert_eq!(hash(r#"{"a":1,"b":2}"#), hash(r#"{"b":2,"a":1}"#));
        for (one, other) in [
            (r#"{"id":9007199254740993}"#, r#"{"id":9007199254740992}"#),
            (r#"{"id":-9007199254740993}"#, r#"{"id":-9007199254740992}"#),
            (r#"{"id":18446744073709551615}"#, r#"{"id":18446744073709551614}"#),
            (r#"{"a":"1"}"#, r#"{"a":1}"#),
            (r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#),
        ] {
            assert_ne!(hash(one), hash(other), "{one} {other}");
        }
        assert_ne!(ActionHash::of_tool("T", &serde_json::json!({}), "/a"), hash("{}"));
    }
}
