//! The WebSocket: every event once and in order over any number of disconnects, the user's scope,
//! live text, and the end of clients that are slow, signed out, or left by the daemon.

use std::collections::BTreeMap;

use aion_core::event::Event;
use aion_core::id::{Seq, TeamId};
use aion_core::team::Team;
use aion_core::time::Timestamp;
use aion_runtime::Delta;
use aion_testkit::chance::Chance;
use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::world::{Headers, World};

struct Socket(WebSocketStream<TcpStream>);

impl Socket {
    async fn open(world: &World) -> Self {
        let bearer = world.token.bearer();
        Self::over(world, connect(world, None).await, &[("authorization", &bearer)]).await.unwrap()
    }

    async fn over(world: &World, stream: TcpStream, headers: Headers<'_>) -> Result<Self, u16> {
        let url = format!("ws://127.0.0.1:{}/api/ws", world.port);
        let mut request = url.into_client_request().unwrap();
        for (name, value) in headers {
            let name: reqwest::header::HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        match client_async(request, stream).await {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    async fn say(&mut self, frame: Value) {
        self.0.send(Message::Text(frame.to_string().into())).await.unwrap();
    }

    /// The next frame, or the code of the end.
    async fn next(&mut self) -> Result<Value, Option<u16>> {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(frame))) => {
                    return Err(frame.map(|frame| CloseCode::into(frame.code)));
                }
                Some(Ok(other)) => panic!("{other:?}"),
                Some(Err(_)) | None => return Err(None),
            }
        }
    }

    /// The next frame of a type; others are passed over.
    async fn until(&mut self, wanted: &str) -> Value {
        loop {
            let frame = self.next().await.unwrap();
            if frame["type"] == wanted {
                return frame;
            }
        }
    }

    async fn follow(world: &World, team: &str, after: u64) -> Self {
        let mut socket = Self::open(world).await;
        socket.say(json!({ "type": "subscribe", "team_id": team, "after": after })).await;
        let answer = socket.next().await.unwrap();
        assert_eq!(answer, json!({ "type": "subscribed", "team_id": team, "after": after }));
        socket
    }
}

async fn connect(world: &World, receive_buffer: Option<u32>) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    if let Some(bytes) = receive_buffer {
        socket.set_recv_buffer_size(bytes).unwrap();
    }
    socket.connect(format!("127.0.0.1:{}", world.port).parse().unwrap()).await.unwrap()
}

async fn add_tasks(world: &World, path: &str, from: usize, to: usize, description: &str) {
    for number in from..to {
        let body = json!({ "subject": format!("task {number}"), "description": description });
        world.call("POST", &format!("{path}/tasks"), Some(body)).await.is(201, "");
    }
}

#[tokio::test]
async fn no_upgrade_without_a_credential_or_from_elsewhere() {
    let world = World::new().await;
    let bearer = world.token.bearer();
    let (cookie, _) = world.login().await;
    let own = format!("http://127.0.0.1:{}", world.port);
    let check = async |headers: Headers<'_>, expect: Result<(), u16>| {
        let stream = connect(&world, None).await;
        let got = Socket::over(&world, stream, headers).await.map(|_| ());
        assert_eq!(got, expect, "{headers:?}");
    };
    check(&[], Err(401)).await;
    check(&[("authorization", "Bearer x")], Err(401)).await;
    check(&[("authorization", &bearer)], Ok(())).await;
    check(&[("authorization", &bearer), ("origin", "https://evil.example")], Err(403)).await;
    check(&[("authorization", &bearer), ("host", "evil.example")], Err(403)).await;
    check(&[("cookie", &cookie)], Err(403)).await;
    check(&[("cookie", &cookie), ("origin", "null")], Err(403)).await;
    check(&[("cookie", &cookie), ("origin", "http://127.0.0.1:1")], Err(403)).await;
    check(&[("cookie", &cookie), ("origin", &own), ("sec-fetch-site", "cross-site")], Err(403))
        .await;
    check(&[("cookie", &cookie), ("origin", &own)], Ok(())).await;
    world.call("GET", "/api/ws", None).await.is(400, "websocket.invalid");
}

