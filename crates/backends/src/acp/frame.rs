//! What one line of an agent is by JSON-RPC; whatever is no message of it is named, and never an
//! error of the connection.

use std::borrow::Cow;

use aion_core::message::shorten;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::update::{Told, Update};

/// The largest request or answer of an agent; updates are made smaller as they are read.
const MESSAGE_BYTES: usize = 4 * 1024 * 1024;
/// The longest id of an agent's request, and the longest name of a method.
const WORD_BYTES: usize = 1024;
/// Bytes that are shown of a line that is no message.
const SAMPLE_BYTES: usize = 200;

/// What an agent sends.
#[derive(Debug)]
pub(super) enum Incoming {
    /// The answer to a request of ours.
    Answer {
        /// Our request.
        id: u64,
        /// What it says.
        answer: Result<Box<RawValue>, Refusal>,
    },
    /// A request that has to be answered.
    Request {
        /// Its id, as the agent wrote it.
        id: Box<RawValue>,
        /// What it wants.
        method: String,
        /// With what.
        params: Box<RawValue>,
    },
    /// News of a session.
    Told(Told),
    /// Something else that needs no answer.
    Other,
}

/// An answer that says "no".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: i64,
    pub(super) message: String,
    /// What it says beside the message, as JSON text.
    pub(super) data: Option<String>,
}

/// A line that is no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Noise(pub(super) String);

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireError<'a> {
    #[serde(default)]
    code: f64,
    #[serde(default)]
    message: Option<String>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

/// Reads a line. Bytes that are no text are replaced; only objects of JSON-RPC 2.0 are messages.
pub(super) fn read(line: &[u8]) -> Result<Incoming, Noise> {
    let text = String::from_utf8_lossy(line);
    let noise = || Noise(shorten(text.trim(), SAMPLE_BYTES));
    // An array would be read as the fields of an object in order.
    if !text.trim_ascii_start().starts_with('{') {
        return Err(noise());
    }
    let frame: Frame = serde_json::from_str(&text).map_err(|_| noise())?;
    if frame.jsonrpc != "2.0" {
        return Err(noise());
    }
    match (frame.method, frame.id) {
        (Some(method), Some(id)) if id.get().len() <= WORD_BYTES && method.len() <= WORD_BYTES => {
            // Too large a request is one without what it is about, which is refused.
            let params = frame.params.filter(|params| params.get().len() <= MESSAGE_BYTES);
            let params = params.map_or_else(empty, ToOwned::to_owned);
            Ok(Incoming::Request { id: id.to_owned(), method: method.into_owned(), params })
        }
        (Some(method), None) if method == "session/update" => {
            let told = frame.params.and_then(|params| Update::read(params.get()));
            told.map(Incoming::Told).ok_or_else(noise)
        }
        (Some(_), None) => Ok(Incoming::Other),
        (None, Some(id)) => {
            let id = id.get().trim_matches('"').parse().map_err(|_| noise())?;
            Ok(Incoming::Answer { id, answer: answer(frame.result, frame.error) })
        }
        (Some(_), Some(_)) | (None, None) => Err(noise()),
    }
}

fn answer(result: Option<&RawValue>, error: Option<&RawValue>) -> Result<Box<RawValue>, Refusal> {
    let Some(error) = error else {
        return match result {
            Some(result) if result.get().len() > MESSAGE_BYTES => Err(Refusal {
                code: 0,
                message: format!("its answer has more than {MESSAGE_BYTES} bytes"),
                data: None,
            }),
            Some(result) => Ok(result.to_owned()),
            None => Ok(empty()),
        };
    };
    let shown = |text: &str| shorten(text, WORD_BYTES);
    Err(match serde_json::from_str::<WireError<'_>>(error.get()) {
        Ok(WireError { code, message, data }) => Refusal {
            code: code as i64,
            message: message.as_deref().map_or_else(|| "it gave no reason".to_owned(), shown),
            data: data.map(|data| shown(data.get())),
        },
        Err(_) => Refusal { code: 0, message: shown(error.get()), data: None },
    })
}

fn empty() -> Box<RawValue> {
    RawValue::NULL.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expect: &str) {
        let read = match read(line.as_bytes()) {
            Ok(Incoming::Answer { id, answer: Ok(result) }) => format!("{id} = {result}"),
            Ok(Incoming::Answer { id, answer: Err(refusal) }) => {
                format!("{id} ! {} {}", refusal.code, refusal.message)
            }
            Ok(Incoming::Request { id, method, params }) => format!("{id} ? {method} {params}"),
            Ok(Incoming::Told(told)) => format!("{} tells", told.session),
            Ok(Incoming::Other) => "other".to_owned(),
            Err(Noise(sample)) => format!("noise {sample}"),
        };
        assert_eq!(read, expect, "{line}");
    }

    #[test]
    fn only_objects_of_the_protocol_are_messages() {
        check(r#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#, r#"1 = {"a":1}"#);
        check(r#"  {"jsonrpc":"2.0","id":"2","result":null}"#, "2 = null");
        check(r#"{"jsonrpc":"2.0","id":3}"#, "3 = null");
        check(
            r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32000,"message":"log in"}}"#,
            "4 ! -32000 log in",
        );
        check(r#"{"jsonrpc":"2.0","id":5,"error":{"code":401.0}}"#, "5 ! 401 it gave no reason");
        check(r#"{"jsonrpc":"2.0","id":6,"error":"no"}"#, "6 ! 0 \"no\"");
        check(r#"{"jsonrpc":"2.0","id":"x7","method":"a/b","params":[]}"#, "\"x7\" ? a/b []");
        check(r#"{"jsonrpc":"2.0","method":"_news"}"#, "other");
        check(
            r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"new_kind"}}}"#,
            "s tells",
        );
    }

    #[test]
    fn everything_else_is_noise() {
        for line in [
            "",
            "Loading…",
            "42",
            "null",
            r#"["2.0",1]"#,
            r#"{"id":1,"result":{}}"#,
            r#"{"jsonrpc":"1.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":-1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":{},"result":{}}"#,
            r#"{"jsonrpc":"2.0"}"#,
            r#"{"jsonrpc":"2.0","method":"session/update","params":7}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}"#,
        ] {
            check(line, &format!("noise {line}"));
        }
        let deep = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{}1"#, "[".repeat(100_000));
        assert!(matches!(read(deep.as_bytes()), Err(Noise(_))));
        assert!(matches!(read(b"{\"jsonrpc\":\"2.0\",\xff}"), Err(Noise(_))));
    }
}
