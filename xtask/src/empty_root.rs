//! A root that holds nothing but the programs an installation needs, in which a release is tried;
//! no program in it downloads, and the machine around it is left as it is.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::dist::{Release, capture, text};
use crate::steps::{self, Step};

/// What `install.sh` needs of a system, then what only the trial needs.
pub const PROGRAMS: [&str; 16] = [
    "sh",
    "uname",
    "mktemp",
    "mkdir",
    "mv",
    "cp",
    "rm",
    "rmdir",
    "tar",
    "gzip",
    "sha256sum",
    "cat",
    "ls",
    "chmod",
    "env",
    "timeout",
];

/// Goes into the root, where only `/dev/null` is the machine's and `/proc` shows the trial alone, and
/// tries the release there.
const ENTER: &str = r#"
set -eu
mount --bind /dev/null "$0/dev/null"
mount -t proc proc "$0/proc"
exec chroot "$0" /bin/env -i PATH=/bin HOME=/person /bin/sh /try.sh /release "$1" daemon
"#;

/// Tries a release in a root made anew at `place`.
pub fn attempt(root: &Path, release: &Release, place: &Path) -> Result<()> {
    if place.exists() {
        fs::remove_dir_all(place).with_context(|| format!("remove {}", place.display()))?;
    }
    for folder in ["bin", "dev", "proc", "tmp", "person", "release"] {
        let folder = place.join(folder);
        fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    }
    fs::write(place.join("dev/null"), "").context("make a place for /dev/null")?;
    for program in PROGRAMS {
        let found = find(program).with_context(|| format!("{program} is not in the PATH"))?;
        copy(&found, &place.join("bin").join(program))?;
        copy_libraries(&found, place)?;
    }
    // The program itself comes by the installation alone; its libraries are the system's.
    let unpacked = place.join("tmp/look");
    fs::create_dir_all(&unpacked).context("make a place to look at the program")?;
    let mut unpack = Command::new("tar");
    unpack.arg("-xzf").arg(release.folder.join(&release.archive)).arg("-C").arg(&unpacked);
    capture(&mut unpack)?;
    let top = release.archive.trim_end_matches(".tar.gz");
    copy_libraries(&unpacked.join(top).join("bin/aion"), place)?;
    fs::remove_dir_all(&unpacked).context("remove what was looked at")?;
    for name in [release.archive.as_str(), "SHA256SUMS", "install.sh"] {
        copy(&release.folder.join(name), &place.join("release").join(name))?;
    }
    copy(&root.join("packaging/try.sh"), &place.join("try.sh"))?;

    let place = place.display().to_string();
    let apart = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"];
    if !steps::answers(root, "unshare", &[&apart[..], &["true"]].concat()) {
        bail!(
            "this machine lets nobody make namespaces of his own (unshare --user): \
             the release was made, but not tried"
        );
    }
    let inside = ["sh", "-c", ENTER, &place, &release.version];
    steps::run(root, &Step::new("release", "unshare", &[&apart[..], &inside].concat()))?;
    let libc = text(capture(Command::new("getconf").arg("GNU_LIBC_VERSION"))?)?;
    steps::say(&format!("The release was tried in an empty root, with {}.", libc.trim()));
    Ok(())
}

/// Where a program lies.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|at| at.is_file())
}

/// Copies the shared libraries of a program to where the loader looks for them.
fn copy_libraries(program: &Path, place: &Path) -> Result<()> {
    let listing = text(capture(Command::new("ldd").arg(program).env("LC_ALL", "C"))?)?;
    for library in libraries(&listing) {
        let to = place.join(library.trim_start_matches('/'));
        if to.exists() {
            continue;
        }
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        }
        copy(Path::new(library), &to)?;
    }
    Ok(())
}

/// The files that `ldd` names.
fn libraries(listing: &str) -> Vec<&str> {
    let words = listing.lines().filter_map(|line| {
        line.split_whitespace().find(|word| word.starts_with('/') && !word.ends_with(':'))
    });
    words.collect()
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_from_a_listing() {
        let listing = "\tlinux-vdso.so.1 (0x00007f)\n\
                       \tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f)\n\
                       \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(
            libraries(listing),
            ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/ld-linux-x86-64.so.2"]
        );
    }
}
