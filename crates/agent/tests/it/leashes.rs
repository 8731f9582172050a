//! The leash, held by real processes that are really killed.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aion_agent::leash::{
    DirectoryLedger, LeashEntry, LeashLedger, Leashed, LeashedCommand, Parting, reap, spawn,
    spawn_parting, spawn_talking,
};
use futures::FutureExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::fixture::{PROBE, leash};

/// Descendants that try to get away: a daemon of its own session, one that left group and parent,
/// and one in the foreground. Each holds the output open, and says that it lives.
const RUNAWAYS: &str = "
    setsid bash -c 'echo 1; exec sleep 1000' &
    (setsid bash -c '(echo 2; exec sleep 1000) &' &)
    (trap \"\" TERM HUP INT; echo 3; sleep 1000) &
    wait
";

fn command(script: &str, directory: &Path) -> LeashedCommand {
    LeashedCommand {
        program: "bash".into(),
        arguments: vec!["-c".into(), script.into()],
        directory: directory.to_path_buf(),
        environment: std::env::vars_os().collect(),
    }
}

/// Reads until all runaways have said that they live.
async fn wait_for_runaways(child: &mut Leashed) {
    let mut said = Vec::new();
    while said.len() < "1\n2\n3\n".len() {
        let mut chunk = [0; 16];
        let read = child.output().read(&mut chunk).await.unwrap();
        assert_ne!(read, 0, "they ended by themselves");
        said.extend_from_slice(&chunk[..read]);
    }
}

/// Reads until nobody holds the output any more: every process that had it is dead.
async fn wait_for_silence(child: &mut Leashed) {
    let mut rest = Vec::new();
    child.output().read_to_end(&mut rest).await.unwrap();
}

#[tokio::test]
async fn a_pulled_leash_kills_everything() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = spawn(&leash(None), command(RUNAWAYS, dir.path())).await.unwrap();
    wait_for_runaways(&mut child).await;
    child.kill();
    wait_for_silence(&mut child).await;
    assert_eq!(child.wait().await.unwrap(), 137);
}

#[tokio::test]
async fn the_end_of_the_command_ends_what_it_left_behind() {
    let dir = tempfile::tempdir().unwrap();
    let script = "(setsid sleep 1000 &); exit 7";
    let mut child = spawn(&leash(None), command(script, dir.path())).await.unwrap();
    wait_for_silence(&mut child).await;
    assert_eq!(child.wait().await.unwrap(), 7);
}

#[tokio::test]
async fn a_command_that_is_not_there_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut missing = command("", dir.path());
    missing.program = "no-such-program".into();
    let mut child = spawn(&leash(None), missing).await.unwrap();
    let mut said = String::new();
    child.output().read_to_string(&mut said).await.unwrap();
    assert!(said.starts_with("No such file or directory"), "{said}");
    assert_eq!(child.wait().await.unwrap(), 127);
}

/// A ledger that looks whether the command has begun.
#[derive(Debug)]
struct Witness {
    sign: std::path::PathBuf,
    seen: Mutex<Vec<(&'static str, LeashEntry, bool)>>,
    refuse: bool,
}

impl LeashLedger for Witness {
    fn started(&self, entry: &LeashEntry) -> std::io::Result<()> {
        let begun = self.sign.exists();
        self.seen.lock().unwrap().push(("started", entry.clone(), begun));
        if self.refuse { Err(std::io::Error::other("the disk is full")) } else { Ok(()) }
    }

