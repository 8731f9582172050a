//! The start of a team's work tree, kept in git beside its history; the person's index and HEAD are
//! never touched.
//!
//! A tree is recorded by a temporary index, with untracked files and without ignored ones. What was
//! ignored at the start is noted too, so that undoing never takes such a file for a new one.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use aion_api::{Exit, FileChange, FileChangeKind};
use aion_core::id::TeamId;
use tempfile::TempDir;

use crate::exit::Failure;

/// The mode of a submodule in a tree. Submodules are left alone.
const SUBMODULE: &str = "160000";

/// A directory inside a git work tree.
#[derive(Clone, Debug)]
pub(crate) struct Repository {
    /// Where commands run; only what is below it is shown and undone.
    workspace: PathBuf,
}

/// What a work tree's differences are, by path relative to the workspace.
type Changes = BTreeMap<Vec<u8>, FileChangeKind>;

impl Repository {
    /// The work tree around a directory, if there is one.
    pub(crate) fn around(workspace: &Path) -> Option<Self> {
        let repository = Self { workspace: workspace.to_owned() };
        let inside = repository.git(["rev-parse", "--is-inside-work-tree"]).text().ok()?;
        (inside.trim() == "true").then_some(repository)
    }

    /// Records the tree as a team finds it. A start that is recorded already stays.
    pub(crate) fn record_start(&self, team: &TeamId) -> Result<String, Failure> {
        let name = start_ref(team);
        if self.git(["rev-parse", "--verify", "--quiet", &name]).text().is_ok() {
            return Ok(name);
        }
        let scratch = Scratch::new()?;
        let tree = self.tree(&scratch, None, Objects::Kept)?;
        let commit = self.commit(&tree, "The work tree as the team found it")?;
        let ignored = self.ignored_now()?;
        let blob = self.git(["hash-object", "-w", "--stdin"]).input(ignored).text()?;
        let note = ignored_ref(team);
        self.git(["update-ref", note.as_str(), blob.trim()]).text()?;
        // An empty old value: the reference must not exist yet.
        self.git(["update-ref", name.as_str(), commit.as_str(), ""]).text()?;
        Ok(name)
    }

    /// The commit that is checked out, if there is one.
    pub(crate) fn head(&self) -> Option<String> {
        let head = self.git(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).text().ok()?;
        Some(head.trim().to_owned()).filter(|head| !head.is_empty())
    }

    /// Whether a commit is in it.
    pub(crate) fn holds(&self, commit: &str) -> bool {
        self.git(["cat-file", "-e", &format!("{commit}^{{commit}}")]).text().is_ok()
    }

    /// Takes the record of a team that never was away again.
    pub(crate) fn forget(&self, team: &TeamId) {
        for name in [start_ref(team), ignored_ref(team)] {
            // What stays behind names a team that does not exist, and hurts nobody.
            let _ = self.git(["update-ref", "-d", name.as_str()]).text();
        }
    }

    /// Whether a start is recorded.
    pub(crate) fn has_start(&self, team: &TeamId) -> bool {
        self.git(["rev-parse", "--verify", "--quiet", &start_ref(team)]).text().is_ok()
    }

    /// Refuses a data directory that the workspace's record would contain: undoing would put an old
    /// store over the log, and agents could read it as one of their files.
    pub(crate) fn refuse_data_inside(workspace: &Path, data: &Path) -> Result<(), Failure> {
        let full = |path: &Path| {
            // What is not there yet is below what is.
            let there = path.ancestors().find(|path| path.exists())?;
            let rest = path.strip_prefix(there).ok()?;
            Some(there.canonicalize().ok()?.join(rest))
        };
        let (Some(workspace), Some(data)) = (full(workspace), full(data)) else { return Ok(()) };
        let recorded = Self::around(&workspace).is_some_and(|repository| {
            let top = repository.git(["rev-parse", "--show-toplevel"]).bytes().unwrap_or_default();
            let top = Path::new(OsStr::from_bytes(top.trim_ascii_end())).to_owned();
            let ignored = || repository.git([OsStr::new("check-ignore"), data.as_os_str()]).text();
            !top.as_os_str().is_empty() && data.starts_with(&top) && ignored().is_err()
        });
        if !recorded && !data.starts_with(&workspace) {
            return Ok(());
        }
        let message = format!(
            "the data directory {} lies in the work tree around the workspace {}",
            data.display(),
            workspace.display()
        );
        Err(Failure::new(Exit::Usage, "data_dir.in_workspace", message)
            .with_hint("give a directory outside of it with --data-dir DIR"))
    }

