//! The process of an agent: lines go in, messages come out, its errors are kept for whoever has to
//! be told of its end; it never outlives its holder.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aion_agent::leash::{LeashConfig, Leashed, LeashedCommand, Parting, spawn_parting};
use aion_core::message::shorten;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::frame::{self, Incoming, Noise};
use super::lines::{LINE_BYTES, Line, Lines};

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// Messages of the agent that may wait to be looked at; then it is not read.
const INCOMING: usize = 32;
/// Messages to the agent that may wait to be read by it; one more means that it does not read.
const OUTGOING: usize = 256;
/// What is kept of its errors, from the end.
const ERROR_BYTES: usize = 8 * 1024;
/// What is told of its errors.
const TOLD_BYTES: usize = 1024;
/// How long a process that is being ended is waited for, beyond what its parting takes.
const PATIENCE: Duration = Duration::from_secs(12);

/// An agent's process.
#[derive(Debug)]
pub(super) struct Process {
    messages: mpsc::Receiver<Incoming>,
    peer: Peer,
    words: Arc<Words>,
    /// Lets the agent see the end of its input.
    closing: DropGuard,
    /// Kills it: whoever lets go of it does.
    kill: DropGuard,
    /// Answers with its exit code.
    end: JoinHandle<Option<i32>>,
    parting: Parting,
}

/// The way to tell the agent something.
#[derive(Debug)]
pub(super) struct Peer {
    outgoing: mpsc::Sender<String>,
    requests: u64,
}

/// The agent does not read what it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deaf;

/// What a process said beside the protocol.
#[derive(Debug, Default)]
struct Words(Mutex<Said>);

#[derive(Debug, Default)]
struct Said {
    errors: VecDeque<u8>,
    /// Lines that were no message, and one of them.
    noise: u64,
    sample: String,
}

/// What is started.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) directory: PathBuf,
    pub(super) environment: Vec<(OsString, OsString)>,
}

impl Process {
    /// Starts a process on a leash of its own. `processes` ends when the last of them is gone.
    pub(super) async fn start(
        leash: &LeashConfig,
        start: Start,
        parting: Parting,
        processes: &TaskTracker,
    ) -> Result<Self, String> {
        let shown = start.program.display().to_string();
        let command = LeashedCommand {
            program: start.program.into_os_string(),
            arguments: start.arguments,
            directory: start.directory,
            environment: start.environment,
        };
        let (leashed, talk) = spawn_parting(leash, command, parting)
            .await
            .map_err(|error| format!("{shown} could not be started: {error}"))?;
        let words = Arc::<Words>::default();
        let (outgoing, lines) = mpsc::channel(OUTGOING);
        let (incoming, messages) = mpsc::channel(INCOMING);
        let (closing, kill) = (CancellationToken::new(), CancellationToken::new());
        tokio::spawn(write(talk.input, lines, closing.clone()));
        tokio::spawn(read(talk.output, incoming, Arc::clone(&words)));
        let end = processes.spawn(keep(leashed, Arc::clone(&words), kill.clone()));
        let peer = Peer { outgoing, requests: 0 };
        let (closing, kill) = (closing.drop_guard(), kill.drop_guard());
        Ok(Self { messages, peer, words, closing, kill, end, parting })
    }

    /// The next message; none when the process and all that it began are gone. Waiting for it can
    /// be given up at any time.
    pub(super) async fn next(&mut self) -> Option<Incoming> {
        self.messages.recv().await
    }

    /// The way to tell it something.
    pub(super) fn peer(&mut self) -> &mut Peer {
        &mut self.peer
    }

    /// Lets it end: by itself, then by being told to, then by force. Answers when it is gone.
    pub(super) async fn part(self) {
        let Self { messages, peer, closing, end, kill, parting, .. } = self;
        drop((closing, peer));
        // What it still says is for nobody.
        drop(messages);
        let limit = parting.input + parting.told + PATIENCE;
        // Whoever takes longer is killed, and not waited for.
        let _ = tokio::time::timeout(limit, end).await;
        drop(kill);
    }

    /// Ends it at once. Answers when it is gone.
    pub(super) async fn kill(self) {
        let Self { end, kill, closing, messages, .. } = self;
        drop((kill, closing, messages));
        let _ = tokio::time::timeout(PATIENCE, end).await;
    }

    /// Why it is gone, in words, when its messages have ended.
    pub(super) async fn obituary(self) -> String {
        let Self { end, words, kill, closing, .. } = self;
        let code = tokio::time::timeout(PATIENCE, end).await;
        let how = match code.map(Result::ok) {
            Ok(Some(Some(code @ 129..))) => format!("was ended by signal {}", code - 128),
            Ok(Some(Some(code))) => format!("ended by itself with exit code {code}"),
            Ok(Some(None) | None) => "ended".to_owned(),
            Err(_) => "closed its output and does not end".to_owned(),
        };
        drop((kill, closing));
        format!("the agent's process {how}{}", words.told())
    }