    fn ended(&self, entry: &LeashEntry) {
        self.seen.lock().unwrap().push(("ended", entry.clone(), self.sign.exists()));
    }
}

#[tokio::test]
async fn the_ledger_knows_before_the_command_begins() {
    let dir = tempfile::tempdir().unwrap();
    let sign = dir.path().join("sign");
    let witness = |refuse| Arc::new(Witness { sign: sign.clone(), seen: Mutex::default(), refuse });
    let good = witness(false);
    let held: Arc<dyn LeashLedger> = Arc::<Witness>::clone(&good);
    let touch = || command("touch sign", dir.path());
    let mut child = spawn(&leash(Some(held)), touch()).await.unwrap();
    assert_eq!(child.wait().await.unwrap(), 0);
    let seen = good.seen.lock().unwrap().clone();
    let words: Vec<_> = seen.iter().map(|(word, _, begun)| (*word, *begun)).collect();
    assert_eq!(words, [("started", false), ("ended", true)]);
    assert_eq!(seen[0].1, seen[1].1);

    fs::remove_file(&sign).unwrap();
    let error = spawn(&leash(Some(witness(true))), touch()).await.unwrap_err();
    assert_eq!(error.to_string(), "the disk is full");
    assert!(!sign.exists());
}

/// Starts a process that holds a leash with runaways on it, and waits until they live. The stream
/// ends when all of them are dead: they alone have its other end.
fn hold(ledger: &Path, directory: &Path) -> (std::process::Child, File) {
    hold_script(ledger, directory, RUNAWAYS)
}

fn hold_script(ledger: &Path, directory: &Path, script: &str) -> (std::process::Child, File) {
    let fifo = directory.join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let holder = Command::new(PROBE)
        .arg("hold")
        .arg(ledger)
        .args(["bash", "-c", &format!("exec >fifo\n{script}")])
        .current_dir(directory)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut stream = File::open(fifo).unwrap();
    let mut said = [0; 6];
    stream.read_exact(&mut said).unwrap();
    (holder, stream)
}

#[test]
fn a_killed_holder_takes_everything_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = DirectoryLedger::open(dir.path().join("ledger")).unwrap();
    let (mut holder, mut stream) = hold(&dir.path().join("ledger"), dir.path());
    assert_eq!(ledger.entries().unwrap().len(), 1);
    holder.kill().unwrap();
    holder.wait().unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    // The entry outlives the holder; the next opening strikes it.
    assert_eq!(ledger.entries().unwrap().len(), 1);
    ledger.reap().unwrap();
    assert_eq!(ledger.entries().unwrap(), []);
}

/// The kernel hangs up on an orphaned group that has a stopped member: on the helper, too.
#[test]
fn a_stopped_command_does_not_keep_the_helper_from_its_work() {
    let dir = tempfile::tempdir().unwrap();
    let script = "
        setsid bash -c 'echo 1; exec sleep 1000' &
        bash -c 'kill -STOP $$' &
        until grep -q '^State:.T' /proc/$!/status; do :; done
        printf '2\\n3\\n'
        wait
    ";
    let (mut holder, mut stream) = hold_script(&dir.path().join("ledger"), dir.path(), script);
    holder.kill().unwrap();
    holder.wait().unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
}

#[test]
fn what_a_killed_helper_leaves_is_reaped() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = DirectoryLedger::open(dir.path().join("ledger")).unwrap();
    let (mut holder, mut stream) = hold(&dir.path().join("ledger"), dir.path());
    let entry = ledger.entries().unwrap().remove(0);
    // The helper first, so that it can kill nobody.
    let status = Command::new("kill").args(["-9", &entry.group.to_string()]).status().unwrap();
    assert!(status.success());
    holder.kill().unwrap();
    holder.wait().unwrap();
    // Whoever only looks like it is left alone.
    let other = LeashEntry { boot: "another".into(), ..entry.clone() };
    let older = LeashEntry { start: entry.start + 1, mark: "none".into(), ..entry.clone() };
    assert_eq!(reap(&[other, older]), 0);
    assert!(ledger.reap().unwrap() >= 3);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(ledger.entries().unwrap(), []);
}

#[tokio::test]
async fn a_leash_without_its_helper_can_still_be_reaped() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = DirectoryLedger::open(dir.path().join("ledger")).unwrap();
    let held: Arc<dyn LeashLedger> = Arc::new(ledger.clone());
    let mut child = spawn(&leash(Some(held)), command(RUNAWAYS, dir.path())).await.unwrap();
    wait_for_runaways(&mut child).await;
    let helper = ledger.entries().unwrap().remove(0).group;
    let status = Command::new("kill").args(["-9", &helper.to_string()]).status().unwrap();
    assert!(status.success());
    child.reap().await;
    wait_for_silence(&mut child).await;
    assert_eq!(child.wait().await.unwrap(), 137);
    assert_eq!(ledger.entries().unwrap(), []);
}

