//! A release of a program that only says what it is: its archive, and its installation.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::dist::{Release, Source, pack};

/// Stands for the program: it answers what a release and its trial ask.
const PROGRAM: &str = "#!/bin/sh\n\
case $1 in\n\
--version) echo 'aion 1.2.3' ;;\n\
*) echo \"$@\" ;;\n\
esac\n";

#[test]
fn an_archive_holds_what_is_installed_and_nothing_else() {
    let room = Room::new("listing");
    let release = room.release("out");
    assert_eq!(release.archive, "aion-1.2.3-x86_64-unknown-linux-gnu.tar.gz");
    let mut names: Vec<_> = fs::read_dir(&release.folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["SHA256SUMS", release.archive.as_str(), "install.sh"]);
    let listing = output(
        Command::new("tar")
            .args(["--numeric-owner", "--utc", "-tvzf"])
            .arg(release.folder.join(&release.archive)),
    );
    // What tar pads with follows the largest file.
    let listing: Vec<_> = listing
        .lines()
        .map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            let name = words[5].trim_start_matches("aion-1.2.3-x86_64-unknown-linux-gnu/");
            format!("{} {} {} {name}", words[0], words[1], words[3])
        })
        .filter(|line| line.starts_with('-'))
        .collect();
    assert_eq!(
        listing,
        [
            "-rwxr-xr-x 0/0 2001-09-09 bin/aion",
            "-rw-r--r-- 0/0 2001-09-09 share/bash-completion/completions/aion",
            "-rw-r--r-- 0/0 2001-09-09 share/doc/aion/CHANGELOG.md",
            "-rw-r--r-- 0/0 2001-09-09 share/doc/aion/LICENSE-APACHE",
            "-rw-r--r-- 0/0 2001-09-09 share/doc/aion/LICENSE-MIT",
            "-rw-r--r-- 0/0 2001-09-09 share/doc/aion/README.md",
            "-rw-r--r-- 0/0 2001-09-09 share/doc/aion/THIRD-PARTY.txt",
            "-rw-r--r-- 0/0 2001-09-09 share/fish/vendor_completions.d/aion.fish",
            "-rw-r--r-- 0/0 2001-09-09 share/man/man1/aion.1",
            "-rw-r--r-- 0/0 2001-09-09 share/zsh/site-functions/_aion",
        ]
    );
}

#[test]
fn the_same_source_gives_the_same_bytes() {
    let room = Room::new("again");
    let (one, other) = (room.release("one"), room.release("other"));
    for name in [one.archive.as_str(), "SHA256SUMS", "install.sh"] {
        let same =
            fs::read(one.folder.join(name)).unwrap() == fs::read(other.folder.join(name)).unwrap();
        assert!(same, "{name} differs");
    }
}

#[test]
fn a_program_of_another_version_is_refused() {
    let room = Room::new("version");
    let mut source = room.source();
    source.version = "9.9.9".to_owned();
    let refused = pack(&root(), &source, &room.place.join("out")).unwrap_err().to_string();
    assert!(refused.ends_with("'aion 1.2.3', the workspace is version 9.9.9: build it again"));
}

#[test]
fn a_release_is_installed_and_removed() {
    let room = Room::new("install");
    let release = room.release("out");
    let tools = room.place.join("tools");
    let home = room.place.join("a person");
    let temporary = room.place.join("tmp");
    for folder in [&tools, &home, &temporary] {
        fs::create_dir(folder).unwrap();
    }
    // Only what install.sh and its trial say that they need.
    for tool in xtask::empty_root::PROGRAMS {
        let found = xtask::empty_root::find(tool).unwrap();
        symlink(found, tools.join(tool)).unwrap();
    }
    let said = output(
        Command::new("/bin/sh")
            .arg(root().join("packaging/try.sh"))
            .arg(&release.folder)
            .arg(&release.version)
            .env_clear()
            .env("PATH", &tools)
            .env("HOME", &home)
            .env("TMPDIR", &temporary),
    );
    assert_eq!(said.lines().filter(|line| line.starts_with("ok: ")).count(), 8, "{said}");
}

/// A place for one test, removed at its end.
struct Room {
    place: PathBuf,
}

impl Room {
    fn new(name: &str) -> Self {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("release-{name}-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let program = place.join("program");
        fs::write(&program, PROGRAM).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Self { place }
    }

    fn source(&self) -> Source {
        Source {
            binary: self.place.join("program"),
            version: "1.2.3".to_owned(),
            glibc: "2.34".to_owned(),
            notices: "Terms of others.\n".to_owned(),
            time: 1_000_000_000,
        }
    }

    fn release(&self, out: &str) -> Release {
        pack(&root(), &self.source(), &self.place.join(out)).unwrap()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.place);
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    String::from_utf8(output.stdout).unwrap()
}
