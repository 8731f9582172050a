//! An agent's commands in the background: started, followed, killed; none outlives its agent.
//!
//! A task holds each command on its leash and keeps the last of what it writes. All of them end with
//! the [`Shells`] that they were started in, and with this process.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aion_core::prompt::quote;
use aion_core::transcript::{Content, Item};
use tokio::io::AsyncReadExt;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::bash::PATIENCE;
use crate::identity::{current, spawn_as};
use crate::sandbox::{Violation, Walled};

/// Commands of one agent that run at a time.
const RUNNING: usize = 8;
/// Commands that are remembered, those that have ended too.
const REMEMBERED: usize = 24;
/// Bytes of a command's output that are kept, the last of it.
const KEPT_BYTES: usize = 256 * 1024;
/// Bytes of output in one answer.
const ANSWER_BYTES: usize = 30_000;
/// What a command that was started is answered with, before its name.
const STARTED: &str = "Runs in the background as ";

/// The commands of one agent.
#[derive(Debug, Default)]
pub(super) struct Shells {
    known: Mutex<Known>,
    /// Ends them all.
    end: CancellationToken,
}

#[derive(Debug, Default)]
struct Known {
    /// The oldest first.
    shells: VecDeque<Arc<Shell>>,
    /// What the agent is to be told of earlier ones.
    notes: Vec<String>,
    /// It was looked for commands of an earlier start of the agent.
    looked: bool,
}

/// One command.
#[derive(Debug)]
struct Shell {
    id: String,
    command: String,
    state: Mutex<State>,
    changed: Notify,
    kill: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    kept: VecDeque<u8>,
    /// Bytes before those.
    gone: u64,
    /// How far the agent has read.
    read: u64,
    end: Option<End>,
    /// The agent knows of the end.
    told: bool,
    refused: Vec<Violation>,
}

/// How a command ended.
#[derive(Clone, Debug)]
enum End {
    Exited(i32),
    OutOfTime,
    Killed,
    Failed(String),
}

/// What the agent asked for and is answered.
pub(super) struct Report {
    pub(super) text: String,
    pub(super) refused: Vec<Violation>,
}

impl Shells {
    /// Whether another one may be started.
    pub(super) fn check_room(&self) -> Result<(), String> {
        let running: Vec<String> =
            self.known().shells.iter().filter(|s| s.runs()).map(|s| s.id.clone()).collect();
        if running.len() < RUNNING {
            return Ok(());
        }
        Err(format!(
            "{RUNNING} commands run in the background already ({}). End one with KillShell first.",
            running.join(", ")
        ))
    }

    /// Follows a command that was started, and says what the agent is answered.
    pub(super) fn follow(
        &self,
        child: Walled,
        command: String,
        limit: Duration,
    ) -> Result<String, String> {
        let mut bytes = [0; 3];
        getrandom::fill(&mut bytes).map_err(|error| error.to_string())?;
        let [a, b, c] = bytes;
        let shell = Arc::new(Shell {
            id: format!("bash_{a:02x}{b:02x}{c:02x}"),
            command,
            state: Mutex::default(),
            changed: Notify::new(),
            kill: self.end.child_token(),
        });
        let id = shell.id.clone();
        {
            let mut known = self.known();
            if known.shells.len() == REMEMBERED
                && let Some(oldest) = known.shells.iter().position(|shell| !shell.runs())
            {
                known.shells.remove(oldest);
            }
            known.shells.push_back(Arc::clone(&shell));
        }
        let following = shell.run(child, limit);
        match current() {
            Some(identity) => drop(spawn_as(identity, following)),
            None => drop(tokio::spawn(following)),
        }
        Ok(format!(
            "{STARTED}{id}. BashOutput reads what it writes, KillShell ends it; after {} seconds it is ended.",
            limit.as_secs()
        ))
    }

    /// What a command has written since the agent read it last, or from a cursor on.
    pub(super) async fn output(
        &self,
        id: &str,
        cursor: Option<u64>,
        wait: Duration,
    ) -> Result<Report, String> {
        let shell = self.find(id)?;
        // That it runs on is an answer too.
        let _ = timeout(wait, shell.ended()).await;
        Ok(shell.report(cursor))
    }

