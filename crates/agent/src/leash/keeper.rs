//! The helper's side of the leash, run as a process of its own; it outlives nobody.

use std::env;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::getpid;

use super::TALKS;
use super::child::Parting;
use super::processes::{Process, below};

/// The exit code when the command could not be started.
const NOT_STARTED: u8 = 127;
/// The exit code when the leash was pulled.
const PULLED: u8 = 137;
/// A process in the kernel's hands may not die for long; nobody waits longer than this for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause between two looks at what is still dying.
const PAUSE: Duration = Duration::from_millis(2);

/// What the helper waits for.
enum Happening {
    /// The pipe to the holder ended.
    Pulled,
    /// The command ended.
    Ended(io::Result<ExitStatus>),
}

/// Runs the helper: `args` are the command and its arguments. The pipe is standard input, standard
/// output and error of the command are our standard output.
pub fn leash_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter();
    let Some(program) = args.next() else { return ExitCode::from(NOT_STARTED) };
    if set_child_subreaper(true).is_err() || outlive_hang_ups().is_err() || !may_start() {
        return ExitCode::from(PULLED);
    }
    let parting = env::var(TALKS).ok().map(|words| Parting::from_words(&words));
    let talks = parting.is_some();
    let mut child = match start(program, args, talks) {
        Ok(child) => child,
        Err(error) => {
            // The one who holds the leash reads our output as the command's.
            let words = format!("{error}\n");
            let _ = if talks {
                io::stderr().write_all(words.as_bytes())
            } else {
                io::stdout().write_all(words.as_bytes())
            };
            return ExitCode::from(NOT_STARTED);
        }
    };
    let input = child.stdin.take();
    let happenings = watch(child, input);
    let code = match happenings.recv().unwrap_or(Happening::Pulled) {
        Happening::Pulled => {
            part(&happenings, parting.unwrap_or(Parting::AT_ONCE));
            PULLED
        }
        Happening::Ended(Err(_)) => PULLED,
        Happening::Ended(Ok(status)) => exit_code(status),
    };
    kill_descendants();
    ExitCode::from(code)
}

/// The holder's death orphans our group, and where a member of it is stopped at that moment, by its
/// own will or by our own killing, the kernel hangs up on all of us. What left the group would then
/// outlive us. The command itself begins with nothing blocked.
fn outlive_hang_ups() -> nix::Result<()> {
    let mut hang_up = SigSet::empty();
    hang_up.add(Signal::SIGHUP);
    hang_up.thread_block()
}

/// Waits for the word to start. The end of the pipe before it means: do not.
fn may_start() -> bool {
    matches!(io::stdin().read(&mut [0]), Ok(1))
}

fn start(
    program: OsString,
    args: impl Iterator<Item = OsString>,
    talks: bool,
) -> io::Result<Child> {
    let output = || io::stdout().as_fd().try_clone_to_owned().map(Stdio::from);
    let mut command = Command::new(program);
    command.args(args).env_remove(TALKS);
    if talks {
        return command.stdin(Stdio::piped()).spawn();
    }
    command.stdin(Stdio::null()).stdout(output()?).stderr(output()?).spawn()
}

/// What happens to a command and its pipe, as it happens.
fn watch(mut child: Child, input: Option<ChildStdin>) -> Receiver<Happening> {
    let (happened, happenings) = mpsc::channel();
    let pulled = happened.clone();
    match input {
        None => thread::spawn(move || {
            // Whatever else comes over the pipe means nothing; its end or failure is the sign.
            while matches!(io::stdin().read(&mut [0; 64]), Ok(1..)) {}
            let _ = pulled.send(Happening::Pulled);
        }),
        Some(input) => {
            thread::spawn(move || pass_on(input));
            thread::spawn(move || {
                await_hang_up();
                let _ = pulled.send(Happening::Pulled);
            })
        }
    };
    thread::spawn(move || {
        let _ = happened.send(Happening::Ended(child.wait()));
    });
    happenings
}

/// Gives a command whose input has ended the time to end by itself, and then after being told to.
fn part(happenings: &Receiver<Happening>, parting: Parting) {
    let ends_within = |limit| matches!(happenings.recv_timeout(limit), Ok(Happening::Ended(_)));
    if parting == Parting::AT_ONCE || ends_within(parting.input) {
        return;
    }
    below(&Process::all(), getpid().as_raw()).iter().for_each(Process::tell_to_end);
    ends_within(parting.told);
}

/// Passes on what comes over the pipe. A command that reads nothing holds it up, and nothing else.
fn pass_on(mut input: ChildStdin) {
    let mut chunk = [0; 8 * 1024];
    while let Ok(read @ 1..) = io::stdin().read(&mut chunk) {
        if input.write_all(&chunk[..read]).is_err() {
            return;
        }
    }
}

/// Waits until the other side of the pipe is closed, also where not all that came was read.
fn await_hang_up() {
    let stdin = io::stdin();
    loop {
        let mut asked = [PollFd::new(stdin.as_fd(), PollFlags::empty())];
        match poll(&mut asked, PollTimeout::NONE) {
            Ok(_) if asked[0].revents().is_some_and(|happened| !happened.is_empty()) => return,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

/// Kills until two looks in a row find nobody: a process that was being made during the first look
/// is there at the second.
fn kill_descendants() {
    let me = getpid().as_raw();
    let deadline = Instant::now() + PATIENCE;
    let mut quiet = 0;
    while quiet < 2 && Instant::now() < deadline {
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            if status == WaitStatus::StillAlive {
                break;
            }
        }
        let left = below(&Process::all(), me);
        if left.is_empty() {
            quiet += 1;
            continue;
        }
        quiet = 0;
        left.iter().for_each(Process::stop);
        left.iter().for_each(Process::kill);
        thread::sleep(PAUSE);
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    u8::try_from(code.unwrap_or_default()).unwrap_or(u8::MAX)
}
