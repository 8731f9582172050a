//! A tool call of an agent as it tells of it, piece by piece; it never says whether it may run.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::update::{cut, text, value};

/// The longest id of a call.
const ID_BYTES: usize = 1024;
/// The most bytes of one field of a call.
const FIELD_BYTES: usize = 1024 * 1024;
/// The most bytes of a call's output that are kept.
pub(super) const OUTPUT_BYTES: usize = 64 * 1024;
/// The most paths of one call.
const PATHS: usize = 256;
/// Fields that are kept as they are, for those who judge and for those who look.
const FIELDS: [&str; 6] = ["title", "name", "kind", "status", "rawInput", "_meta"];

/// What is new about a call.
#[derive(Debug, PartialEq)]
pub(super) struct CallNews {
    /// The call, by the agent's own id.
    pub(super) id: String,
    /// Its fields that were given.
    fields: Map<String, Value>,
    /// Its output so far, where it was given.
    output: Option<String>,
    /// Files that it is about.
    paths: Vec<String>,
    /// Whether it says how it changes files.
    changes: bool,
}

/// Where a call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallStatus {
    Pending,
    InProgress,
    Completed,
    Failed,
}

/// All that is known of a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Call {
    fields: Map<String, Value>,
    output: String,
    paths: Vec<String>,
    changes: bool,
}

#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    path: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Location<'a> {
    #[serde(borrow)]
    path: Cow<'a, str>,
}

/// The fields of an object, each as it is written.
type Fields<'a> = std::collections::BTreeMap<Cow<'a, str>, &'a RawValue>;

impl CallNews {
    /// Reads an update of a call, or the call of a request for permission; none without an id.
    pub(super) fn read(raw: &str) -> Option<Self> {
        let mut given: Fields<'_> = serde_json::from_str(raw).ok()?;
        given.retain(|_, raw| raw.get() != "null");
        let id: String = serde_json::from_str(given.get("toolCallId")?.get()).ok()?;
        if id.is_empty() || id.len() > ID_BYTES {
            return None;
        }
        let mut fields = Map::new();
        for name in FIELDS {
            if let Some(value) = given.get(name).and_then(|raw| value(raw, FIELD_BYTES)) {
                fields.insert(name.to_owned(), value);
            }
        }
        let mut news = Self { id, fields, output: None, paths: Vec::new(), changes: false };
        if let Some(content) = given.get("content") {
            news.read_content(content);
        }
        if news.output.is_none() {
            news.output = given.get("rawOutput").map(|raw| as_text(raw));
        }
        if let Some(locations) = given.get("locations") {
            let all: Vec<&RawValue> = serde_json::from_str(locations.get()).unwrap_or_default();
            for location in all {
                if let Ok(Location { path }) = serde_json::from_str(location.get()) {
                    news.add_path(&path);
                }
            }
        }
        Some(news)
    }

    fn read_content(&mut self, content: &RawValue) {
        let all: Vec<&RawValue> = serde_json::from_str(content.get()).unwrap_or_default();
        let mut output = String::new();
        for raw in all {
            let Ok(piece) = serde_json::from_str::<Piece<'_>>(raw.get()) else { continue };
            let shown = match (piece.kind.as_deref(), piece.path) {
                (Some("content"), _) => piece.content.and_then(text),
                (Some("diff"), Some(path)) => {
                    self.add_path(&path);
                    self.changes = true;
                    Some(format!("[changes {}]", cut(&path, 4096)))
                }
                (Some(_) | None, _) => None,
            };
            if let Some(shown) = shown.filter(|_| output.len() < OUTPUT_BYTES) {
                let line_end = if output.is_empty() { "" } else { "\n" };
                output.push_str(line_end);
                output.push_str(&shown);
            }
        }
        self.output = (!output.is_empty()).then(|| cut(&output, OUTPUT_BYTES));
    }

    fn add_path(&mut self, path: &str) {
        if self.paths.len() < PATHS && !self.paths.iter().any(|known| known == path) {
            self.paths.push(cut(path, 4096));
        }
    }
}

/// The output of a call that is not told in blocks.
fn as_text(raw: &RawValue) -> String {
    match serde_json::from_str::<Cow<'_, str>>(raw.get()) {
        Ok(text) => cut(&text, OUTPUT_BYTES),
        Err(_) => cut(raw.get(), OUTPUT_BYTES),
    }
}

