//! A small machine to break into: a home with keys, a workspace with a repository, a house with a
//! secret, another team's work, and programs of the person's that run meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use tempfile::TempDir;

/// What no command may get to see.
pub(crate) const CANARY: &str = "CANARY-7f3a";

/// The machine. It is gone when this is dropped.
pub(crate) struct Ground {
    root: TempDir,
    sibling: Child,
    tmux: Option<PathBuf>,
    _socket: UnixListener,
    _port: TcpListener,
    port: u16,
}

impl Ground {
    /// Makes it below a place outside of the temporary directories.
    pub(crate) fn new(place: &Path) -> Result<Self> {
        fs::create_dir_all(place)?;
        let root = tempfile::Builder::new().prefix("ground-").tempdir_in(place)?;
        let at = root.path();
        fs::set_permissions(at, fs::Permissions::from_mode(0o755))?;
        for name in ["home/.ssh", "home/.config/gh", "ws/src", "data", "other", "out"] {
            fs::create_dir_all(at.join(name))?;
        }
        for name in
            ["home/.ssh/id_ed25519", "home/.netrc", "home/.config/gh/hosts.yml", "data/token"]
        {
            fs::write(at.join(name), format!("{CANARY}\n"))?;
        }
        for (name, text) in [
            ("other/work.txt", CANARY),
            ("out/file", "theirs"),
            ("home/.bashrc", "true"),
            ("ws/src/main.rs", "fn main() {}"),
        ] {
            fs::write(at.join(name), text)?;
        }
        git(&at.join("ws"), &["init", "-q", "-b", "main"])?;
        setuid_copy(&at.join("out/id-as-owner"));
        let socket = UnixListener::bind(at.join("out/s")).context("listen on a socket")?;
        let port = TcpListener::bind(("127.0.0.1", 0))?;
        // A program of the person's with a secret where another process could look for it.
        let sibling = Command::new("/bin/sleep")
            .arg("1000")
            .env("SECRET", CANARY)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let number = port.local_addr()?.port();
        let tmux = tmux(at);
        Ok(Self { sibling, tmux, _socket: socket, _port: port, port: number, root })
    }

    /// A path in it.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// The port of a server on this machine.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// What scripts know of it.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let path = |name: &str| self.at(name).display().to_string();
        let mut all = vec![
            ("HOME".to_owned(), path("home")),
            ("WS".to_owned(), path("ws")),
            ("OUT".to_owned(), path("out")),
            ("DATA".to_owned(), path("data")),
            ("OTHER".to_owned(), path("other")),
            ("HOUSE".to_owned(), std::process::id().to_string()),
            ("SIBLING".to_owned(), self.sibling.id().to_string()),
            ("PORT".to_owned(), self.port.to_string()),
        ];
        if let Some(tmux) = &self.tmux {
            all.push(("TMUX_SOCKET".to_owned(), tmux.display().to_string()));
        }
        all
    }

    /// Whether tmux runs here.
    pub(crate) fn has_tmux(&self) -> bool {
        self.tmux.is_some()
    }

    /// Whether the sibling still lives.
    pub(crate) fn sibling_lives(&mut self) -> bool {
        matches!(self.sibling.try_wait(), Ok(None))
    }

    /// Everything that is not to change, with its content.
    pub(crate) fn fingerprint(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut all = BTreeMap::new();
        for name in ["home", "data", "other", "out", "ws/.git/hooks"] {
            collect(&self.at(name), &mut all);
        }
        for name in [
            "ws/.git/config",
            "ws/.git/commondir",
            "ws/.mcp.json",
            "ws/.claude",
            "ws/.codex",
            "ws/.gemini",
            "ws/.cursor",
            "ws/.vscode",
            "ws/.idea",
            "ws/.aion",
        ] {
            collect(&self.at(name), &mut all);
        }
        all
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = self.sibling.kill();
        let _ = self.sibling.wait();
        if let Some(socket) = &self.tmux {
            let _ = Command::new("/usr/bin/tmux").arg("-S").arg(socket).arg("kill-server").status();
        }
    }
}

fn collect(path: &Path, all: &mut BTreeMap<PathBuf, Vec<u8>>) {
    let Ok(meta) = path.symlink_metadata() else { return };
    if meta.is_dir() {
        // Whether it is open to others.
        all.insert(path.to_owned(), vec![meta.permissions().mode() as u8]);
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            collect(&entry.path(), all);
        }
    } else if meta.is_file() {
        all.insert(path.to_owned(), fs::read(path).unwrap_or_default());
    } else {
        all.insert(path.to_owned(), b"special".to_vec());
    }
}

fn git(directory: &Path, words: &[&str]) -> Result<()> {
    let done = Command::new("git")
        .args(words)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .status()
        .context("start git")?;
    anyhow::ensure!(done.success(), "git {words:?} failed");
    Ok(())
}

/// A program that runs as its owner, where the machine has such programs at all.
fn setuid_copy(to: &Path) {
    let _ = fs::copy("/usr/bin/id", to);
    let _ = fs::set_permissions(to, fs::Permissions::from_mode(0o4755));
}

/// A terminal of the person's, where tmux is installed.
fn tmux(at: &Path) -> Option<PathBuf> {
    let socket = at.join("out/t");
    let started = Command::new("/usr/bin/tmux")
        .arg("-S")
        .arg(&socket)
        .args(["-f", "/dev/null", "new-session", "-d", "-s", "person", "cat"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    started.is_ok_and(|status| status.success()).then_some(socket)
}
