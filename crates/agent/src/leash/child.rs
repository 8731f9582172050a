//! The holder's side of the leash; dropping it kills what is on it.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::ledger::{LeashEntry, LeashLedger, reap, reap_without_helper};
use super::processes::{Process, boot_id};
use super::{MARK, TALKS};

/// How child processes are kept.
#[derive(Clone, Debug)]
pub struct LeashConfig {
    /// The program that runs [`super::leash_main`].
    pub program: PathBuf,
    /// The arguments that make it do so; the command follows them.
    pub arguments: Vec<OsString>,
    /// Where leashes are written down, if anywhere.
    pub ledger: Option<Arc<dyn LeashLedger>>,
}

impl LeashConfig {
    /// By this binary's own hidden command `__leash`.
    pub fn by_own_binary(ledger: Option<Arc<dyn LeashLedger>>) -> io::Result<Self> {
        let program = std::env::current_exe()?;
        Ok(Self { program, arguments: vec!["__leash".into()], ledger })
    }
}

/// A command to be run on a leash.
#[derive(Clone, Debug)]
pub struct LeashedCommand {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Where it runs.
    pub directory: PathBuf,
    /// Its environment, complete.
    pub environment: Vec<(OsString, OsString)>,
}

/// How a command that is talked with is ended when what it reads is dropped: it sees the end of its
/// input, is told to end (SIGTERM), and is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parting {
    /// How long it may take to end by itself.
    pub input: Duration,
    /// How long it may take to end after it was told to.
    pub told: Duration,
}

impl Parting {
    /// It is killed.
    pub(crate) const AT_ONCE: Self = Self { input: Duration::ZERO, told: Duration::ZERO };

    /// As the helper is told: the two times in milliseconds.
    fn in_words(self) -> String {
        format!("{} {}", self.input.as_millis(), self.told.as_millis())
    }

    /// What the helper was told; what is not understood means no time at all.
    pub(super) fn from_words(words: &str) -> Self {
        let mut times =
            words.split(' ').map(|millis| millis.parse().ok().map(Duration::from_millis));
        match (times.next().flatten(), times.next().flatten()) {
            (Some(input), Some(told)) => Self { input, told },
            _ => Self::AT_ONCE,
        }
    }
}

/// What is heard of a command: its output with its errors, or its errors alone where its output is
/// spoken to.
#[derive(Debug)]
pub enum Heard {
    /// Both.
    Output(ChildStdout),
    /// Its errors.
    Errors(ChildStderr),
}

impl AsyncRead for Heard {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Output(output) => Pin::new(output).poll_read(context, buffer),
            Self::Errors(errors) => Pin::new(errors).poll_read(context, buffer),
        }
    }
}

/// The way to talk with a command. Dropping its input pulls the leash.
#[derive(Debug)]
pub struct Talk {
    /// What it reads.
    pub input: ChildStdin,
    /// What it writes.
    pub output: ChildStdout,
}

/// A command on its leash.
#[derive(Debug)]
pub struct Leashed {
    /// Taken by the task that waits for its end when the leash is dropped.
    helper: Option<Child>,
    output: Heard,
    pipe: Option<ChildStdin>,
    /// Taken when the ledger knows that the leash has ended.
    entry: Option<LeashEntry>,
    ledger: Option<Arc<dyn LeashLedger>>,
    /// Held until everything on the leash is gone.
    token: Option<TaskTrackerToken>,
}

/// Starts a command on a leash, after the ledger knows of it.
pub async fn spawn(config: &LeashConfig, command: LeashedCommand) -> io::Result<Leashed> {
    Ok(start(config, command, None).await?.0)
}

/// Starts a command on a leash that is talked with: the leash is pulled by dropping what it reads.
pub async fn spawn_talking(
    config: &LeashConfig,
    command: LeashedCommand,
) -> io::Result<(Leashed, Talk)> {
    spawn_parting(config, command, Parting::AT_ONCE).await
}

/// The same, of a command that is given time to end when what it reads is dropped. Only
/// [`Leashed::reap`] ends it at once.
pub async fn spawn_parting(
    config: &LeashConfig,
    command: LeashedCommand,
    parting: Parting,
) -> io::Result<(Leashed, Talk)> {
    let (leashed, talk) = start(config, command, Some(parting)).await?;
    Ok((leashed, talk.ok_or(ErrorKind::BrokenPipe)?))
}