#[tokio::test]
async fn a_client_that_comes_and_goes_200_times_sees_every_event_once() {
    let world = World::new().await;
    let path = world.team().await;
    let team = path.rsplit('/').next().unwrap();
    let mut seen: Vec<Value> = Vec::new();
    let mut chance = Chance::new(200);
    for round in 0..200 {
        // Between the connections, and during them, things go on.
        add_tasks(&world, &path, round * 2, round * 2 + 2, "").await;
        let after = seen.last().map_or(0, |event| event["seq"].as_u64().unwrap());
        let mut socket = Socket::follow(&world, team, after).await;
        let mut patience = chance.below(6);
        while patience > 0 && seen.len() < 2 * round + 2 {
            seen.push(socket.next().await.unwrap());
            patience -= 1;
        }
    }
    let after = seen.last().map_or(0, |event| event["seq"].as_u64().unwrap());
    let mut socket = Socket::follow(&world, team, after).await;
    let all = world.get(&format!("{path}/events?limit=500")).await;
    let all = all["events"].as_array().unwrap();
    while seen.len() < all.len() {
        seen.push(socket.next().await.unwrap());
    }
    assert_eq!(&seen, all);
    // What comes later comes without asking.
    let last = seen.len() as u64;
    add_tasks(&world, &path, 400, 401, "").await;
    let event = socket.next().await.unwrap();
    assert_eq!((&event["type"], &event["seq"]), (&json!("team.task"), &json!(last + 1)));
}

