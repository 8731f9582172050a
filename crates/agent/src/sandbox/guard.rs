//! Keeps an eye on what a wall cannot hold by itself: what is changed there is put back, and told;
//! it goes through no link that a command made.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use aion_core::sandbox::ViolationKind;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use super::place::{Place, Thing};
use super::violation::Violation;

/// How soon the watching thread notices that it is to end, or that nothing can be watched.
const LOOK: Duration = Duration::from_millis(50);
/// Violations of one command that are told.
const TOLD: usize = 16;

/// What a guard keeps.
#[derive(Debug, Default)]
pub(super) struct Kept<'a> {
    /// Directories that stay the ones that they are.
    pub(super) pinned: Vec<&'a PathBuf>,
    /// Places that stay as they are, whole.
    pub(super) whole: Vec<&'a PathBuf>,
    /// Places of which only the mode is kept: what is in them is closed anyhow.
    pub(super) modes: Vec<&'a PathBuf>,
}

/// The watch over one command's places.
#[derive(Debug)]
pub(super) struct Guard {
    stop: Sender<()>,
    thread: Option<JoinHandle<Vec<Violation>>>,
}

impl Guard {
    /// Remembers what is at these places, and begins to watch them. None if there is nothing to.
    pub(super) fn begin(kept: &Kept<'_>) -> io::Result<Option<Self>> {
        let mut places = Vec::new();
        for path in &kept.pinned {
            places.extend(Place::pinned(path)?);
        }
        for path in &kept.whole {
            places.push(Place::whole(path)?);
        }
        for path in &kept.modes {
            places.extend(Place::mode(path)?);
        }
        if places.is_empty() {
            return Ok(None);
        }
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new().name("aion-guard".to_owned()).spawn(move || {
            let watch = watch(&places);
            let mut told = Vec::new();
            loop {
                let last = !matches!(stopped.recv_timeout(LOOK), Err(RecvTimeoutError::Timeout));
                let quiet = watch.as_ref().is_some_and(|watch| watch.read_events().is_err());
                if !quiet || last {
                    places
                        .iter()
                        .filter_map(put_back)
                        .for_each(|violation| tell(&mut told, violation));
                }
                if last {
                    return told;
                }
            }
        })?;
        Ok(Some(Self { stop, thread: Some(thread) }))
    }

    /// Looks a last time, when the command and all it began are gone. It may block.
    pub(super) fn end(mut self) -> Vec<Violation> {
        let _ = self.stop.send(());
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

/// Watches the directories of the places, where the machine still has watches to give.
fn watch(places: &[Place]) -> Option<Inotify> {
    let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).ok()?;
    let flags = AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_MOVE
        | AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_MODIFY
        | AddWatchFlags::IN_ATTRIB
        | AddWatchFlags::IN_DONT_FOLLOW;
    let mut watched: Vec<&Path> = Vec::new();
    for place in places {
        watched.push(place.path().parent()?);
        if matches!(place.wanted(), Thing::Directory { .. }) {
            watched.push(place.path());
        }
    }
    for path in watched {
        inotify.add_watch(path, flags).ok()?;
    }
    Some(inotify)
}

/// Compares a place with what is to be there, and puts that back.
fn put_back(place: &Place) -> Option<Violation> {
    if place.is_as_wanted() {
        return None;
    }
    let (kind, why) = match place.restore() {
        Ok(()) => (ViolationKind::PutBack, String::new()),
        Err(error) => (ViolationKind::Changed, format!(" ({error})")),
    };
    Some(Violation { kind, what: format!("{}{why}", place.path().display()) })
}

fn tell(told: &mut Vec<Violation>, violation: Violation) {
    if told.len() < TOLD && !told.contains(&violation) {
        told.push(violation);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_was_changed_is_put_back_and_told() {
        let root = tempfile::tempdir().unwrap();
        let at = root.path().canonicalize().unwrap();
        fs::create_dir_all(at.join(".git/hooks")).unwrap();
        fs::write(at.join(".git/hooks/old.sample"), "x").unwrap();
        fs::write(at.join(".git/config"), "good").unwrap();
        fs::create_dir(at.join("same")).unwrap();
        let names = [".git/hooks", ".git/config", ".git/commondir", "same"];
        let places: Vec<PathBuf> = names.iter().map(|name| at.join(name)).collect();
        let kept = Kept { whole: places.iter().collect(), ..Kept::default() };
        let guard = Guard::begin(&kept).unwrap().unwrap();
        fs::write(at.join(".git/hooks/post-commit"), "evil").unwrap();
        fs::remove_file(at.join(".git/config")).unwrap();
        symlink("/etc/passwd", at.join(".git/config")).unwrap();
        fs::write(at.join(".git/commondir"), "..").unwrap();
        let told = guard.end();
        let mut what: Vec<_> = told.iter().map(|violation| violation.what.clone()).collect();
        what.sort();
        let changed = names[..3].iter().map(|name| at.join(name).display().to_string());
        let mut expected: Vec<_> = changed.collect();
        expected.sort();
        assert_eq!(what, expected);
        assert!(told.iter().all(|violation| violation.kind == ViolationKind::PutBack));
        assert_eq!(fs::read_to_string(at.join(".git/config")).unwrap(), "good");
        assert!(!at.join(".git/commondir").exists());
        assert!(!at.join(".git/hooks/post-commit").exists());
        assert!(at.join(".git/hooks/old.sample").exists());
    }

    #[test]
    fn nobody_is_led_elsewhere() {
        let root = tempfile::tempdir().unwrap();
        let at = root.path().canonicalize().unwrap();
        fs::create_dir_all(at.join("ws/.git")).unwrap();
        fs::create_dir(at.join("elsewhere")).unwrap();
        fs::write(at.join("ws/.git/config"), "good").unwrap();
        fs::write(at.join("elsewhere/config"), "mine").unwrap();
        let (pinned, config) = (at.join("ws/.git"), at.join("ws/.git/config"));
        for pinned_too in [false, true] {
            let pinned = pinned_too.then_some(&pinned).into_iter().collect();
            let kept = Kept { pinned, whole: vec![&config], ..Kept::default() };
            let guard = Guard::begin(&kept).unwrap().unwrap();
            fs::rename(at.join("ws/.git"), at.join("ws/moved")).unwrap();
            symlink(at.join("elsewhere"), at.join("ws/.git")).unwrap();
            let told = guard.end();
            assert_eq!(fs::read_to_string(at.join("elsewhere/config")).unwrap(), "mine");
            if pinned_too {
                assert!(told.iter().any(|violation| violation.kind == ViolationKind::PutBack));
                assert_eq!(fs::read_to_string(&config).unwrap(), "good");
                assert!(at.join("ws/.git").symlink_metadata().unwrap().is_dir());
            } else {
                assert!(told.iter().all(|violation| violation.kind == ViolationKind::Changed));
                fs::remove_file(at.join("ws/.git")).unwrap();
                fs::rename(at.join("ws/moved"), at.join("ws/.git")).unwrap();
            }
        }
    }
}
