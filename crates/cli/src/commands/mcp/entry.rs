//! Enters our server into a client's file, or takes it out, and leaves all else in it as it is. What
//! cannot be understood is not touched.

use serde_json::{Map, Value, json};
use toml_edit::DocumentMut;

use super::clients::{Form, NAME};

/// Why nothing is entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It stands there already.
    There,
    /// The file is not what it is thought to be.
    Unreadable(String),
}

/// A file with our server in it.
pub(super) fn entered(before: &str, form: &Form) -> Result<String, Refusal> {
    match form {
        Form::Json(path, entry) => json_entered(before, path, entry),
        Form::Toml(text) => {
            let document: DocumentMut =
                before.parse().map_err(|error: toml_edit::TomlError| unreadable(&error))?;
            let servers = document.get("mcp_servers").and_then(|item| item.as_table_like());
            if servers.is_some_and(|servers| servers.contains_key(NAME)) {
                return Err(Refusal::There);
            }
            let gap = if before.trim().is_empty() { "" } else { "\n" };
            let end = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
            let after = format!("{before}{end}{gap}{text}");
            after.parse::<DocumentMut>().map_err(|error| unreadable(&error))?;
            Ok(after)
        }
        Form::Shown(_) => Err(Refusal::Unreadable("this form is not written by aion".to_owned())),
    }
}

/// Whether our server stands in a file.
pub(super) fn stands_in(text: &str, form: &Form) -> bool {
    entered(text, form) == Err(Refusal::There)
}

/// A file without our server; none where it does not stand there.
pub(super) fn taken_out(before: &str, form: &Form) -> Result<Option<String>, Refusal> {
    if before.trim().is_empty() {
        return Ok(None);
    }
    match form {
        Form::Json(path, _) => json_taken_out(before, path),
        Form::Toml(_) => {
            let mut document: DocumentMut =
                before.parse().map_err(|error: toml_edit::TomlError| unreadable(&error))?;
            let servers = document.get_mut("mcp_servers").and_then(|item| item.as_table_like_mut());
            let found = servers.and_then(|servers| servers.remove(NAME));
            Ok(found.map(|_| document.to_string()))
        }
        Form::Shown(_) => Err(Refusal::Unreadable("this form is not written by aion".to_owned())),
    }
}

fn json_taken_out(before: &str, path: &[&str]) -> Result<Option<String>, Refusal> {
    let mut expected: Value = serde_json::from_str(before).map_err(|error| unreadable(&error))?;
    let mut place = Some(&mut expected);
    for name in path {
        place = place.and_then(|inner| inner.get_mut(*name));
    }
    if place.and_then(Value::as_object_mut).and_then(|fields| fields.remove(NAME)).is_none() {
        return Ok(None);
    }
    let plain = || Refusal::Unreadable("where the servers stand is not plain".to_owned());
    let mut open = before.find('{').ok_or_else(plain)? + 1;
    for name in path {
        open = find_object(before, open, name).ok_or_else(plain)?;
    }
    let (begin, end) = find_field(before, open, NAME).ok_or_else(plain)?;
    let (head, rest) = (before[..begin].trim_end(), before[end..].trim_start());
    let after = match (head.strip_suffix(','), rest.strip_prefix(',')) {
        // Another one follows: it moves to where ours began.
        (_, Some(rest)) => format!("{}{}", &before[..begin], rest.trim_start()),
        (Some(head), None) => format!("{head}{}", &before[end..]),
        (None, None) => format!("{head}{rest}"),
    };
    match serde_json::from_str::<Value>(&after) {
        Ok(found) if found == expected => Ok(Some(after)),
        Ok(_) | Err(_) => Err(plain()),
    }
}

