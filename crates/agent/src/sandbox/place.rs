//! One place in a workspace that is to stay as it is: what was there, whether it still is, and putting
//! it back; every step goes by an open directory, and none through a link.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};

/// Entries and bytes of one place that are remembered; what is larger is told, and not put back.
const ENTRIES: usize = 2_000;
const BYTES: u64 = 16 * 1024 * 1024;
/// Where the house itself puts files in a workspace, at any time.
const HOUSE: &str = ".aion";
const HOUSE_FILES: &str = "files";

/// A place, with what is to be there.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    wanted: Thing,
}

/// What stands at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Thing {
    /// Nothing at all.
    Nothing,
    /// A file.
    File { content: Vec<u8>, mode: u32 },
    /// A file that is too large to be remembered: its size, and the time of its last change.
    Large { bytes: u64, changed: (i64, i64) },
    /// A link.
    Link(PathBuf),
    /// A directory.
    Directory { entries: BTreeMap<OsString, Thing>, mode: u32 },
    /// A socket, a device: nothing of ours.
    Other,
    /// Something of which only the mode counts.
    Mode(u32),
    /// This very directory, whatever is in it.
    Same { device: u64, number: u64 },
}

impl Place {
    /// Remembers all that is at a path.
    pub(super) fn whole(path: &Path) -> io::Result<Self> {
        let wanted = look(path, &mut ENTRIES.clone(), &mut BYTES.clone())?;
        Ok(Self { path: path.to_owned(), wanted })
    }

    /// Remembers the mode of what is at a path, if that is no link.
    pub(super) fn mode(path: &Path) -> io::Result<Option<Self>> {
        let meta = path.symlink_metadata()?;
        let wanted = Thing::Mode(meta.permissions().mode() & 0o7777);
        Ok((!meta.is_symlink()).then(|| Self { path: path.to_owned(), wanted }))
    }

    /// Remembers which directory is at a path, if one is.
    pub(super) fn pinned(path: &Path) -> io::Result<Option<Self>> {
        let meta = path.symlink_metadata()?;
        let wanted = Thing::Same { device: meta.dev(), number: meta.ino() };
        Ok(meta.is_dir().then(|| Self { path: path.to_owned(), wanted }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn wanted(&self) -> &Thing {
        &self.wanted
    }

    /// Whether it is as it is to be.
    pub(super) fn is_as_wanted(&self) -> bool {
        let directory = match self.directory() {
            Ok(directory) => directory,
            // Where its directory is not, it is not either.
            Err(error) => {
                return self.wanted == Thing::Nothing && error.kind() == ErrorKind::NotFound;
            }
        };
        let path = below(&directory, self.name());
        let meta = path.symlink_metadata();
        match &self.wanted {
            Thing::Mode(mode) => meta.is_ok_and(|meta| meta.permissions().mode() & 0o7777 == *mode),
            Thing::Same { device, number } => {
                meta.is_ok_and(|meta| (meta.dev(), meta.ino()) == (*device, *number))
            }
            wanted => match look(&path, &mut ENTRIES.clone(), &mut BYTES.clone()) {
                // The house made it meanwhile, for its own files.
                Ok(Thing::Directory { entries, .. }) if *wanted == Thing::Nothing => {
                    let of_the_house =
                        self.path.ends_with(HOUSE) && path.join(HOUSE_FILES).is_dir();
                    of_the_house && entries.is_empty()
                }
                Ok(there) => there == *wanted,
                Err(_) => false,
            },
        }
    }

    /// Puts it back.
    pub(super) fn restore(&self) -> io::Result<()> {
        let directory = self.directory()?;
        let path = below(&directory, self.name());
        match &self.wanted {
            Thing::Mode(mode) => set_mode(&path, *mode),
            Thing::Same { device, number } => bring_back(&directory, &path, (*device, *number)),
            Thing::Large { .. } | Thing::Other => Err(io::Error::other("it cannot be put back")),
            wanted => {
                clear(&path)?;
                make(&path, wanted)
            }
        }
    }

    /// The directory that it lies in, if no part of the way is a link.
    fn directory(&self) -> io::Result<OwnedFd> {
        let parent = self.path.parent().ok_or(ErrorKind::NotFound)?;
        let how = OpenHow::new()
            .flags(OFlag::O_DIRECTORY | OFlag::O_PATH | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
        Ok(openat2(AT_FDCWD, parent, how)?)
    }

    fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }
}

/// A path that begins at an open directory and not at a name that somebody could change.
fn below(directory: &OwnedFd, name: &OsStr) -> PathBuf {
    Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name)
}

fn look(path: &Path, entries: &mut usize, bytes: &mut u64) -> io::Result<Thing> {
    let meta = match path.symlink_metadata() {
        Ok(meta) => meta,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Thing::Nothing),
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
        let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let mut content = Vec::new();
        file.take(BYTES).read_to_end(&mut content)?;
        return Ok(Thing::File { content, mode });
    }
    if !meta.is_dir() {
        return Ok(Thing::Other);
    }
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if path.ends_with(HOUSE) && name == HOUSE_FILES {
            continue;
        }
        if *entries == 0 {
            break;
        }
        *entries -= 1;
        let thing = look(&path.join(&name), entries, bytes)?;
        found.insert(name, thing);
    }
    Ok(Thing::Directory { entries: found, mode })
}

