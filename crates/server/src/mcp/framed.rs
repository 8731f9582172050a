//! One framed connection of a member: first the two sides get to know each other, then it carries
//! MCP; it never lets a client have more on its way than its place holds.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aion_core::id::SlotId;
use rmcp::model::{
    CancelledNotification, ClientJsonRpcMessage, ClientNotification, ErrorData, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::service::{RoleServer, serve_server_with_ct};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::frames::{self, FrameError};
use super::tokens::{CONNECTIONS, Member, MemberTokens};
use super::tools::{Server, Tools};

/// How long a client may take to say who it is.
pub(crate) const HELLO_TIME: Duration = Duration::from_secs(5);
/// How long answers may take to go out when a connection is ended.
const GRACE: Duration = Duration::from_secs(2);
/// Requests of one connection that may wait for their answers; then no more is read from it.
const WAITING: usize = 64;
/// Messages that may wait for one of the two directions.
const QUEUE: usize = 16;
/// The digits of a nonce.
const NONCE: usize = 64;

/// What a client says first.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hello {
    #[serde(rename = "type")]
    kind: String,
    token: String,
    /// What the daemon has to prove itself by.
    #[serde(default)]
    nonce: Option<String>,
    /// Who the client takes itself for. It is compared, and nothing else.
    #[serde(default)]
    slot_id: Option<Value>,
}

/// Why nobody is let in.
struct Refusal {
    code: &'static str,
    detail: String,
}

impl Refusal {
    fn new(code: &'static str, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into() }
    }
}

/// Serves a connection to its end.
pub(crate) async fn serve(
    stream: TcpStream,
    tokens: &MemberTokens,
    tools: Tools,
    stop: CancellationToken,
    stranger: OwnedSemaphorePermit,
) {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let hello =
        timeout(HELLO_TIME, frames::read(&mut reader)).await.unwrap_or(Err(FrameError::Slow));
    let hello = match hello {
        Ok(bytes) => greet(&bytes, tokens),
        // Who says nothing is told nothing.
        Err(FrameError::Closed | FrameError::Half | FrameError::Slow | FrameError::Io(_)) => return,
        Err(error @ FrameError::TooLarge(_)) => {
            Err(Refusal::new("frame.too_large", error.to_string()))
        }
    };
    let (member, welcome) = match hello {
        Ok(known) => known,
        Err(refusal) => {
            let Refusal { code, detail } = refusal;
            tracing::info!(code, "a connection was refused");
            refuse(&mut writer, code, &detail).await;
            return;
        }
    };
    let Some(_place) = member.connect() else {
        let detail =
            format!("this member has {CONNECTIONS} connections already; close one of them");
        refuse(&mut writer, "hello.connections", &detail).await;
        return;
    };
    if frames::write(&mut writer, &welcome).await.is_err() {
        return;
    }
    drop(stranger);
    tracing::debug!(team = %member.team, slot = %member.slot, "a member is connected");
    let end = stop.child_token();
    let carrying = carry(reader, writer, Arc::clone(&member), tools, end.clone());
    tokio::pin!(carrying);
    tokio::select! {
        () = &mut carrying => {}
        () = member.ended.cancelled() => {
            end.cancel();
            // What was called may still be answered.
            let _ = timeout(GRACE, carrying).await;
        }
        () = end.cancelled() => {
            let _ = timeout(GRACE, carrying).await;
        }
    }
    tracing::debug!(team = %member.team, slot = %member.slot, "a member's connection ended");
}

async fn refuse(writer: &mut OwnedWriteHalf, code: &str, detail: &str) {
    let refused = json!({ "type": "refused", "code": code, "detail": detail });
    // A client that has gone need not be told.
    let _ = frames::write(writer, &frames::encode(&refused)).await;
}

