//! A client of the members' port that knows nothing of ours: frames of bytes, and what MCP says.

use std::fmt::Write;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The newest revision with a handshake.
pub(crate) const HANDSHAKE: &str = "2025-11-25";
/// The revision without one.
pub(crate) const INLINE: &str = "2026-07-28";
pub(crate) const NONCE: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// One connection.
pub(crate) struct Client {
    stream: TcpStream,
    next: u64,
}

/// The bytes of a frame.
pub(crate) fn frame(message: &Value) -> Vec<u8> {
    framed(message.to_string().as_bytes())
}

pub(crate) fn framed(bytes: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(bytes.len()).unwrap().to_be_bytes().to_vec();
    frame.extend_from_slice(bytes);
    frame
}

/// What the daemon has to answer to the nonce.
pub(crate) fn proof(token: &str) -> String {
    let check = token.split_once('.').unwrap().1;
    let digest = Sha256::digest(format!("aion mcp\n{check}\n{NONCE}").as_bytes());
    digest.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// What an inline request carries.
pub(crate) fn inline_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": INLINE,
        "io.modelcontextprotocol/clientInfo": { "name": "raw", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

impl Client {
    pub(crate) async fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, next: 1 }
    }

    /// A connection that said who it is.
    pub(crate) async fn member(port: u16, token: &str) -> Self {
        let mut client = Self::connect(port).await;
        let hello = json!({ "type": "hello", "token": token, "nonce": NONCE });
        let welcome = client.ask(&hello).await.unwrap();
        assert_eq!(welcome["type"], "welcome", "{welcome}");
        assert_eq!(welcome["proof"], proof(token));
        client
    }

    /// A connection that is in a session of MCP.
    pub(crate) async fn session(port: u16, token: &str) -> Self {
        let mut client = Self::member(port, token).await;
        client.initialize(HANDSHAKE).await;
        client
    }

    pub(crate) async fn bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.bytes(&frame(message)).await;
    }

    /// The next frame; none where the connection has ended.
    pub(crate) async fn receive(&mut self) -> Option<Value> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).await.ok()?;
        let mut bytes = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut bytes).await.ok()?;
        Some(serde_json::from_slice(&bytes).unwrap())
    }

    pub(crate) async fn ask(&mut self, message: &Value) -> Option<Value> {
        self.send(message).await;
        self.receive().await
    }

    /// Whether the daemon has ended the connection.
    pub(crate) async fn is_over(&mut self) -> bool {
        self.receive().await.is_none()
    }

    pub(crate) async fn initialize(&mut self, version: &str) -> Value {
        let answer = self
            .request(
                "initialize",
                json!({
                    "protocolVersion": version,
                    "capabilities": {},
                    "clientInfo": { "name": "raw", "version": "1" },
                }),
            )
            .await;
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        answer["result"].clone()
    }

    /// The next request, not sent.
    pub(crate) fn prepare(&mut self, method: &str, params: Value) -> Value {
        let id = self.next;
        self.next += 1;
        let mut request = json!({ "jsonrpc": "2.0", "id": id, "method": method });
        request["params"] = params;
        request
    }

    /// A request and its answer.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        let request = self.prepare(method, params);
        let answer = self.ask(&request).await.unwrap();
        assert_eq!(answer["id"], request["id"], "{answer}");
        answer
    }

    /// A tool call: whether it went well, and its text.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> (bool, String) {
        let params = json!({ "name": tool, "arguments": arguments });
        said(&self.request("tools/call", params).await)
    }

    pub(crate) async fn tools(&mut self) -> Vec<String> {
        let answer = self.request("tools/list", json!({})).await;
        names(&answer)
    }
}

/// What a tool answered.
pub(crate) fn said(answer: &Value) -> (bool, String) {
    let result = &answer["result"];
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    (result["isError"] != true, text.to_owned())
}

pub(crate) fn names(answer: &Value) -> Vec<String> {
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}
