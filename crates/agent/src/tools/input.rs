//! A tool's input, strictly read: what does not fit is refused with the fields that would.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::host::ToolSpec;

/// Reads an input; the error names the tool's fields.
pub(super) fn parse<T: DeserializeOwned>(spec: &ToolSpec, input: &Value) -> Result<T, String> {
    serde_json::from_value(without_nulls(input))
        .map_err(|error| format!("{}: {error}; {}.", spec.name, spec.fields()))
}

/// An input as if what is given as null were not given: some models have to name every field.
fn without_nulls(input: &Value) -> Value {
    match input {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), without_nulls(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => input.clone(),
    }
}

/// A tool's spec with a strict object schema.
pub(super) fn spec(
    name: &str,
    description: &str,
    required: &[&str],
    properties: &Value,
) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema: object(required, properties),
    }
}

/// A strict object schema.
pub(super) fn object(required: &[&str], properties: &Value) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// A property of a schema.
pub(super) fn property(kind: &str, description: &str) -> Value {
    json!({ "type": kind, "description": description })
}