    /// What it said beside the protocol, in words to be put after a sentence.
    pub(super) fn words(&self) -> String {
        self.words.told()
    }
}

impl Peer {
    /// Sends a request; answers its id.
    pub(super) fn request(&mut self, method: &str, params: &Value) -> Result<u64, Deaf> {
        self.requests += 1;
        let id = self.requests;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(message.to_string())?;
        Ok(id)
    }

    /// Tells something that needs no answer.
    pub(super) fn notify(&self, method: &str, params: &Value) -> Result<(), Deaf> {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string())
    }

    /// Answers a request of the agent.
    pub(super) fn answer(&self, id: &RawValue, result: &Value) -> Result<(), Deaf> {
        self.send(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
    }

    /// Refuses a request of the agent.
    pub(super) fn refuse(&self, id: &RawValue, code: i64, message: &str) -> Result<(), Deaf> {
        let error = json!({ "code": code, "message": message });
        self.send(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))
    }

    fn send(&self, line: String) -> Result<(), Deaf> {
        self.outgoing.try_send(line).map_err(|_| Deaf)
    }
}

impl Words {
    fn lock(&self) -> MutexGuard<'_, Said> {
        // Every change of it leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, bytes: &[u8]) {
        let mut said = self.lock();
        said.errors.extend(bytes);
        let over = said.errors.len().saturating_sub(ERROR_BYTES);
        said.errors.drain(..over);
    }

    fn noise(&self, sample: String) {
        let mut said = self.lock();
        if said.noise == 0 {
            tracing::debug!(%sample, "an agent wrote a line that is no message");
        }
        said.noise += 1;
        said.sample = sample;
    }

    fn told(&self) -> String {
        let mut said = self.lock();
        let errors = String::from_utf8_lossy(said.errors.make_contiguous()).into_owned();
        let lines: Vec<&str> =
            errors.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
        let mut told = String::new();
        if !lines.is_empty() {
            let all = lines.join("\n");
            let mut from = all.len().saturating_sub(TOLD_BYTES);
            while !all.is_char_boundary(from) {
                from += 1;
            }
            told = format!("; its last words were: {}", &all[from..]);
        }
        if said.noise > 0 {
            let sample = shorten(&said.sample, TOLD_BYTES / 4);
            let lines = said.noise.to_string();
            let of = " lines of its output were no messages of ACP, the last of them: ";
            told.extend(["; ", &lines, of, &sample]);
        }
        told
    }
}

/// Writes lines until there are no more or the agent is to see their end.
async fn write(
    mut input: ChildStdin,
    mut lines: mpsc::Receiver<String>,
    closing: CancellationToken,
) {
    let writing = async {
        while let Some(mut line) = lines.recv().await {
            line.push('\n');
            // That it is gone is told by its output.
            if input.write_all(line.as_bytes()).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = closing.cancelled() => {}
        () = writing => closing.cancelled().await,
    }
}

/// Reads messages until the process is gone or nobody wants them.
async fn read(output: ChildStdout, messages: mpsc::Sender<Incoming>, words: Arc<Words>) {
    let mut lines = Lines::new(BufReader::with_capacity(CHUNK_BYTES, output), LINE_BYTES);
    // A pipe that cannot be read is at its end.
    while let Ok(Some(line)) = lines.next().await {
        let message = match line {
            Line::Whole(line) => frame::read(line),
            Line::TooLong => Err(Noise(format!("(a line of more than {LINE_BYTES} bytes)"))),
        };
        match message {
            Ok(message) => {
                if messages.send(message).await.is_err() {
                    break;
                }
            }
            Err(Noise(sample)) if sample.is_empty() => {}
            Err(Noise(sample)) => words.noise(sample),
        }
    }
    // Who still writes while it is being ended must not wait for a reader.
    while let Ok(Some(_)) = lines.next().await {}
}

/// Keeps the process: hears its errors, waits for its end, and kills it when that is wanted.
async fn keep(mut leashed: Leashed, words: Arc<Words>, kill: CancellationToken) -> Option<i32> {
    let mut chunk = vec![0; ERROR_BYTES];
    let mut killed = false;
    loop {
        tokio::select! {
            read = leashed.output().read(&mut chunk) => match read {
                Ok(read @ 1..) => words.error(&chunk[..read]),
                Ok(0) | Err(_) => break,
            },
            () = kill.cancelled(), if !killed => killed = true,
        }
        if killed {
            leashed.reap().await;
            break;
        }
    }
    tokio::select! {
        code = leashed.wait() => code.ok(),
        () = kill.cancelled(), if !killed => {
            leashed.reap().await;
            leashed.wait().await.ok()
        }
    }
}
