//! The description of the API: complete, and the one that is kept in the repository.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::world::{DOCUMENT, operations};

/// The description that clients are generated from.
const KEPT: &str = include_str!("../../openapi.json");

#[test]
fn the_description_in_the_repository_is_the_one_that_is_served() {
    let served = format!("{}\n", aion_server::document());
    if served != KEPT {
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("openapi.json");
        std::fs::write(&path, served).unwrap();
        panic!(
            "crates/server/openapi.json is not what is served; if that is meant: \
             cp {} crates/server/openapi.json",
            path.display()
        );
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_operation_has_its_own_name() {
    let mut references = BTreeSet::new();
    collect(&DOCUMENT, &mut references);
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(DOCUMENT.pointer(pointer).is_some(), "{reference}");
    }
    assert!(operations().len() > 35);
    for (path, methods) in DOCUMENT["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let text = operation["summary"].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "{method} {path} says nothing");
            for status in ["401", "403", "404", "405", "503"] {
                assert!(!operation["responses"][status].is_null(), "{method} {path}: {status}");
            }
        }
    }
    let ids: Vec<&str> = DOCUMENT["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|methods| methods.as_object().unwrap().values())
        .map(|operation| operation["operationId"].as_str().unwrap())
        .collect();
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(unique.len(), ids.len(), "{ids:?}");
}

fn collect(value: &Value, references: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref") {
                references.insert(reference.clone());
            }
            fields.values().for_each(|field| collect(field, references));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, references)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
