//! Empty directories that stand where nothing may be made while a command runs; each goes when the
//! last command that needs it has ended, and nothing with a content is ever taken away.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

/// A directory that vanishes between two looks is made again this often.
const TRIES: usize = 100;

/// Placeholders that a running command needs, in this process or in another one.
#[derive(Debug, Default)]
pub(super) struct Placeholders {
    held: Vec<(PathBuf, File)>,
}

impl Placeholders {
    /// Puts a placeholder at each path. What turned out to exist after all comes back.
    pub(super) fn put(paths: &[PathBuf]) -> io::Result<(Self, Vec<PathBuf>)> {
        let (mut held, mut real) = (Self::default(), Vec::new());
        for path in paths {
            match hold(path)? {
                Some(file) => held.held.push((path.clone(), file)),
                None => real.push(path.clone()),
            }
        }
        Ok((held, real))
    }

    /// Where they are.
    pub(super) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.held.iter().map(|(path, _)| path)
    }
}

impl Drop for Placeholders {
    fn drop(&mut self) {
        for (path, file) in self.held.drain(..) {
            if file.unlock().is_ok() {
                take_away(&path, &file);
            }
        }
    }
}

/// Takes an empty directory away that held a place, where nobody needs it any more.
pub(super) fn release(path: &Path) {
    if let Some(file) = open(path).ok().filter(|file| is_placeholder(path, file).unwrap_or(false)) {
        take_away(path, &file);
    }
}

/// Whoever else needs it holds a lock, and takes it away later. What cannot be taken away is empty,
/// and goes with the next command.
fn take_away(path: &Path, file: &File) {
    if file.try_lock().is_ok() && is_at(file, path) {
        let _ = fs::remove_dir(path);
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Makes or finds the placeholder at a path, and keeps it there. None if something else is there.
fn hold(path: &Path) -> io::Result<Option<File>> {
    for _ in 0..TRIES {
        match DirBuilder::new().mode(0o555).create(path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let file = match open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(_) => return Ok(None),
        };
        if !is_placeholder(path, &file)? {
            return Ok(None);
        }
        file.lock_shared()?;
        if is_at(&file, path) {
            return Ok(Some(file));
        }
    }
    Err(io::Error::other(format!("{} comes and goes", path.display())))
}

/// Whether a place only looks as if something were there: a command runs for which nothing may be
/// made at it, or ran when the house fell.
pub fn is_held_empty(path: &Path) -> bool {
    open(path).and_then(|file| is_placeholder(path, &file)).unwrap_or(false)
}

/// An empty directory that nobody may write to: it has that from the moment in which it is made.
fn is_placeholder(path: &Path, file: &File) -> io::Result<bool> {
    if file.metadata()?.mode() & 0o222 != 0 {
        return Ok(false);
    }
    match fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        // It went in this moment, or is closed to ourselves; the next look tells.
        Err(error) => Ok(error.kind() == ErrorKind::NotFound),
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let same = |a: &fs::Metadata, b: &fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    matches!((file.metadata(), path.symlink_metadata()), (Ok(a), Ok(b)) if same(&a, &b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_takes_it_away_and_a_real_thing_stays() {
        let root = tempfile::tempdir().unwrap();
        let (gone, real) = (root.path().join("gone"), root.path().join("real"));
        fs::create_dir(&real).unwrap();
        let paths = [gone.clone(), real.clone()];
        let (first, found) = Placeholders::put(&paths).unwrap();
        assert_eq!(found, std::slice::from_ref(&real));
        assert_eq!(first.paths().collect::<Vec<_>>(), [&gone]);
        let (second, _) = Placeholders::put(&paths).unwrap();
        drop(first);
        assert!(gone.is_dir());
        assert!(is_held_empty(&gone) && !is_held_empty(&real));
        drop(second);
        assert!(!gone.exists() && real.is_dir());
    }
}
