//! Where the program keeps its data, and whether a directory is fit for it; it opens no store.

use std::env;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use aion_api::Exit;

use crate::exit::Failure;

/// The data directory: as given, else `$AION_HOME`, else `$XDG_DATA_HOME/aion`, else
/// `~/.local/share/aion`.
pub(crate) fn data_dir(given: Option<&Path>) -> Result<PathBuf, Failure> {
    let chosen = choose(given, |name| env::var_os(name)).ok_or_else(|| {
        Failure::usage("there is no home directory to keep data in")
            .with_hint("give a directory with --data-dir DIR")
    })?;
    std::path::absolute(&chosen).map_err(|error| Failure::io(chosen.display(), &error))
}

fn choose(given: Option<&Path>, var: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name: &str| var(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    given
        .map(Path::to_owned)
        .or_else(|| set("AION_HOME"))
        .or_else(|| set("XDG_DATA_HOME").filter(|path| path.is_absolute()).map(|d| d.join("aion")))
        .or_else(|| set("HOME").map(|home| home.join(".local/share/aion")))
}

/// Makes the data directory if there is none, for its owner alone, and refuses one that others
/// could have prepared or could read.
pub(crate) fn prepare_data_dir(dir: &Path) -> Result<(), Failure> {
    if !dir.exists() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(|error| Failure::io(format!("make {}", dir.display()), &error))?;
    }
    check_data_dir(dir)
}

/// Whether a data directory is ours alone. One that does not exist is.
pub(crate) fn check_data_dir(dir: &Path) -> Result<(), Failure> {
    let meta = match fs::metadata(dir) {
        Ok(meta) => meta,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::io(dir.display(), &error)),
    };
    let refuse = |code: &str, message: String| Failure::new(Exit::Unreachable, code, message);
    if !meta.is_dir() {
        let message = format!("{} is not a directory", dir.display());
        return Err(refuse("data_dir.not_a_directory", message));
    }
    let us = nix::unistd::geteuid();
    if meta.uid() != us.as_raw() {
        let message = format!(
            "the data directory {} belongs to user {}, and this is user {us}",
            dir.display(),
            meta.uid()
        );
        return Err(refuse("data_dir.owner", message)
            .with_hint("give a directory of your own with --data-dir DIR"));
    }
    let mode = meta.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let message = format!(
            "the data directory {} is open to others (mode {mode:o}); it has to be yours alone",
            dir.display()
        );
        return Err(
            refuse("data_dir.mode", message).with_hint(format!("chmod 700 {}", dir.display()))
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_counts() {
        let check = |given: Option<&str>, vars: &[(&str, &str)], expect: Option<&str>| {
            let var = |name: &str| {
                vars.iter().find(|(n, _)| *n == name).map(|(_, value)| OsString::from(value))
            };
            assert_eq!(choose(given.map(Path::new), var), expect.map(PathBuf::from));
        };
        let all = [("AION_HOME", "/a"), ("XDG_DATA_HOME", "/x"), ("HOME", "/h")];
        check(Some("/given"), &all, Some("/given"));
        check(None, &all, Some("/a"));
        check(None, &all[1..], Some("/x/aion"));
        check(None, &all[2..], Some("/h/.local/share/aion"));
        check(None, &[("XDG_DATA_HOME", "relative"), ("HOME", "/h")], Some("/h/.local/share/aion"));
        check(None, &[("AION_HOME", ""), ("HOME", "")], None);
    }

    #[test]
    fn a_directory_that_others_can_read_is_refused() {
        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("deep/data");
        prepare_data_dir(&dir).unwrap();
        assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o750)).unwrap();
        assert!(check_data_dir(&dir).is_err());
        assert!(check_data_dir(&outer.path().join("absent")).is_ok());
        fs::write(outer.path().join("file"), "").unwrap();
        assert!(check_data_dir(&outer.path().join("file")).is_err());
    }
}
