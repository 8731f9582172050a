//! The wall by bubblewrap: the command line that shows a command a machine of its own; it runs
//! nothing.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::limits::Limits;
use super::policy::{MEETING_PLACES, PROGRAMS, Policy};

/// Where our own program is inside.
pub(super) const PROGRAM_INSIDE: &str = "/run/aion/aion";
/// Where the way to the network is inside.
pub(super) const NETWORK_INSIDE: &str = "/run/aion/network";
/// Where temporary files are inside.
pub(super) const TEMPORARY_INSIDE: &str = "/tmp";

/// The kernel's own switches.
const SWITCHES: &[&str] = &[
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
    "/proc/acpi",
    "/proc/scsi",
    "/proc/mtrr",
];

/// A bubblewrap that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bubblewrap {
    /// The program.
    pub(super) program: PathBuf,
    /// Its version.
    pub(super) version: (u32, u32),
}

/// One thing that a command is shown, where.
struct Mount {
    at: PathBuf,
    words: Vec<OsString>,
}

impl Bubblewrap {
    /// The arguments that show a command the machine that a policy leaves. The command follows them.
    pub(super) fn arguments(
        &self,
        policy: &Policy,
        placeholders: &[PathBuf],
        helper: &Path,
        network: Option<&Path>,
        directory: &Path,
        limits: &Limits,
    ) -> Vec<OsString> {
        let mut words: Vec<OsString> = [
            "--unshare-user",
            "--unshare-ipc",
            "--unshare-pid",
            "--unshare-net",
            "--unshare-uts",
            "--unshare-cgroup-try",
            "--die-with-parent",
            "--new-session",
            "--cap-drop",
            "ALL",
            "--hostname",
            "aion",
        ]
        .map(OsString::from)
        .to_vec();
        let mut mounts = vec![
            bind("--ro-bind", Path::new("/"), Path::new("/")),
            Mount { at: "/dev".into(), words: ["--dev", "/dev"].map(OsString::from).to_vec() },
            Mount { at: "/proc".into(), words: ["--proc", "/proc"].map(OsString::from).to_vec() },
        ];
        // For the superuser these are open even without any capability.
        let switches = SWITCHES.iter().map(Path::new).filter(|path| path.exists());
        mounts.extend(switches.map(|path| bind("--ro-bind", path, path)));
        for place in MEETING_PLACES.iter().filter(|place| **place != "/dev/shm") {
            let place = Path::new(place);
            // Where one is a link to another, that one is covered.
            if !place.is_symlink() && place.is_dir() {
                let mode = if place == Path::new("/run") { "0755" } else { "1777" };
                mounts.push(self.own(place, mode, Some(limits.temporary_bytes)));
            }
        }
        let programs = PROGRAMS.iter().map(Path::new).filter(|path| path.exists());
        mounts.extend(programs.map(|path| bind("--ro-bind", path, path)));
        mounts.push(bind("--ro-bind", helper, Path::new(PROGRAM_INSIDE)));
        if let Some(network) = network {
            mounts.push(bind("--ro-bind", network, Path::new(NETWORK_INSIDE)));
        }
        let mut closed_directories = Vec::new();
        for path in &policy.closed {
            if path.is_dir() {
                // A workspace inside has to be reached through it.
                let way = policy.writable.iter().any(|root| root.starts_with(path));
                mounts.push(self.own(path, if way { "0111" } else { "0000" }, None));
                closed_directories.push(path);
            } else {
                mounts.push(bind("--ro-bind", Path::new("/dev/null"), path));
            }
        }
        mounts.extend(policy.writable.iter().map(|path| bind("--bind", path, path)));
        mounts.extend(policy.pinned().iter().map(|path| bind("--bind", path, path)));
        let fixed = policy.fixed.iter().filter(|path| !path.is_symlink()).chain(placeholders);
        mounts.extend(fixed.map(|path| bind("--ro-bind", path, path)));
        // What lies deeper comes later: it is shown inside of what it lies in.
        mounts.sort_by_key(|mount| mount.at.components().count());
        words.extend(mounts.into_iter().flat_map(|mount| mount.words));
        for path in closed_directories.into_iter().map(PathBuf::as_path).chain([Path::new("/run")])
        {
            words.extend(["--remount-ro".into(), path.into()]);
        }
        words.extend(["--chdir".into(), directory.into(), "--".into()]);
        words
    }

    /// An empty directory of the command's own.
    fn own(&self, at: &Path, mode: &str, bytes: Option<u64>) -> Mount {
        let mut words = Vec::new();
        if let Some(bytes) = bytes.filter(|_| self.version >= (0, 7)) {
            words.extend(["--size".into(), bytes.to_string().into()]);
        }
        words.extend(["--perms".into(), mode.into(), "--tmpfs".into(), at.into()]);
        Mount { at: at.to_owned(), words }
    }
}

fn bind(how: &str, from: &Path, at: &Path) -> Mount {
    let words = [OsStr::new(how), from.as_os_str(), at.as_os_str()].map(OsStr::to_owned).to_vec();
    Mount { at: at.to_owned(), words }
}
