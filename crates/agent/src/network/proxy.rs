//! The proxy of one command: HTTP with CONNECT, plain HTTP, and SOCKS 5, over a socket that only
//! that command is given; what goes through is carried as it is.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aion_core::sandbox::ViolationKind;
use httparse::{EMPTY_HEADER, Request, Status};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use super::gate::Gate;
use super::judge::{Network, Pass, Refusal};
use crate::sandbox::Violation;

/// Connections of one command at a time.
const CONNECTIONS: usize = 128;
/// Bytes of a request's head, and headers in it.
const HEAD: usize = 32 * 1024;
const HEADERS: usize = 128;
/// How long a client may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(30);
/// Refusals of one command that are told.
const TOLD: usize = 16;

/// A command's way to the network; it is closed when this is dropped.
#[derive(Debug)]
pub struct Opening {
    /// Holds the socket, where nobody else may look.
    _directory: TempDir,
    socket: PathBuf,
    task: AbortHandle,
    refused: Refused,
}

/// What was refused so far.
#[derive(Clone, Debug, Default)]
struct Refused(Arc<Mutex<Vec<Violation>>>);

impl Network {
    /// Opens a way for one command. Needs a tokio runtime around it.
    pub fn open(self: &Arc<Self>, gate: Option<Gate>) -> io::Result<Opening> {
        let directory = tempfile::Builder::new().prefix("aion-net-").tempdir()?;
        let socket = directory.path().join("s");
        let listener = UnixListener::bind(&socket)?;
        let refused = Refused::default();
        let client =
            Client { network: Arc::clone(self), pass: Pass::new(gate), refused: refused.clone() };
        let task = tokio::spawn(serve(listener, client)).abort_handle();
        Ok(Opening { _directory: directory, socket, task, refused })
    }
}

impl Opening {
    /// The socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Closes it, and tells what was refused.
    pub fn end(self) -> Vec<Violation> {
        self.task.abort();
        std::mem::take(&mut *self.refused.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Refused {
    fn tell(&self, what: String) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < TOLD && !told.iter().any(|known| known.what == what) {
            told.push(Violation { kind: ViolationKind::Network, what });
        }
    }
}

async fn serve(listener: UnixListener, client: Client) {
    // All connections end with this task.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        if connections.len() >= CONNECTIONS {
            continue;
        }
        let client = client.clone();
        connections.spawn(async move {
            // A connection that breaks is told to both sides by its end.
            let _ = client.serve(stream).await;
        });
    }
}

/// What one command may reach.
#[derive(Clone, Debug)]
struct Client {
    network: Arc<Network>,
    pass: Pass,
    refused: Refused,
}

/// What a request wants.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    /// A connection, to do with as it likes.
    Connect { host: String, port: u16 },
    /// A request to be passed on, in the words for the host itself.
    Forward { host: String, port: u16, head: Vec<u8> },
}

impl Client {
    async fn serve(&self, mut stream: UnixStream) -> io::Result<()> {
        let mut read = Vec::with_capacity(1024);
        let begun = async {
            stream.read_buf(&mut read).await?;
            if read.first() == Some(&5) {
                return Ok(None);
            }
            loop {
                match wish(&read) {
                    Ok(Some((wish, used))) => return Ok(Some(Ok((wish, used)))),
                    Ok(None) if read.len() < HEAD => {
                        if stream.read_buf(&mut read).await? == 0 {
                            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
                        }
                    }
                    Ok(None) => return Ok(Some(Err("the request's head is too long".to_owned()))),
                    Err(reason) => return Ok(Some(Err(reason))),
                }
            }
        };
        match timeout(PATIENCE, begun).await?? {
            None => self.socks(stream, read).await,
            Some(Err(reason)) => answer(&mut stream, "400 Bad Request", &reason).await,
            Some(Ok((wish, used))) => self.http(stream, wish, &read[used..]).await,
        }
    }

    async fn http(&self, mut stream: UnixStream, wish: Wish, rest: &[u8]) -> io::Result<()> {
        let (host, port) = match &wish {
            Wish::Connect { host, port } | Wish::Forward { host, port, .. } => (host, *port),
        };
        let mut out = match self.reach(host, port).await {
            Ok(out) => out,
            Err(Refusal::Refused(reason)) => {
                return answer(&mut stream, "403 Forbidden", &reason).await;
            }
            Err(Refusal::Failed(reason)) => {
                return answer(&mut stream, "502 Bad Gateway", &reason).await;
            }
        };
        match wish {
            Wish::Connect { .. } => {
                stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
            }
            Wish::Forward { head, .. } => out.write_all(&head).await?,
        }
        out.write_all(rest).await?;
        copy_bidirectional(&mut stream, &mut out).await.map(|_| ())
    }

