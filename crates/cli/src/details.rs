//! What a person is asked to allow, in full and line by line; nothing in it acts on a terminal or
//! passes for words of the program.

use aion_core::request::RequestKind;
use serde_json::Value;

use crate::terminal::visible;

/// Up to so many characters one line says it all.
const SHORT: usize = 60;
/// Stands before each line that somebody else wrote.
const QUOTED: &str = "│ ";

/// Everything that an answer is about; nothing where the one line `what` says it all.
pub(crate) fn details(kind: &RequestKind, what: &str) -> Vec<String> {
    let mut lines = Vec::new();
    match kind {
        RequestKind::Permission(ask) => {
            input(&ask.input, &mut lines);
            lines.push(format!("directory: {}", visible(&ask.cwd)));
        }
        RequestKind::Network(_)
        | RequestKind::Plan(_)
        | RequestKind::Shutdown(_)
        | RequestKind::Spawn(_)
        | RequestKind::CreateTeam(_)
        | RequestKind::RaiseBudget(_)
        | RequestKind::DeleteTeam => long(what, &mut lines),
        RequestKind::Question(question) => {
            long(what, &mut lines);
            for (at, option) in question.options.iter().enumerate() {
                if !is_short(option) {
                    lines.push(format!("answer {}:", at + 1));
                    quote(option, &mut lines);
                }
            }
        }
    }
    lines
}

fn is_short(text: &str) -> bool {
    !text.contains('\n') && text.chars().count() <= SHORT
}

fn long(text: &str, lines: &mut Vec<String>) {
    if !is_short(text) {
        quote(text, lines);
    }
}

fn quote(text: &str, lines: &mut Vec<String>) {
    let text = text.strip_suffix('\n').unwrap_or(text);
    lines.extend(text.split('\n').map(|line| format!("{QUOTED}{}", visible(line))));
}

/// A tool's input, field by field. One that was cut is shown as far as it was kept.
fn input(text: &str, lines: &mut Vec<String>) {
    if let Ok(value) = serde_json::from_str(text) {
        return fields("", &value, lines);
    }
    let (kept, note) = text.rfind('…').map_or((text, ""), |at| text.split_at(at));
    match completed(kept) {
        Some(value) => fields("", &value, lines),
        None => quote(kept, lines),
    }
    lines.push(format!("! This is not all of it: it was too long to be kept. {}", visible(note)));
}

/// JSON whose end is missing, with the likeliest end.
fn completed(kept: &str) -> Option<Value> {
    // An escape may have been cut in two: it is at most twelve bytes long.
    let cuts = kept.char_indices().rev().map(|(at, _)| at).take(12);
    std::iter::once(kept.len()).chain(cuts).find_map(|end| {
        ["\"}", "}", "\"}]}", "}]}", "]}"]
            .iter()
            .find_map(|close| serde_json::from_str(&format!("{}{close}", &kept[..end])).ok())
    })
}

fn fields(name: &str, value: &Value, lines: &mut Vec<String>) {
    let within = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name} {key}") };
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                fields(&within(&visible(key)), value, lines);
            }
        }
        Value::Array(items) => {
            for (at, value) in items.iter().enumerate() {
                fields(&within(&(at + 1).to_string()), value, lines);
            }
        }
        Value::String(text) if text.contains('\n') => {
            lines.push(format!("{name}:"));
            quote(text, lines);
        }
        Value::String(text) => lines.push(format!("{name}: {}", visible(text))),
        Value::Null | Value::Bool(_) | Value::Number(_) => lines.push(format!("{name}: {value}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &[&str]) {
        let mut lines = Vec::new();
        input(text, &mut lines);
        assert_eq!(lines, expect, "{text}");
    }

    #[test]
    fn an_input_is_shown_as_it_will_be_used() {
        check(
            r##"{"command":"# count the files\nrm -rf site\n","timeout_seconds":5}"##,
            &["command:", "│ # count the files", "│ rm -rf site", "timeout_seconds: 5"],
        );
        check(
            r#"{"edits":[{"new_string":"b\u001b[2K","old_string":"a\tb"}],"file_path":"x"}"#,
            &["edits 1 new_string: b\\u{1b}[2K", "edits 1 old_string: a    b", "file_path: x"],
        );
    }

    #[test]
    fn what_was_cut_says_so() {
        let much = "! This is not all of it: it was too long to be kept. … (9 bytes more)";
        check(r#"{"command":"ls\nec… (9 bytes more)"#, &["command:", "│ ls", "│ ec", much]);
        check(r#"{"command":"ls \u00… (9 bytes more)"#, &["command: ls ", much]);
        check(r#"{"edits":[{"old_string":"a… (9 bytes more)"#, &["edits 1 old_string: a", much]);
    }
}
