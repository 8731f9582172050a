//! A thousand clients of one team's WebSocket, of whom some stop reading and some come and go; it
//! checks what each of them saw.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aion_testkit::chance::Chance;
use aion_testkit::figures::{Report, Target, quantile};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

use super::client::find;
use super::daemon::{Daemon, team};
use crate::{Form, crew, tell};

/// Clients that follow the team.
const CLIENTS: u64 = 1_000;
/// Of these, those that stop reading.
const STOPPED: u64 = 50;
/// Of these, those that come and go.
const RESTLESS: u64 = 40;
/// Times that each of them leaves.
const LEAVES: u64 = 5;
/// Clients of another team that read what its lead writes while it is written.
const LIVE: u64 = 50;
/// Events a second on the team.
const RATE: u32 = 20;
/// How long a client may wait for the next event.
const PATIENCE: Duration = Duration::from_secs(30);

/// What all clients share.
struct Field {
    address: SocketAddr,
    bearer: String,
    team: String,
    /// The number after which everybody goes home; unknown while messages are still sent.
    last: watch::Sender<u64>,
    /// When each event was asked for.
    sent: Mutex<BTreeMap<u64, Instant>>,
    connected: AtomicU64,
    left: AtomicU64,
}

/// What one client saw.
#[derive(Default)]
struct Seen {
    seq: u64,
    /// Stands for everything that it saw, in order.
    digest: u64,
    pieces: u64,
    late: Vec<f64>,
}