impl Call {
    /// Takes in what is new. What was told before stays where nothing else is told.
    pub(super) fn learn(&mut self, news: CallNews) {
        self.fields.extend(news.fields);
        if let Some(output) = news.output {
            self.output = output;
        }
        for path in news.paths {
            if self.paths.len() < PATHS && !self.paths.contains(&path) {
                self.paths.push(path);
            }
        }
        self.changes |= news.changes;
    }

    /// Where it stands.
    pub(super) fn status(&self) -> CallStatus {
        match self.word("status") {
            Some("completed") => CallStatus::Completed,
            Some("failed") => CallStatus::Failed,
            Some("in_progress") => CallStatus::InProgress,
            Some(_) | None => CallStatus::Pending,
        }
    }

    /// Its title, for people.
    pub(super) fn title(&self) -> Option<&str> {
        self.word("title").filter(|title| !title.trim().is_empty())
    }

    /// What kind of call the agent says it is.
    pub(super) fn kind(&self) -> &str {
        self.word("kind").unwrap_or("other")
    }

    /// The tool, as the agent itself names it.
    pub(super) fn tool(&self) -> Option<&str> {
        let named = self.word("name");
        named.or_else(|| self.fields.get("_meta")?.pointer("/claudeCode/toolName")?.as_str())
    }

    /// Its input, where the agent told one with something in it.
    pub(super) fn input(&self) -> Option<&Value> {
        let is_empty = |input: &Value| match input {
            Value::Null => true,
            Value::Object(fields) => fields.is_empty(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => false,
        };
        self.fields.get("rawInput").filter(|input| !is_empty(input))
    }

    /// Its output so far.
    pub(super) fn output(&self) -> &str {
        &self.output
    }

    /// The files that it is about.
    pub(super) fn paths(&self) -> &[String] {
        &self.paths
    }

    /// Whether it told how it changes files.
    pub(super) fn changes(&self) -> bool {
        self.changes
    }

    /// Its fields, for whoever looks for a proof in them.
    pub(super) fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    fn word(&self, field: &str) -> Option<&str> {
        self.fields.get(field)?.as_str()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn news(value: &Value) -> CallNews {
        CallNews::read(&value.to_string()).unwrap()
    }

    #[test]
    fn a_call_is_put_together_from_what_is_told_of_it() {
        let mut call = Call::default();
        call.learn(news(&json!({
            "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Edit a.rs", "kind": "edit",
            "rawInput": { "file_path": "a.rs" }, "locations": [{ "path": "a.rs", "line": 3 }, 7],
        })));
        // As codex and vibe ask: without a title and without an input.
        call.learn(news(&json!({
            "toolCallId": "c1", "title": null, "rawInput": null, "kind": null,
            "content": [{ "type": "diff", "path": "b.rs", "newText": "x" }, { "type": "later" }, 3],
        })));
        assert_eq!((call.title(), call.kind()), (Some("Edit a.rs"), "edit"));
        assert_eq!(call.input(), Some(&json!({ "file_path": "a.rs" })));
        assert_eq!(call.paths(), ["a.rs", "b.rs"]);
        assert!(call.changes());
        assert_eq!(call.status(), CallStatus::Pending);
        call.learn(news(&json!({
            "toolCallId": "c1", "status": "completed",
            "content": [{ "type": "content", "content": { "type": "text", "text": "done" } }],
        })));
        assert_eq!((call.status(), call.output()), (CallStatus::Completed, "done"));
    }

    #[test]
    fn what_is_odd_about_a_call_costs_only_that() {
        let call = news(&json!({
            "toolCallId": "c", "title": 7, "kind": ["x"], "content": "text", "locations": {},
            "rawOutput": { "code": 0 }, "status": "paused",
        }));
        let mut all = Call::default();
        all.learn(call);
        assert_eq!((all.title(), all.kind(), all.tool()), (None, "other", None));
        assert_eq!((all.output(), all.status()), (r#"{"code":0}"#, CallStatus::Pending));
        for without_id in [json!({}), json!({ "toolCallId": "" }), json!({ "toolCallId": 7 })] {
            assert_eq!(CallNews::read(&without_id.to_string()), None);
        }
    }

    #[test]
    fn large_outputs_and_inputs_do_not_stay() {
        let long = "x".repeat(2 * 1024 * 1024);
        let call = news(&json!({ "toolCallId": "c", "rawInput": long, "rawOutput": long }));
        let mut all = Call::default();
        all.learn(call);
        assert_eq!(all.input(), None);
        assert!(all.output().len() <= OUTPUT_BYTES);
    }
}
