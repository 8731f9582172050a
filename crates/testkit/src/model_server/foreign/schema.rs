//! A value that a schema allows, for whoever insists on JSON; it knows no schema whole.

use serde_json::{Map, Value, json};

/// How deep a schema is followed.
const DEPTH: usize = 8;

/// The simplest value that a schema allows.
pub(super) fn sample(schema: &Value) -> Value {
    of(schema, DEPTH)
}

fn of(schema: &Value, depth: usize) -> Value {
    if let Some(first) = schema["enum"].as_array().and_then(|all| all.first()) {
        return first.clone();
    }
    if !schema["const"].is_null() {
        return schema["const"].clone();
    }
    let kind = match &schema["type"] {
        Value::String(kind) => kind.to_lowercase(),
        Value::Array(kinds) => kinds[0].as_str().unwrap_or_default().to_lowercase(),
        _ => "object".to_owned(),
    };
    match kind.as_str() {
        "string" => json!("ok"),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or_else(|| json!(0)),
        "boolean" => json!(false),
        "array" => json!([]),
        "null" => Value::Null,
        _ if depth == 0 => json!({}),
        _ => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            let fields = properties.map(|(name, field)| (name.clone(), of(field, depth - 1)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simplest_value_of_each_kind() {
        let schema = json!({"type": "OBJECT", "properties": {
            "reasoning": {"type": "STRING"},
            "model": {"type": "STRING", "enum": ["flash", "pro"]},
            "steps": {"type": "array", "items": {}},
            "sure": {"type": ["boolean", "null"]},
            "points": {"type": "integer", "minimum": 1},
        }});
        let expect = json!({
            "reasoning": "ok", "model": "flash", "steps": [], "sure": false, "points": 1,
        });
        assert_eq!(sample(&schema), expect);
    }
}