fn json_entered(before: &str, path: &[&str], entry: &Value) -> Result<String, Refusal> {
    let empty = before.trim().is_empty();
    let text = if empty { "{}\n" } else { before };
    let value: Value = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
    let mut expected = value;
    let mut place = &mut expected;
    for name in path {
        let fields = place.as_object_mut().ok_or_else(|| not_an_object(name))?;
        place = fields.entry(*name).or_insert_with(|| json!({}));
    }
    let fields = place.as_object_mut().ok_or_else(|| not_an_object(NAME))?;
    if fields.contains_key(NAME) {
        return Err(Refusal::There);
    }
    fields.insert(NAME.to_owned(), entry.clone());
    let after = inserted(text, path, entry)
        .ok_or_else(|| Refusal::Unreadable("where the servers stand is not plain".to_owned()))?;
    // What was put in by its place has to mean what was meant.
    match serde_json::from_str::<Value>(&after) {
        Ok(found) if found == expected => Ok(after),
        Ok(_) | Err(_) => {
            Err(Refusal::Unreadable("it would not mean what is meant afterwards".to_owned()))
        }
    }
}

/// Puts the entry at the beginning of its table, with the tables that are missing around it.
fn inserted(text: &str, path: &[&str], entry: &Value) -> Option<String> {
    let mut place = text.find('{')? + 1;
    let mut missing = path;
    while let [name, rest @ ..] = missing {
        let Some(inner) = find_object(text, place, name) else { break };
        place = inner;
        missing = rest;
    }
    let depth = path.len() - missing.len() + 1;
    let (key, value) = match missing {
        [] => (NAME, entry.clone()),
        [first, rest @ ..] => {
            let inner: Map<String, Value> =
                [(NAME.to_owned(), entry.clone())].into_iter().collect();
            let value =
                rest.iter().rev().fold(Value::Object(inner), |inner, name| json!({ *name: inner }));
            (*first, value)
        }
    };
    let indent = "  ".repeat(depth);
    let shown = serde_json::to_string_pretty(&value).ok()?.replace('\n', &format!("\n{indent}"));
    let rest = &text[place..];
    let (comma, end) = if rest.trim_start().starts_with('}') {
        ("", format!("\n{}", "  ".repeat(depth - 1)))
    } else {
        (",", String::new())
    };
    let rest = if comma.is_empty() { rest.trim_start() } else { rest };
    Some(format!("{}\n{indent}\"{key}\": {shown}{comma}{end}{rest}", &text[..place]))
}

/// Where the object of a field begins, right after its brace; `from` is inside of the object that
/// has the field.
fn find_object(text: &str, from: usize, name: &str) -> Option<usize> {
    let wanted = format!("\"{name}\"");
    let (mut depth, mut at) = (0_usize, from);
    let bytes = text.as_bytes();
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let end = string_end(bytes, at)?;
                let rest = text[end..].trim_start();
                let is_field = depth == 0 && text[at..end] == wanted && rest.starts_with(':');
                if is_field {
                    let open = text[end..].find('{')? + end;
                    let between = text[end..open].trim();
                    return (between == ":").then_some(open + 1);
                }
                at = end;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        at += 1;
    }
    None
}