/// Who a client is, and what it is answered.
fn greet(bytes: &[u8], tokens: &MemberTokens) -> Result<(Arc<Member>, Vec<u8>), Refusal> {
    let expected = "the first frame is {\"type\":\"hello\",\"token\":…}";
    let hello: Hello = serde_json::from_slice(bytes)
        .ok()
        .filter(|hello: &Hello| hello.kind == "hello")
        .ok_or_else(|| Refusal::new("hello.form", expected))?;
    let nonce = hello.nonce.as_deref();
    if nonce
        .is_some_and(|nonce| nonce.len() != NONCE || !nonce.bytes().all(|b| b.is_ascii_hexdigit()))
    {
        return Err(Refusal::new("hello.form", format!("a nonce has {NONCE} hexadecimal digits")));
    }
    let member = tokens.member(&hello.token).ok_or_else(|| {
        Refusal::new("hello.token", "this token belongs to nobody, or not any more")
    })?;
    if let Some(claimed) = &hello.slot_id
        && slot(claimed) != Some(member.slot)
    {
        return Err(Refusal::new(
            "hello.slot",
            "the token belongs to another member than slot_id says",
        ));
    }
    let welcome = json!({
        "type": "welcome",
        "version": env!("CARGO_PKG_VERSION"),
        "team_id": member.team.as_str(),
        "slot_id": member.slot.0,
        "proof": nonce.map(|nonce| tokens.proof(&hello.token, nonce)),
    });
    Ok((member, frames::encode(&welcome)))
}

