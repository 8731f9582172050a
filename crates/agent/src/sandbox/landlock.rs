//! The wall by Landlock: what of the file system a command may read and write, by the kernel's
//! leave, hierarchy by hierarchy; it hides nothing, and takes nothing back that it granted.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ::landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};
use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};

use super::policy::{MEETING_PLACES, PROGRAMS, Policy};

/// The oldest kernel interface that also keeps signals in: Linux 6.12.
const OLDEST: ABI = ABI::V6;
/// Devices that are no way to anybody.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
/// More entries than this on the way to closed places are not looked through one by one.
const ENTRIES: usize = 20_000;

/// What may be touched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reach {
    /// May be read and run, with all below it.
    read: Vec<PathBuf>,
    /// May be written, too.
    write: Vec<PathBuf>,
}

impl Reach {
    /// What a policy leaves, with a place for temporary files.
    pub(super) fn of(policy: &Policy, temporary: &Path) -> Self {
        let mut closed: BTreeSet<PathBuf> = policy.closed.iter().cloned().collect();
        closed.extend(MEETING_PLACES.iter().map(PathBuf::from));
        closed.insert("/dev".into());
        let mut read = Vec::new();
        let mut left = ENTRIES;
        open(Path::new("/"), &closed, &mut left, &mut read);
        read.extend(PROGRAMS.iter().filter_map(|path| Path::new(path).canonicalize().ok()));
        let mut write = Vec::new();
        for root in &policy.writable {
            if closed.iter().any(|place| place != root && place.starts_with(root)) {
                open(root, &closed, &mut left, &mut write);
            } else {
                write.push(root.clone());
            }
        }
        write.push(temporary.to_owned());
        write.extend(DEVICES.iter().map(PathBuf::from));
        Self { read, write }
    }

    /// Keeps this thread and what it starts to it, for good; fails where the kernel cannot.
    pub(super) fn enter(&self) -> Result<(), String> {
        let all = AccessFs::from_all(OLDEST);
        let text = |error: &dyn std::error::Error| error.to_string();
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(all)
            .and_then(|set| set.handle_access(AccessNet::from_all(OLDEST)))
            .and_then(|set| set.scope(Scope::from_all(OLDEST)))
            .and_then(Ruleset::create)
            .map_err(|error| text(&error))?
            .set_compatibility(CompatLevel::BestEffort);
        let rights = [(&self.read, AccessFs::from_read(OLDEST)), (&self.write, all)];
        for (paths, rights) in rights {
            for path in paths {
                // What went since, or is closed to ourselves, is closed to the command.
                let flags = (OFlag::O_PATH | OFlag::O_NOFOLLOW).bits();
                let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
                let Ok(file) = opened else { continue };
                let kind = file.metadata().map_err(|error| text(&error))?.file_type();
                // It became one since: whoever made it does not say where it counts.
                if kind.is_symlink() {
                    continue;
                }
                // To a file not all rights apply, and what does not apply is not asked for.
                let rights =
                    if kind.is_dir() { rights } else { rights & AccessFs::from_file(OLDEST) };
                let rule = PathBeneath::new(file, rights);
                ruleset = ruleset.add_rule(rule).map_err(|error| text(&error))?;
            }
        }
        let status = ruleset.restrict_self().map_err(|error| text(&error))?;
        if status.ruleset == RulesetStatus::FullyEnforced && status.no_new_privs {
            Ok(())
        } else {
            Err("the kernel enforces only a part of it".to_owned())
        }
    }
}

/// Adds what is below a directory but the closed places. Links are left out: they count where they
/// lead.
fn open(at: &Path, closed: &BTreeSet<PathBuf>, left: &mut usize, found: &mut Vec<PathBuf>) {
    if closed.contains(at) {
        return;
    }
    if !closed.iter().any(|place| place.starts_with(at)) {
        found.push(at.to_owned());
        return;
    }
    for entry in fs::read_dir(at).into_iter().flatten().flatten() {
        if *left == 0 {
            return;
        }
        *left -= 1;
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            open(&entry.path(), closed, left, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_but_the_closed_places_is_open() {
        let root = tempfile::tempdir().unwrap();
        let at = root.path();
        for name in ["a/secret/deep", "a/plain", "b"] {
            fs::create_dir_all(at.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(at.join("a/secret"), at.join("way")).unwrap();
        let closed = BTreeSet::from([at.join("a/secret")]);
        let (mut found, mut left) = (Vec::new(), 100);
        open(at, &closed, &mut left, &mut found);
        found.sort();
        assert_eq!(found, [at.join("a/plain"), at.join("b")]);
    }
}
