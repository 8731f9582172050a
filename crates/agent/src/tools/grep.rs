//! `Grep`: text in files, by ripgrep's own engine; it never changes them.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use grep::regex::{RegexMatcher, RegexMatcherBuilder};
use grep::searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::input::{parse, property, spec as tool_spec};
use super::place::{Place, Root};
use super::search::{Hidden, Stop, walk};
use super::{Action, Prepared};
use crate::host::{ToolOutput, ToolSpec};
use crate::permission::Rulebook;

const DEFAULT_LINES: usize = 250;
const MAX_BYTES: usize = 64 * 1024;
const MAX_LINE_CHARS: usize = 500;
/// The longest line, with its context, that is searched; a file with a longer one is passed over.
const MAX_SEARCHED_BYTES: usize = 16 * 1024 * 1024;
const MAX_CONTEXT: usize = 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(default)]
    output: Output,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    context: usize,
    limit: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Output {
    #[default]
    Lines,
    Files,
    Count,
}

/// A call that is ready.
#[derive(Debug)]
pub(super) struct Grep {
    place: Place,
    input: Input,
    hidden: Option<Arc<Rulebook>>,
}

pub(super) fn spec() -> ToolSpec {
    tool_spec(
        "Grep",
        "Searches files for a regular expression (Rust syntax). Files that git ignores and binary \
         files are left out.",
        &["pattern"],
        &json!({
            "pattern": property("string", "The regular expression."),
            "path": property("string", "The file or directory to search; the workspace if not given."),
            "glob": property("string", "Only files whose path matches this glob, for example \"**/*.rs\"."),
            "output": {
                "type": "string",
                "enum": ["lines", "files", "count"],
                "description": "Matching lines with their numbers (the default), only the files, or the number of matching lines per file.",
            },
            "ignore_case": property("boolean", "Take upper and lower case for the same."),
            "context": { "type": "integer", "minimum": 0, "maximum": MAX_CONTEXT, "description": "Lines to show around each match." },
            "limit": { "type": "integer", "minimum": 1, "description": "The most lines of output; 250 if not given." },
        }),
    )
}

pub(super) fn prepare(root: &Root, input: &Value) -> Result<Prepared, String> {
    let input: Input = parse(&spec(), input)?;
    let place = root.place(input.path.as_deref().unwrap_or("."))?;
    Ok(Prepared {
        class: place.read_class(),
        subject: place.subject(false),
        description: format!("Search {} for {:?}{}", place.shown, input.pattern, place.note()),
        action: Action::Grep(Grep { place, input, hidden: None }),
    })
}

impl Grep {
    pub(super) fn hide(&mut self, book: Arc<Rulebook>) {
        self.hidden = Some(book);
    }

    pub(super) fn run(mut self, stop: &Stop) -> Result<ToolOutput, String> {
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(self.input.ignore_case)
            .build(&self.input.pattern)
            .map_err(|error| format!("Grep: the pattern is not valid: {error}."))?;
        let glob = self.input.glob.as_deref().map(glob).transpose()?;
        let start = self.place.still()?;
        if !start.exists() {
            return Err(format!("There is no {}.", self.place.shown));
        }
        let mut lines = Lines {
            out: String::new(),
            left: self.input.limit.unwrap_or(DEFAULT_LINES).max(1),
            cut: false,
        };
        for entry in walk(start, Hidden(self.hidden.take())).filter_map(Result::ok) {
            if stop.is_set() {
                return Err("The search was stopped.".to_owned());
            }
            if entry.file_type().is_none_or(|kind| !kind.is_file()) {
                continue;
            }
            let relative = match entry.path().strip_prefix(start) {
                Ok(relative) if !relative.as_os_str().is_empty() => relative,
                _ => Path::new(entry.file_name()),
            };
            if glob.as_ref().is_some_and(|glob| !glob.is_match(relative)) {
                continue;
            }
            self.search(&matcher, entry.path(), relative, stop, &mut lines);
            if lines.cut {
                break;
            }
        }
        if lines.cut {
            lines.out.push_str("(there is more; narrow the search or raise the limit)");
        }
        if lines.out.is_empty() {
            return Ok(ToolOutput::read(format!("Nothing matches {:?}.", self.input.pattern)));
        }
        Ok(ToolOutput::read(lines.out))
    }

    fn search(
        &self,
        matcher: &RegexMatcher,
        path: &Path,
        shown: &Path,
        stop: &Stop,
        lines: &mut Lines,
    ) {
        let context = match self.input.output {
            Output::Lines => self.input.context.min(MAX_CONTEXT),
            Output::Files | Output::Count => 0,
        };
        let mut sink = FileSink { shown, output: self.input.output, count: 0, stop, lines };
        // A file that cannot be read is passed over, as one that git ignores is.
        let _ = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MAX_SEARCHED_BYTES))
            .before_context(context)
            .after_context(context)
            .build()
            .search_path(matcher, path, &mut sink);
        let count = sink.count;
        match self.input.output {
            Output::Files if count > 0 => lines.push(&shown.display().to_string()),
            Output::Count if count > 0 => lines.push(&format!("{}:{count}", shown.display())),
            Output::Lines | Output::Files | Output::Count => {}
        }
    }
}

/// What is shown in the end, within its limits.
struct Lines {
    out: String,
    left: usize,
    cut: bool,
}

impl Lines {
    fn push(&mut self, line: &str) {
        if self.left == 0 || self.out.len() > MAX_BYTES {
            self.cut = true;
            return;
        }
        self.left -= 1;
        // Writing to a string cannot fail.
        let _ = writeln!(self.out, "{line}");
    }
}

/// The matches of one file.
struct FileSink<'a> {
    shown: &'a Path,
    output: Output,
    count: u64,
    stop: &'a Stop,
    lines: &'a mut Lines,
}

impl FileSink<'_> {
    fn line(&mut self, separator: char, number: Option<u64>, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end_matches(['\n', '\r']);
        let cut = text.char_indices().nth(MAX_LINE_CHARS).map_or(text, |(end, _)| &text[..end]);
        let more = if cut.len() < text.len() { "…" } else { "" };
        let number = number.unwrap_or_default();
        self.lines
            .push(&format!("{}{separator}{number}{separator}{cut}{more}", self.shown.display()));
    }

    fn go_on(&self) -> bool {
        !self.lines.cut && !self.stop.is_set()
    }
}

impl Sink for FileSink<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        self.count += 1;
        match self.output {
            Output::Lines => self.line(':', found.line_number(), found.bytes()),
            Output::Files => return Ok(false),
            Output::Count => {}
        }
        Ok(self.go_on())
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, Self::Error> {
        match context.kind() {
            SinkContextKind::Before | SinkContextKind::After | SinkContextKind::Other => {
                self.line('-', context.line_number(), context.bytes());
            }
        }
        Ok(self.go_on())
    }
}

fn glob(pattern: &str) -> Result<GlobMatcher, String> {
    GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| format!("Grep: the glob is not valid: {error}."))
}
