//! Where a path really leads: component by component, symbolic links followed; it opens nothing.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use aion_core::permission::ToolClass;

use crate::permission::Subject;

/// More links than this in one path are a loop.
const MAX_LINKS: usize = 40;

/// A workspace as the file system knows it.
#[derive(Clone, Debug)]
pub(super) struct Root(PathBuf);

/// A path that was resolved once.
#[derive(Clone, Debug)]
pub(super) struct Place {
    given: String,
    /// Where it leads.
    pub(super) path: PathBuf,
    /// How to write it in a sentence: relative to the workspace where it is inside.
    pub(super) shown: String,
    inside: bool,
    root: Root,
}

impl Root {
    pub(super) fn open(workspace: &Path) -> Result<Self, String> {
        workspace.canonicalize().map(Self).map_err(|error| {
            format!("The workspace {} is not usable: {error}.", workspace.display())
        })
    }

    /// Resolves a path that a model gave; relative ones start at the workspace.
    pub(super) fn place(&self, given: &str) -> Result<Place, String> {
        if given.is_empty() {
            return Err("The path is empty.".to_owned());
        }
        if given.contains('\0') {
            return Err("A path cannot hold a NUL character.".to_owned());
        }
        let path =
            resolve(&self.0, Path::new(given)).map_err(|reason| format!("{given}: {reason}."))?;
        let (inside, shown) = match path.strip_prefix(&self.0) {
            Ok(relative) if relative.as_os_str().is_empty() => (true, ".".to_owned()),
            Ok(relative) => (true, relative.display().to_string()),
            Err(_) => (false, path.display().to_string()),
        };
        Ok(Place { given: given.to_owned(), path, shown, inside, root: self.clone() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Place {
    /// The class of reading it.
    pub(super) fn read_class(&self) -> ToolClass {
        if self.inside { ToolClass::Read } else { ToolClass::Execute }
    }

    /// The class of changing it. Git's own files run commands, and settings of agents decide what
    /// may run, so changing them counts as running.
    pub(super) fn edit_class(&self) -> ToolClass {
        if self.inside && !self.is_guarded() { ToolClass::Edit } else { ToolClass::Execute }
    }

    /// What makes it special, for a description.
    pub(super) fn note(&self) -> &'static str {
        match (self.inside, self.is_guarded()) {
            (false, _) => " (outside the workspace)",
            (true, true) => " (it decides what runs or what is allowed)",
            (true, false) => "",
        }
    }

    /// Looks again where the path leads. It was judged by where it led before, so it must be the
    /// same. Whoever swaps a directory of it for a link between this look and the opening still leads
    /// it astray: only the kernel's own resolution below a directory (`openat2`) would close that.
    pub(super) fn still(&self) -> Result<&Path, String> {
        let again = self.root.place(&self.given)?;
        if again.path == self.path {
            Ok(&self.path)
        } else {
            Err(format!("{} leads somewhere else than when the call was judged.", self.given))
        }
    }

    /// What rules meet.
    pub(super) fn subject(&self, writes: bool) -> Subject {
        Subject::Path {
            path: self.path.clone(),
            given: self.given.clone(),
            writes,
            guarded: writes && self.is_guarded(),
        }
    }

    /// Whether it is inside the workspace.
    pub(super) fn is_inside(&self) -> bool {
        self.inside
    }

    fn is_guarded(&self) -> bool {
        self.inside && self.path.strip_prefix(self.root.path()).is_ok_and(is_guarded)
    }
}

/// Whether a path below the workspace is one that decides what runs or what is allowed: git's own
/// files, and the settings of agents.
pub(crate) fn is_guarded(below: &Path) -> bool {
    const SETTINGS: [&str; 7] =
        [".aion", ".claude", ".codex", ".gemini", ".cursor", ".vscode", ".mcp.json"];
    let mut names = below.components().map(|c| c.as_os_str().to_string_lossy().to_lowercase());
    let is_setting = names.next().is_some_and(|first| SETTINGS.contains(&first.as_str()));
    is_setting || below.components().any(|c| c.as_os_str().eq_ignore_ascii_case(".git"))
}

/// Follows a path from `root`. Parts that do not exist stay as they are written.
fn resolve(root: &Path, given: &Path) -> Result<PathBuf, String> {
    let mut at = root.to_path_buf();
    let mut rest: VecDeque<OsString> = VecDeque::new();
    push_front(&mut rest, given);
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        if part == OsStr::new("/") {
            at = PathBuf::from("/");
            continue;
        }
        if part == OsStr::new("..") {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        match next.symlink_metadata() {
            Ok(metadata) if metadata.is_symlink() => {
                links += 1;
                if links > MAX_LINKS {
                    return Err("too many symbolic links".to_owned());
                }
                let target = next.read_link().map_err(|error| error.to_string())?;
                push_front(&mut rest, &target);
            }
            Ok(_) => at = next,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                at = next;
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(at)
}

fn push_front(rest: &mut VecDeque<OsString>, path: &Path) {
    for component in path.components().rev() {
        match component {
            Component::RootDir => rest.push_front(OsString::from("/")),
            Component::ParentDir => rest.push_front(OsString::from("..")),
            Component::Normal(name) => rest.push_front(name.to_owned()),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
}
