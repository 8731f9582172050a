//! Starts the daemon of a data directory and waits until it serves; it never waits without an end.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use aion_api::{ErrorBody, Exit};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::place::{DaemonFile, Look, look};
use crate::exit::Failure;
use crate::paths::prepare_data_dir;

/// How long a daemon may take until it serves.
const PATIENCE: Duration = Duration::from_secs(20);
/// The log that is begun anew beyond this size; the one before is kept.
const LOG_BYTES: u64 = 4 * 1024 * 1024;
/// How much of the log's end is read.
const TAIL_BYTES: u64 = 16 * 1024;
/// How many of its lines are shown.
const TAIL_LINES: usize = 8;

/// What a daemon says whose directory another process has.
const LOCKED: &str = "data_dir.locked";
/// How long it is tried again then, and after which wait: a daemon that ends answers first what is
/// open.
const LETTING_GO: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_millis(50);

/// How a daemon is started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Start {
    /// Ends by itself after this long without work; never without one.
    pub(crate) idle_exit: Option<Duration>,
    /// More arguments of `aion serve`.
    pub(crate) arguments: Vec<String>,
}

/// The daemon of a data directory: the one that is there, else a new one in a session of its own.
pub(crate) async fn start(dir: &Path, how: &Start) -> Result<DaemonFile, Failure> {
    prepare_data_dir(dir)?;
    let lock = starting(dir).await?;
    // Somebody else may have started it meanwhile.
    if let Look::There(file) = look(dir) {
        return Ok(file);
    }
    let begun = Instant::now();
    let (mut child, log, started) = loop {
        let (mut child, log) = spawn(dir, how)?;
        let started = tokio::time::timeout(PATIENCE, serving(&mut child)).await;
        // A daemon that has just ended may let go of its directory a little later.
        let ending = matches!(&started, Ok(Err(Unserved::Said { body, .. }))
            if body.error.code == LOCKED && begun.elapsed() < LETTING_GO);
        if !ending {
            break (child, log, started);
        }
        tokio::time::sleep(AGAIN).await;
    };
    drop(lock);
    match started {
        Ok(Ok(())) => {}
        Ok(Err(Unserved::Said { exit, body })) => return Err(said(exit, body)),
        Ok(Err(Unserved::Gone { how })) => {
            return Err(unreachable(&format!("the daemon did not start: {how}"), &log));
        }
        Err(_) => {
            // It is ours, and nobody would wait for it any more.
            let _ = child.start_kill();
            let seconds = PATIENCE.as_secs();
            let message = format!("the daemon did not answer within {seconds} s, and was ended");
            return Err(unreachable(&message, &log));
        }
    }
    match look(dir) {
        Look::There(file) => Ok(file),
        Look::Nobody | Look::Gone(_) => {
            Err(unreachable("the daemon ended as soon as it had started", &log))
        }
    }
}

/// Where a daemon that nobody watches writes what goes on.
pub(crate) fn log_file(dir: &Path) -> PathBuf {
    dir.join("daemon.log")
}

/// The last lines of a log.
pub(crate) fn last_lines(log: &Path) -> Vec<String> {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(log)?;
        let from = file.metadata()?.len().saturating_sub(TAIL_BYTES);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines
        .iter()
        .skip(lines.len().saturating_sub(TAIL_LINES))
        .map(|line| (*line).to_owned())
        .collect()
}

/// Keeps all others from starting a daemon here meanwhile.
async fn starting(dir: &Path) -> Result<Flock<File>, Failure> {
    let path = dir.join("start.lock");
    let fail = |error: std::io::Error| Failure::io(format!("lock {}", path.display()), &error);
    let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let mut file = open.map_err(fail)?;
    let deadline = Instant::now() + PATIENCE * 2;
    // Asked again and again: a wait inside the system could not be given up.
    while Instant::now() < deadline {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((again, Errno::EWOULDBLOCK)) => file = again,
            Err((_, errno)) => return Err(fail(errno.into())),
        }
        tokio::time::sleep(AGAIN).await;
    }
    Err(Failure::new(
        Exit::Unreachable,
        "daemon.starting",
        "another command is starting the daemon, and does not come to an end",
    ))
}

fn spawn(dir: &Path, how: &Start) -> Result<(Child, PathBuf), Failure> {
    let log = log_file(dir);
    let fail = |error: std::io::Error| Failure::io("start the daemon", &error);
    begin_anew(&log).map_err(fail)?;
    let open = OpenOptions::new().append(true).create(true).mode(0o600).open(&log);
    let file = open.map_err(fail)?;
    let mut command = Command::new(std::env::current_exe().map_err(fail)?);
    command.args(["serve", "--on-demand", "--json", "--data-dir"]).arg(dir);
    if let Some(idle) = how.idle_exit {
        command.args(["--idle-exit".to_owned(), format!("{}s", idle.as_secs().max(1))]);
    }
    command
        .args(&how.arguments)
        // Credentials of this command are not the daemon's.
        .env_remove("AION_TOKEN")
        .env_remove("AION_URL")
        .env_remove("AION_NO_DAEMON")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(file);
    Ok((command.spawn().map_err(fail)?, log))
}

fn begin_anew(log: &Path) -> std::io::Result<()> {
    match fs::metadata(log) {
        Ok(meta) if meta.len() > LOG_BYTES => fs::rename(log, log.with_extension("log.1")),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Why a daemon that was started does not serve.
enum Unserved {
    /// It said why.
    Said { exit: Exit, body: ErrorBody },
    /// It is gone without a word.
    Gone { how: String },
}

/// Waits for the first line: that it serves, or why it does not.
async fn serving(child: &mut Child) -> Result<(), Unserved> {
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        // What cannot be read is like a line that never came.
        let _ = BufReader::new(out).read_line(&mut line).await;
    }
    if serde_json::from_str::<serde_json::Value>(&line).is_ok_and(|line| line["type"] == "serving")
    {
        return Ok(());
    }
    let status = child.wait().await;
    let code = status.as_ref().ok().and_then(std::process::ExitStatus::code);
    let exit = code.and_then(|code| Exit::from_code(u8::try_from(code).ok()?));
    if let (Ok(body), Some(exit)) = (serde_json::from_str(&line), exit) {
        return Err(Unserved::Said { exit, body });
    }
    let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
    Err(Unserved::Gone { how })
}

fn said(exit: Exit, body: ErrorBody) -> Failure {
    let message = format!("the daemon did not start: {}", body.error.message);
    let failure = Failure::new(exit, &body.error.code, message);
    match body.error.hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

fn unreachable(message: &str, log: &Path) -> Failure {
    let lines = last_lines(log);
    let hint = if lines.is_empty() {
        format!("its log {} says nothing", log.display())
    } else {
        format!("the end of {}:\n  {}", log.display(), lines.join("\n  "))
    };
    Failure::new(Exit::Unreachable, "daemon.not_started", message).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_is_its_last_lines() {
        let dir = tempfile::tempdir().unwrap();
        let log = log_file(dir.path());
        assert_eq!(last_lines(&log), Vec::<String>::new());
        let text = "line\n\n".repeat(20_000) + "the end\n";
        fs::write(&log, text).unwrap();
        let lines = last_lines(&log);
        assert_eq!(lines.len(), TAIL_LINES);
        assert_eq!(lines.last().map(String::as_str), Some("the end"));
        fs::write(&log, vec![b'x'; usize::try_from(LOG_BYTES).unwrap() + 1]).unwrap();
        begin_anew(&log).unwrap();
        assert!(!log.exists());
        assert!(dir.path().join("daemon.log.1").exists());
    }
}
