//! Builds the tools' input schemas: closed objects of plain types, which every provider accepts.

use serde_json::{Map, Value, json};

/// One field of an input.
pub(super) struct Field {
    name: &'static str,
    required: bool,
    schema: Value,
}

impl Field {
    pub(super) fn required(mut self) -> Self {
        self.required = true;
        self
    }
}

fn field(name: &'static str, schema: Value) -> Field {
    Field { name, required: false, schema }
}

pub(super) fn text(name: &'static str, description: &str) -> Field {
    field(name, json!({ "type": "string", "description": description }))
}

pub(super) fn choice(name: &'static str, description: &str, choices: &[&str]) -> Field {
    field(name, json!({ "type": "string", "description": description, "enum": choices }))
}

pub(super) fn flag(name: &'static str, description: &str) -> Field {
    field(name, json!({ "type": "boolean", "description": description }))
}

pub(super) fn number(name: &'static str, description: &str) -> Field {
    field(name, json!({ "type": "integer", "description": description }))
}

pub(super) fn texts(name: &'static str, description: &str) -> Field {
    let items = json!({ "type": "string" });
    field(name, json!({ "type": "array", "description": description, "items": items }))
}

/// Free notes: a list of keys and values, because an open map is not strict.
pub(super) fn notes(name: &'static str, description: &str) -> Field {
    let item = object(&[
        text("key", "The note's name.").required(),
        text("value", "Its value; empty deletes it.").required(),
    ]);
    field(name, json!({ "type": "array", "description": description, "items": item }))
}

/// A closed object.
pub(super) fn object(fields: &[Field]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|field| (field.name.to_owned(), field.schema.clone())).collect();
    let required: Vec<&str> =
        fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}