    /// SOCKS 5 without a password: the socket itself says who it is.
    async fn socks(&self, mut stream: UnixStream, mut read: Vec<u8>) -> io::Result<()> {
        let asked = async {
            let methods = 2 + usize::from(*at(&mut stream, &mut read, 1).await?);
            at(&mut stream, &mut read, methods - 1).await?;
            stream.write_all(&[5, 0]).await?;
            read.drain(..methods);
            let kind = *at(&mut stream, &mut read, 3).await?;
            let command = read[1];
            let length = match kind {
                1 => 4,
                3 => 1 + usize::from(*at(&mut stream, &mut read, 4).await?),
                4 => 16,
                _ => return Err(io::Error::from(io::ErrorKind::InvalidData)),
            };
            at(&mut stream, &mut read, 4 + length + 1).await?;
            let name = &read[4..4 + length];
            let host = match kind {
                3 => String::from_utf8_lossy(&name[1..]).into_owned(),
                1 => <[u8; 4]>::try_from(name)
                    .map(|v4| std::net::Ipv4Addr::from(v4).to_string())
                    .unwrap_or_default(),
                _ => <[u8; 16]>::try_from(name)
                    .map(|v6| std::net::Ipv6Addr::from(v6).to_string())
                    .unwrap_or_default(),
            };
            let port = u16::from_be_bytes([read[4 + length], read[5 + length]]);
            read.drain(..6 + length);
            Ok((command, host, port))
        };
        let (command, host, port) = timeout(PATIENCE, asked).await??;
        let reply = |code: u8| [5, code, 0, 1, 0, 0, 0, 0, 0, 0];
        if command != 1 {
            return stream.write_all(&reply(7)).await;
        }
        let mut out = match self.reach(&host, port).await {
            Ok(out) => out,
            Err(Refusal::Refused(_)) => return stream.write_all(&reply(2)).await,
            Err(Refusal::Failed(_)) => return stream.write_all(&reply(4)).await,
        };
        stream.write_all(&reply(0)).await?;
        out.write_all(&read).await?;
        copy_bidirectional(&mut stream, &mut out).await.map(|_| ())
    }

    async fn reach(&self, host: &str, port: u16) -> Result<TcpStream, Refusal> {
        let reached = self.network.connect(&self.pass, host, port).await;
        if let Err(Refusal::Refused(reason)) = &reached {
            self.refused.tell(reason.clone());
        }
        reached
    }
}

/// The byte at a place, read as far as it is needed.
async fn at<'a>(
    stream: &mut UnixStream,
    read: &'a mut Vec<u8>,
    place: usize,
) -> io::Result<&'a u8> {
    while read.len() <= place {
        if stream.read_buf(read).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
    }
    Ok(&read[place])
}

/// Reads a request's head: what it wants, and how long the head is. None if there is more to come.
fn wish(read: &[u8]) -> Result<Option<(Wish, usize)>, String> {
    let mut headers = [EMPTY_HEADER; HEADERS];
    let mut request = Request::new(&mut headers);
    let used = match request.parse(read) {
        Ok(Status::Complete(used)) => used,
        Ok(Status::Partial) => return Ok(None),
        Err(error) => return Err(format!("the request is not understood: {error}")),
    };
    let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
    if method == "CONNECT" {
        let (host, port) = authority(target, None)?;
        return Ok(Some((Wish::Connect { host, port }, used)));
    }
    let scheme = target.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://"));
    let rest = scheme.and_then(|_| target.get(7..)).ok_or(
        "this is a proxy: it takes requests with \
        a whole address, such as GET http://example.org/, and CONNECT",
    )?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, port) = authority(&rest[..end], Some(80))?;
    let path = match &rest[end..] {
        "" => "/".to_owned(),
        path if path.starts_with('/') => path.to_owned(),
        query => format!("/{query}"),
    };
    // The host is the one that was judged, whatever another header says of it.
    let named = if port == 80 { host.clone() } else { format!("{host}:{port}") };
    let version = request.version.unwrap_or(1);
    let mut head =
        format!("{method} {path} HTTP/1.{version}\r\nHost: {named}\r\nConnection: close\r\n")
            .into_bytes();
    let dropped = ["host", "connection", "proxy-connection", "proxy-authorization", "keep-alive"];
    for header in request.headers.iter() {
        if dropped.iter().any(|name| header.name.eq_ignore_ascii_case(name)) {
            continue;
        }
        head.extend_from_slice(header.name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(header.value);
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    Ok(Some((Wish::Forward { host, port, head }, used)))
}

/// Host and port, as they stand in a request. The host is judged later.
fn authority(text: &str, otherwise: Option<u16>) -> Result<(String, u16), String> {
    // An address of the newer kind, which is judged as one.
    if text.starts_with('[') || text.parse::<SocketAddr>().is_ok() {
        return Ok((text.to_owned(), otherwise.unwrap_or(443)));
    }
    match (text.rsplit_once(':'), otherwise) {
        (Some((host, port)), _) => match port.parse() {
            Ok(port) => Ok((host.to_owned(), port)),
            Err(_) => Err(format!("{port:?} is no port")),
        },
        (None, Some(port)) => Ok((text.to_owned(), port)),
        (None, None) => Err("the port is missing".to_owned()),
    }
}

async fn answer(stream: &mut UnixStream, status: &str, reason: &str) -> io::Result<()> {
    let text = format!("aion: {reason}\n");
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        text.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_passed_on_for_the_host_that_was_judged() {
        let read = |text: &str| wish(text.as_bytes()).map(|found| found.map(|(wish, _)| wish));
        let connect = Wish::Connect { host: "a.org".to_owned(), port: 443 };
        assert_eq!(read("CONNECT a.org:443 HTTP/1.1\r\nHost: b.org\r\n\r\n"), Ok(Some(connect)));
        let head = "GET /x?y HTTP/1.1\r\nHost: a.org\r\nConnection: close\r\nAccept: *\r\n\r\n";
        let forward =
            Wish::Forward { host: "a.org".to_owned(), port: 80, head: head.as_bytes().to_vec() };
        let asked = "GET http://a.org/x?y HTTP/1.1\r\nHost: b.org\r\nAccept: *\r\n\
                     Proxy-Authorization: secret\r\n\r\n";
        assert_eq!(read(asked), Ok(Some(forward)));
        assert_eq!(read("GET http://a.org/"), Ok(None));
        for wrong in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET https://a.org/ HTTP/1.1\r\n\r\n",
            "CONNECT a.org HTTP/1.1\r\n\r\n",
            "CONNECT a.org:x HTTP/1.1\r\n\r\n",
            "\u{1}\u{2}\r\n\r\n",
        ] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
