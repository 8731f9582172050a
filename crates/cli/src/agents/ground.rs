//! The directories and variables that programs are found by, as a value; it starts nothing.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where installers put programs, below the home directory, whether or not that is on the path.
const USUAL: [&str; 7] = [
    ".local/bin",
    ".npm-global/bin",
    "node_modules/.bin",
    ".bun/bin",
    ".volta/bin",
    ".opencode/bin",
    ".cargo/bin",
];

/// What programs are found by.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    variables: Vec<(OsString, OsString)>,
}

impl Ground {
    /// That of this process.
    pub(super) fn here() -> Self {
        Self::of(env::vars_os())
    }

    pub(super) fn of(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self { variables: variables.into_iter().collect() }
    }

    /// All variables.
    pub(super) fn variables(&self) -> impl Iterator<Item = (OsString, OsString)> + '_ {
        self.variables.iter().cloned()
    }

    /// A variable that holds something.
    pub(super) fn variable(&self, name: &str) -> Option<&OsStr> {
        let found = self.variables.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_os_str()).filter(|value| !value.is_empty())
    }

    /// The home directory.
    pub(super) fn home(&self) -> Option<&Path> {
        self.variable("HOME").map(Path::new).filter(|home| home.is_absolute())
    }

    /// Where programs are looked for, the first first: the path, then where npm and others install.
    /// A directory that is not named whole depends on where somebody works, and is left out: a
    /// project brings no agents along.
    pub(super) fn directories(&self) -> Vec<PathBuf> {
        let path = self.variable("PATH").map(env::split_paths).into_iter().flatten();
        let npm = self.variable("NPM_CONFIG_PREFIX").map(|prefix| Path::new(prefix).join("bin"));
        let usual = self.home().into_iter().flat_map(|home| USUAL.map(|place| home.join(place)));
        let mut all: Vec<PathBuf> = Vec::new();
        for directory in path.chain(npm).chain(usual) {
            if directory.is_absolute() && !all.contains(&directory) {
                all.push(directory);
            }
        }
        all
    }

    /// The program of a name, or at a place that is named whole or from the home directory.
    pub(super) fn program(&self, name: &str) -> Option<PathBuf> {
        if let Some(place) = self.place(name) {
            return is_program(&place).then_some(place);
        }
        if name.contains('/') {
            return None;
        }
        self.directories().into_iter().map(|at| at.join(name)).find(|place| is_program(place))
    }

    /// The program of a name that others find by its name alone.
    pub(super) fn on_path(&self, name: &str) -> Option<PathBuf> {
        let path = self.variable("PATH").map(env::split_paths).into_iter().flatten();
        let whole = path.filter(|directory| directory.is_absolute());
        whole.map(|directory| directory.join(name)).find(|place| is_program(place))
    }

    /// The place that a text names: whole, from the home directory (`~/…`), or from a directory that
    /// a variable names (`$NAME/…`).
    pub(super) fn place(&self, text: &str) -> Option<PathBuf> {
        let place = if let Some(rest) = text.strip_prefix("~/") {
            self.home()?.join(rest)
        } else if let Some((name, rest)) = text.strip_prefix('$').and_then(|t| t.split_once('/')) {
            Path::new(self.variable(name)?).join(rest)
        } else {
            PathBuf::from(text)
        };
        place.is_absolute().then_some(place)
    }
}

fn is_program(place: &Path) -> bool {
    fs::metadata(place).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A home directory with programs, each with a text of its own, and a path of its own.
    pub(in super::super) fn ground(home: &Path, more: &[(&str, &str)]) -> Ground {
        let path = home.join("bin");
        let own = [("HOME", home.as_os_str()), ("PATH", path.as_os_str())];
        let more = more.iter().map(|&(name, value)| (name, OsStr::new(value)));
        Ground::of(own.into_iter().chain(more).map(|(name, value)| (name.into(), value.into())))
    }

    /// Puts a program somewhere.
    pub(in super::super) fn put(place: &Path, text: &str) {
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, text).unwrap();
        fs::set_permissions(place, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn programs_are_found_on_the_path_first_and_never_from_where_somebody_works() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        put(&home.join(".local/bin/one"), "");
        let found = |ground: &Ground, name: &str| ground.program(name);
        let plain = ground(home, &[]);
        assert_eq!(found(&plain, "one"), Some(home.join(".local/bin/one")));
        put(&home.join("bin/one"), "");
        assert_eq!(found(&plain, "one"), Some(home.join("bin/one")));
        assert_eq!(found(&plain, "~/.local/bin/one"), Some(home.join(".local/bin/one")));
        assert_eq!(found(&plain, "bin/one"), None);
        fs::write(home.join("bin/two"), "").unwrap();
        assert_eq!(found(&plain, "two"), None, "it cannot be run");
        let relative = Ground::of([("PATH".into(), "bin:./bin".into())]);
        assert!(relative.directories().is_empty());
    }
}
