//! A project's own instructions for agents, read from its workspace; whether they count is judged
//! elsewhere.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use aion_core::permission::ToolClass;
use aion_core::prompt::{self, Instructions};
use aion_core::rule::RuleWord;

use super::files;
use super::place::Root;
use crate::permission::{Rulebook, Subject};

/// Where a project's own instructions stand, below the workspace.
pub const INSTRUCTIONS: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];
/// The most bytes of one file.
const MAX_BYTES: usize = 32 * 1024;

/// The mark of the instructions that were shown last. As long as they stay the same so does their
/// mark, and with it the beginning of every request.
#[derive(Debug, Default)]
pub(super) struct Shown(Mutex<Option<(u64, String)>>);

impl Shown {
    /// The instructions of a workspace as a model reads them; none where there are none.
    pub(super) fn read(&self, root: &Root, book: &Rulebook) -> Option<String> {
        let found = find(root, book);
        if found.is_empty() {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        found.hash(&mut hasher);
        let hash = hasher.finish();
        // Every change of it is one assignment.
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = match &*shown {
            Some((known, mark)) if *known == hash => mark.clone(),
            _ => draw()?,
        };
        *shown = Some((hash, mark.clone()));
        Some(prompt::instructions(&found, &mark))
    }
}

/// The instructions that are there and may be read. A copy of another file is left out.
fn find(root: &Root, book: &Rulebook) -> Vec<Instructions> {
    let mut found: Vec<Instructions> = Vec::new();
    for name in INSTRUCTIONS {
        // What leads outside the workspace is not the project's to give.
        let Some(place) = root.place(name).ok().filter(super::place::Place::is_inside) else {
            continue;
        };
        let reads = Subject::Path {
            path: place.path.clone(),
            given: name.to_owned(),
            writes: false,
            guarded: false,
        };
        let denied = book.judge("Read", &reads, ToolClass::Read);
        if denied.is_some_and(|finding| finding.says == RuleWord::Deny) {
            continue;
        }
        let Ok(Some(content)) = files::content(&place.path, name) else { continue };
        if files::check_text(&content, name).is_err() {
            continue;
        }
        let bytes = content.len();
        let mut text = String::from_utf8_lossy(&content).into_owned();
        text.truncate(text.floor_char_boundary(MAX_BYTES));
        if text.trim().is_empty() || found.iter().any(|known| known.text == text) {
            continue;
        }
        let cut = (bytes > MAX_BYTES).then_some(bytes);
        found.push(Instructions { file: name.to_owned(), text, cut });
    }
    found
}

fn draw() -> Option<String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).ok()?;
    Some(format!("{:016x}", u64::from_be_bytes(bytes)))
}
