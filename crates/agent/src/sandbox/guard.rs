//! Keeps an eye on what a wall cannot hold by itself: what is changed there is put back, and told;
//! it follows no link that a command made.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use aion_core::sandbox::ViolationKind;
use nix::fcntl::OFlag;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use super::violation::Violation;

/// Entries and bytes of one place that are remembered; what is larger is told, and not put back.
const ENTRIES: usize = 2_000;
const BYTES: u64 = 16 * 1024 * 1024;
/// How soon the watching thread notices that it is to end, or that nothing can be watched.
const LOOK: Duration = Duration::from_millis(50);
/// Where the house puts files in a workspace.
const HOUSE: &str = ".aion";
const HOUSE_FILES: &str = "files";
/// Violations of one command that are told.
const TOLD: usize = 16;

/// What stands at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Thing {
    Nothing,
    File {
        content: Vec<u8>,
        mode: u32,
    },
    /// Too large to be remembered: size, and time of the last change.
    Large {
        bytes: u64,
        changed: (i64, i64),
    },
    Link(PathBuf),
    /// Something of which only the mode is remembered.
    Mode(u32),
    Directory {
        entries: BTreeMap<PathBuf, Thing>,
        mode: u32,
    },
    /// A socket, a device: nothing of ours.
    Other,
}

/// The watch over one command's places.
#[derive(Debug)]
pub(super) struct Guard {
    stop: Sender<()>,
    thread: Option<JoinHandle<Vec<Violation>>>,
}

