//! Runs the binary in a home of its own; it knows no command.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

thread_local! {
    /// Whether runs use the daemon, or host their team themselves.
    static SERVED: Cell<bool> = const { Cell::new(false) };
}

/// Does the same with runs that host their team, and with runs that use the daemon.
pub(crate) fn in_both_ways(test: impl Fn()) {
    for served in [false, true] {
        SERVED.set(served);
        test();
    }
}

/// A home: a data directory, a workspace, and nothing of the machine's own settings.
pub(crate) struct Home {
    root: TempDir,
    served: bool,
}

impl Home {
    pub(crate) fn new() -> Self {
        let root = tempfile::Builder::new().prefix("aion-it-").tempdir().unwrap();
        fs::create_dir(root.path().join("work")).unwrap();
        Self { root, served: SERVED.get() }
    }

    /// A home whose runs use the daemon, also outside of [`in_both_ways`].
    pub(crate) fn served() -> Self {
        let mut home = Self::new();
        home.served = true;
        home
    }

    /// A home whose workspace is a git repository with one commit.
    pub(crate) fn with_repository() -> Self {
        let home = Self::new();
        home.git(["init", "--quiet"]);
        fs::write(home.work().join("kept.txt"), "kept\n").unwrap();
        fs::write(home.work().join("changed.txt"), "before\n").unwrap();
        fs::write(home.work().join("deleted.txt"), "here\n").unwrap();
        home.git(["add", "."]);
        home.git(["commit", "--quiet", "-m", "first"]);
        home
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path("data")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.path("work")
    }

    /// Writes a scenario, and answers where it is.
    pub(crate) fn scenario(&self, text: &str) -> PathBuf {
        let path = self.path("scenario.toml");
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn git<const N: usize>(&self, args: [&str; N]) -> String {
        let output = clean(Command::new("git"), self.root.path())
            .current_dir(self.work())
            .args(["-c", "user.name=T", "-c", "user.email=t@localhost"])
            .args(args)
            .output()
            .unwrap();
        assert!(output.status.success(), "git {args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = clean(Command::new(env!("CARGO_BIN_EXE_aion")), self.root.path());
        command
            .args(args)
            .current_dir(self.work())
            .env("AION_HOME", self.data())
            .env("AION_NO_DAEMON", if self.served { "0" } else { "1" })
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// The process of the daemon that left its file here, if any.
    pub(crate) fn daemon(&self) -> Option<i32> {
        let text = fs::read(self.data().join("daemon.json")).ok()?;
        let file: Value = serde_json::from_slice(&text).ok()?;
        i32::try_from(file["pid"].as_i64()?).ok()
    }

    /// Ends the daemon as a crash would, and waits until it is gone.
    pub(crate) fn kill_daemon(&self) {
        let pid = self.daemon().unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL)
            .unwrap();
        while alive(pid) {
            std::thread::yield_now();
        }
    }

    /// Runs the binary to its end.
    pub(crate) fn aion<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ran {
        Ran::from(self.command(args).output().unwrap())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // A test that failed leaves nobody behind.
        if self.daemon().is_some() {
            let _ = self.command(["stop", "--now"]).output();
        }
    }
}

/// Whether a process is there, and no corpse.
fn alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default().trim().chars().next();
    state.is_some_and(|state| state != 'Z')
}

/// Nothing of the surroundings but what every process needs.
fn clean(mut command: Command, home: &Path) -> Command {
    command.env_clear().env("HOME", home).env("TMPDIR", std::env::temp_dir());
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command.env("GIT_CONFIG_NOSYSTEM", "1");
    // Which agents this machine has is nothing to a test that does not name any.
    command.env("AION_AGENTS", "none");
    command
}

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }
}

impl Ran {
    /// It has to have ended like this.
    #[track_caller]
    pub(crate) fn code(self, expected: i32) -> Self {
        assert_eq!(self.code, Some(expected), "{self:#?}");
        self
    }

    /// Every line of standard output, as JSON.
    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The last line of standard output, as JSON.
    #[track_caller]
    pub(crate) fn last(&self) -> Value {
        self.lines().pop().unwrap()
    }

    /// The one line of standard output, as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let mut lines = self.lines();
        assert_eq!(lines.len(), 1, "{self:#?}");
        lines.remove(0)
    }

    /// The code of the one error object on standard error; standard output has to be empty.
    #[track_caller]
    pub(crate) fn error_code(&self) -> String {
        assert_eq!(self.stdout, "", "{self:#?}");
        let body: Value = serde_json::from_str(&self.stderr).unwrap();
        body["error"]["code"].as_str().unwrap().to_owned()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A run that is still going on, whose JSON lines are read as they come.
pub(crate) struct Going {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Going {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    pub(crate) fn id(&self) -> i32 {
        self.child.id().try_into().unwrap()
    }

    /// Reads until a line fits, and answers it. The end of the output is a failure.
    #[track_caller]
    pub(crate) fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            if self.stdout.read_line(&mut line).unwrap() == 0 {
                let mut stderr = String::new();
                self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
                panic!("it ended before that line came:\n{seen}\n{stderr}");
            }
            seen.push_str(&line);
            let value: Value = serde_json::from_str(&line).unwrap();
            if fits(&value) {
                return value;
            }
        }
    }

    /// Reads until a line holds a text, and answers all that was read.
    #[track_caller]
    pub(crate) fn until_text(&mut self, text: &str) -> String {
        let mut seen = String::new();
        while !seen.contains(text) {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "it ended: {seen}");
            seen.push_str(&line);
        }
        seen
    }

    /// Reads until an event of that name comes.
    #[track_caller]
    pub(crate) fn until_event(&mut self, name: &str) -> Value {
        self.until(|line| line["event"]["type"] == name)
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.id()), signal).unwrap();
    }

    pub(crate) fn stdin(&mut self) -> std::process::ChildStdin {
        self.child.stdin.take().unwrap()
    }

    /// Reads no more, and lets the program notice.
    pub(crate) fn leave(self) -> Child {
        drop(self.stdout);
        self.child
    }

    /// Reads the rest, and waits for the end.
    pub(crate) fn end(mut self) -> Ran {
        let mut stdout = String::new();
        self.stdout.read_to_string(&mut stdout).unwrap();
        let mut stderr = String::new();
        if let Some(mut pipe) = self.child.stderr.take() {
            pipe.read_to_string(&mut stderr).unwrap();
        }
        Ran { code: self.child.wait().unwrap().code(), stdout, stderr }
    }
}