    /// What changed below the workspace since the start. The repository is only read.
    pub(crate) fn changes(&self, team: &TeamId) -> Result<Vec<FileChange>, Failure> {
        let scratch = Scratch::new()?;
        let now = self.tree(&scratch, Some(&start_ref(team)), Objects::Scratch)?;
        Ok(shown(&self.since_start(&scratch, team, &now, Objects::Scratch)?))
    }

    /// The differences between the start and a tree, without what was ignored at the start.
    fn since_start(
        &self,
        scratch: &Scratch,
        team: &TeamId,
        now: &str,
        to: Objects,
    ) -> Result<Changes, Failure> {
        let mut changes = self.differences(scratch, &start_ref(team), now, to)?;
        let ignored = self.ignored_at_start(team);
        changes.retain(|path, kind| !keeps(*kind, path, &ignored));
        Ok(changes)
    }

    /// Puts everything below the workspace back as it was at the start, if that is exactly what was
    /// agreed to and nothing else stands in the way; otherwise nothing is changed. What is there
    /// before is recorded first, beside what earlier undoings recorded; the answer is where.
    pub(crate) fn undo(&self, team: &TeamId, agreed: &[FileChange]) -> Result<String, Failure> {
        let scratch = Scratch::new()?;
        let start = start_ref(team);
        let now = self.tree(&scratch, Some(&start), Objects::Kept)?;
        let changes = self.since_start(&scratch, team, &now, Objects::Kept)?;
        if shown(&changes) != agreed {
            let message = "files have changed since they were shown; nothing was put back";
            return Err(Failure::new(Exit::Conflict, "undo.changed", message)
                .with_hint("look at them again with `aion team show`"));
        }
        self.nothing_in_the_way(&changes)?;
        let commit = self.commit(&now, "The work tree before the team's work was undone")?;
        let kept = self.keep(team, &commit)?;
        let mut back = Vec::new();
        for (path, kind) in &changes {
            match kind {
                FileChangeKind::Added => self.remove(path)?,
                FileChangeKind::Modified | FileChangeKind::Deleted => {
                    back.extend_from_slice(path);
                    back.push(0);
                }
            }
        }
        if !back.is_empty() {
            let index = scratch.path("restore");
            self.git(["read-tree", start.as_str()]).index(&index).text()?;
            self.git(["checkout-index", "--force", "-z", "--stdin"])
                .index(&index)
                .input(back)
                .text()?;
        }
        Ok(kept)
    }

    /// Keeps a commit under the first number that is free.
    fn keep(&self, team: &TeamId, commit: &str) -> Result<String, Failure> {
        let free = |name: &String| {
            self.git(["rev-parse", "--verify", "--quiet", name.as_str()]).text().is_err()
        };
        let mut names = (1_u64..).map(|number| format!("refs/aion/{team}/undone-{number}"));
        let name = names.find(free).unwrap_or_default();
        // An empty old value: the reference must not exist yet.
        self.git(["update-ref", name.as_str(), commit, ""]).text()?;
        Ok(name)
    }

    /// Fails if something that is recorded nowhere would be lost: an ignored file in a directory
    /// where a file is to be, or a file where a directory is to be.
    fn nothing_in_the_way(&self, changes: &Changes) -> Result<(), Failure> {
        let goes =
            |path: &Path| changes.get(path.as_os_str().as_bytes()) == Some(&FileChangeKind::Added);
        let mut lost = BTreeSet::new();
        for (path, kind) in changes {
            if *kind == FileChangeKind::Added {
                continue;
            }
            let path = Path::new(OsStr::from_bytes(path));
            let parents = path.ancestors().skip(1).filter(|parent| *parent != Path::new(""));
            for parent in parents {
                let there = fs::symlink_metadata(self.workspace.join(parent));
                if there.is_ok_and(|there| !there.is_dir()) && !goes(parent) {
                    lost.insert(parent.to_owned());
                }
            }
            let mut inside = vec![path.to_owned()];
            while let Some(at) = inside.pop() {
                let full = self.workspace.join(&at);
                if !fs::symlink_metadata(&full).is_ok_and(|there| there.is_dir()) {
                    if at != path && !goes(&at) {
                        lost.insert(at);
                    }
                    continue;
                }
                let fail = |error: io::Error| Failure::io(full.display(), &error);
                for entry in fs::read_dir(&full).map_err(fail)? {
                    inside.push(at.join(entry.map_err(fail)?.file_name()));
                }
            }
        }
        if lost.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = lost.iter().map(|path| path.display().to_string()).collect();
        let message = format!(
            "in the way, and recorded nowhere, are: {}; nothing was put back",
            names.join(", ")
        );
        Err(Failure::new(Exit::Conflict, "undo.in_the_way", message)
            .with_hint("move them away, then undo again"))
    }

