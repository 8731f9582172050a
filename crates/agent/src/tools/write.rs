//! `Write`: a whole file; it never overwrites what the agent has not seen.

use std::sync::Mutex;

use serde::Deserialize;
use serde_json::{Value, json};

use super::files::{self, Seen};
use super::input::{parse, property, spec as tool_spec};
use super::place::{Place, Root};
use super::{Action, Prepared};
use crate::host::{ToolOutput, ToolSpec};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    file_path: String,
    content: String,
}

/// A call that is ready.
#[derive(Debug)]
pub(super) struct Write {
    place: Place,
    content: String,
}

pub(super) fn spec() -> ToolSpec {
    tool_spec(
        "Write",
        "Writes a whole file, with the directories it needs. A file that exists is replaced; you \
         must have read it before.",
        &["file_path", "content"],
        &json!({
            "file_path": property("string", "The file, relative to the workspace or absolute."),
            "content": property("string", "The complete new content."),
        }),
    )
}

pub(super) fn prepare(root: &Root, input: &Value) -> Result<Prepared, String> {
    let Input { file_path, content } = parse(&spec(), input)?;
    let place = root.place(&file_path)?;
    Ok(Prepared {
        class: place.edit_class(),
        subject: place.subject(true),
        description: format!("Write {} bytes to {}{}", content.len(), place.shown, place.note()),
        action: Action::Write(Write { place, content }),
    })
}

impl Write {
    pub(super) fn run(self, seen: &Mutex<Seen>) -> Result<ToolOutput, String> {
        let path = self.place.still()?;
        let shown = &self.place.shown;
        let old = files::content(path, shown)?;
        if let Some(old) = &old {
            Seen::check(seen, path, shown, old)?;
        }
        files::replace(path, self.content.as_bytes())
            .map_err(|error| format!("{shown} cannot be written: {error}."))?;
        Seen::remember(seen, path, self.content.as_bytes());
        let verb = if old.is_some() { "Replaced" } else { "Created" };
        let lines = self.content.lines().count();
        Ok(ToolOutput::changed(format!("{verb} {shown} ({lines} lines).")))
    }
}