/// A command that kills its own helper, as the kernel does for want of memory, takes nobody along:
/// not the one that left the group, and not the one that carries no mark.
#[tokio::test]
async fn a_command_that_kills_its_helper_leaves_nothing_running() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let ledger = DirectoryLedger::open(dir.path().join("ledger")).unwrap();
    let script = "
        exec 3>fifo
        (setsid sleep 1000 >/dev/null 2>&1 &)
        (exec env -i sleep 1000 >/dev/null 2>&1 &)
        kill -9 $PPID
    ";
    // Ends when everybody who has the other end is dead.
    let stream = tokio::task::spawn_blocking(move || {
        let mut rest = Vec::new();
        File::open(fifo).unwrap().read_to_end(&mut rest).unwrap();
    });
    let held: Arc<dyn LeashLedger> = Arc::new(ledger.clone());
    let mut child = spawn(&leash(Some(held)), command(script, dir.path())).await.unwrap();
    assert_eq!(child.wait().await.unwrap(), 137);
    stream.await.unwrap();
    assert_eq!(ledger.entries().unwrap(), []);

    // Nobody waits for this one any more, and it has no ledger.
    let fifo = dir.path().join("fifo");
    let stream = tokio::task::spawn_blocking(move || {
        let mut rest = Vec::new();
        File::open(fifo).unwrap().read_to_end(&mut rest).unwrap();
    });
    let mut child = spawn(&leash(None), command(script, dir.path())).await.unwrap();
    wait_for_silence(&mut child).await;
    drop(child);
    stream.await.unwrap();
}

#[tokio::test]
async fn a_command_that_is_talked_with_ends_with_its_input_though_it_reads_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let echo = "read line; echo \"got $line\"; echo wrong >&2; sleep 1000 & wait";
    let (mut child, mut talk) =
        spawn_talking(&leash(None), command(echo, dir.path())).await.unwrap();
    talk.input.write_all(b"hello\n").await.unwrap();
    let mut said = [0; 10];
    talk.output.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"got hello\n");
    let mut errors = [0; 6];
    child.output().read_exact(&mut errors).await.unwrap();
    assert_eq!(&errors, b"wrong\n");
    // More than pipes hold, for nobody.
    for _ in 0..100 {
        let _ = talk.input.write_all(&[0; 4096]).now_or_never();
    }
    drop(talk.input);
    assert_eq!(child.wait().await.unwrap(), 137);
    let mut rest = Vec::new();
    talk.output.read_to_end(&mut rest).await.unwrap();
}

#[tokio::test]
async fn a_command_that_is_given_time_ends_by_itself_or_is_told_to_or_is_killed() {
    let long = Duration::from_mins(2);
    let short = Duration::from_millis(200);
    // What it does at the end of its input, when it is told to end, and what it may take for both.
    let by_itself = ("cat; echo ended > how", Parting { input: long, told: long });
    let when_told = (
        "trap 'echo told > how; exit' TERM; echo .; while :; do sleep 0.01; done",
        Parting { input: short, told: long },
    );
    let never = (
        "trap 'echo told > how' TERM; echo .; while :; do sleep 0.01; done",
        Parting { input: short, told: short },
    );
    for ((script, parting), how) in
        [(by_itself, "ended\n"), (when_told, "told\n"), (never, "told\n")]
    {
        let dir = tempfile::tempdir().unwrap();
        let (mut child, mut talk) =
            spawn_parting(&leash(None), command(script, dir.path()), parting).await.unwrap();
        // It runs when it has said something.
        talk.input.write_all(b".\n").await.unwrap();
        talk.output.read_exact(&mut [0; 2]).await.unwrap();
        drop(talk.input);
        wait_for_silence(&mut child).await;
        assert_eq!(child.wait().await.unwrap(), 137, "{script}");
        assert_eq!(fs::read_to_string(dir.path().join("how")).unwrap(), how, "{script}");
    }
}
