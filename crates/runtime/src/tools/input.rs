//! Reads tool inputs, and says what would have been right where one is wrong.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use aion_agent::host::fields;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Parses an input; the error names the fields of the schema.
pub(super) fn parse<T: DeserializeOwned>(input: &Value, schema: &Value) -> Result<T, String> {
    // Models leave an empty input out in more than one way.
    let input = match input {
        Value::Null => Value::Object(serde_json::Map::new()),
        Value::String(text) if text.trim().is_empty() => Value::Object(serde_json::Map::new()),
        // What is given as null is not given. Below this it can mean something else.
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        other => other.clone(),
    };
    serde_json::from_value(input).map_err(|error| format!("{error}; {}", fields(schema)))
}

/// An id that a model writes as a number or as text, with or without its prefix.
#[derive(Clone, Debug)]
pub(super) struct Id<T>(pub(super) T);

impl<'de, T> Deserialize<'de> for Id<T>
where
    T: FromStr,
    T::Err: fmt::Display,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(u64),
            Text(String),
        }
        let text = match Either::deserialize(deserializer)? {
            Either::Number(number) => number.to_string(),
            Either::Text(text) => text,
        };
        text.trim().parse().map(Self).map_err(serde::de::Error::custom)
    }
}

/// Notes as our schema has them, or as the map that other clients send.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes(pub(super) BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Notes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Note {
            key: String,
            value: String,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            List(Vec<Note>),
            Map(BTreeMap<String, Value>),
        }
        let notes = match Either::deserialize(deserializer)? {
            Either::List(notes) => notes.into_iter().map(|note| (note.key, note.value)).collect(),
            Either::Map(map) => map
                .into_iter()
                .map(|(key, value)| {
                    let value = match value {
                        // In the other clients null deletes a key.
                        Value::Null => String::new(),
                        Value::String(text) => text,
                        other => other.to_string(),
                    };
                    (key, value)
                })
                .collect(),
        };
        Ok(Self(notes))
    }
}
