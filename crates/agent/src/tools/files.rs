//! What an agent has seen of files, and how files are read and replaced; it judges no path.

use std::collections::VecDeque;
use std::fs::{self, OpenOptions, Permissions};
use std::hash::{DefaultHasher, Hasher};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many files an agent's memory of contents goes back. An idle agent has to stay small; a file
/// that fell out is simply read again.
const REMEMBERED: usize = 48;
/// The largest file that is read as a whole.
pub(super) const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// How far into a file a NUL byte makes it a binary one.
const BINARY_WINDOW: usize = 8 * 1024;

/// The contents that an agent has seen, as hashes; the newest last.
#[derive(Debug, Default)]
pub(super) struct Seen(VecDeque<(PathBuf, u64)>);

impl Seen {
    pub(super) fn remember(seen: &Mutex<Self>, path: &Path, content: &[u8]) {
        let mut seen = lock(seen);
        seen.0.retain(|(p, _)| p != path);
        if seen.0.len() == REMEMBERED {
            seen.0.pop_front();
        }
        seen.0.push_back((path.to_path_buf(), fingerprint(content)));
    }

    /// Refuses a change to content that the agent does not know.
    pub(super) fn check(
        seen: &Mutex<Self>,
        path: &Path,
        shown: &str,
        content: &[u8],
    ) -> Result<(), String> {
        let known = lock(seen).0.iter().find(|(p, _)| p == path).map(|(_, print)| *print);
        match known {
            None => Err(format!("Read {shown} first: you have not seen what it holds.")),
            Some(print) if print != fingerprint(content) => Err(format!(
                "{shown} has changed since you read it. Read it again, then change it."
            )),
            Some(_) => Ok(()),
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    // Between removal and insertion nothing can panic but the allocator.
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fingerprint(content: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(content);
    hasher.finish()
}

/// A regular file's content, or none if there is no such file.
pub(super) fn content(path: &Path, shown: &str) -> Result<Option<Vec<u8>>, String> {
    // What is opened is what is looked at: a link or a pipe that takes the file's place meanwhile is
    // neither followed nor waited for.
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_NOFOLLOW)
        .open(path);
    let unreadable = |error: std::io::Error| format!("{shown} cannot be read: {error}.");
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(format!("{shown} is a directory. List it with Glob."));
    }
    if !metadata.is_file() {
        return Err(format!("{shown} is no regular file."));
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(format!(
            "{shown} has {} bytes; files over {MAX_FILE_BYTES} bytes are not read. Search it with Grep.",
            metadata.len()
        ));
    }
    let mut content = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut content).map_err(unreadable)?;
    Ok(Some(content))
}

/// Refuses content that is no text.
pub(super) fn check_text(content: &[u8], shown: &str) -> Result<(), String> {
    if content[..content.len().min(BINARY_WINDOW)].contains(&0) {
        return Err(format!("{shown} is a binary file of {} bytes.", content.len()));
    }
    Ok(())
}

/// Puts content in a file's place in one step: whoever reads it sees the old or the new one.
pub(super) fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent)?;
    let mut file = tempfile::Builder::new()
        .prefix(".aion-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(parent)?;
    file.write_all(content)?;
    if let Ok(old) = fs::metadata(path) {
        file.as_file().set_permissions(old.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}
