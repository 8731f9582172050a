//! One start of the child process, from its birth to its death by our hand; it judges nothing.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::plan::Kill;
use crate::processes::MARK;
use crate::words::Word;

/// How long a team may take to work again.
const RECOVERY: Duration = Duration::from_secs(30);
/// How long a named point may take to be reached.
const POINT: Duration = Duration::from_secs(10);

/// What the child is started with.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) mark: &'a str,
    pub(crate) team: &'a str,
    pub(crate) run: u64,
    pub(crate) again: Option<&'a Path>,
}

/// What one start came to.
#[derive(Debug, Default)]
pub(crate) struct Life {
    /// What it said, in order.
    pub(crate) words: Vec<Word>,
    /// From its start to its death.
    pub(crate) lasted: Duration,
    /// From its start to the first processed message, if it came that far.
    pub(crate) resumed_after: Option<Duration>,
    /// Whether it died at the named point it was told to die at.
    pub(crate) at_point: bool,
    /// What went wrong, if anything did.
    pub(crate) fault: Option<String>,
}

/// A running child.
struct Running {
    child: Child,
    begun: Instant,
    said: Receiver<(Instant, Word)>,
    reader: JoinHandle<()>,
    life: Life,
}

/// Runs a start up to its kill.
pub(crate) fn run_and_kill(start: &Start<'_>, kill: Kill, usual: Duration) -> Result<Life> {
    let point = match kill {
        Kill::Point(name, visit) => Some(format!("{name}:{visit}")),
        Kill::Recovering(_) | Kill::Working(_) => None,
    };
    let mut running = begin(start, point.as_deref(), false)?;
    match kill {
        Kill::Point(..) => {
            running.life.at_point = running.listen(POINT + RECOVERY, Some(POINT), |_| false);
        }
        Kill::Recovering(share) => {
            let wait = usual.mul_f64(f64::from(u32::try_from(share).unwrap_or(0)) / 1_000.0);
            running.listen(wait, None, |_| false);
        }
        Kill::Working(wait) => {
            if !running.listen(RECOVERY, None, |word| *word == Word::Resumed) {
                running.listen(wait, None, |_| false);
            }
        }
    }
    let recovering = matches!(kill, Kill::Recovering(_)) || running.life.at_point;
    running.end(recovering)
}

/// Runs a start that lets the team settle and ends by itself.
pub(crate) fn run_to_rest(start: &Start<'_>) -> Result<Life> {
    let mut running = begin(start, None, true)?;
    let ended = running.listen(RECOVERY + RECOVERY, None, |_| false);
    if !ended || running.life.words.last() != Some(&Word::Settled) {
        running.life.fault.get_or_insert_with(|| "the team did not come to rest".to_owned());
    }
    running.end(false)
}

fn begin(start: &Start<'_>, point: Option<&str>, settle: bool) -> Result<Running> {
    let mut command = Command::new(std::env::current_exe().context("find this program")?);
    command
        .arg("child")
        .arg("--dir")
        .arg(start.dir)
        .args(["--team", start.team, "--run", &start.run.to_string()])
        .env(MARK, start.mark)
        .env_remove("AION_FAILPOINT")
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    if let Some(again) = start.again {
        command.arg("--again").arg(again);
    }
    if let Some(point) = point {
        command.env("AION_FAILPOINT", point);
    }
    if settle {
        command.arg("--settle");
    }
    let begun = Instant::now();
    let mut child = command.spawn().context("start the child")?;
    let stdout = child.stdout.take().context("listen to the child")?;
    let (say, said) = mpsc::channel();
    let reader = thread::spawn(move || {
        for line in BufReader::new(stdout).lines() {
            let Ok(line) = line else { return };
            // A line that a kill cut in two says nothing.
            if let Some(word) = Word::parse(&line)
                && say.send((Instant::now(), word)).is_err()
            {
                return;
            }
        }
    });
    Ok(Running { child, begun, said, reader, life: Life::default() })
}

impl Running {
    /// Listens for so long, or until a word; answers whether the child died. With `working`, only
    /// so long counts once the team works.
    fn listen(
        &mut self,
        wait: Duration,
        working: Option<Duration>,
        enough: impl Fn(&Word) -> bool,
    ) -> bool {
        let mut deadline = Instant::now() + wait;
        loop {
            let wait = deadline.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(wait) {
                Ok((at, word)) => {
                    let stop = enough(&word);
                    if let (Word::Resumed, Some(working)) = (&word, working) {
                        deadline = Instant::now() + working;
                    }
                    self.hear(at, word);
                    if stop {
                        return false;
                    }
                }
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => return true,
            }
        }
    }

    fn hear(&mut self, at: Instant, word: Word) {
        match &word {
            Word::Resumed => self.life.resumed_after = Some(at - self.begun),
            Word::Failed(why) => {
                self.life.fault.get_or_insert_with(|| format!("the child says: {why}"));
            }
            Word::Opening
            | Word::Intent(_)
            | Word::Accepted(..)
            | Word::Told(_)
            | Word::Settled => {}
        }
        self.life.words.push(word);
    }

    /// Kills what still lives, and hears it out.
    fn end(mut self, recovering: bool) -> Result<Life> {
        // SIGKILL; a child that is dead already is as good.
        let _ = self.child.kill();
        self.child.wait().context("wait for the child")?;
        self.life.lasted = self.begun.elapsed();
        while let Ok((at, word)) = self.said.recv() {
            self.hear(at, word);
        }
        // It ends with the pipe.
        let _ = self.reader.join();
        if !recovering && self.life.resumed_after.is_none() {
            self.life.fault.get_or_insert_with(|| "the team did not work again".to_owned());
        }
        Ok(self.life)
    }
}

/// How often each named point was reached.
#[derive(Debug, Default)]
pub(crate) struct Visits(BTreeMap<&'static str, u64>);

impl Visits {
    /// One more.
    pub(crate) fn count(&mut self, point: &'static str) {
        *self.0.entry(point).or_default() += 1;
    }

    /// How often.
    pub(crate) fn of(&self, point: &str) -> u64 {
        self.0.get(point).copied().unwrap_or_default()
    }
}
