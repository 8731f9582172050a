//! Whether rules that allow cover all of a command; a part that none covers is not covered.

use super::books::{Entry, Fits, Rulebook};
use super::free::{is_nowhere, sets_harmlessly};
use super::paths::Places;
use super::script::{Opened, Part, Script};

impl Rulebook {
    /// The rules that together cover every part of a command that does more than look; none if a
    /// part is left, or if nothing but looking is done.
    pub(super) fn cover<'b>(&'b self, script: &Script, looks: &[bool]) -> Option<Vec<&'b Entry>> {
        if !script.is_known() {
            return None;
        }
        let mut cited = Vec::new();
        for (part, looks) in script.parts.iter().zip(looks) {
            if !looks && !self.cover_part(part, &mut cited) {
                return None;
            }
        }
        (!cited.is_empty()).then_some(cited)
    }

    fn cover_part<'b>(&'b self, part: &Part, cited: &mut Vec<&'b Entry>) -> bool {
        if !sets_harmlessly(part) {
            return false;
        }
        for opened in &part.opens {
            if is_nowhere(&opened.path) {
                continue;
            }
            match self.cover_file(opened) {
                Some(entry) => cited.push(entry),
                None => return false,
            }
        }
        if part.words.is_empty() || part.only_runs {
            return true;
        }
        let by = self.allowing("Bash").find(|entry| match &entry.fits {
            Fits::Every => true,
            Fits::Command(pattern) => pattern.allows(part),
            Fits::Path(_) | Fits::Host(_) => false,
        });
        cited.extend(by);
        by.is_some()
    }

    /// A file that the shell opens is allowed like one that a tool opens.
    fn cover_file(&self, opened: &Opened) -> Option<&Entry> {
        let Places { root, .. } = self.places();
        let path = self.places().full(opened.path.plain()?)?;
        let inside = path.starts_with(root);
        if inside && opened.writes && is_guarded(&path, self.places()) {
            return None;
        }
        let tool = if opened.writes { "Edit" } else { "Read" };
        self.allowing_path(tool, &path, inside)
    }
}

/// Whether a path is one of those that decide what runs or what is allowed.
pub(super) fn is_guarded(path: &std::path::Path, places: &Places) -> bool {
    path.strip_prefix(&places.root).is_ok_and(crate::tools::is_guarded)
}
