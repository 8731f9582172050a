//! The members' port over HTTP: each request stands for itself, and no browser gets anything.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::client::{Client, INLINE, inline_meta, names, said};
use crate::world::{Answer, Headers, World};

struct Http<'a> {
    world: &'a World,
    bearer: String,
}

impl Http<'_> {
    async fn post(&self, headers: Headers<'_>, body: &Value) -> Answer {
        let mut all = vec![
            ("authorization", self.bearer.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        all.retain(|(name, _)| headers.iter().all(|(given, _)| given != name));
        all.extend(headers.iter().filter(|(_, value)| !value.is_empty()));
        self.world.at_members("POST", "/mcp", &all, Some(&body.to_string())).await
    }
}

fn request(method: &str, params: Value) -> Value {
    let mut request = json!({ "jsonrpc": "2.0", "id": 1, "method": method });
    request["params"] = params;
    request
}

async fn team(world: &World) -> (String, String, String) {
    let path = world.team().await;
    let bob = json!({ "name": "bob", "prompt": "work" });
    world.call("POST", &format!("{path}/agents"), Some(bob)).await.is(202, "");
    let (lead, bob) = (world.credential(&path, 1).await, world.credential(&path, 2).await);
    (path, format!("Bearer {lead}"), format!("Bearer {bob}"))
}

#[tokio::test]
async fn every_revision_is_spoken_over_http() {
    let world = World::new().await;
    let (path, lead, bob) = team(&world).await;
    let http = Http { world: &world, bearer: bob };
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let params = json!({
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": { "name": "raw", "version": "1" },
        });
        let hello = http.post(&[], &request("initialize", params)).await;
        assert_eq!(hello.is(200, "").body["result"]["protocolVersion"], version);
        assert!(!hello.headers.contains_key("mcp-session-id"));
        let headers = [("mcp-protocol-version", version)];
        let list = http.post(&headers, &request("tools/list", json!({}))).await;
        let own = names(&list.is(200, "").body);
        assert!(own.contains(&"team_send_message".to_owned()));
        assert!(!own.contains(&"team_spawn_agent".to_owned()));
        let spawn = json!({
            "name": "team_spawn_agent",
            "arguments": { "name": "eve", "prompt": "work" },
            "_meta": { "slot_id": 1, "role": "lead" },
        });
        let claims = [("mcp-protocol-version", version), ("x-slot-id", "1"), ("x-role", "lead")];
        let answer = http.post(&claims, &request("tools/call", spawn)).await;
        assert!(!said(&answer.is(200, "").body).0, "{}", answer.body);
    }
    let inline = [("mcp-protocol-version", INLINE), ("mcp-method", "tools/list")];
    let list = request("tools/list", json!({ "_meta": inline_meta() }));
    let list = http.post(&inline, &list).await;
    assert_eq!(list.is(200, "").body["result"]["cacheScope"], "private");
    let send = json!({
        "name": "team_send_message",
        "arguments": { "to": "user", "message": "over-http" },
        "_meta": inline_meta(),
    });
    let inline = [
        ("mcp-protocol-version", INLINE),
        ("mcp-method", "tools/call"),
        ("mcp-name", "team_send_message"),
    ];
    let sent = http.post(&inline, &request("tools/call", send)).await;
    assert_eq!(said(&sent.body), (true, "Message sent to user".to_owned()));
    let all = world.get(&format!("{path}/messages")).await;
    assert!(all.to_string().contains("over-http"));
    // The lead's token gives the lead's tools at the same place.
    let http = Http { world: &world, bearer: lead };
    let list = http.post(&[], &request("tools/list", json!({}))).await;
    assert!(names(&list.body).contains(&"team_spawn_agent".to_owned()));
}

