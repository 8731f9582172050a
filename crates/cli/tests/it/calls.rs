//! A client of the daemon that knows its address and its token, and nothing else.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// Where a daemon is, and how it is called.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    pub(crate) address: String,
    pub(crate) token: String,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Answered {
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(given, _)| given.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    }
}

impl Calls {
    /// By what `aion serve --json` said.
    pub(crate) fn of(line: &Value) -> Self {
        let word = |name: &str| line[name].as_str().unwrap().to_owned();
        let address = word("url").trim_start_matches("http://").to_owned();
        Self { address, token: fs::read_to_string(word("token_file")).unwrap() }
    }

    /// One call over a connection of its own. None where the daemon went away meanwhile.
    pub(crate) fn try_call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Option<Answered> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        let more = headers
            .iter()
            .fold(String::new(), |all, (name, value)| all + name + ": " + value + "\r\n");
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n{more}\r\n{body}",
            self.address,
            self.token,
            body.len()
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, text) = answer.split_once("\r\n\r\n")?;
        let status = head.get(9..12)?.parse().ok()?;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        // A body that was cut off is no answer.
        if length.is_some_and(|length| length.parse() != Ok(text.len())) {
            return None;
        }
        let body = serde_json::from_str(text).unwrap_or(Value::String(text.to_owned()));
        Some(Answered { status, head: head.to_owned(), body })
    }

    /// One call that has to be answered.
    pub(crate) fn call(&self, method: &str, path: &str, body: Option<Value>) -> Answered {
        let body = body.map_or_else(String::new, |body| body.to_string());
        self.try_call(method, path, &[], &body).unwrap()
    }
}