    /// Records the work tree as a tree. The base decides which paths count although they are
    /// ignored: those of the person's index, or those of an earlier tree.
    fn tree(&self, scratch: &Scratch, base: Option<&str>, to: Objects) -> Result<String, Failure> {
        let index = scratch.path("index");
        let objects = self.objects(scratch, to)?;
        if let Some(tree) = base {
            self.git(["read-tree", tree]).index(&index).objects(objects.as_ref()).text()?;
        } else {
            let own = self.git(["rev-parse", "--git-path", "index"]).bytes()?;
            let own = self.workspace.join(OsStr::from_bytes(own.trim_ascii_end()));
            match fs::copy(&own, &index) {
                Ok(_) => {}
                // A repository without an index has nothing in it.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(Failure::io(own.display(), &error)),
            }
        }
        // A file that cannot be read, or a nested repository without a commit, is left out of
        // every tree alike: it neither shows as a change nor is it undone.
        self.git(["add", "--all", "--ignore-errors", "--", ":/"])
            .index(&index)
            .objects(objects.as_ref())
            .tolerant()
            .text()?;
        let tree = self.git(["write-tree"]).index(&index).objects(objects.as_ref()).text()?;
        Ok(tree.trim().to_owned())
    }

    fn differences(
        &self,
        scratch: &Scratch,
        start: &str,
        now: &str,
        to: Objects,
    ) -> Result<Changes, Failure> {
        let objects = self.objects(scratch, to)?;
        let start = format!("{start}^{{tree}}");
        let raw = self
            .git(["diff-tree", "-r", "-z", "--raw", "--no-renames", "--relative", &start, now])
            .objects(objects.as_ref())
            .bytes()?;
        Ok(parse_raw(&raw))
    }

    fn objects(&self, scratch: &Scratch, to: Objects) -> Result<Option<ObjectPaths>, Failure> {
        match to {
            Objects::Kept => Ok(None),
            Objects::Scratch => {
                let path = self.git(["rev-parse", "--git-path", "objects"]).bytes()?;
                let path = self.workspace.join(OsStr::from_bytes(path.trim_ascii_end()));
                let own = scratch.path("objects");
                fs::create_dir_all(&own).map_err(|error| Failure::io(own.display(), &error))?;
                Ok(Some(ObjectPaths { own, alternate: path }))
            }
        }
    }

    fn commit(&self, tree: &str, message: &str) -> Result<String, Failure> {
        let head = self.git(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).text();
        let mut args = vec!["commit-tree", tree, "-m", message];
        let parent = head.unwrap_or_default();
        if !parent.trim().is_empty() {
            args.extend(["-p", parent.trim()]);
        }
        Ok(self.git(args).text()?.trim().to_owned())
    }

    /// What is ignored below the workspace at present, whole directories as one.
    fn ignored_now(&self) -> Result<Vec<u8>, Failure> {
        self.git([
            "ls-files",
            "--others",
            "--ignored",
            "--exclude-standard",
            "--directory",
            "--no-empty-directory",
            "-z",
        ])
        .bytes()
    }

    fn ignored_at_start(&self, team: &TeamId) -> Vec<Vec<u8>> {
        // Without the note nothing is known to have been ignored.
        let note = self.git(["cat-file", "blob", &ignored_ref(team)]).bytes().unwrap_or_default();
        note.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(<[u8]>::to_vec).collect()
    }

    /// Removes a file below the workspace, and the directories that are empty without it.
    fn remove(&self, path: &[u8]) -> Result<(), Failure> {
        let relative = Path::new(OsStr::from_bytes(path));
        let full = self.workspace.join(relative);
        match fs::remove_file(&full) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Failure::io(format!("remove {}", full.display()), &error)),
        }
        for parent in relative.ancestors().skip(1).filter(|parent| *parent != Path::new("")) {
            // A directory that holds something else stays.
            if fs::remove_dir(self.workspace.join(parent)).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn git<I, S>(&self, args: I) -> Git
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os() {
            if name.as_bytes().starts_with(b"GIT_") {
                command.env_remove(name);
            }
        }
        let identity = "aion";
        let address = "aion@localhost";
        command
            .current_dir(&self.workspace)
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_AUTHOR_NAME", identity)
            .env("GIT_AUTHOR_EMAIL", address)
            .env("GIT_COMMITTER_NAME", identity)
            .env("GIT_COMMITTER_EMAIL", address)
            .env("LC_ALL", "C")
            .args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"])
            .args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"])
            .args(["-c", "advice.addEmbeddedRepo=false", "-c", "core.splitIndex=false"])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Git { command, input: None, tolerant: false }
    }
}

/// Where new objects go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Objects {
    /// Into the repository.
    Kept,
    /// Into a directory that is thrown away.
    Scratch,
}

