//! `{{name}}` in a scenario's texts; a name that nobody captured is an error.

use std::collections::BTreeMap;

use serde_json::Value;

/// What was captured so far.
pub(super) type Captures = BTreeMap<String, String>;

/// Fills a text in.
pub(super) fn text(template: &str, captures: &Captures) -> Result<String, String> {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, behind)) = after.split_once("}}") else { break };
        out.push_str(before);
        out.push_str(value(name.trim(), captures)?);
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

/// Fills every text in a value in; a text that is `{{name:int}}` as a whole becomes a number.
pub(super) fn json(template: &Value, captures: &Captures) -> Result<Value, String> {
    Ok(match template {
        Value::String(template) => match whole_number(template) {
            Some(name) => {
                let text = value(name, captures)?;
                let number: i64 = text
                    .parse()
                    .map_err(|_| format!("{{{{{name}:int}}}}: {text:?} is no number"))?;
                Value::from(number)
            }
            None => Value::String(text(template, captures)?),
        },
        Value::Array(values) => {
            Value::Array(values.iter().map(|v| json(v, captures)).collect::<Result<_, _>>()?)
        }
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .map(|(name, v)| Ok((name.clone(), json(v, captures)?)))
                .collect::<Result<_, String>>()?,
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => template.clone(),
    })
}

fn whole_number(template: &str) -> Option<&str> {
    let name = template.strip_prefix("{{")?.strip_suffix(":int}}")?;
    (!name.contains('{')).then(|| name.trim())
}

fn value<'a>(name: &str, captures: &'a Captures) -> Result<&'a str, String> {
    captures.get(name).map(String::as_str).ok_or_else(|| {
        let known: Vec<&str> = captures.keys().map(String::as_str).collect();
        format!("{{{{{name}}}}} was not captured (captured: {})", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_filled_in_everywhere() {
        let captures: Captures =
            [("a", "x"), ("n", "12")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        assert_eq!(text("{{a}}-{{ n }}-{{", &captures).unwrap(), "x-12-{{");
        assert_eq!(
            json(&json!({ "t": "{{a}}", "l": ["{{n:int}}", "{{n}}", 1, true] }), &captures)
                .unwrap(),
            json!({ "t": "x", "l": [12, "12", 1, true] })
        );
        assert_eq!(
            text("{{b}}", &captures).unwrap_err(),
            "{{b}} was not captured (captured: a, n)"
        );
        assert_eq!(
            json(&json!("{{a:int}}"), &captures).unwrap_err(),
            "{{a:int}}: \"x\" is no number"
        );
    }
}
