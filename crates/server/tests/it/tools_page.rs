//! The page about the team's tools lists those that there are.

use std::fmt::Write;
use std::sync::Arc;

use aion_core::agent::Role;
use aion_runtime::tools::{Catalogue, TeamTools, ToolEffect};
use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/mcp.md");
const BEGIN: &str = "<!-- made from the registry: tools -->\n";
const END: &str = "<!-- end -->";

#[test]
fn the_page_lists_the_tools_that_there_are() {
    let (before, rest) = PAGE.split_once(BEGIN).unwrap();
    let (listed, after) = rest.split_once(END).unwrap();
    let tools = table();
    if listed != tools {
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcp.md");
        std::fs::write(&path, format!("{before}{BEGIN}{tools}{END}{after}")).unwrap();
        panic!(
            "docs/mcp.md does not list the tools that there are; cp {} docs/mcp.md",
            path.display()
        );
    }
}

fn table() -> String {
    let tools = TeamTools::new(Arc::new(Catalogue::default()));
    let teammates: Vec<String> =
        tools.offers(Role::Teammate).iter().map(|offer| offer.spec.name.clone()).collect();
    let mut text = String::from("| Tool | For | Takes | What it does |\n|---|---|---|---|\n");
    for offer in tools.offers(Role::Lead) {
        let spec = &offer.spec;
        let who = if teammates.contains(&spec.name) { "all" } else { "the lead" };
        let effect = match offer.effect {
            ToolEffect::Reads => " *Only reads.*",
            ToolEffect::Changes => "",
            ToolEffect::Ends => " *Can end a member.*",
        };
        let fields = fields(&spec.input_schema);
        writeln!(text, "| `{}` | {who} | {fields} | {}{effect} |", spec.name, spec.description)
            .unwrap();
    }
    text
}

/// The fields of an input; one that has to be there is set in bold.
fn fields(schema: &Value) -> String {
    let required = schema["required"].as_array().unwrap();
    let names = schema["properties"].as_object().unwrap().keys().map(|name| {
        if required.iter().any(|needed| needed == name) {
            format!("**`{name}`**")
        } else {
            format!("`{name}`")
        }
    });
    let all: Vec<String> = names.collect();
    if all.is_empty() { "–".to_owned() } else { all.join(", ") }
}