    /// Ends a command.
    pub(super) async fn kill(&self, id: &str) -> Result<Report, String> {
        let shell = self.find(id)?;
        if !shell.runs() {
            return Err(format!("{} has ended already. BashOutput reads what it wrote.", shell.id));
        }
        shell.kill.cancel();
        // The leash needs less; what is not gone by then is its to end.
        let _ = timeout(PATIENCE * 2, shell.ended()).await;
        Ok(shell.report(None))
    }

    /// Ends all of them.
    pub(super) fn end_all(&self) {
        self.end.cancel();
    }

    /// Looks in the agent's transcript for commands that an earlier start of it began: they are gone.
    pub(super) fn find_lost(&self, items: &[Item]) {
        let mut known = self.known();
        if std::mem::replace(&mut known.looked, true) {
            return;
        }
        let lost: Vec<String> = begun(items)
            .filter(|id| !known.shells.iter().any(|shell| shell.id == *id))
            .filter(|id| !is_told(items, id))
            .map(str::to_owned)
            .collect();
        known.notes.extend(lost.into_iter().map(|id| {
            format!("[{id} ended: the program that it ran under was stopped. Its output is gone.]")
        }));
    }

    /// Something else that the agent is to be told without having asked.
    pub(super) fn note(&self, notes: impl Iterator<Item = String>) {
        self.known().notes.extend(notes);
    }

    /// What the agent is to be told without having asked, once.
    pub(super) fn news(&self) -> Vec<String> {
        let mut known = self.known();
        let mut news = std::mem::take(&mut known.notes);
        for shell in &known.shells {
            let mut state = shell.state();
            if let Some(end) = &state.end
                && !state.told
            {
                let command = quote(&shell.command);
                news.push(format!(
                    "[{} ended: {}. It was: {command}. BashOutput reads what it wrote.]",
                    shell.id,
                    end.words()
                ));
                state.told = true;
            }
        }
        news
    }