fn slot(claimed: &Value) -> Option<SlotId> {
    match claimed {
        Value::Number(number) => number.as_u64()?.try_into().ok().map(SlotId),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Carries MCP until the client has gone or `end` is cancelled.
async fn carry(
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    member: Arc<Member>,
    tools: Tools,
    end: CancellationToken,
) {
    let (out, outgoing) = mpsc::channel(QUEUE);
    let (inward, messages) = mpsc::channel(QUEUE);
    let waiting = Arc::new(Waiting::default());
    let framed = Framed { messages, out: out.clone(), waiting: Arc::clone(&waiting) };
    let server = Server::connected(tools, Arc::clone(&member));
    let writing = write_all(writer, outgoing, end.clone());
    let reading = async {
        let over = end.clone();
        tokio::select! {
            () = read_all(reader, &member, inward, out, &waiting) => {}
            () = over.cancelled() => {}
        }
    };
    let serving = async {
        match serve_server_with_ct(server, framed, end.child_token()).await {
            // How it ended is the client's affair.
            Ok(running) => drop(running.waiting().await),
            Err(error) => tracing::debug!(%error, "a client did not begin with MCP"),
        }
        // A client that is not served any more is not read any more.
        end.cancel();
    };
    tokio::join!(writing, reading, serving);
}

/// Sends what is to be sent, one write a frame, until nobody has anything to send.
async fn write_all(
    mut writer: OwnedWriteHalf,
    mut outgoing: mpsc::Receiver<Vec<u8>>,
    end: CancellationToken,
) {
    while let Some(frame) = outgoing.recv().await {
        if let Err(error) = frames::write(&mut writer, &frame).await {
            tracing::debug!(%error, "a client does not read");
            end.cancel();
            return;
        }
    }
}

/// Reads until the client has gone, and hands over what it says.
async fn read_all(
    mut reader: BufReader<OwnedReadHalf>,
    member: &Member,
    inward: mpsc::Sender<ClientJsonRpcMessage>,
    out: mpsc::Sender<Vec<u8>>,
    waiting: &Waiting,
) {
    loop {
        waiting.room().await;
        // Who does not read what it is answered is not read either.
        let Ok(room) = out.reserve().await else { return };
        let bytes = match frames::read(&mut reader).await {
            Ok(bytes) => bytes,
            Err(error) => {
                if let FrameError::TooLarge(_) = error {
                    // Where the next frame begins is not known after that.
                    let told = ErrorData::invalid_request(error.to_string(), None);
                    room.send(frames::encode(&ServerJsonRpcMessage::error(told, None)));
                }
                tracing::debug!(%error, "a connection ends");
                return;
            }
        };
        match understand(&bytes) {
            Said::Ready => member.is_ready(),
            Said::Message(message) => {
                if !waiting.note(&message) {
                    let told = ErrorData::invalid_request("an id was used twice at a time", None);
                    room.send(frames::encode(&ServerJsonRpcMessage::error(told, None)));
                    return;
                }
                if inward.send(*message).await.is_err() {
                    return;
                }
            }
            Said::Unknown(answer) => room.send(frames::encode(&answer)),
        }
    }
}

/// What a frame says.
enum Said {
    /// The member's tools are there.
    Ready,
    /// A message of MCP.
    Message(Box<ClientJsonRpcMessage>),
    /// Nothing that is known; what is answered to it.
    Unknown(Box<ServerJsonRpcMessage>),
}

fn understand(bytes: &[u8]) -> Said {
    if let Ok(message) = serde_json::from_slice(bytes) {
        return Said::Message(Box::new(message));
    }
    let value: Value = match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(error) => {
            let told = ErrorData::parse_error(error.to_string(), None);
            return Said::Unknown(Box::new(ServerJsonRpcMessage::error(told, None)));
        }
    };
    if value["type"] == "mcp_ready" {
        return Said::Ready;
    }
    let id = serde_json::from_value::<RequestId>(value["id"].clone()).ok();
    let told = ErrorData::invalid_request("this is no message of MCP", None);
    Said::Unknown(Box::new(ServerJsonRpcMessage::error(told, id)))
}

/// The requests of one connection that are not answered yet.
#[derive(Debug, Default)]
struct Waiting {
    ids: Mutex<BTreeSet<String>>,
    answered: Notify,
}

impl Waiting {
    /// Waits until one more request may come.
    async fn room(&self) {
        while self.lock().len() >= WAITING {
            self.answered.notified().await;
        }
    }

    /// Takes note of a message; false where it is a request under the id of one that waits.
    fn note(&self, message: &ClientJsonRpcMessage) -> bool {
        match message {
            ClientJsonRpcMessage::Request(request) => self.lock().insert(name(&request.id)),
            ClientJsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(CancelledNotification {
                    params,
                    ..
                }) = &notification.notification
                    && let Some(id) = &params.request_id
                {
                    // It is not answered any more.
                    self.answer(id);
                }
                true
            }
            ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_) => true,
        }
    }

    fn answer(&self, id: &RequestId) {
        self.lock().remove(&name(id));
        self.answered.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        // Nothing in here can be half-done: a poisoned lock holds valid data.
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An id as a text; a number and its digits in quotes are two.
fn name(id: &RequestId) -> String {
    match id {
        RequestId::Number(number) => number.to_string(),
        RequestId::String(text) => format!("{text:?}"),
    }
}

/// A connection as rmcp sees it.
struct Framed {
    messages: mpsc::Receiver<ClientJsonRpcMessage>,
    out: mpsc::Sender<Vec<u8>>,
    waiting: Arc<Waiting>,
}

impl Transport<RoleServer> for Framed {
    type Error = mpsc::error::SendError<Vec<u8>>;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (out, waiting) = (self.out.clone(), Arc::clone(&self.waiting));
        async move {
            let answered = match &message {
                ServerJsonRpcMessage::Response(response) => Some(response.id.clone()),
                ServerJsonRpcMessage::Error(error) => error.id.clone(),
                ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => None,
            };
            let sent = out.send(frames::encode(&message)).await;
            if let Some(id) = answered {
                waiting.answer(&id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.messages.recv().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.messages.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ping(id: &Value) -> ClientJsonRpcMessage {
        let ping = json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
        serde_json::from_value(ping).unwrap()
    }

    #[test]
    fn an_id_waits_once_until_it_is_answered_or_cancelled() {
        let waiting = Waiting::default();
        assert!(waiting.note(&ping(&json!(1))));
        assert!(waiting.note(&ping(&json!("1"))), "a text is not a number");
        assert!(!waiting.note(&ping(&json!(1))));
        waiting.answer(&RequestId::Number(1));
        assert!(waiting.note(&ping(&json!(1))));
        let params = json!({ "requestId": 1 });
        let cancelled =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        assert!(waiting.note(&serde_json::from_value(cancelled).unwrap()));
        assert!(waiting.note(&ping(&json!(1))));
    }

    #[test]
    fn a_claimed_place_is_a_number_with_or_without_its_letter() {
        let check = |claimed: Value, expect: Option<u32>| {
            assert_eq!(slot(&claimed), expect.map(SlotId), "{claimed}");
        };
        check(json!(2), Some(2));
        check(json!("2"), Some(2));
        check(json!("s2"), Some(2));
        check(json!(u64::MAX), None);
        check(json!(-1), None);
        check(json!("two"), None);
        check(json!([2]), None);
        check(Value::Null, None);
    }
}