#[derive(Debug)]
struct ObjectPaths {
    own: PathBuf,
    alternate: PathBuf,
}

/// One call of git.
struct Git {
    command: Command,
    input: Option<Vec<u8>>,
    tolerant: bool,
}

impl Git {
    fn index(mut self, path: &Path) -> Self {
        self.command.env("GIT_INDEX_FILE", path);
        self
    }

    fn objects(mut self, paths: Option<&ObjectPaths>) -> Self {
        if let Some(paths) = paths {
            self.command.env("GIT_OBJECT_DIRECTORY", &paths.own);
            self.command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", &paths.alternate);
        }
        self
    }

    fn input(mut self, bytes: Vec<u8>) -> Self {
        self.input = Some(bytes);
        self.command.stdin(Stdio::piped());
        self
    }

    /// Exit code 1 means "not all of it", and is good enough.
    fn tolerant(mut self) -> Self {
        self.tolerant = true;
        self
    }

    fn bytes(mut self) -> Result<Vec<u8>, Failure> {
        let args: Vec<OsString> = self.command.get_args().map(OsStr::to_owned).collect();
        let run = || -> io::Result<std::process::Output> {
            let mut child = self.command.spawn()?;
            let (input, pipe) = (self.input.take(), child.stdin.take());
            // Written beside the reading: git may say more than a pipe holds before it has read all.
            let writer = std::thread::spawn(move || match (input, pipe) {
                (Some(input), Some(mut pipe)) => pipe.write_all(&input),
                _ => Ok(()),
            });
            let output = child.wait_with_output()?;
            match writer.join() {
                // A git that fails need not read to the end; what it said counts.
                Ok(Err(error)) if output.status.success() => Err(error),
                Ok(_) => Ok(output),
                Err(_) => Err(io::Error::other("its input was not written")),
            }
        };
        let output = { run }().map_err(|error| {
            let code =
                if error.kind() == ErrorKind::NotFound { "git.missing" } else { "git.failed" };
            Failure::new(Exit::Failure, code, format!("run git: {error}"))
        })?;
        let good = output.status.success() || (self.tolerant && output.status.code() == Some(1));
        if good {
            return Ok(output.stdout);
        }
        let shown: Vec<String> = args
            .iter()
            .map(|arg| arg.to_string_lossy().into_owned())
            .skip_while(|arg| arg == "-c" || arg.contains('='))
            .collect();
        let error = String::from_utf8_lossy(&output.stderr);
        let message = format!("git {}: {}", shown.join(" "), error.trim());
        Err(Failure::new(Exit::Failure, "git.failed", message))
    }

    fn text(self) -> Result<String, Failure> {
        self.bytes().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// A directory for what is thrown away.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Result<Self, Failure> {
        tempfile::Builder::new()
            .prefix("aion-git-")
            .tempdir()
            .map(Self)
            .map_err(|error| Failure::io("make a temporary directory", &error))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// Reads `:mode mode id id status NUL path NUL`, without submodules.
fn parse_raw(raw: &[u8]) -> Changes {
    let mut changes = Changes::new();
    let mut parts = raw.split(|byte| *byte == 0);
    while let (Some(about), Some(path)) = (parts.next(), parts.next()) {
        let about = String::from_utf8_lossy(about);
        let words: Vec<&str> = about.trim_start_matches(':').split(' ').collect();
        let [old, new, _, _, status] = words.as_slice() else { continue };
        if *old == SUBMODULE || *new == SUBMODULE {
            continue;
        }
        let kind = match status.as_bytes().first() {
            Some(b'A') => FileChangeKind::Added,
            Some(b'D') => FileChangeKind::Deleted,
            _ => FileChangeKind::Modified,
        };
        changes.insert(path.to_vec(), kind);
    }
    changes
}

/// Changes as they are shown.
fn shown(changes: &Changes) -> Vec<FileChange> {
    changes
        .iter()
        .map(|(path, change)| FileChange {
            path: String::from_utf8_lossy(path).into_owned(),
            change: *change,
        })
        .collect()
}

/// Whether a path only looks new because it is not ignored any more.
fn keeps(kind: FileChangeKind, path: &[u8], ignored: &[Vec<u8>]) -> bool {
    kind == FileChangeKind::Added
        && ignored.iter().any(|known| match known.strip_suffix(b"/") {
            Some(_) => path.starts_with(known),
            None => path == known.as_slice(),
        })
}

/// Where a team's start is kept.
pub(crate) fn start_ref(team: &TeamId) -> String {
    format!("refs/aion/{team}/start")
}

fn ignored_ref(team: &TeamId) -> String {
    format!("refs/aion/{team}/ignored")
}
