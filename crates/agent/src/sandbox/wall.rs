//! Which wall this machine has: found by running something inside of it, never by its name alone.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::bubblewrap::Bubblewrap;
use super::inside::Orders;
use super::landlock::Reach;
use super::limits::Limits;
use super::policy::{Grounds, Policy};
use super::run::Plan;

/// How long a trial may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The oldest bubblewrap that knows all that is asked of it.
const OLDEST: (u32, u32) = (0, 5);
/// Where bubblewrap is put by those who package it.
const PLACES: [&str; 3] = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"];
/// What a trial says where it went well.
const WORD: &str = "aion-inside";

/// What the person wants where no wall works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// No command runs without one.
    #[default]
    Required,
    /// Each command is asked for, as one without a wall.
    Ask,
    /// There is none, whether one works or not.
    Off,
}

/// A wall, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wall {
    /// Bubblewrap: namespaces of the command's own.
    Bubblewrap(Bubblewrap),
    /// Landlock and seccomp; with the reason why it is not bubblewrap.
    Landlock {
        /// Why.
        instead: String,
    },
    /// The person wants none.
    Off,
    /// None works.
    Missing {
        /// What was tried and how it went.
        reason: String,
        /// Whether commands may run all the same, each by the person's leave.
        ask: bool,
    },
}

impl Wall {
    /// Looks for the wall of this machine. It blocks.
    pub fn find(mode: Mode, helper: &[OsString]) -> Self {
        if mode == Mode::Off {
            return Self::Off;
        }
        let bubblewrap = bubblewrap(helper);
        let instead = match bubblewrap {
            Ok(bubblewrap) => return Self::Bubblewrap(bubblewrap),
            Err(reason) => reason,
        };
        match trial(&Plan::of_landlock_trial(helper)) {
            Ok(()) => Self::Landlock { instead },
            Err(reason) => Self::Missing {
                reason: format!("{instead}; Landlock: {reason}"),
                ask: mode == Mode::Ask,
            },
        }
    }

    /// The wall by Landlock, if it works here, though bubblewrap may work, too. It blocks.
    pub fn landlock(helper: &[OsString]) -> Result<Self, String> {
        trial(&Plan::of_landlock_trial(helper))?;
        Ok(Self::Landlock { instead: "it was asked for".to_owned() })
    }

    /// The wall by bubblewrap, if it works here. It blocks.
    pub fn bubblewrap(helper: &[OsString]) -> Result<Self, String> {
        bubblewrap(helper).map(Self::Bubblewrap)
    }

    /// One word for it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Bubblewrap(_) => "bubblewrap",
            Self::Landlock { .. } => "landlock",
            Self::Off => "off",
            Self::Missing { .. } => "none",
        }
    }
}

impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bubblewrap(found) => {
                let (major, minor) = found.version;
                write!(f, "bubblewrap {major}.{minor} ({})", found.program.display())
            }
            Self::Landlock { instead } => {
                write!(f, "Landlock and seccomp, without a network ({instead})")
            }
            Self::Off => f.write_str("off, by your settings: commands run as you"),
            Self::Missing { reason, .. } => write!(f, "none works here: {reason}"),
        }
    }
}

fn bubblewrap(helper: &[OsString]) -> Result<Bubblewrap, String> {
    let program = program().ok_or("bubblewrap is not installed")?;
    let version = say(&program).ok_or("bubblewrap does not say its version")?;
    if version < OLDEST {
        let ((major, minor), (least, smallest)) = (version, OLDEST);
        return Err(format!("bubblewrap {major}.{minor} is older than {least}.{smallest}"));
    }
    let found = Bubblewrap { program, version };
    trial(&Plan::of_bubblewrap_trial(&found, helper))
        .map_err(|reason| format!("bubblewrap does not work here: {reason}"))?;
    Ok(found)
}

fn program() -> Option<PathBuf> {
    let named = PLACES.map(PathBuf::from).into_iter();
    let path = env::var_os("PATH").unwrap_or_default();
    let searched = env::split_paths(&path).filter(|at| at.is_absolute()).map(|at| at.join("bwrap"));
    named.chain(searched.collect::<Vec<_>>()).find(|at| at.is_file())
}

fn say(program: &Path) -> Option<(u32, u32)> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut numbers = text.split_whitespace().next_back()?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

impl Plan {
    fn of_bubblewrap_trial(found: &Bubblewrap, helper: &[OsString]) -> Self {
        let policy = Policy { writable: Vec::new(), ..Policy::default() };
        let limits = Limits::default();
        let orders = Orders { limits, reach: None, network: None, local_sockets: false };
        Self::bubblewrap(found, &policy, &[], helper, &orders, None, Path::new("/"))
    }

    fn of_landlock_trial(helper: &[OsString]) -> Self {
        let temporary = env::temp_dir();
        let policy =
            Policy::of(&temporary, &Grounds::default(), &std::collections::BTreeSet::new());
        let reach = Reach::of(&policy.unwrap_or_default(), &temporary);
        let limits = Limits::default();
        let orders = Orders { limits, reach: Some(reach), network: None, local_sockets: false };
        Self::landlock(helper, &orders)
    }
}

/// Runs something inside, and believes only what it says.
fn trial(plan: &Plan) -> Result<(), String> {
    let mut child = Command::new(&plan.program)
        .args(&plan.arguments)
        .args(["/bin/sh", "-c", &format!("echo {WORD}")])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let text = within(&mut child, PATIENCE).map_err(|error| error.to_string())?;
    if text.trim() == WORD {
        return Ok(());
    }
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    Err(last.map_or_else(|| "it said nothing".to_owned(), |line| line.trim().to_owned()))
}

/// What a child says until it ends, or until its time is up.
fn within(child: &mut Child, patience: Duration) -> io::Result<String> {
    let (done, text) = mpsc::channel();
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    thread::spawn(move || {
        let mut said = String::new();
        let _ = out.as_mut().map(|out| out.read_to_string(&mut said));
        let _ = err.as_mut().map(|err| err.read_to_string(&mut said));
        let _ = done.send(said);
    });
    let text = text.recv_timeout(patience);
    let _ = child.kill();
    child.wait()?;
    text.map_err(|_| io::Error::other("it did not end"))
}
