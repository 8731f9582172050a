//! A client of HTTP/1.1 that keeps its connection and does as little as it can, so that it is not
//! what is measured; it understands only what our daemon answers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection.
pub(crate) struct Client {
    stream: TcpStream,
    /// What every request carries, after its first line.
    headers: String,
    request: Vec<u8>,
    answer: Vec<u8>,
}

/// What came back; it lives until the next call.
pub(crate) struct Answer<'a> {
    /// The status.
    pub(crate) status: u16,
    /// The body.
    pub(crate) body: &'a [u8],
}

impl Answer<'_> {
    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(self.body).into_owned()
    }
}

impl Client {
    /// Connects.
    pub(crate) fn connect(address: SocketAddr, bearer: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).context("connect to the daemon")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let headers = format!(
            " HTTP/1.1\r\nhost: {address}\r\nauthorization: {bearer}\r\n\
             content-type: application/json\r\ncontent-length: "
        );
        Ok(Self { stream, headers, request: Vec::new(), answer: Vec::new() })
    }

    /// One request and its answer.
    pub(crate) fn call(&mut self, method: &str, path: &str, body: &str) -> Result<Answer<'_>> {
        self.request.clear();
        write!(self.request, "{method} {path}{}{}\r\n\r\n{body}", self.headers, body.len())?;
        self.stream.write_all(&self.request)?;
        self.answer.clear();
        let (mut filled, mut piece) = (0, [0_u8; 4_096]);
        let (head, length) = loop {
            let read = self.stream.read(&mut piece).context("read the answer")?;
            ensure!(read > 0, "the daemon hung up");
            self.answer.extend_from_slice(&piece[..read]);
            filled += read;
            if let Some(head) = find(&self.answer, b"\r\n\r\n") {
                break (head + 4, content_length(&self.answer[..head])?);
            }
        };
        while filled < head + length {
            let read = self.stream.read(&mut piece).context("read the answer")?;
            ensure!(read > 0, "the daemon hung up");
            self.answer.extend_from_slice(&piece[..read]);
            filled += read;
        }
        let status = self.answer.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
        let status = status.context("an answer has a status")?.parse()?;
        Ok(Answer { status, body: &self.answer[head..head + length] })
    }
}

/// Where a pattern begins.
pub(crate) fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes.windows(pattern.len()).position(|window| window == pattern)
}

fn content_length(head: &[u8]) -> Result<usize> {
    let Some(begin) = find(head, b"content-length: ") else {
        bail!("the answer does not say its length: {}", String::from_utf8_lossy(head));
    };
    let digits = head[begin + 16..].iter().take_while(|byte| byte.is_ascii_digit());
    Ok(digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0')))
}
