//! `aion mcp bridge`: carries lines of a member's MCP client to the daemon as frames, and frames back
//! as lines; it reads none of them. Two plain threads and no runtime, since every member has one.

use std::env;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use aion_api::Exit;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::exit::{Failure, Outcome};

/// The longest line that the client may write; the daemon takes no more in one frame.
const LINE_BYTES: usize = 1024 * 1024;
/// The largest frame that the daemon may send.
const FRAME_BYTES: usize = 16 * 1024 * 1024;
/// How long the daemon may take to let us in.
const HELLO_TIME: Duration = Duration::from_secs(5);
/// How long the daemon may take no bytes.
const WRITE_TIME: Duration = Duration::from_secs(30);
/// How long answers may take that are on their way when the client has closed its end.
const LAST_TIME: Duration = Duration::from_secs(10);

/// The variables that a member's process finds.
const PORT: &str = "TEAM_MCP_PORT";
const TOKEN: &str = "TEAM_MCP_TOKEN";
const SLOT: &str = "TEAM_AGENT_SLOT_ID";

/// The whole of the process.
pub(crate) fn main() -> ExitCode {
    match run() {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => failure.report(false),
    }
}

pub(super) fn run() -> Outcome {
    let way = Way::of_environment()?;
    let stream = way.connect()?;
    let over = |error: &io::Error| lost(&error.to_string());
    let reader = stream.try_clone().map_err(|error| over(&error))?;
    // Standard input has ended: the connection may end too.
    let leaving = Arc::new(AtomicBool::new(false));
    let (done, ended) = mpsc::channel();
    let left = Arc::clone(&leaving);
    let end = done.clone();
    thread::spawn(move || {
        let carried = inward(reader);
        let leaving = left.load(Ordering::Acquire);
        // The main thread waits for this as long as it lives.
        let _ = end.send(match carried {
            Ok(()) if leaving => Ok(Exit::Success),
            Ok(()) => Err(lost("the daemon has closed it; this member may have ended")),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Success),
            Err(error) => Err(over(&error)),
        });
    });
    thread::spawn(move || {
        let carried = outward(&stream);
        if let Err(failure) = carried {
            let _ = done.send(Err(failure));
            return;
        }
        leaving.store(true, Ordering::Release);
        // Answers may still come; a daemon that has gone ends the other thread.
        let _ = stream.shutdown(Shutdown::Write);
        thread::sleep(LAST_TIME);
        let _ = done.send(Ok(Exit::Success));
    });
    ended.recv().unwrap_or(Ok(Exit::Success))
}

/// How to reach the team.
struct Way {
    port: u16,
    /// What is said to the daemon.
    token: String,
    /// What the daemon has to know without being told.
    check: String,
    slot: Option<String>,
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Way").field("port", &self.port).finish_non_exhaustive()
    }
}

/// What the daemon answers first.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Answer {
    Welcome { proof: Option<String>, slot_id: u64 },
    Refused { code: String, detail: String },
}

impl Way {
    fn of_environment() -> Result<Self, Failure> {
        let value = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let missing = |name: &str| {
            let message = format!("{name} is not set: this runs inside a member of a team");
            Failure::new(Exit::Usage, "bridge.environment", message).with_hint(
                "the daemon sets it for its members; for a program of your own, make a credential: \
                 aion agent connect MEMBER --team TEAM",
            )
        };
        let port = value(PORT).ok_or_else(|| missing(PORT))?;
        let port = port.parse().map_err(|_| {
            let message = format!("{PORT} is no port: {port:?}");
            Failure::new(Exit::Usage, "bridge.environment", message)
        })?;
        let token = value(TOKEN).ok_or_else(|| missing(TOKEN))?;
        let (token, check) = token.split_once('.').ok_or_else(|| {
            let message = format!("{TOKEN} is not whole: it has two parts with a dot between them");
            Failure::new(Exit::Usage, "bridge.environment", message)
        })?;
        let (token, check) = (token.to_owned(), check.to_owned());
        Ok(Self { port, token, check, slot: value(SLOT) })
    }

