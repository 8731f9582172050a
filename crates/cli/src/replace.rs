//! Writes files whole or not at all; it writes to no name that others could foresee, and through no
//! link that a project brings along.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// How many copies of one file are kept beside it.
const COPIES: usize = 100;

/// Whose word a link on the way to a file is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Within<'p> {
    /// The person's: the file that it leads to is meant.
    Own,
    /// That of the project with this root: nothing is read or written through it.
    Project(&'p Path),
}

impl Within<'_> {
    /// The file that is meant by a path.
    pub(crate) fn file(self, path: &Path) -> io::Result<PathBuf> {
        match self {
            Self::Own if is_link(path)? => fs::canonicalize(path),
            Self::Own => Ok(path.to_owned()),
            Self::Project(root) => {
                let below = path.strip_prefix(root).unwrap_or(path);
                let mut at = root.to_owned();
                for part in below {
                    at.push(part);
                    if is_link(&at)? {
                        let message = format!("{} is a link", at.display());
                        return Err(io::Error::other(message));
                    }
                }
                Ok(path.to_owned())
            }
        }
    }
}

/// Writes a file beside the one that it takes the place of. It has that one's mode, or the one that
/// is given where there is none, before anything is in it.
pub(crate) fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let directory = directory(path);
    fs::create_dir_all(directory)?;
    let before = match fs::symlink_metadata(path) {
        Ok(meta) => Some(Permissions::from_mode(meta.permissions().mode() & 0o777)),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let mut part = tempfile::Builder::new()
        .prefix(".aion-")
        .permissions(before.clone().unwrap_or_else(|| Permissions::from_mode(mode)))
        .tempfile_in(directory)?;
    if let Some(before) = before {
        part.as_file().set_permissions(before)?;
    }
    part.write_all(bytes)?;
    part.as_file().sync_all()?;
    part.persist(path).map_err(|error| error.error)?;
    File::open(directory)?.sync_all()
}

/// Keeps what a file held in a new one beside it, under the first of its names that nothing has.
pub(crate) fn keep(path: &Path, ending: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let mode = Permissions::from_mode(fs::metadata(path)?.permissions().mode() & 0o777);
    for number in 1..=COPIES {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        if number > 1 {
            name.push(format!("-{number}"));
        }
        let kept = PathBuf::from(name);
        let made = OpenOptions::new().write(true).create_new(true).mode(mode.mode()).open(&kept);
        let mut file = match made {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        };
        file.set_permissions(mode)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        return Ok(kept);
    }
    Err(io::Error::other(format!("{COPIES} copies of it are there already")))
}

fn is_link(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(meta) => Ok(meta.is_symlink()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|at| !at.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_keeps_its_mode_and_what_it_held_and_links_in_the_way_lead_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("outside"), "mine").unwrap();
        fs::write(at("file"), "one").unwrap();
        fs::set_permissions(at("file"), Permissions::from_mode(0o600)).unwrap();
        for name in ["file.new", "file.before"] {
            symlink(at("outside"), at(name)).unwrap();
        }
        fs::hard_link(at("outside"), at("file.before-2")).unwrap();
        let kept = keep(&at("file"), ".before", b"one").unwrap();
        assert_eq!(kept, at("file.before-3"));
        replace(&at("file"), b"two", 0o644).unwrap();
        assert_eq!((mode(&kept), mode(&at("file"))), (0o600, 0o600));
        assert_eq!(fs::read(&kept).unwrap(), b"one");
        assert_eq!(fs::read(at("file")).unwrap(), b"two");
        assert_eq!(fs::read(at("outside")).unwrap(), b"mine");
        replace(&at("in/new"), b"three", 0o600).unwrap();
        assert_eq!(mode(&at("in/new")), 0o600);
        let left = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, 7, "no part stays");
    }

    #[test]
    fn a_persons_own_link_is_followed_and_a_projects_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        fs::create_dir(at("real")).unwrap();
        fs::write(at("real/file"), "").unwrap();
        symlink(at("real"), at("directory")).unwrap();
        symlink(at("real/file"), at("link")).unwrap();
        symlink(at("nowhere"), at("dangling")).unwrap();
        assert_eq!(Within::Own.file(&at("link")).unwrap(), at("real/file"));
        assert_eq!(Within::Own.file(&at("absent")).unwrap(), at("absent"));
        assert!(Within::Own.file(&at("dangling")).is_err());
        let project = Within::Project(&root);
        for name in ["link", "dangling", "directory/file", "directory/absent"] {
            assert!(project.file(&at(name)).is_err(), "{name}");
        }
        for name in ["real/file", "real/absent", "absent/absent"] {
            assert_eq!(project.file(&at(name)).unwrap(), at(name));
        }
    }
}