#[tokio::test]
async fn the_state_after_the_last_event_is_what_rest_says() {
    let world = World::new().await;
    let path = world.team().await;
    let team = path.rsplit('/').next().unwrap();
    let mut socket = Socket::follow(&world, team, 0).await;
    add_tasks(&world, &path, 0, 5, "").await;
    world.call("PATCH", &format!("{path}/tasks/2"), Some(json!({ "status": "completed" }))).await;
    let mut board = BTreeMap::new();
    let end = world.get(&format!("{path}/state")).await["seq"].as_u64().unwrap();
    loop {
        let event = socket.next().await.unwrap();
        let data = &event["data"];
        if data["type"] == "task_created" {
            board.insert(data["task"].as_u64().unwrap(), json!("pending"));
        } else if data["type"] == "task_changed" {
            board.insert(data["task"].as_u64().unwrap(), data["change"]["status"].clone());
        }
        if event["seq"] == end {
            break;
        }
    }
    let tasks = world.get(&format!("{path}/tasks")).await;
    let rest: BTreeMap<u64, Value> = tasks["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| (task["id"].as_u64().unwrap(), task["status"].clone()))
        .collect();
    assert_eq!(board, rest);
}

#[tokio::test]
async fn the_team_that_a_client_folds_over_many_disconnects_is_the_daemons() {
    let mut world = World::new().await;
    let path = world.team().await;
    let id = TeamId::new(path.rsplit('/').next().unwrap()).unwrap();
    let (mut folded, mut seen) = (Team::new(), 0);
    let mut chance = Chance::new(27);
    for round in 0..24 {
        match round % 4 {
            0 => add_tasks(&world, &path, round, round + 1, "").await,
            1 => {
                let body = json!({ "text": format!("message {round}"), "urgency": "queue" });
                world.call("POST", &format!("{path}/messages"), Some(body)).await.is(202, "");
            }
            2 => {
                let name = json!({ "name": format!("web {round}") });
                world.call("PATCH", &path, Some(name)).await.is(200, "");
            }
            _ => {
                let spawn = json!({ "name": format!("mate-{round}"), "prompt": "wait" });
                world.call("POST", &format!("{path}/agents"), Some(spawn)).await.is(202, "");
                let (agent, turn) = world.stage.turn().await;
                World::ask(&agent, turn.turn, &format!("call-{round}")).await;
            }
        }
        let end = world.get(&format!("{path}/state")).await["seq"].as_u64().unwrap();
        let mut socket = Socket::follow(&world, id.as_str(), seen).await;
        // Most rounds leave before they have seen everything.
        let until = if round == 23 { end } else { seen + chance.below(end - seen + 1) };
        while seen < until {
            let frame = socket.next().await.unwrap();
            if frame["type"] == "message.stream" {
                continue;
            }
            assert_eq!(frame["seq"], seen + 1, "{frame}");
            seen += 1;
            let event: Event = serde_json::from_value(frame["data"].clone()).unwrap();
            folded.evolve(Timestamp(frame["at"].as_u64().unwrap()), &event);
        }
    }
    let state = history(&world, &id, seen).await;
    assert_eq!(folded, state);
    let shown = world.get(&format!("{path}/state?at={seen}")).await;
    assert_eq!(shown["tasks"].as_array().unwrap().len(), folded.board().open().len());
    assert_eq!(shown["requests"].as_array().unwrap().len(), folded.requests().count());
    assert_eq!(shown["team"]["name"], folded.name());
}

/// The team by the daemon's own log.
async fn history(world: &World, id: &TeamId, until: u64) -> Team {
    let events = world.service.house().store.read(id, Seq(0), 10_000).await.unwrap();
    let mut team = Team::new();
    for recorded in events.iter().filter(|recorded| recorded.seq.0 <= until) {
        team.evolve(recorded.at, &recorded.event);
    }
    team
}

#[tokio::test]
async fn the_scope_of_the_user_tells_of_all_teams() {
    let mut world = World::new().await;
    let mut socket = Socket::open(&world).await;
    socket.say(json!({ "type": "subscribe_user" })).await;
    let begin = socket.next().await.unwrap()["after"].as_u64().unwrap();
    world.foreign_team().await;
    let path = world.team().await;
    let team = path.rsplit('/').next().unwrap();
    let mut seen = vec![socket.next().await.unwrap()];
    let text = json!({ "text": "go" });
    world.call("POST", &format!("{path}/messages"), Some(text)).await.is(202, "");
    let (agent, turn) = world.stage.turn().await;
    World::ask(&agent, turn.turn, "make").await;
    seen.push(socket.next().await.unwrap());
    let decide = format!("/api/approvals/{team}.r1");
    world.call("POST", &decide, Some(json!({ "decision": "allow" }))).await.is(202, "");
    seen.push(socket.next().await.unwrap());
    world.call("PATCH", &path, Some(json!({ "name": "shop" }))).await.is(200, "");
    seen.push(socket.next().await.unwrap());
    world.call("DELETE", &path, None).await.is(204, "");
    loop {
        let frame = socket.next().await.unwrap();
        seen.push(frame.clone());
        if frame["data"].is_null() {
            break;
        }
    }
    let names: Vec<&str> = seen.iter().map(|frame| frame["type"].as_str().unwrap()).collect();
    assert_eq!(
        names[..4],
        ["team.created", "team.approval.requested", "team.approval.resolved", "team.renamed"]
    );
    assert_eq!(names.last(), Some(&"team.removed"));
    for (number, frame) in seen.iter().enumerate() {
        assert_eq!(frame["seq"], begin + 1 + number as u64, "{frame}");
        assert_eq!((&frame["scope"], &frame["team_id"]), (&json!("user"), &json!(team)));
    }
    // Whoever was away gets the rest, once.
    let mut again = Socket::open(&world).await;
    again.say(json!({ "type": "subscribe_user", "after": begin + 2 })).await;
    let hello = again.next().await.unwrap();
    let expect = json!({ "type": "subscribed_user", "after": begin + 2, "reset": false });
    assert_eq!(hello, expect);
    for frame in &seen[2..] {
        assert_eq!(&again.next().await.unwrap(), frame);
    }
    again.say(json!({ "type": "subscribe_user", "after": 7 })).await;
    assert_eq!(again.next().await.unwrap()["reset"], true);
}

#[tokio::test]
async fn what_an_agent_writes_is_seen_while_it_writes() {
    let mut world = World::new().await;
    let path = world.team().await;
    let team = path.rsplit('/').next().unwrap().to_owned();
    let text = json!({ "text": "go" });
    world.call("POST", &format!("{path}/messages"), Some(text)).await.is(202, "");
    let (agent, turn) = world.stage.turn().await;
    let mut early = Socket::follow(&world, &team, 0).await;
    early.until("team.turn.started").await;
    agent.host.delta(turn.turn, Delta::Text { step: 0, text: "Hello, ".to_owned() });
    let first = early.until("message.stream").await;
    let mut late = Socket::follow(&world, &team, 0).await;
    agent.host.delta(turn.turn, Delta::Text { step: 0, text: "world".to_owned() });
    agent.done(turn.turn, "Hello, world").await;
    let second = early.until("message.stream").await;
    assert_eq!(
        (&first["kind"], &first["offset"], &first["text"]),
        (&json!("text"), &json!(0), &json!("Hello, "))
    );
    assert_eq!((&second["item"], &second["offset"]), (&first["item"], &json!(7)));
    assert_eq!(early.until("message.stream").await["kind"], "finish");
    // Who comes late, or does not want it, misses no event.
    late.until("team.turn.ended").await;
    let mut plain = Socket::open(&world).await;
    plain.say(json!({ "type": "subscribe", "team_id": team, "stream": false })).await;
    plain.until("team.turn.ended").await;
}

#[tokio::test]
async fn a_client_that_stops_reading_is_let_go_and_the_others_see_everything() {
    let world = World::new().await;
    let path = world.team().await;
    let team = path.rsplit('/').next().unwrap();
    let bearer = world.token.bearer();
    let stream = connect(&world, Some(4_096)).await;
    let mut slow = Socket::over(&world, stream, &[("authorization", &bearer)]).await.unwrap();
    slow.say(json!({ "type": "subscribe", "team_id": team })).await;
    slow.until("team.created").await;
    let mut other = Socket::follow(&world, team, 0).await;
    let description = "x".repeat(30_000);
    let writing = add_tasks(&world, &path, 0, 800, &description);
    let reading = async {
        let (mut seq, mut tasks) = (0, 0);
        while tasks < 800 {
            let event = other.next().await.unwrap();
            seq += 1;
            assert_eq!(event["seq"], seq);
            tasks += usize::from(event["type"] == "team.task");
        }
    };
    tokio::join!(writing, reading);
    let mut got = 1;
    let end = loop {
        match slow.next().await {
            Ok(_) => got += 1,
            Err(end) => break end,
        }
    };
    assert_eq!(end, Some(4008));
    assert!(got < 800, "{got}");
    let metrics = world.call("GET", "/metrics", None).await;
    assert!(metrics.body.as_str().unwrap().contains("\naion_websockets_too_slow_total 1\n"));
}

#[tokio::test]
async fn what_a_client_may_not_or_cannot_say_is_answered() {
    let world = World::new().await;
    let theirs = world.foreign_team().await;
    let path = world.team().await;
    let team = path.rsplit('/').next().unwrap();
    let mut socket = Socket::open(&world).await;
    let mut refused = async |frame: Value, code: &str| {
        socket.say(frame).await;
        let answer = socket.next().await.unwrap();
        assert_eq!((&answer["type"], &answer["code"]), (&json!("error"), &json!(code)));
    };
    let theirs = theirs.team().to_string();
    refused(json!({ "type": "subscribe", "team_id": theirs }), "team.not_found").await;
    refused(json!({ "type": "subscribe", "team_id": "nobody" }), "team.not_found").await;
    refused(json!({ "type": "subscribe", "team_id": team, "user": "eve" }), "frame.invalid").await;
    refused(json!({ "type": "send" }), "frame.invalid").await;
    refused(json!(7), "frame.invalid").await;
    socket.say(json!({ "type": "subscribe", "team_id": team })).await;
    socket.until("team.created").await;
    socket.say(json!({ "type": "unsubscribe", "team_id": team })).await;
    socket.until("unsubscribed").await;
    // A team that is erased is followed no longer.
    socket.say(json!({ "type": "subscribe", "team_id": team })).await;
    socket.until("team.created").await;
    world.call("DELETE", &path, None).await.is(204, "");
    socket.until("unsubscribed").await;
}

#[tokio::test]
async fn signing_out_ends_the_sockets_of_the_session() {
    let world = World::new().await;
    let (cookie, csrf) = world.login().await;
    let own = format!("http://127.0.0.1:{}", world.port);
    let browser = [("cookie", cookie.as_str()), ("origin", own.as_str())];
    let stream = connect(&world, None).await;
    let mut socket = Socket::over(&world, stream, &browser).await.unwrap();
    let mut cli = Socket::open(&world).await;
    let leave = [browser[0], browser[1], ("x-csrf-token", csrf.as_str())];
    world.raw("DELETE", "/api/session", &leave, None).await.is(204, "");
    assert_eq!(socket.next().await, Err(Some(4001)));
    cli.say(json!({ "type": "subscribe_user" })).await;
    cli.until("subscribed_user").await;
}

#[tokio::test]
async fn the_daemon_stops_with_a_word_to_everybody() {
    let world = World::new().await;
    let path = world.team().await;
    let team = path.rsplit('/').next().unwrap();
    let mut socket = Socket::follow(&world, team, 0).await;
    socket.until("team.created").await;
    world.stop.cancel();
    let end = loop {
        match socket.next().await {
            Ok(_) => {}
            Err(end) => break end,
        }
    };
    assert_eq!(end, Some(1001));
    world.serving.await.unwrap().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", world.port)).await.is_err());
    world.service.stop_all().await;
}
