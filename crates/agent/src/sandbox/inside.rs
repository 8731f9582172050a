//! The helper inside of a wall: it closes what the wall itself leaves open, for good, and then runs
//! the command; where anything of that fails, the command does not run.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode};
use std::thread;
use std::time::Duration;

use caps::{CapSet, Capability};
use nix::sys::prctl::{set_child_subreaper, set_dumpable};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, geteuid, getpid, setsid};
use rustix::process::setpriority_process;
use serde::{Deserialize, Serialize};

use super::bridge;
use super::landlock::Reach;
use super::limits::Limits;
use super::syscalls::{self, Sockets};
use super::violation::LIMIT;
use crate::leash::{Process, below, end_all_below};

/// The exit code where the command was not run.
pub(super) const NOT_RUN: u8 = 125;
/// The exit code where it could not be started.
const NOT_STARTED: u8 = 127;
/// How often processes are counted where the kernel does not.
const LOOK: Duration = Duration::from_millis(2);

/// What the helper is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Orders {
    /// The limits.
    pub(super) limits: Limits,
    /// What may be touched, where Landlock is the wall.
    pub(super) reach: Option<Reach>,
    /// The way to the house's proxy, where there is one.
    pub(super) network: Option<PathBuf>,
    /// Whether sockets with a name in the file system are let through.
    pub(super) local_sockets: bool,
}

/// Runs the helper: `args` are its orders, the command and its arguments.
pub fn sandbox_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match run(args.into_iter()) {
        Ok(code) => ExitCode::from(code),
        Err(reason) => {
            // Whoever runs the command reads our output as the command's.
            let _ = writeln!(io::stdout(), "{LIMIT}the command was not run: {reason}");
            ExitCode::from(NOT_RUN)
        }
    }
}

fn run(mut args: impl Iterator<Item = OsString>) -> Result<u8, String> {
    let orders = args.next().and_then(|orders| orders.into_string().ok()).unwrap_or_default();
    let orders: Orders = serde_json::from_str(&orders).map_err(|error| error.to_string())?;
    let program = args.next().ok_or("there is no command")?;
    let in_words = |errno: nix::Error| errno.to_string();
    set_dumpable(false).map_err(in_words)?;
    let mut command = Command::new(program);
    command.args(args);
    // The machine's memory is better taken from a command than from the house.
    let _ = fs::write("/proc/self/oom_score_adj", "500");
    let own_processes = orders.reach.is_none();
    if !own_processes {
        // It is no leader of a group: its holder is. A terminal of the person's is none of ours.
        setsid().map_err(in_words)?;
    }
    if geteuid().is_root() {
        // For this user the kernel counts nothing.
        set_child_subreaper(true).map_err(in_words)?;
        let most = orders.limits.processes / 4;
        thread::spawn(move || count(most));
    }
    if let Some(network) = &orders.network {
        let port = bridge::open(network).map_err(|error| format!("the network: {error}"))?;
        command.envs(proxies(port));
    }
    let others = if own_processes { 0 } else { threads_of_mine() };
    orders.limits.set(others).map_err(in_words)?;
    // From here on all is for this thread, and for what it starts.
    if let Some(reach) = &orders.reach {
        give_up_rights().map_err(|error| format!("capabilities: {error}"))?;
        reach.enter().map_err(|error| format!("Landlock: {error}"))?;
    }
    let sockets = Sockets { internet: own_processes, local: orders.local_sockets };
    syscalls::close(sockets).map_err(|error| format!("seccomp: {error}"))?;
    match command.spawn() {
        Ok(child) => wait(child),
        Err(error) => {
            let _ = writeln!(io::stdout(), "{error}");
            Ok(NOT_STARTED)
        }
    }
}

/// Waits for the command, and meanwhile for what was left to us.
#[expect(clippy::needless_pass_by_value, reason = "nobody else is to wait for it")]
fn wait(child: Child) -> Result<u8, String> {
    let wanted = Pid::from_raw(i32::try_from(child.id()).map_err(|error| error.to_string())?);
    loop {
        match waitpid(None, None).map_err(|errno| errno.to_string())? {
            WaitStatus::Exited(pid, code) if pid == wanted => {
                return Ok(u8::try_from(code).unwrap_or(u8::MAX));
            }
            WaitStatus::Signaled(pid, signal, _) if pid == wanted => {
                return Ok(u8::try_from(128 + signal as i32).unwrap_or(u8::MAX));
            }
            _ => {}
        }
    }
}

/// The superuser's rights go through a wall that only looks at paths.
fn give_up_rights() -> Result<(), caps::errors::CapsError> {
    for capability in caps::all() {
        // One that this kernel does not know is not there to be given up.
        if caps::has_cap(None, CapSet::Bounding, capability).unwrap_or(false)
            && caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP)?
        {
            caps::drop(None, CapSet::Bounding, capability)?;
        }
    }
    caps::clear(None, CapSet::Inheritable)?;
    caps::clear(None, CapSet::Effective)?;
    caps::clear(None, CapSet::Permitted)
}

/// The variables by which programs find the proxy. What listens inside of the wall itself is
/// reached without it.
fn proxies(port: u16) -> Vec<(&'static str, String)> {
    let http = format!("http://127.0.0.1:{port}");
    let near = "localhost,127.0.0.1,::1".to_owned();
    let mut all = vec![
        ("ALL_PROXY", format!("socks5h://127.0.0.1:{port}")),
        ("all_proxy", format!("socks5h://127.0.0.1:{port}")),
        ("NODE_USE_ENV_PROXY", "1".to_owned()),
        ("NO_PROXY", near.clone()),
        ("no_proxy", near),
    ];
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "CARGO_HTTP_PROXY"] {
        all.push((name, http.clone()));
    }
    all
}

/// Ends everything that the command began when it is too much. The machine's own count is asked
/// often, for it costs nothing; who began what is looked up when that has grown by so many.
fn count(most: u64) {
    // Who ends processes has to be given time before those who begin them.
    let _ = setpriority_process(None, -20);
    let me = getpid().as_raw();
    let mut calm = threads_of_all().saturating_add(most);
    loop {
        let there = threads_of_all();
        if there > calm {
            let own: u64 = below(&Process::all(), me).iter().map(|process| process.threads).sum();
            calm = if own > most {
                // First the word: with the command, this process ends.
                let _ = writeln!(
                    io::stdout(),
                    "{LIMIT}more than {most} processes and threads: all were ended"
                );
                end_all_below(me);
                threads_of_all().saturating_add(most)
            } else {
                there.saturating_add(most - own)
            };
        }
        thread::sleep(LOOK);
    }
}

/// How many threads the machine has, as the kernel counts them.
fn threads_of_all() -> u64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let all = text.split(' ').nth(3).and_then(|field| field.split_once('/'));
    all.and_then(|(_, all)| all.parse().ok()).unwrap_or(u64::MAX)
}

fn processes() -> impl Iterator<Item = String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
}

/// How many threads this user has already: the kernel counts them all together.
fn threads_of_mine() -> u64 {
    use std::os::unix::fs::MetadataExt;
    let me = geteuid().as_raw();
    let mine = processes()
        .filter(|pid| fs::metadata(format!("/proc/{pid}")).is_ok_and(|meta| meta.uid() == me));
    mine.map(|pid| fs::read_dir(format!("/proc/{pid}/task")).map_or(1, |all| all.count() as u64))
        .sum()
}
