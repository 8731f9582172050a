//! The settings as a JSON Schema, for editors; it is made from the list of settings.

use serde_json::{Map, Value, json};

use super::keys::{Kind, keys};
use super::rules::TABLE;
use crate::agents::TABLE as AGENTS;
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
    tables.insert(AGENTS.to_owned(), agents());
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of aion",
        "type": "object",
        "additionalProperties": false,
        "properties": tables,
    })
}

/// Agents that are programs, each by its name.
fn agents() -> Value {
    let text = |what: &str| json!({ "type": "string", "description": what });
    let texts =
        |what: &str| json!({ "type": "array", "items": { "type": "string" }, "description": what });
    let modes = ["default", "accept_edits", "plan", "bypass", "start"]
        .map(|mode| (mode.to_owned(), json!({ "type": "string" })));
    json!({
        "type": "object",
        "description": "Agents that are programs of their own: changes to those that are known, and your own. Only your own file names them.",
        "additionalProperties": {
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "like": text("The known agent that it is but for what stands here; the one of its own name if there is one."),
                "name": text("Its name for people."),
                "command": text("The program that speaks ACP: a name on the path, or a place that is named whole or from ~/."),
                "args": texts("Its arguments."),
                "env": {
                    "type": "object",
                    "additionalProperties": { "type": "string" },
                    "description": "What it finds in its environment; env:NAME takes a variable's value.",
                },
                "inherit": texts("Variables of yours that it is handed, too; a * at the end stands for all that begin so."),
                "mcp": { "enum": ["stdio", "http"], "description": "How it reaches the tools of its team." },
                "mcp_start": { "enum": ["eager", "lazy"], "description": "Whether it begins the team's tools with its session, or when it first needs one." },
                "model_args": texts("Arguments that choose a model, with {model} for its id; by the protocol without them."),
                "minimum_node": { "type": "integer", "minimum": 1, "description": "The oldest Node that it runs with." },
                "modes": {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": Map::from_iter(modes),
                    "description": "Its own names for the permission modes.",
                },
                "login": text("The command that signs you in."),
                "disabled": { "type": "boolean", "default": false },
            },
        },
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
