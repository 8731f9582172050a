//! The settings as a JSON Schema, for editors; it is made from the list of settings.

use serde_json::{Map, Value, json};

use super::keys::{Kind, keys};
use super::rules::TABLE;
use crate::servers::TABLE as SERVERS;

/// The schema of a file of settings.
pub(crate) fn schema() -> Value {
    let mut tables: Map<String, Value> = Map::new();
    for key in keys() {
        let (outer, field) = key.name.rsplit_once('.').unwrap_or(("", key.name));
        let mut value = match &key.kind {
            Kind::Time => json!({ "type": "string", "pattern": "^[1-9][0-9]*[smh]?$" }),
            Kind::TimeOrNever => {
                json!({ "type": "string", "pattern": "^([1-9][0-9]*[smh]?|never)$" })
            }
            Kind::Port => json!({ "type": "integer", "minimum": 0, "maximum": 65_535 }),
            Kind::OneOf(words) => json!({ "enum": words }),
            Kind::List => json!({ "type": "array", "items": { "type": "string" } }),
            Kind::Name => json!({ "type": "string", "pattern": "^[!-~]+$" }),
            Kind::Url => json!({ "type": "string", "pattern": "^https?://" }),
            Kind::Reference => {
                json!({ "type": "string", "pattern": "^env:[A-Za-z_][A-Za-z0-9_]*$" })
            }
        };
        value["description"] = key.about.into();
        if let Some(text) = key.built_in {
            value["default"] = text.parse::<u16>().map_or_else(|_| text.into(), Value::from);
        }
        let (table, inner) = match outer.split_once('.') {
            Some((table, inner)) => (table, Some(inner)),
            None => (outer, None),
        };
        let properties = &mut tables.entry(table).or_insert_with(object)["properties"];
        match inner {
            Some(inner) => {
                let inner =
                    properties.as_object_mut().map(|all| all.entry(inner).or_insert_with(object));
                if let Some(inner) = inner {
                    inner["properties"][field] = value;
                }
            }
            None => properties[field] = value,
        }
    }
    let rules = |what: &str| {
        json!({
            "type": "array",
            "items": { "type": "string", "pattern": "^[A-Za-z0-9_*-]+(\\(.+\\))?$" },
            "description": what,
        })
    };
    let permissions = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "allow": rules("What runs without asking, for example Bash(cargo test:*). In a project's file it counts only where the project is trusted."),
            "ask": rules("What is asked for, whatever the mode."),
            "deny": rules("What does not run."),
        },
    });
    tables.insert(TABLE.to_owned(), permissions);
    tables.insert(SERVERS.to_owned(), servers());
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of aion",
        "type": "object",
        "additionalProperties": false,
        "properties": tables,
    })
}

/// MCP servers, each by its name.
fn servers() -> Value {
    let text = |what: &str| json!({ "type": "string", "description": what });
    let texts = |what: &str| {
        json!({
            "type": "object",
            "additionalProperties": { "type": "string" },
            "description": what,
        })
    };
    let seconds = |what: &str| json!({ "type": "integer", "minimum": 1, "maximum": 3600, "description": what });
    json!({
        "type": "object",
        "description": "MCP servers whose tools your teams may have; only your own file names them.",
        "additionalProperties": {
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "command": text("The program to start, in the workspace."),
                "args": { "type": "array", "items": { "type": "string" } },
                "env": texts("What it finds in its environment; env:NAME takes a variable's value."),
                "sandbox": { "type": "boolean", "description": "Whether it runs behind the sandbox.", "default": false },
                "type": { "enum": ["stdio", "http"] },
                "url": text("The place to call by HTTP, instead of a program."),
                "headers": texts("What is sent with every call; env:NAME takes a variable's value."),
                "start_seconds": seconds("How long it may take to be ready; 60 if not given."),
                "call_seconds": seconds("How long a call may take; 120 if not given."),
                "disabled": { "type": "boolean", "default": false },
            },
        },
    })
}

fn object() -> Value {
    json!({ "type": "object", "additionalProperties": false, "properties": {} })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_is_this_one() {
        let published = include_str!("../../../../docs/config.schema.json");
        let made = serde_json::to_string_pretty(&schema()).unwrap();
        assert_eq!(published.trim_end(), made, "aion config schema > docs/config.schema.json");
    }
}
