//! Lines in and out, and the ways in which they can be wrong.

use std::io::{self, BufRead, Write};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use nix::sys::signal::{SigSet, Signal};
use serde_json::{Value, json};

use crate::Odd;

/// A line that is longer than any client takes.
const HUGE: usize = 65 * 1024 * 1024;

/// The two directions.
#[derive(Debug)]
pub(crate) struct Wire {
    messages: Receiver<Value>,
    twice: bool,
    banner: bool,
    requests: u64,
}

impl Wire {
    pub(crate) fn open(odd: &Odd, stays: bool) -> Self {
        if stays {
            let mut told = SigSet::empty();
            told.add(Signal::SIGTERM);
            // A test that needs it sees that it had no effect.
            let _ = told.thread_block();
        }
        let (sender, messages) = mpsc::channel();
        let deaf = odd.is("deaf");
        thread::spawn(move || {
            for line in io::stdin().lock().lines().map_while(Result::ok) {
                let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
                let last = deaf && message["method"] == "session/prompt";
                if sender.send(message).is_err() {
                    return;
                }
                if last {
                    never();
                }
            }
        });
        let (twice, banner) = (odd.is("answers-twice"), odd.is("banner"));
        Self { messages, twice, banner, requests: 0 }
    }

    /// The next message; none at the end of the input.
    pub(crate) fn next(&self) -> Option<Value> {
        self.messages.recv().ok()
    }

    /// What has come already.
    pub(crate) fn waiting(&self) -> Option<Value> {
        self.messages.try_recv().ok()
    }

    pub(crate) fn answer(&self, id: &Value, result: &Value) {
        if self.banner {
            line("⠋ Loading…".as_bytes());
            line(b"42");
            line(br#"["jsonrpc","2.0"]"#);
            line(br#"{"level":"info","message":"ready"}"#);
        }
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        send(&answer);
        if self.twice {
            send(&answer);
        }
    }

    /// Asks the client something; answers the request's id.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        self.requests += 1;
        let id = json!(format!("fake-{}", self.requests));
        send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }
}

pub(crate) fn refuse(id: &Value, code: i64, message: &str) {
    let error = json!({ "code": code, "message": message });
    send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
}

pub(crate) fn update(session: &str, update: &Value) {
    let params = json!({ "sessionId": session, "update": update });
    send(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }));
}

pub(crate) fn say(session: &str, text: &str) {
    let content = json!({ "type": "text", "text": text });
    update(session, &json!({ "sessionUpdate": "agent_message_chunk", "content": content }));
}

pub(crate) fn send(message: &Value) {
    line(message.to_string().as_bytes());
}

/// Writes a line as it is. Nobody may be there to read it.
pub(crate) fn line(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
}

/// One line that is too long.
pub(crate) fn huge_line() {
    let mut huge = Vec::with_capacity(HUGE + 64);
    huge.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"method\":\"");
    huge.resize(HUGE, b'x');
    huge.extend_from_slice(b"\"}");
    line(&huge);
}

/// A line that has no end, as long as somebody reads it.
pub(crate) fn endless_line() {
    let mut out = io::stdout().lock();
    let piece = vec![b'x'; 64 * 1024];
    while out.write_all(&piece).is_ok() {}
}

/// Does nothing any more, and does not end.
pub(crate) fn never() -> ! {
    loop {
        thread::park();
    }
}