/// Starts a command on a leash; one that is talked with where it is said how it is ended.
pub(crate) async fn start(
    config: &LeashConfig,
    command: LeashedCommand,
    talks: Option<Parting>,
) -> io::Result<(Leashed, Option<Talk>)> {
    let mark = draw_mark()?;
    let mut helper = Command::new(&config.program)
        .args(&config.arguments)
        .arg(command.program)
        .args(command.arguments)
        .current_dir(command.directory)
        .env_clear()
        .envs(command.environment)
        .env(MARK, &mark)
        .envs(talks.map(|parting| (TALKS, parting.in_words())))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(if talks.is_some() { Stdio::piped() } else { Stdio::null() })
        .process_group(0)
        .spawn()?;
    let gone = || io::Error::new(ErrorKind::BrokenPipe, "the leash's helper ended at once");
    let group = helper.id().and_then(|pid| i32::try_from(pid).ok()).ok_or_else(gone)?;
    let output = helper.stdout.take().ok_or_else(gone)?;
    let mut pipe = helper.stdin.take().ok_or_else(gone)?;
    let errors = helper.stderr.take();
    let start = Process::find(group).ok_or_else(gone)?.start;
    let entry = LeashEntry { group, start, boot: boot_id(), mark };
    let ledger = config.ledger.clone();
    let (helper, entry) = (Some(helper), Some(entry));
    let (output, spoken) = match errors {
        Some(errors) => (Heard::Errors(errors), Some(output)),
        None => (Heard::Output(output), None),
    };
    let mut leashed = Leashed { helper, output, pipe: None, entry, ledger, token: None };
    leashed.write_down().await?;
    pipe.write_all(b"\n").await?;
    let Some(output) = spoken else {
        leashed.pipe = Some(pipe);
        return Ok((leashed, None));
    };
    Ok((leashed, Some(Talk { input: pipe, output })))
}

impl Leashed {
    /// Has a token held until everything on the leash is gone, also where the leash is dropped.
    pub fn hold(&mut self, token: TaskTrackerToken) {
        self.token = Some(token);
    }

    /// The command's standard output and error, or its error alone where it is talked with. It ends
    /// when everything on the leash has.
    pub fn output(&mut self) -> &mut Heard {
        &mut self.output
    }

    /// Kills everything on the leash; [`Leashed::wait`] then ends soon. A command that is talked with
    /// is killed by dropping what it reads, or [reaped](Self::reap).
    pub fn kill(&mut self) {
        self.pipe = None;
    }

    /// Kills everything on the leash without its helper, which somebody may have killed.
    pub async fn reap(&mut self) {
        self.pipe = None;
        if let Some(entry) = self.entry.clone() {
            // That it panicked would be a mistake of this file, and there is nothing else to do.
            let _ = tokio::task::spawn_blocking(move || reap(&[entry])).await;
        }
    }

    /// Waits until everything on the leash is gone, also where somebody killed its helper. The
    /// command's exit code; 128 and more mean a signal.
    pub async fn wait(&mut self) -> io::Result<i32> {
        let helper = self.helper.as_mut().ok_or(ErrorKind::NotFound)?;
        let status = helper.wait().await?;
        if let Some(entry) = self.entry.clone() {
            settle(status, entry, self.ledger.clone()).await;
            self.entry = None;
        }
        Ok(code(status))
    }

    async fn write_down(&self) -> io::Result<()> {
        let (Some(entry), Some(ledger)) = (self.entry.clone(), self.ledger.clone()) else {
            return Ok(());
        };
        tokio::task::spawn_blocking(move || ledger.started(&entry))
            .await
            .map_err(io::Error::other)?
    }
}

impl Drop for Leashed {
    fn drop(&mut self) {
        self.pipe = None;
        let (Some(entry), ledger) = (self.entry.take(), self.ledger.take()) else { return };
        // The entry goes when the processes are gone. Where nothing runs any more that could wait
        // for them, it stays, and the next opening strikes it.
        let (Some(mut helper), Ok(runtime)) = (self.helper.take(), Handle::try_current()) else {
            return;
        };
        let token = self.token.take();
        runtime.spawn(async move {
            let _held = token;
            if let Ok(status) = helper.wait().await {
                settle(status, entry, ledger).await;
            }
        });
    }
}

/// The helper has ended: by itself after everything else did, or by a signal before it. Then what it
/// left is killed here. The ledger forgets the leash afterwards.
async fn settle(status: ExitStatus, entry: LeashEntry, ledger: Option<Arc<dyn LeashLedger>>) {
    let killed = status.signal().is_some();
    let settling = move || {
        if !killed || reap_without_helper(&entry) {
            ledger.inspect(|ledger| ledger.ended(&entry));
        }
    };
    // That the ledger panics is the ledger's to report.
    let _ = tokio::task::spawn_blocking(settling).await;
}

fn draw_mark() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().fold(String::with_capacity(32), |mut mark, byte| {
        // Writing to a string cannot fail.
        let _ = write!(mark, "{byte:02x}");
        mark
    }))
}

fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or_default()
}
