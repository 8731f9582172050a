//! Files by the hash of their content, each kept once for a user, and put where members read them;
//! what is put follows no link that a member made.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use aion_api::{FileParams, FileResponse};
use aion_core::message::FileRef;
use axum::http::StatusCode;
use nix::fcntl::{OFlag, open, openat, renameat};
use nix::sys::stat::{Mode, fchmod, fstat, mkdirat};
use nix::unistd::{UnlinkatFlags, fsync, unlinkat};
use sha2::{Digest, Sha256};

use crate::auth::hex;
use crate::error::{Answer, Failure};

/// The largest file.
pub(crate) const FILE_BYTES: usize = 16 * 1024 * 1024;
/// All files of one user.
const ALL_BYTES: u64 = 2 * 1024 * 1024 * 1024;
/// The longest name.
const NAME_BYTES: usize = 200;

/// Where files are kept.
#[derive(Debug)]
pub(crate) struct FileStore {
    directory: PathBuf,
}

impl FileStore {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Keeps a content. It is durable when this returns.
    pub(crate) fn keep(&self, user: &str, bytes: &[u8]) -> Answer<FileResponse> {
        if bytes.len() > FILE_BYTES {
            return Err(too_large());
        }
        let sha256 = hex(&Sha256::digest(bytes));
        let directory = self.of(user);
        let kept = FileResponse { sha256: sha256.clone(), bytes: bytes.len() as u64 };
        let path = directory.join(&sha256);
        if path.is_file() {
            return Ok(kept);
        }
        let write = || {
            DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
            let mut all = bytes.len() as u64;
            for entry in fs::read_dir(&directory)? {
                all += entry?.metadata().map_or(0, |meta| meta.len());
            }
            if all > ALL_BYTES {
                return Ok(false);
            }
            let mut part = tempfile::NamedTempFile::new_in(&directory)?;
            part.write_all(bytes)?;
            part.as_file().sync_all()?;
            part.persist(&path)?;
            File::open(&directory)?.sync_all()?;
            Ok(true)
        };
        match write() {
            Ok(true) => Ok(kept),
            Ok(false) => Err(Failure::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "file.no_room",
                format!("all files together have {ALL_BYTES} bytes at most"),
            )),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Reads a content.
    pub(crate) fn read(&self, user: &str, sha256: &str) -> Answer<Vec<u8>> {
        let none = || Failure::not_found("file.not_found", "there is no such file");
        if sha256.len() != 64 || !sha256.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(none());
        }
        match fs::read(self.of(user).join(sha256)) {
            Ok(bytes) => Ok(bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(none()),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Puts a content into a team's directory, where the message says that it is.
    pub(crate) fn put(&self, user: &str, file: &FileParams, workspace: &Path) -> Answer<FileRef> {
        check_name(&file.name)?;
        let bytes = self.read(user, &file.sha256).map_err(|failure| {
            if failure.code() == "file.not_found" {
                let detail =
                    format!("there is no file {:?}; give it to POST /api/files", file.sha256);
                return Failure::invalid("file.not_found", detail);
            }
            failure
        })?;
        let (name, sha256) = (file.name.clone(), file.sha256.clone());
        let file = FileRef { name, sha256, bytes: bytes.len() as u64 };
        place(workspace, &file, &bytes).map_err(|error| {
            tracing::warn!(%error, "a file was not put into a team's directory");
            let detail = format!("the file could not be put at {}: {error}", file.place());
            Failure::invalid("file.not_placed", detail)
        })?;
        Ok(file)
    }

    fn of(&self, user: &str) -> PathBuf {
        self.directory.join(hex(&Sha256::digest(user.as_bytes())[..8]))
    }
}

/// The answer to a file that is too large.
pub(crate) fn too_large() -> Failure {
    let detail = format!("a file has {FILE_BYTES} bytes at most");
    Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "body.too_large", detail)
}

fn failed(error: &io::Error) -> Failure {
    tracing::error!(%error, "a file could not be kept or read");
    let detail = format!("the file could not be kept or read: {error}");
    Failure::new(StatusCode::SERVICE_UNAVAILABLE, "file.unavailable", detail)
}

/// A name is one component of a path, and shows what it is.
fn check_name(name: &str) -> Answer<()> {
    let bad = name.is_empty()
        || name.len() > NAME_BYTES
        || name.starts_with(['.', '-', ' '])
        || name.chars().any(|c| c.is_control() || matches!(c, '/' | '\\' | ':' | '"'))
        || name.chars().any(|c| matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}'));
    if bad {
        let detail =
            format!("a file's name is one plain name of {NAME_BYTES} bytes at most, not {name:?}");
        return Err(Failure::invalid("file.name", detail));
    }
    Ok(())
}

/// Writes a file below the workspace by directories that are no links.
fn place(workspace: &Path, file: &FileRef, bytes: &[u8]) -> io::Result<()> {
    let place = file.place();
    let mut parts: Vec<&str> = place.split('/').collect();
    let name = parts.pop().unwrap_or_default();
    let mut at = open(workspace, OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    for (depth, part) in parts.iter().enumerate() {
        at = enter(&at, part)?;
        if depth == 1 {
            // What goes along is nobody's work: git leaves it alone.
            write_new(&at, ".gitignore", b"*\n")?;
        }
    }
    write_new(&at, name, bytes)
}

fn enter(at: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    match mkdirat(at, name, Mode::from_bits_truncate(0o755)) {
        Ok(()) => fsync(at)?,
        Err(nix::Error::EEXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let entered = openat(at, name, flags, Mode::empty())?;
    // While a command runs, an empty directory that nobody may write to stands where none is to be
    // made. What is put into it is the house's.
    let writable = Mode::from_bits_truncate(0o755);
    if Mode::from_bits_truncate(fstat(&entered)?.st_mode) & Mode::S_IWUSR == Mode::empty() {
        fchmod(&entered, writable)?;
    }
    Ok(entered)
}

/// Writes a file whole, or leaves the one that is there.
fn write_new(at: &OwnedFd, name: &str, bytes: &[u8]) -> io::Result<()> {
    let here = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    if openat(at, name, here, Mode::empty()).is_ok() {
        return Ok(());
    }
    // Members write here too: nothing that they could have put at the part's place is opened.
    let mut drawn = [0; 16];
    getrandom::fill(&mut drawn).map_err(io::Error::other)?;
    let part = format!(".{}", hex(&drawn));
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
    let opened =
        openat(at, part.as_str(), flags | OFlag::O_CLOEXEC, Mode::from_bits_truncate(0o644))?;
    let write = || {
        let mut opened = File::from(opened);
        opened.write_all(bytes)?;
        opened.sync_all()?;
        renameat(at, part.as_str(), at, name)?;
        Ok(())
    };
    let written: io::Result<()> = write();
    if written.is_err() {
        // Why it failed is what counts.
        let _ = unlinkat(at, part.as_str(), UnlinkatFlags::NoRemoveDir);
    }
    written?;
    Ok(fsync(at)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn file(store: &FileStore, name: &str, bytes: &[u8]) -> FileParams {
        let kept = store.keep("ada", bytes).unwrap();
        FileParams { sha256: kept.sha256, name: name.to_owned() }
    }

    #[test]
    fn a_content_is_kept_once_and_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let store = FileStore::new(dir.path().join("files"));
        let kept = store.keep("ada", b"one").unwrap();
        assert_eq!(store.keep("ada", b"one").unwrap(), kept);
        assert_eq!(store.read("ada", &kept.sha256).unwrap(), b"one");
        let names = ["../ada", "", &kept.sha256.to_uppercase(), &kept.sha256[..63]];
        for wrong in names {
            assert_eq!(store.read("ada", wrong).unwrap_err().code(), "file.not_found");
        }
        assert_eq!(store.read("eve", &kept.sha256).unwrap_err().code(), "file.not_found");
        let large = vec![0; FILE_BYTES + 1];
        assert_eq!(store.keep("ada", &large).unwrap_err().code(), "body.too_large");
    }

    #[test]
    fn a_file_is_put_where_the_message_says_and_git_leaves_it_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (store, work) = (FileStore::new(dir.path().join("files")), dir.path().join("work"));
        fs::create_dir(&work).unwrap();
        let params = file(&store, "plan.txt", b"first");
        let put = store.put("ada", &params, &work).unwrap();
        assert_eq!(fs::read(work.join(put.place())).unwrap(), b"first");
        assert_eq!(fs::read(work.join(".aion/files/.gitignore")).unwrap(), b"*\n");
        // What a member made of it stays.
        fs::write(work.join(put.place()), "changed").unwrap();
        store.put("ada", &params, &work).unwrap();
        assert_eq!(fs::read(work.join(put.place())).unwrap(), b"changed");
        for name in
            ["", "..", ".env", "a/b", "a\\b", "-rf", "a\nb", "\u{202e}txt.exe", &"n".repeat(201)]
        {
            let params = FileParams { name: name.to_owned(), ..params.clone() };
            let refused = store.put("ada", &params, &work).unwrap_err();
            assert_eq!(refused.code(), "file.name", "{name:?}");
        }
        let absent = FileParams { sha256: "0".repeat(64), ..params };
        assert_eq!(store.put("ada", &absent, &work).unwrap_err().code(), "file.not_found");
    }

    #[test]
    fn what_a_member_has_put_into_the_way_is_never_opened() {
        let dir = tempfile::tempdir().unwrap();
        let store = FileStore::new(dir.path().join("files"));
        let params = file(&store, "plan.txt", b"first");
        let outside = dir.path().join("outside");
        fs::write(&outside, "mine").unwrap();
        let part = |name: &str| format!(".{}", hex(&Sha256::digest(name.as_bytes())[..8]));
        let work = dir.path().join("work");
        let files = work.join(".aion/files");
        let below = files.join(&params.sha256[..12]);
        fs::create_dir_all(&below).unwrap();
        let fifo = files.join(part(".gitignore"));
        nix::unistd::mkfifo(&fifo, Mode::from_bits_truncate(0o600)).unwrap();
        // Somebody reads from it, so that who writes to it is noticed instead of waiting.
        let _reader = File::options().read(true).write(true).open(&fifo).unwrap();
        fs::hard_link(&outside, below.join(part("plan.txt"))).unwrap();
        let put = store.put("ada", &params, &work).unwrap();
        assert!(fs::symlink_metadata(files.join(".gitignore")).unwrap().is_file());
        assert_eq!(fs::read(work.join(put.place())).unwrap(), b"first");
        assert_eq!(fs::read(&outside).unwrap(), b"mine");
        assert_eq!(fs::read_dir(&below).unwrap().count(), 2, "no part stays");
    }

    #[test]
    fn two_files_that_are_put_at_once_are_both_there_whole() {
        let dir = tempfile::tempdir().unwrap();
        let store = FileStore::new(dir.path().join("files"));
        let both = [file(&store, "a.txt", b"first"), file(&store, "b.txt", b"second")];
        for round in 0..20 {
            let work = dir.path().join(format!("work{round}"));
            fs::create_dir(&work).unwrap();
            let gate = std::sync::Barrier::new(both.len());
            std::thread::scope(|scope| {
                for params in &both {
                    scope.spawn(|| {
                        gate.wait();
                        store.put("ada", params, &work).unwrap();
                    });
                }
            });
            assert_eq!(fs::read(work.join(".aion/files/.gitignore")).unwrap(), b"*\n");
        }
    }

    #[test]
    fn a_link_that_a_member_made_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let store = FileStore::new(dir.path().join("files"));
        let outside = dir.path().join("outside");
        fs::create_dir(&outside).unwrap();
        let params = file(&store, "plan.txt", b"first");
        for link in [".aion", ".aion/files"] {
            let work = tempfile::tempdir().unwrap();
            if let Some(parent) = work.path().join(link).parent() {
                fs::create_dir_all(parent).unwrap();
            }
            symlink(&outside, work.path().join(link)).unwrap();
            let refused = store.put("ada", &params, work.path()).unwrap_err();
            assert_eq!(refused.code(), "file.not_placed", "{link}");
        }
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        // A second name of a file elsewhere, where the bytes are written first.
        let work = tempfile::tempdir().unwrap();
        let mine = dir.path().join("mine");
        fs::write(&mine, "keep me").unwrap();
        let place = work.path().join(format!(".aion/files/{}", &params.sha256[..12]));
        fs::create_dir_all(&place).unwrap();
        let part = format!(".{}", hex(&Sha256::digest("plan.txt")[..8]));
        fs::hard_link(&mine, place.join(part)).unwrap();
        store.put("ada", &params, work.path()).unwrap();
        assert_eq!(fs::read_to_string(&mine).unwrap(), "keep me");
        assert_eq!(fs::read_to_string(place.join("plan.txt")).unwrap(), "first");
    }
}
