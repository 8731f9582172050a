//! `Edit`: exact replacements in one file, all or none; it never guesses what was meant.

use std::borrow::Cow;
use std::sync::Mutex;

use serde::Deserialize;
use serde_json::{Value, json};

use super::files::{self, Seen};
use super::input::{object, parse, property, spec as tool_spec};
use super::place::{Place, Root};
use super::{Action, Prepared};
use crate::host::{ToolOutput, ToolSpec};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    file_path: String,
    edits: Vec<Replacement>,
}

/// How many places of a text that is there more than once are named.
const SHOWN_PLACES: usize = 5;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Replacement {
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

/// A call that is ready.
#[derive(Debug)]
pub(super) struct Edit {
    place: Place,
    edits: Vec<Replacement>,
}

pub(super) fn spec() -> ToolSpec {
    let edit = object(
        &["old_string", "new_string"],
        &json!({
            "old_string": property("string", "The text to replace, exactly as it is in the file."),
            "new_string": property("string", "The text to put there."),
            "replace_all": property("boolean", "Replace every occurrence; otherwise there must be one."),
        }),
    );
    tool_spec(
        "Edit",
        "Replaces text in a file that you have read. The edits are made in order, each on the \
         result of the one before, and all or none of them.",
        &["file_path", "edits"],
        &json!({
            "file_path": property("string", "The file, relative to the workspace or absolute."),
            "edits": {
                "type": "array",
                "minItems": 1,
                "items": edit,
                "description": "The replacements.",
            },
        }),
    )
}

pub(super) fn prepare(root: &Root, input: &Value) -> Result<Prepared, String> {
    let Input { file_path, edits } = parse(&spec(), input)?;
    if edits.is_empty() {
        return Err("Edit: edits is empty; give at least one.".to_owned());
    }
    let place = root.place(&file_path)?;
    Ok(Prepared {
        class: place.edit_class(),
        subject: place.subject(true),
        description: format!("Edit {} ({}){}", place.shown, count(edits.len()), place.note()),
        action: Action::Edit(Edit { place, edits }),
    })
}

impl Edit {
    pub(super) fn run(self, seen: &Mutex<Seen>) -> Result<ToolOutput, String> {
        let path = self.place.still()?;
        let shown = &self.place.shown;
        let content =
            files::content(path, shown)?.ok_or_else(|| format!("There is no file {shown}."))?;
        files::check_text(&content, shown)?;
        Seen::check(seen, path, shown, &content)?;
        let mut text = String::from_utf8(content)
            .map_err(|_| format!("{shown} is not UTF-8 text, so it is not edited."))?;
        let dos = ends_lines_with_return(&text);
        for (index, edit) in self.edits.iter().enumerate() {
            text = edit.fitted(dos).apply(&text).map_err(|reason| {
                format!("Nothing was changed in {shown}: edit {} {reason}", index + 1)
            })?;
        }
        files::replace(path, text.as_bytes())
            .map_err(|error| format!("{shown} cannot be written: {error}."))?;
        Seen::remember(seen, path, text.as_bytes());
        Ok(ToolOutput::changed(format!("Edited {shown} ({}).", count(self.edits.len()))))
    }
}

/// Whether every line of a text ends with a carriage return, which [`Read`](super::read) does not
/// show.
fn ends_lines_with_return(text: &str) -> bool {
    let lines = text.matches('\n').count();
    lines > 0 && lines == text.matches("\r\n").count()
}

impl Replacement {
    /// The same for a text whose lines end otherwise than a model can see.
    fn fitted(&self, dos: bool) -> Cow<'_, Self> {
        let plain = [&self.old_string, &self.new_string].iter().all(|text| !text.contains('\r'));
        if !dos || !plain {
            return Cow::Borrowed(self);
        }
        let fit = |text: &str| text.replace('\n', "\r\n");
        Cow::Owned(Self {
            old_string: fit(&self.old_string),
            new_string: fit(&self.new_string),
            replace_all: self.replace_all,
        })
    }

    fn apply(&self, text: &str) -> Result<String, String> {
        if self.old_string.is_empty() {
            return Err("has an empty old_string.".to_owned());
        }
        if self.old_string == self.new_string {
            return Err("changes nothing: old_string and new_string are the same.".to_owned());
        }
        match text.matches(&self.old_string).count() {
            0 => Err(match self.alike(text) {
                None => "has an old_string that is not in the file.".to_owned(),
                Some(line) => format!(
                    "has an old_string that is not in the file: at line {line} the same words have other white space. Read it there, and give it exactly."
                ),
            }),
            n if n > 1 && !self.replace_all => Err(format!(
                "has an old_string that is in the file {n} times ({}). Give more of its surroundings, or set replace_all.",
                self.places(text)
            )),
            n if self.size(text.len(), n).is_none_or(|size| size > files::MAX_FILE_BYTES) => {
                Err(format!("would make the file larger than {} bytes.", files::MAX_FILE_BYTES))
            }
            _ => Ok(text.replace(&self.old_string, &self.new_string)),
        }
    }

    /// Where the file holds it but for white space at the ends of lines.
    fn alike(&self, text: &str) -> Option<usize> {
        let wanted: Vec<&str> = self.old_string.trim().lines().map(str::trim).collect();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        if wanted.is_empty() {
            return None;
        }
        let found = lines.windows(wanted.len()).position(|window| window == wanted.as_slice());
        found.map(|at| at + 1)
    }

    /// The lines that it begins at, the first of them.
    fn places(&self, text: &str) -> String {
        let mut places = String::from("lines ");
        let (mut line, mut from) = (1, 0);
        for (index, (at, _)) in text.match_indices(&self.old_string).enumerate() {
            line += text[from..at].matches('\n').count();
            from = at;
            match index {
                0 => {}
                SHOWN_PLACES.. => {
                    places.push_str(", …");
                    break;
                }
                _ => places.push_str(", "),
            }
            places.push_str(&line.to_string());
        }
        places
    }

    /// How many bytes a text of `len` has after `times` replacements.
    fn size(&self, len: usize, times: usize) -> Option<u64> {
        let kept = len.checked_sub(self.old_string.len().checked_mul(times)?)?;
        let size = kept.checked_add(self.new_string.len().checked_mul(times)?)?;
        u64::try_from(size).ok()
    }
}

fn count(edits: usize) -> String {
    if edits == 1 { "1 edit".to_owned() } else { format!("{edits} edits") }
}