    fn find(&self, id: &str) -> Result<Arc<Shell>, String> {
        let known = self.known();
        if let Some(shell) = known.shells.iter().find(|shell| shell.id == id) {
            return Ok(Arc::clone(shell));
        }
        let names: Vec<&str> = known.shells.iter().map(|shell| shell.id.as_str()).collect();
        let which = if names.is_empty() {
            "None was started since this agent was".to_owned()
        } else {
            format!("There are {}", names.join(", "))
        };
        Err(format!(
            "There is no command {id:?} in the background. {which}; those of before have ended."
        ))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Between removal and insertion nothing can panic but the allocator.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shells {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// The names of commands that were started in the background.
fn begun(items: &[Item]) -> impl Iterator<Item = &str> {
    let started = |item: &Item| match &item.content {
        Content::Called { call, tool, input } if tool == "Bash" => {
            (input["run_in_background"] == true).then(|| (item.turn, call.clone()))
        }
        _ => None,
    };
    let calls: Vec<_> = items.iter().filter_map(started).collect();
    items.iter().filter_map(move |item| match &item.content {
        Content::Got { call, output, ok: true, .. }
            if calls.iter().any(|(turn, known)| *turn == item.turn && known == call) =>
        {
            output.strip_prefix(STARTED)?.split('.').next()
        }
        _ => None,
    })
}

/// Whether a transcript says that a command has ended.
fn is_told(items: &[Item], id: &str) -> bool {
    let words = format!("[{id} ended");
    items.iter().any(|item| match &item.content {
        Content::Given { text } | Content::Got { output: text, .. } => text.contains(&words),
        _ => false,
    })
}

impl Shell {
    async fn run(self: Arc<Self>, mut child: Walled, limit: Duration) {
        let mut deadline = Instant::now() + limit;
        let mut chunk = vec![0; 8 * 1024];
        // Why it was killed, if it was.
        let mut killed: Option<End> = None;
        loop {
            tokio::select! {
                read = child.output().read(&mut chunk) => match read {
                    Ok(0) | Err(_) => break,
                    Ok(read) => self.state().keep(&chunk[..read]),
                },
                () = self.kill.cancelled(), if killed.is_none() => {
                    killed = Some(End::Killed);
                    deadline = Instant::now() + PATIENCE;
                    child.kill();
                }
                () = sleep_until(deadline) => {
                    if killed.is_some() {
                        child.reap().await;
                        break;
                    }
                    killed = Some(End::OutOfTime);
                    deadline = Instant::now() + PATIENCE;
                    child.kill();
                }
            }
        }
        let ended = child.wait().await;
        let mut state = self.state();
        state.end = Some(match (killed, ended) {
            (Some(end), ended) => {
                state.refused = ended.map(|ended| ended.violations).unwrap_or_default();
                end
            }
            (None, Ok(ended)) => {
                state.refused = ended.violations;
                End::Exited(ended.code)
            }
            (None, Err(error)) => End::Failed(error.to_string()),
        });
        drop(state);
        self.changed.notify_waiters();
    }

    fn runs(&self) -> bool {
        self.state().end.is_none()
    }

    async fn ended(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the look, so that an end between look and wait is not missed.
            changed.as_mut().enable();
            if !self.runs() {
                return;
            }
            changed.await;
        }
    }

    fn report(&self, cursor: Option<u64>) -> Report {
        let mut state = self.state();
        let from = cursor.unwrap_or(state.read).clamp(state.gone, state.total());
        let missing = state.gone.saturating_sub(cursor.unwrap_or(state.read));
        let (text, to) = state.text(from);
        let more = state.total() - to;
        let mut out = match &state.end {
            None => format!("[{} runs: {}]\n", self.id, quote(&self.command)),
            Some(end) => format!("[{} ended: {}]\n", self.id, end.words()),
        };
        if missing > 0 {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "[... {missing} bytes are not kept any more ...]");
        }
        out.push_str(&text);
        if !text.is_empty() && !text.ends_with('\n') {
            out.push('\n');
        }
        let rest = match more {
            0 => String::new(),
            more => format!("; {more} bytes more"),
        };
        let _ = write!(out, "[cursor {to}{rest}]");
        state.read = to;
        state.told |= state.end.is_some();
        Report { text: out, refused: std::mem::take(&mut state.refused) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Counts and bytes change together, between which nothing can panic but the allocator.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn keep(&mut self, bytes: &[u8]) {
        self.kept.extend(bytes);
        let over = self.kept.len().saturating_sub(KEPT_BYTES);
        self.kept.drain(..over);
        self.gone += over as u64;
    }

    fn total(&self) -> u64 {
        self.gone + self.kept.len() as u64
    }

    /// The output from a place on, and the place where the answer ends: never in a character.
    fn text(&self, from: u64) -> (String, u64) {
        // It is between what is gone and all.
        let skip = usize::try_from(from - self.gone).unwrap_or(usize::MAX);
        let bytes: Vec<u8> = self.kept.iter().skip(skip).take(ANSWER_BYTES).copied().collect();
        let whole = self.end.is_some() && from + bytes.len() as u64 == self.total();
        let end = if whole { bytes.len() } else { end_of_characters(&bytes) };
        (String::from_utf8_lossy(&bytes[..end]).into_owned(), from + end as u64)
    }
}

/// Where the last whole character ends.
fn end_of_characters(bytes: &[u8]) -> usize {
    let last = bytes.len().saturating_sub(4);
    match bytes[last..].utf8_chunks().last() {
        // Bytes that are no text at all are not waited for.
        Some(chunk)
            if std::str::from_utf8(chunk.invalid()).is_err_and(|e| e.error_len().is_none()) =>
        {
            bytes.len() - chunk.invalid().len()
        }
        _ => bytes.len(),
    }
}

impl End {
    fn words(&self) -> String {
        match self {
            Self::Exited(code) => format!("exit code {code}"),
            Self::OutOfTime => "its time was up, and it was killed".to_owned(),
            Self::Killed => "killed".to_owned(),
            Self::Failed(error) => format!("how is not known: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_the_output_is_kept_and_no_character_is_cut() {
        let mut state = State::default();
        state.keep(&vec![b'x'; KEPT_BYTES]);
        state.keep("aä".as_bytes());
        assert_eq!((state.gone, state.total()), (3, KEPT_BYTES as u64 + 3));
        let near = state.total() - 3;
        assert_eq!(state.text(near), ("aä".to_owned(), state.total()));

        let mut state = State::default();
        state.keep(&"ä".as_bytes()[..1]);
        assert_eq!(state.text(0), (String::new(), 0));
        state.end = Some(End::Killed);
        assert_eq!(state.text(0), ("\u{fffd}".to_owned(), 1));
        assert_eq!(end_of_characters(b"a\xff"), 2);
    }
}
