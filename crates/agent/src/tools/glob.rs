//! `Glob`: files by name; it never reads them.

use std::sync::Arc;

use globset::GlobBuilder;
use serde::Deserialize;
use serde_json::{Value, json};

use super::input::{parse, property, spec as tool_spec};
use super::place::{Place, Root};
use super::search::{Hidden, Stop, walk};
use super::{Action, Prepared};
use crate::host::{ToolOutput, ToolSpec};
use crate::permission::Rulebook;

const MAX_FILES: usize = 500;
const MAX_BYTES: usize = 64 * 1024;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    pattern: String,
    path: Option<String>,
}

/// A call that is ready.
#[derive(Debug)]
pub(super) struct Glob {
    place: Place,
    pattern: String,
    hidden: Option<Arc<Rulebook>>,
}

pub(super) fn spec() -> ToolSpec {
    tool_spec(
        "Glob",
        "Lists files whose path matches a glob pattern such as \"**/*.rs\" or \"src/*.{js,ts}\". \
         Files that git ignores are left out.",
        &["pattern"],
        &json!({
            "pattern": property("string", "The pattern, matched against the path below the directory."),
            "path": property("string", "The directory to look in; the workspace if not given."),
        }),
    )
}

pub(super) fn prepare(root: &Root, input: &Value) -> Result<Prepared, String> {
    let Input { pattern, path } = parse(&spec(), input)?;
    let place = root.place(path.as_deref().unwrap_or("."))?;
    Ok(Prepared {
        class: place.read_class(),
        subject: place.subject(false),
        description: format!("List {pattern} in {}{}", place.shown, place.note()),
        action: Action::Glob(Glob { place, pattern, hidden: None }),
    })
}

impl Glob {
    pub(super) fn hide(&mut self, book: Arc<Rulebook>) {
        self.hidden = Some(book);
    }

    pub(super) fn run(mut self, stop: &Stop) -> Result<ToolOutput, String> {
        let matcher = GlobBuilder::new(&self.pattern)
            .literal_separator(true)
            .build()
            .map_err(|error| format!("Glob: {error}."))?
            .compile_matcher();
        let directory = self.place.still()?;
        if !directory.is_dir() {
            return Err(format!("{} is no directory.", self.place.shown));
        }
        let (mut found, mut bytes) = (Vec::new(), 0);
        for entry in walk(directory, Hidden(self.hidden.take())).filter_map(Result::ok) {
            if stop.is_set() {
                return Err("The search was stopped.".to_owned());
            }
            let Ok(relative) = entry.path().strip_prefix(directory) else { continue };
            if entry.file_type().is_some_and(|kind| !kind.is_dir()) && matcher.is_match(relative) {
                if found.len() == MAX_FILES || bytes > MAX_BYTES {
                    found.push(format!("(the first {}; there are more)", found.len()));
                    break;
                }
                let name = relative.display().to_string();
                bytes += name.len();
                found.push(name);
            }
        }
        if found.is_empty() {
            return Ok(ToolOutput::read(format!("No file matches {}.", self.pattern)));
        }
        Ok(ToolOutput::read(found.join("\n")))
    }
}