/// Runs the sockets.
pub(crate) async fn measure(form: &Form, directory: &Path, report: &mut Report) -> Result<()> {
    let daemon = Daemon::start(&directory.join("sockets"))?;
    let mut admin = daemon.client()?;
    let watched = team(&mut admin, "watched")?;
    let live = team(&mut admin, "live")?;
    // Its lead starts no turn, so that every message is exactly one event.
    let paused = admin.call("POST", &format!("{watched}/pause"), "")?;
    ensure!(paused.status == 202, "the team was not paused: {}", paused.text());
    let field = |path: &str| Field {
        address: daemon.address,
        bearer: daemon.bearer.clone(),
        team: path.rsplit('/').next().unwrap_or_default().to_owned(),
        last: watch::Sender::new(u64::MAX),
        sent: Mutex::default(),
        connected: AtomicU64::new(0),
        left: AtomicU64::new(0),
    };
    let (field, beside) = (Arc::new(field(&watched)), Arc::new(field(&live)));
    let before = daemon.resident()?;

    let clients = form.scale(CLIENTS, 20);
    let stopped = form.scale(STOPPED, 1);
    let restless = form.scale(RESTLESS, 1);
    tell(&format!("sockets, {clients} clients"));
    let (mut watching, mut idle) = (Vec::new(), Vec::new());
    for number in 0..clients {
        let field = Arc::clone(&field);
        if number < stopped {
            idle.push(tokio::spawn(async move { stop_reading(&field).await }));
        } else if number < stopped + restless {
            watching.push(tokio::spawn(async move { come_and_go(&field, number).await }));
        } else {
            let noting = number % 50 == 0;
            watching.push(tokio::spawn(async move { follow(&field, noting).await }));
        }
    }
    let mut beside_clients = Vec::new();
    for _ in 0..LIVE {
        let field = Arc::clone(&beside);
        beside_clients.push(tokio::spawn(async move { follow(&field, false).await }));
    }
    let everybody = clients + LIVE;
    let deadline = Instant::now() + PATIENCE;
    while field.connected.load(Ordering::Relaxed) + beside.connected.load(Ordering::Relaxed)
        < everybody
    {
        ensure!(Instant::now() < deadline, "not all clients came in");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let connected = daemon.resident()?;

    let (cpu, begun) = (daemon.cpu()?, Instant::now());
    let body = json!({ "text": crew::TEXT }).to_string();
    let (to_watched, to_live) = (format!("{watched}/messages"), format!("{live}/messages"));
    let (mut most, mut sent) = (connected, 0_u32);
    let mut pace = tokio::time::interval(Duration::from_secs(1) / RATE);
    for number in 0..u32::try_from(form.scale(30, 2))? * RATE {
        pace.tick().await;
        let asked = Instant::now();
        let answer = admin.call("POST", &to_watched, &body)?;
        ensure!(answer.status == 202, "a message was answered with {}", answer.text());
        let answer: Value = serde_json::from_slice(answer.body)?;
        let seq = answer["seq"].as_u64().context("an answer has a number")?;
        field.sent.lock().unwrap_or_else(PoisonError::into_inner).insert(seq, asked);
        if number % 5 == 0 {
            admin.call("POST", &to_live, &body)?;
        }
        if number % 4 == 0 {
            most = most.max(daemon.resident()?);
        }
        sent += 1;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let cpu = (daemon.cpu()? - cpu) / seconds;
    for (path, field) in [(&watched, &field), (&live, &beside)] {
        let answer = admin.call("POST", &format!("{path}/stop"), "")?;
        let answer: Value = serde_json::from_slice(answer.body)?;
        field.last.send_replace(answer["seq"].as_u64().context("a number")?);
    }

    let mut late = Vec::new();
    let mut digests = BTreeMap::new();
    for client in watching {
        match client.await? {
            Ok(seen) => {
                late.extend(seen.late);
                *digests.entry((seen.seq, seen.digest)).or_insert(0_u32) += 1;
            }
            Err(error) => report.faults.push(format!("a client of {clients}: {error:#}")),
        }
    }
    let mut pieces = u64::MAX;
    for client in beside_clients {
        match client.await? {
            Ok(seen) => pieces = pieces.min(seen.pieces),
            Err(error) => report.faults.push(format!("a client with live text: {error:#}")),
        }
    }
    most = most.max(daemon.resident()?);
    let metrics = admin.call("GET", "/metrics", "")?.text();
    for client in idle {
        client.abort();
    }
    if digests.len() != 1 {
        report.faults.push(format!("clients saw {} different pasts", digests.len()));
    }
    if pieces == 0 {
        report.faults.push("a client saw no live text".to_owned());
    }
    report.set("clients", format!("{clients}, {stopped} of them stop reading; {LIVE} beside"));
    report.set("events", format!("{sent} in {seconds:.0} s, each to all of them"));
    let growth = most - before;
    report.add(
        "sockets_growth",
        "memory with all clients, growth",
        growth,
        "MiB",
        Target::AtMost(250.0),
    );
    let each = (connected - before) * 1_024.0 / f64::from(u32::try_from(everybody)?);
    report.add("sockets_each", "  a client that follows, at rest", each, "KiB", Target::None);
    let left = f64::from(u32::try_from(field.left.load(Ordering::Relaxed))?);
    let leaves = f64::from(u32::try_from(restless * LEAVES)?);
    report.add(
        "resumed",
        "clients that left and resumed, all whole",
        left,
        "",
        Target::AtLeast(leaves),
    );
    report.add(
        "seen_p50",
        "asked → seen by a client, p50",
        quantile(&mut late, 0.5) * 1e3,
        "ms",
        Target::None,
    );
    report.add("seen_p99", "  p99", quantile(&mut late, 0.99) * 1e3, "ms", Target::None);
    report.add("sockets_cpu", "  processors that the daemon keeps busy", cpu, "", Target::None);
    let slow =
        metrics.lines().find_map(|line| line.strip_prefix("aion_websockets_too_slow_total "));
    let slow = slow.and_then(|count| count.parse().ok()).context("a count of slow clients")?;
    report.add("too_slow", "  clients closed for being slow", slow, "", Target::None);
    Ok(())
}

/// Follows to the end.
async fn follow(field: &Field, noting: bool) -> Result<Seen> {
    let mut seen = Seen::default();
    let mut socket = Socket::open(field, &seen).await?;
    field.connected.fetch_add(1, Ordering::Relaxed);
    socket.take_until(field, &mut seen, u64::MAX, noting).await?;
    Ok(seen)
}

/// Leaves a few times without a word, and goes on where it was.
async fn come_and_go(field: &Field, number: u64) -> Result<Seen> {
    let mut chance = Chance::new(number);
    let mut seen = Seen::default();
    let mut socket = Socket::open(field, &seen).await?;
    field.connected.fetch_add(1, Ordering::Relaxed);
    for _ in 0..LEAVES {
        let until = seen.seq + 1 + chance.below(60);
        socket.take_until(field, &mut seen, until, false).await?;
        drop(socket);
        socket = Socket::open(field, &seen).await?;
        field.left.fetch_add(1, Ordering::Relaxed);
    }
    socket.take_until(field, &mut seen, u64::MAX, false).await?;
    Ok(seen)
}

/// Follows, and then reads nothing for ever.
async fn stop_reading(field: &Field) -> Result<()> {
    let _socket = Socket::open(field, &Seen::default()).await?;
    field.connected.fetch_add(1, Ordering::Relaxed);
    std::future::pending().await
}

/// A WebSocket, read with as little work as there can be.
struct Socket {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Where the next frame begins.
    at: usize,
}

impl Socket {
    /// Connects, and subscribes after what was seen.
    async fn open(field: &Field, seen: &Seen) -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        // Small, so that a client that does not read is soon noticed.
        socket.set_recv_buffer_size(16 * 1_024)?;
        let mut stream = timeout(PATIENCE, socket.connect(field.address)).await??;
        let hello = format!(
            "GET /api/ws HTTP/1.1\r\nhost: {}\r\nauthorization: {}\r\nconnection: upgrade\r\n\
             upgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            field.address, field.bearer
        );
        stream.write_all(hello.as_bytes()).await?;
        let mut socket = Self { stream, buffer: Vec::new(), at: 0 };
        let head = loop {
            if let Some(head) = find(&socket.buffer, b"\r\n\r\n") {
                break head + 4;
            }
            socket.fill().await?;
        };
        let answer = String::from_utf8_lossy(&socket.buffer[..head]).into_owned();
        ensure!(answer.starts_with("HTTP/1.1 101"), "no WebSocket: {answer}");
        socket.at = head;
        let ask = json!({ "type": "subscribe", "team_id": field.team, "after": seen.seq });
        let ask = ask.to_string();
        // A client masks what it says; a mask of zeros changes nothing.
        let mut frame = vec![0x81, 0xfe];
        frame.extend(u16::try_from(ask.len())?.to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(ask.as_bytes());
        socket.stream.write_all(&frame).await?;
        let (begin, end) = socket.frame().await?;
        let said = String::from_utf8_lossy(&socket.buffer[begin..end]).into_owned();
        ensure!(said.contains("\"subscribed\""), "not subscribed: {said}");
        Ok(socket)
    }

    /// Takes frames up to an event, or to the last one.
    async fn take_until(
        &mut self,
        field: &Field,
        seen: &mut Seen,
        until: u64,
        noting: bool,
    ) -> Result<()> {
        let mut last = field.last.subscribe();
        loop {
            let end = until.min(*last.borrow_and_update());
            if seen.seq >= end {
                return Ok(());
            }
            tokio::select! {
                taken = self.take(field, seen, noting) => taken?,
                changed = last.changed() => changed?,
            }
        }
    }

    /// Takes one frame, which has to be the next event or a piece of live text.
    async fn take(&mut self, field: &Field, seen: &mut Seen, noting: bool) -> Result<()> {
        let (begin, end) = self.frame().await?;
        let frame = &self.buffer[begin..end];
        if frame.starts_with(b"{\"type\":\"message.stream\"") {
            seen.pieces += 1;
            return Ok(());
        }
        let place = find(frame, b"\"seq\":").context("an event has a number")? + 6;
        let digits = frame[place..].iter().take_while(|byte| byte.is_ascii_digit());
        let seq = digits.fold(0, |sum: u64, digit| sum * 10 + u64::from(digit - b'0'));
        ensure!(seq == seen.seq + 1, "after event {} came event {seq}", seen.seq);
        seen.seq = seq;
        for byte in frame {
            seen.digest = (seen.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if noting {
            let sent = field.sent.lock().unwrap_or_else(PoisonError::into_inner).get(&seq).copied();
            seen.late.extend(sent.map(|sent| sent.elapsed().as_secs_f64()));
        }
        Ok(())
    }

    /// Where the next text frame lies; others are passed over.
    async fn frame(&mut self) -> Result<(usize, usize)> {
        loop {
            let rest = &self.buffer[self.at..];
            let header = match rest {
                [_, 126, high, low, ..] => Some((4, u64::from(u16::from_be_bytes([*high, *low])))),
                [_, 127, length @ ..] if length.len() >= 8 => {
                    let length: [u8; 8] = length[..8].try_into()?;
                    Some((10, u64::from_be_bytes(length)))
                }
                [_, length, ..] if *length < 126 => Some((2, u64::from(*length))),
                _ => None,
            };
            let Some((header, length)) = header else {
                self.fill().await?;
                continue;
            };
            let (begin, end) = (self.at + header, self.at + header + usize::try_from(length)?);
            if self.buffer.len() < end {
                self.fill().await?;
                continue;
            }
            let kind = self.buffer[self.at] % 16;
            self.at = end;
            match kind {
                1 => return Ok((begin, end)),
                8 => bail!("the daemon closed with {:?}", &self.buffer[begin..end]),
                _ => {}
            }
        }
    }

    async fn fill(&mut self) -> Result<()> {
        if self.at > 0 {
            self.buffer.drain(..self.at);
            self.at = 0;
        }
        let read = timeout(PATIENCE, self.stream.read_buf(&mut self.buffer))
            .await
            .context("nothing came for a long time")??;
        ensure!(read > 0, "the daemon hung up");
        Ok(())
    }
}