/// Where a field begins and where its value ends; `from` is inside of the object that has it.
fn find_field(text: &str, from: usize, name: &str) -> Option<(usize, usize)> {
    let wanted = format!("\"{name}\"");
    let bytes = text.as_bytes();
    let (mut depth, mut at, mut begin) = (0_usize, from, None);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let end = string_end(bytes, at)?;
                let is_field = text[end..].trim_start().starts_with(':');
                if depth == 0 && begin.is_none() && is_field && text[at..end] == wanted {
                    begin = Some(at);
                }
                at = end;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return begin.map(|begin| (begin, ended(text, at))),
            b'}' | b']' => depth -= 1,
            b',' if depth == 0 => {
                if let Some(begin) = begin {
                    return Some((begin, ended(text, at)));
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// The end of what stands before a place, without the space between.
fn ended(text: &str, at: usize) -> usize {
    text[..at].trim_end().len()
}

/// The end of a string that begins at a place, after its closing quote.
fn string_end(bytes: &[u8], begin: usize) -> Option<usize> {
    let mut at = begin + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}

fn not_an_object(name: &str) -> Refusal {
    Refusal::Unreadable(format!("{name:?} stands in something that is no object"))
}

fn unreadable(error: &dyn std::fmt::Display) -> Refusal {
    Refusal::Unreadable(error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::super::clients::home;
    use super::*;
    use crate::args::McpClient;

    #[test]
    fn an_entry_is_put_in_and_nothing_else_changes() {
        let form = Form::Json(&["mcpServers"], json!({ "command": "aion" }));
        let check = |before: &str, expect: &str| {
            assert_eq!(entered(before, &form).unwrap(), expect);
            assert!(stands_in(expect, &form));
        };
        let fresh =
            "{\n  \"mcpServers\": {\n    \"aion\": {\n      \"command\": \"aion\"\n    }\n  }\n}\n";
        check("", fresh);
        check("{}\n", fresh);
        check(
            "{\n  \"theme\": \"dark\"\n}\n",
            "{\n  \"mcpServers\": {\n    \"aion\": {\n      \"command\": \"aion\"\n    }\n  },\n  \"theme\": \"dark\"\n}\n",
        );
        check(
            "{ \"a\": {\"mcpServers\": {}}, \"mcpServers\": { \"x\": {\"b\": \"}\\\"{\"} } }",
            "{ \"a\": {\"mcpServers\": {}}, \"mcpServers\": {\n    \"aion\": {\n      \"command\": \"aion\"\n    }, \"x\": {\"b\": \"}\\\"{\"} } }",
        );
        for bad in ["[]", "{ // a comment\n}", "{\"mcpServers\": []}"] {
            assert!(matches!(entered(bad, &form), Err(Refusal::Unreadable(_))), "{bad}");
        }
    }

    #[test]
    fn what_was_put_in_can_be_taken_out() {
        let form = Form::Json(&["mcpServers"], json!({ "command": "aion" }));
        let check = |before: &str, expect: Option<&str>| {
            assert_eq!(taken_out(before, &form), Ok(expect.map(str::to_owned)), "{before}");
        };
        check("", None);
        check("{}", None);
        check("{\"mcpServers\": {\"x\": {}}}", None);
        check("{\"mcpServers\": {\n  \"aion\": {}\n}}", Some("{\"mcpServers\": {}}"));
        check(
            "{\"mcpServers\": {\n  \"aion\": {\"a\": [1, 2]},\n  \"x\": {}\n}}",
            Some("{\"mcpServers\": {\n  \"x\": {}\n}}"),
        );
        check(
            "{\"mcpServers\": {\n  \"x\": {\"aion\": 1},\n  \"aion\": {}\n}}",
            Some("{\"mcpServers\": {\n  \"x\": {\"aion\": 1}\n}}"),
        );
        for before in ["{\n  \"theme\": \"dark\"\n}\n", "{\"mcpServers\": {\"x\": {\"b\": \"}\"}}}"]
        {
            let after = entered(before, &form).unwrap();
            let back = taken_out(&after, &form).unwrap().unwrap();
            let servers =
                |text: &str| serde_json::from_str::<Value>(text).unwrap()["mcpServers"].clone();
            assert!(servers(&back).get(NAME).is_none());
        }
        let codex = home(McpClient::Codex).form;
        let after = entered("# mine\nmodel = \"x\"\n", &codex).unwrap();
        assert_eq!(taken_out(&after, &codex), Ok(Some("# mine\nmodel = \"x\"\n".to_owned())));
    }

    #[test]
    fn a_table_is_added_at_the_end() {
        let form = home(McpClient::Codex).form;
        let after = entered("# mine\nmodel = \"x\"", &form).unwrap();
        assert!(after.starts_with("# mine\nmodel = \"x\"\n\n[mcp_servers.aion]\n"), "{after}");
        assert_eq!(entered(&after, &form), Err(Refusal::There));
        assert!(matches!(entered("[", &form), Err(Refusal::Unreadable(_))));
    }

    #[test]
    fn what_is_shown_for_a_client_is_what_an_empty_file_gets() {
        for client in McpClient::value_variants() {
            let form = home(*client).form;
            if matches!(form, Form::Shown(_)) {
                continue;
            }
            assert_eq!(entered("", &form).unwrap(), form.text(), "{client:?}");
        }
    }
}