    /// Connects, lets the daemon prove itself, and says that the tools are here.
    fn connect(&self) -> Result<TcpStream, Failure> {
        let port = self.port;
        let unreachable = |why: &str| {
            let message = format!("reach the team at 127.0.0.1:{port}: {why}");
            Failure::new(Exit::Unreachable, "bridge.unreachable", message)
                .with_hint("the daemon may have been started again; then this member is, too")
        };
        let failed = |error: io::Error| {
            unreachable(&match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it does not answer".into(),
                _ => error.to_string(),
            })
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut stream = TcpStream::connect_timeout(&address, HELLO_TIME).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(HELLO_TIME)).map_err(failed)?;
        stream.set_write_timeout(Some(WRITE_TIME)).map_err(failed)?;
        let nonce = nonce()?;
        let mut hello = json!({ "type": "hello", "token": self.token, "nonce": nonce });
        if let Some(slot) = &self.slot {
            hello["slot_id"] = json!(slot);
        }
        send(&mut stream, hello.to_string().as_bytes()).map_err(failed)?;
        let answer = receive(&mut stream).map_err(failed)?;
        let answer = answer.ok_or_else(|| unreachable("it closed the connection"))?;
        let stranger = || {
            let message = format!("what listens at 127.0.0.1:{port} is not this team's daemon");
            Failure::new(Exit::Authentication, "bridge.proof", message)
        };
        match serde_json::from_slice(&answer).map_err(|_| stranger())? {
            Answer::Refused { code, detail } => {
                let message = format!("the team does not let this member in: {detail}");
                Err(Failure::new(Exit::Authentication, &code, message))
            }
            Answer::Welcome { proof, .. } if proof.as_ref() != Some(&self.proof(&nonce)) => {
                Err(stranger())
            }
            Answer::Welcome { slot_id, .. } => {
                let ready = json!({ "type": "mcp_ready", "slot_id": slot_id }).to_string();
                send(&mut stream, ready.as_bytes()).map_err(failed)?;
                stream.set_read_timeout(None).map_err(failed)?;
                Ok(stream)
            }
        }
    }

    /// What only the daemon that drew the token can answer.
    fn proof(&self, nonce: &str) -> String {
        hex(&Sha256::digest(format!("aion mcp\n{}\n{nonce}", self.check).as_bytes()))
    }
}

/// From the client to the daemon, a line a frame, until the client closes its end.
fn outward(mut stream: &TcpStream) -> Result<(), Failure> {
    let mut input = BufReader::new(io::stdin().lock());
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = LINE_BYTES as u64 + 1;
        let read = (&mut input).take(limit).read_until(b'\n', &mut line);
        let read = read.map_err(|error| Failure::io("read standard input", &error))?;
        if read == 0 {
            return Ok(());
        }
        if line.len() > LINE_BYTES && line.last() != Some(&b'\n') {
            let message = format!("a line of the client is longer than {LINE_BYTES} bytes");
            return Err(Failure::new(Exit::Usage, "bridge.line", message));
        }
        let message = line.trim_ascii();
        if !message.is_empty() {
            send(&mut stream, message).map_err(|error| lost(&error.to_string()))?;
        }
    }
}

/// From the daemon to the client, a frame a line, until the daemon closes the connection.
fn inward(stream: TcpStream) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut output = io::stdout().lock();
    while let Some(mut message) = receive(&mut stream)? {
        // Within a message a line break is white space, and would end the line.
        for byte in &mut message {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        message.push(b'\n');
        output.write_all(&message)?;
        output.flush()?;
    }
    Ok(())
}

/// Sends a frame in one write.
fn send(to: &mut impl Write, message: &[u8]) -> io::Result<()> {
    let length = u32::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut frame = Vec::with_capacity(message.len() + 4);
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(message);
    to.write_all(&frame)
}

/// Reads a frame; none where the connection has ended.
fn receive(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0_u8; 4];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > FRAME_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame of it is too large"));
    }
    let mut message = Vec::new();
    from.take(length as u64).read_to_end(&mut message)?;
    if message.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(message))
}

fn nonce() -> Result<String, Failure> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::new(Exit::Failure, "bridge.random", format!("draw a random number: {error}"))
    })?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn lost(why: &str) -> Failure {
    Failure::new(
        Exit::Unreachable,
        "bridge.lost",
        format!("the connection to the team ended: {why}"),
    )
}