#[tokio::test]
async fn nothing_over_http_without_the_members_own_token() {
    let world = World::new().await;
    let (path, _, bob) = team(&world).await;
    let http = Http { world: &world, bearer: bob.clone() };
    let list = request("tools/list", json!({}));
    let user = world.token.bearer();
    let basic = bob.replace("Bearer", "Basic");
    let wrong = format!("Bearer aionm_{}", "0".repeat(64));
    for bearer in ["", "Bearer", "Bearer ", &user, &basic, &wrong] {
        let answer = http.post(&[("authorization", bearer)], &list).await;
        answer.is(401, "auth.required");
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
    }
    let port = world.member_port;
    let own = format!("http://127.0.0.1:{port}");
    let browser = format!("127.0.0.1:{}", world.port);
    for (name, value, code) in [
        ("host", "evil.example", "auth.host"),
        ("host", "127.0.0.1", "auth.host"),
        ("host", browser.as_str(), "auth.host"),
        ("origin", "https://evil.example", "auth.origin"),
        ("origin", "null", "auth.origin"),
        ("origin", own.as_str(), "auth.origin"),
        ("sec-fetch-site", "same-origin", "auth.origin"),
        ("sec-fetch-site", "none", "auth.origin"),
    ] {
        http.post(&[(name, value)], &list).await.is(403, code);
    }
    // There are no sessions, neither one's own nor another's.
    http.post(&[("mcp-session-id", "x")], &list).await.is(404, "mcp.no_session");
    let bearer = [("authorization", bob.as_str())];
    for (method, path, status) in [
        ("GET", "/mcp", 405),
        ("DELETE", "/mcp", 405),
        ("GET", "/", 404),
        ("GET", "/api/teams", 404),
    ] {
        let answer = world.at_members(method, path, &bearer, None).await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
        let answer = world.at_members(method, path, &[], None).await;
        answer.is(401, "auth.required");
    }
    let large = request("tools/list", json!({ "x": "y".repeat(1024 * 1024) }));
    assert_eq!(http.post(&[], &large).await.status, 413);
    // A member's token opens nothing at the browsers' port, and the other way round.
    let headers = [("authorization", bob.as_str())];
    world.raw("GET", "/api/teams", &headers, None).await.is(401, "auth.required");
    world.raw("POST", "/mcp", &headers, None).await.is(401, "auth.required");
    // Ended is ended.
    world.call("DELETE", &format!("{path}/agents/2/credential"), None).await.is(204, "");
    http.post(&[], &list).await.is(401, "auth.required");
}

#[tokio::test]
async fn a_call_whose_http_client_vanishes_is_committed_once_or_not_at_all() {
    let world = World::new().await;
    let (path, _, bob) = team(&world).await;
    let credential = format!("{path}/agents/2/credential");
    assert_eq!(world.get(&credential).await["ready"], false);
    let http = Http { world: &world, bearer: bob.clone() };
    for (number, share) in [0_usize, 30, 60, 90, 99, 100, 100, 100].into_iter().enumerate() {
        let text = format!("vanished-{number}");
        let send = json!({
            "name": "team_send_message",
            "arguments": { "to": "user", "message": text },
            "_meta": { "aion/idempotencyKey": text },
        });
        let body = request("tools/call", send);
        let length = body.to_string().len();
        let whole = format!(
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: {bob}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             Content-Length: {length}\r\n\r\n{body}",
            world.member_port
        );
        let mut stream = TcpStream::connect(("127.0.0.1", world.member_port)).await.unwrap();
        stream.write_all(&whole.as_bytes()[..whole.len() * share / 100]).await.unwrap();
        drop(stream);
        let again = http.post(&[], &body).await;
        assert_eq!(said(&again.is(200, "").body), (true, "Message sent to user".to_owned()));
        let all = world.get(&format!("{path}/messages?limit=500")).await;
        let all = all["messages"].as_array().unwrap().clone();
        assert_eq!(all.iter().filter(|message| message["text"] == text).count(), 1, "{text}");
    }
    assert_eq!(world.get(&credential).await["ready"], true);
    // Without a key a request stands for itself: the same again is another.
    let send =
        json!({ "name": "team_send_message", "arguments": { "to": "user", "message": "m" } });
    for _ in 0..2 {
        http.post(&[], &request("tools/call", send.clone())).await.is(200, "");
    }
    let all = world.get(&format!("{path}/messages?limit=500")).await;
    let all = all["messages"].as_array().unwrap().clone();
    assert_eq!(all.iter().filter(|message| message["text"] == "m").count(), 2);
}

#[tokio::test]
async fn the_port_stops_with_the_daemon() {
    let world = World::new().await;
    let path = world.team().await;
    let token = world.credential(&path, 1).await;
    let mut client = Client::session(world.member_port, &token).await;
    world.stop.cancel();
    assert!(client.is_over().await);
    world.serving.await.unwrap().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", world.member_port)).await.is_err());
}