impl Guard {
    /// Remembers what is at these places, and begins to watch them; of `closed` ones only the mode.
    /// None if there is nothing to.
    pub(super) fn begin(places: Vec<PathBuf>, closed: &[PathBuf]) -> io::Result<Option<Self>> {
        if places.is_empty() && closed.is_empty() {
            return Ok(None);
        }
        let mut kept = Vec::new();
        for place in places {
            let (mut entries, mut bytes) = (ENTRIES, BYTES);
            let thing = look(&place, &mut entries, &mut bytes)?;
            kept.push((place, thing));
        }
        for place in closed {
            if let Some(mode) = mode(place) {
                kept.push((place.clone(), Thing::Mode(mode)));
            }
        }
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new().name("aion-guard".to_owned()).spawn(move || {
            let watch = watch(&kept);
            let mut told = Vec::new();
            loop {
                let last = !matches!(stopped.recv_timeout(LOOK), Err(RecvTimeoutError::Timeout));
                let quiet = watch.as_ref().is_some_and(|w| w.read_events().is_err());
                if !quiet || last {
                    for (place, thing) in &kept {
                        put_back(place, thing, &mut told);
                    }
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
fn watch(kept: &[(PathBuf, Thing)]) -> Option<Inotify> {
    let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).ok()?;
    let flags = AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_MOVE
        | AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_MODIFY
        | AddWatchFlags::IN_ATTRIB
        | AddWatchFlags::IN_DONT_FOLLOW;
    for (place, thing) in kept {
        inotify.add_watch(place.parent()?, flags).ok()?;
        if matches!(thing, Thing::Directory { .. }) {
            inotify.add_watch(place, flags).ok()?;
        }
    }
    Some(inotify)
}

/// Files that go along with messages are put into the workspace by the house itself, at any time.
fn is_the_houses(directory: &Path, name: &OsStr) -> bool {
    directory.ends_with(HOUSE) && name == HOUSE_FILES
}

/// The mode of what is there itself.
fn mode(path: &Path) -> Option<u32> {
    let meta = path.symlink_metadata().ok().filter(|meta| !meta.is_symlink())?;
    Some(meta.permissions().mode() & 0o7777)
}

fn look(path: &Path, entries: &mut usize, bytes: &mut u64) -> io::Result<Thing> {
    let meta = match path.symlink_metadata() {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Thing::Nothing),
        Err(error) => return Err(error),
    };
    let mode = meta.permissions().mode() & 0o7777;
    if meta.is_symlink() {
        return Ok(Thing::Link(fs::read_link(path)?));
    }
    if meta.is_file() {
        if meta.len() > *bytes {
            let changed = (meta.mtime(), meta.mtime_nsec());
            return Ok(Thing::Large { bytes: meta.len(), changed });
        }
        *bytes -= meta.len();
        let open = OpenOptions::new().read(true).custom_flags(OFlag::O_NOFOLLOW.bits()).open(path);
        let mut content = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(open?, BYTES), &mut content)?;
        return Ok(Thing::File { content, mode });
    }
    if !meta.is_dir() {
        return Ok(Thing::Other);
    }
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if is_the_houses(path, &entry.file_name()) {
            continue;
        }
        if *entries == 0 {
            break;
        }
        *entries -= 1;
        let name = PathBuf::from(entry.file_name());
        let thing = look(&path.join(&name), entries, bytes)?;
        found.insert(name, thing);
    }
    Ok(Thing::Directory { entries: found, mode })
}

/// Compares a place with what is to be there, and puts that back. A place whose own directory became
/// a link is not gone to.
fn put_back(place: &Path, wanted: &Thing, told: &mut Vec<Violation>) {
    let (mut entries, mut bytes) = (ENTRIES, BYTES);
    let same = match wanted {
        Thing::Mode(wanted) => mode(place) == Some(*wanted),
        _ => look(place, &mut entries, &mut bytes).is_ok_and(|there| {
            let empty = matches!(&there, Thing::Directory { entries, .. } if entries.is_empty());
            let made_by_the_house =
                *wanted == Thing::Nothing && empty && place.join(HOUSE_FILES).is_dir();
            there == *wanted || (made_by_the_house && place.ends_with(HOUSE))
        }),
    };
    if same {
        return;
    }
    let straight = place
        .parent()
        .is_some_and(|directory| directory.canonicalize().is_ok_and(|real| real == directory));
    let done = if straight { make(place, wanted) } else { Err(io::ErrorKind::NotFound.into()) };
    let (kind, why) = match done {
        Ok(()) => (ViolationKind::PutBack, String::new()),
        Err(error) => (ViolationKind::Changed, format!(" ({error})")),
    };
    let what = format!("{}{why}", place.display());
    let known = told.iter().any(|violation| violation.what == what);
    if !known && told.len() < TOLD {
        told.push(Violation { kind, what });
    }
}

fn make(place: &Path, wanted: &Thing) -> io::Result<()> {
    if let Thing::Large { .. } | Thing::Other = wanted {
        return Err(io::Error::other("it could not be remembered"));
    }
    if let Thing::Mode(wanted) = wanted {
        mode(place).ok_or(io::ErrorKind::NotFound)?;
        return fs::set_permissions(place, fs::Permissions::from_mode(*wanted));
    }
    match place.symlink_metadata() {
        Ok(meta) if meta.is_dir() => {
            // What its owner may not look into cannot be taken away either.
            let _ = fs::set_permissions(place, fs::Permissions::from_mode(0o700));
            fs::remove_dir_all(place)?;
        }
        Ok(_) => fs::remove_file(place)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    match wanted {
        Thing::Nothing => Ok(()),
        Thing::File { content, mode } => {
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(mode & 0o777).open(place)?;
            file.write_all(content)?;
            file.set_permissions(fs::Permissions::from_mode(*mode))
        }
        Thing::Link(target) => symlink(target, place),
        Thing::Directory { entries, mode } => {
            fs::create_dir(place)?;
            for (name, thing) in entries {
                make(&place.join(name), thing)?;
            }
            fs::set_permissions(place, fs::Permissions::from_mode(*mode))
        }
        Thing::Large { .. } | Thing::Other | Thing::Mode(_) => {
            Err(io::Error::other("it could not be remembered"))
        }
    }
}

#[cfg(test)]
mod tests {
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
        let places = names.iter().map(|name| at.join(name)).collect();
        let guard = Guard::begin(places, &[]).unwrap().unwrap();
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
        let guard = Guard::begin(vec![at.join("ws/.git/config")], &[]).unwrap().unwrap();
        fs::rename(at.join("ws/.git"), at.join("ws/moved")).unwrap();
        symlink(at.join("elsewhere"), at.join("ws/.git")).unwrap();
        let told = guard.end();
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].kind, ViolationKind::Changed);
        assert_eq!(fs::read_to_string(at.join("elsewhere/config")).unwrap(), "mine");
    }
}