/// Takes away what is at a path.
fn clear(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => {
            // What its owner may not look into cannot be taken away either.
            let _ = set_mode(path, 0o700);
            fs::remove_dir_all(path)
        }
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes what is remembered, where nothing is.
fn make(path: &Path, wanted: &Thing) -> io::Result<()> {
    match wanted {
        Thing::Nothing => Ok(()),
        Thing::File { content, mode } => {
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(mode & 0o777).open(path)?;
            file.write_all(content)?;
            file.set_permissions(Permissions::from_mode(*mode))
        }
        Thing::Link(target) => symlink(target, path),
        Thing::Directory { entries, mode } => {
            fs::create_dir(path)?;
            let flags = (OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits();
            let made = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
            let directory = OwnedFd::from(made.try_clone()?);
            for (name, thing) in entries {
                make(&below(&directory, name), thing)?;
            }
            made.set_permissions(Permissions::from_mode(*mode))
        }
        Thing::Large { .. } | Thing::Other | Thing::Mode(_) | Thing::Same { .. } => {
            Err(io::Error::other("it cannot be put back"))
        }
    }
}

/// Finds a directory under another name beside its own, and gives it that one again. What took its
/// place is put aside.
fn bring_back(directory: &OwnedFd, path: &Path, wanted: (u64, u64)) -> io::Result<()> {
    let mut found = None;
    let all = below(directory, OsStr::new("."));
    for entry in fs::read_dir(all)? {
        let name = entry?.file_name();
        let meta = below(directory, &name).symlink_metadata();
        if meta.is_ok_and(|meta| (meta.dev(), meta.ino()) == wanted) {
            found = Some(name);
        }
    }
    let there = path.symlink_metadata();
    if found.is_none() && there.as_ref().is_ok_and(fs::Metadata::is_dir) {
        // The first one is gone for good, and this one holds what is kept as well.
        return Ok(());
    }
    if there.is_ok() {
        let mut drawn = [0; 4];
        getrandom::fill(&mut drawn).map_err(io::Error::other)?;
        let mut aside = path.file_name().unwrap_or_default().to_owned();
        aside.push(format!(".aside-{:08x}", u32::from_ne_bytes(drawn)));
        fs::rename(path, below(directory, &aside))?;
    }
    let name = found.ok_or_else(|| io::Error::new(ErrorKind::NotFound, "it was moved away"))?;
    fs::rename(below(directory, &name), path)
}

/// Sets the mode of what is there itself, and not of what it leads to.
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    let flags = (OFlag::O_PATH | OFlag::O_NOFOLLOW).bits();
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_symlink() {
        return Err(io::Error::other("it is a link"));
    }
    let opened = Path::new("/proc/self/fd").join(file.as_raw_fd().to_string());
    fs::set_permissions(opened, Permissions::from_mode(mode))
}
