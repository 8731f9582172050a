//! `Read`: a file's lines, numbered, or an image; it never changes anything.

use std::fmt::Write;
use std::sync::Mutex;

use serde::Deserialize;
use serde_json::{Value, json};

use super::files::{self, Seen};
use super::image;
use super::input::{parse, property, spec as tool_spec};
use super::place::{Place, Root};
use super::{Action, Prepared};
use crate::host::{ToolOutput, ToolSpec};

const DEFAULT_LINES: usize = 2_000;
const MAX_LINE_CHARS: usize = 2_000;
const MAX_BYTES: usize = 128 * 1024;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    file_path: String,
    offset: Option<usize>,
    limit: Option<usize>,
}

/// A call that is ready.
#[derive(Debug)]
pub(super) struct Read {
    place: Place,
    offset: usize,
    limit: usize,
}

pub(super) fn spec() -> ToolSpec {
    tool_spec(
        "Read",
        "Reads a file of the workspace. Lines of a text are numbered from 1, as \"number, tab, line\". \
         Up to 2000 lines at once; use offset and limit for more. An image (PNG, JPEG, GIF, WebP) \
         is shown.",
        &["file_path"],
        &json!({
            "file_path": property("string", "The file, relative to the workspace or absolute."),
            "offset": { "type": "integer", "minimum": 1, "description": "The first line to read." },
            "limit": { "type": "integer", "minimum": 1, "description": "How many lines to read." },
        }),
    )
}

pub(super) fn prepare(root: &Root, input: &Value) -> Result<Prepared, String> {
    let Input { file_path, offset, limit } = parse(&spec(), input)?;
    let place = root.place(&file_path)?;
    Ok(Prepared {
        class: place.read_class(),
        subject: place.subject(false),
        description: format!("Read {}{}", place.shown, place.note()),
        action: Action::Read(Read {
            place,
            offset: offset.unwrap_or(1).max(1),
            limit: limit.unwrap_or(DEFAULT_LINES).max(1),
        }),
    })
}

impl Read {
    pub(super) fn run(self, seen: &Mutex<Seen>) -> Result<ToolOutput, String> {
        let path = self.place.still()?;
        let shown = &self.place.shown;
        let content =
            files::content(path, shown)?.ok_or_else(|| format!("There is no file {shown}."))?;
        if let Some(media_type) = image::kind(&content) {
            let (text, image) = image::read(&content, media_type, shown)?;
            Seen::remember(seen, path, &content);
            return Ok(ToolOutput { images: vec![image], ..ToolOutput::read(text) });
        }
        files::check_text(&content, shown)?;
        Seen::remember(seen, path, &content);
        let text = String::from_utf8_lossy(&content);
        if text.is_empty() {
            return Ok(ToolOutput::read(format!("{shown} is empty.")));
        }
        let total = text.lines().count();
        if self.offset > total {
            return Err(format!("{shown} has only {total} lines."));
        }
        let mut out = String::new();
        let mut last = self.offset - 1;
        for (number, line) in text.lines().enumerate().skip(self.offset - 1).take(self.limit) {
            if out.len() > MAX_BYTES {
                break;
            }
            last = number + 1;
            let cut = line.char_indices().nth(MAX_LINE_CHARS).map_or(line, |(end, _)| &line[..end]);
            let more = if cut.len() < line.len() { "… (line cut)" } else { "" };
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{last:>6}\t{cut}{more}");
        }
        if last < total {
            let _ = write!(
                out,
                "(lines {} to {last} of {total}; go on with offset {})",
                self.offset,
                last + 1
            );
        }
        Ok(ToolOutput::read(out))
    }
}
