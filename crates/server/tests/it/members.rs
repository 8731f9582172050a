//! The members' port, by a raw client: who is let in, what a member may do, and what becomes of
//! calls whose client vanishes.

use aion_core::command::Caller;
use aion_core::id::{Seq, SlotId, TeamId};
use serde_json::{Value, json};

use crate::client::{Client, INLINE, frame, framed, inline_meta, names, proof, said};
use crate::world::World;

/// A team with a teammate, and the credentials of both.
async fn team(world: &World) -> (String, String, String) {
    let path = world.team().await;
    let bob = json!({ "name": "bob", "prompt": "work" });
    let made = world.call("POST", &format!("{path}/agents"), Some(bob)).await;
    assert_eq!(made.is(202, "").body["slot_id"], 2);
    let lead = world.credential(&path, 1).await;
    let bob = world.credential(&path, 2).await;
    (path, lead, bob)
}

/// The texts of the messages to a member that others sent.
async fn messages(world: &World, path: &str, text: &str) -> usize {
    let all = world.get(&format!("{path}/messages?limit=500")).await;
    let all = all["messages"].as_array().unwrap();
    all.iter().filter(|message| message.to_string().contains(text)).count()
}

#[tokio::test]
async fn nobody_is_let_in_without_the_right_token() {
    let world = World::new().await;
    let (_, lead, bob) = team(&world).await;
    let wrong = format!("aionm_{}.{}", "0".repeat(64), "0".repeat(64));
    let hello = |token: &str| json!({ "type": "hello", "token": token });
    let with = |name: &str, value: Value| {
        let mut hello = hello(&bob);
        hello[name] = value;
        hello
    };
    let cases = [
        (json!({}), "hello.form"),
        (json!([1]), "hello.form"),
        (json!({ "type": "hello" }), "hello.form"),
        (json!({ "type": "mcp_ready", "token": bob }), "hello.form"),
        (with("role", json!("lead")), "hello.form"),
        (with("nonce", json!("short")), "hello.form"),
        (hello(""), "hello.token"),
        (hello(&wrong), "hello.token"),
        (hello(&world.token.bearer()), "hello.token"),
        (hello(&lead[..lead.len() / 2]), "hello.token"),
        (with("slot_id", json!(1)), "hello.slot"),
        (with("slot_id", json!("s1")), "hello.slot"),
        (with("slot_id", json!({ "slot": 2 })), "hello.slot"),
        (json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }), "hello.form"),
    ];
    for (first, code) in cases {
        let mut client = Client::connect(world.member_port).await;
        let refused = client.ask(&first).await.unwrap();
        assert_eq!((&refused["type"], &refused["code"]), (&json!("refused"), &json!(code)));
        assert!(client.is_over().await);
        assert!(!refused.to_string().contains(&bob[..20]), "{refused}");
    }
    for slot in [json!(2), json!("2"), json!("s2")] {
        let mut client = Client::connect(world.member_port).await;
        let welcome = client.ask(&with("slot_id", slot)).await.unwrap();
        assert_eq!((&welcome["type"], &welcome["slot_id"]), (&json!("welcome"), &json!(2)));
        assert_eq!(welcome["proof"], Value::Null, "nobody asked for one");
    }
    // The drawn part is enough to be let in; the other part proves the daemon to the member.
    let mut client = Client::connect(world.member_port).await;
    let mut first = hello(bob.split_once('.').unwrap().0);
    first["nonce"] = json!(crate::client::NONCE);
    assert_eq!(client.ask(&first).await.unwrap()["proof"], proof(&bob));
}

#[tokio::test]
async fn frames_that_are_too_large_half_or_no_json_end_or_are_answered() {
    let world = World::new().await;
    let (path, _, bob) = team(&world).await;
    let mut client = Client::connect(world.member_port).await;
    client.bytes(&u32::MAX.to_be_bytes()).await;
    assert_eq!(client.receive().await.unwrap()["code"], "frame.too_large");
    assert!(client.is_over().await);
    // Half a hello, and gone.
    let mut client = Client::connect(world.member_port).await;
    client.bytes(&frame(&json!({ "type": "hello", "token": bob }))[..20]).await;
    drop(client);

    let mut client = Client::session(world.member_port, &bob).await;
    let cases: [(&[u8], i64, Value); 4] = [
        (b"{", -32_700, Value::Null),
        (b"\xff\xfe", -32_700, Value::Null),
        (b"[1]", -32_600, Value::Null),
        (b"{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":5}", -32_600, json!(77)),
    ];
    for (bytes, code, id) in cases {
        client.bytes(&framed(bytes)).await;
        let answer = client.receive().await.unwrap();
        assert_eq!(answer["error"]["code"], code, "{answer}");
        assert_eq!(answer.get("id").cloned().unwrap_or_default(), id, "{answer}");
    }
    assert!(client.call("team_whoami", json!({})).await.0);
    client.bytes(&(1024_u32 * 1024 + 1).to_be_bytes()).await;
    assert_eq!(client.receive().await.unwrap()["error"]["code"], -32_600);
    assert!(client.is_over().await);
    // What is as large as allowed is read, and judged by the rules.
    let mut client = Client::session(world.member_port, &bob).await;
    let (ok, text) = client
        .call("team_send_message", json!({ "to": "team-lead", "message": "x".repeat(900_000) }))
        .await;
    assert!(!ok && text.contains("65536"), "{text}");
    assert_eq!(messages(&world, &path, "xxxx").await, 0);
}

#[tokio::test]
async fn a_member_holds_eight_connections_and_not_nine() {
    let world = World::new().await;
    let (path, lead, bob) = team(&world).await;
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(Client::session(world.member_port, &bob).await);
    }
    let standing = world.get(&format!("{path}/agents/2/credential")).await;
    assert_eq!(standing, json!({ "slot_id": 2, "ready": false, "connections": 8 }));
    let mut ninth = Client::connect(world.member_port).await;
    let refused = ninth.ask(&json!({ "type": "hello", "token": bob })).await.unwrap();
    assert_eq!(refused["code"], "hello.connections");
    // Others are not held up by that.
    assert!(Client::session(world.member_port, &lead).await.call("team_whoami", json!({})).await.0);
    let mut first = held.remove(0);
    first.send(&json!({ "type": "mcp_ready", "slot_id": 2 })).await;
    first.bytes(&u32::MAX.to_be_bytes()).await;
    while first.receive().await.is_some() {}
    // The place is free when the daemon has seen the end of it; each try says whether it has.
    loop {
        let mut again = Client::connect(world.member_port).await;
        let answer = again.ask(&json!({ "type": "hello", "token": bob })).await.unwrap();
        if answer["type"] == "welcome" {
            break;
        }
    }
    assert_eq!(world.get(&format!("{path}/agents/2/credential")).await["ready"], true);
}

#[tokio::test]
async fn a_teammate_gets_no_tool_of_the_lead_whatever_it_claims() {
    let world = World::new().await;
    let (path, lead, bob) = team(&world).await;
    let mut lead = Client::session(world.member_port, &lead).await;
    let (mut client, all) = (Client::member(world.member_port, &bob).await, lead.tools().await);
    let claimed = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "experimental": { "role": { "is": "lead" } } },
        "clientInfo": { "name": "team-lead", "version": "1" },
        "_meta": { "slot_id": 1, "role": "lead" },
    });
    client.request("initialize", claimed).await;
    let own = client.tools().await;
    let lead_only: Vec<&String> = all.iter().filter(|name| !own.contains(name)).collect();
    assert_eq!(
        lead_only,
        [
            "team_decide_plan",
            "team_decide_permission",
            "team_spawn_agent",
            "team_rename_agent",
            "team_interrupt_agent",
            "team_set_mode",
            "team_list_models",
        ]
    );
    assert!(own.iter().all(|name| all.contains(name)));
    let calls = [
        ("team_spawn_agent", json!({ "name": "eve", "prompt": "work" })),
        ("Agent", json!({ "description": "x", "name": "eve", "prompt": "work" })),
        ("team_rename_agent", json!({ "agent": "team-lead", "name": "eve" })),
        ("team_rename_agent", json!({ "agent": "bob", "name": "eve" })),
        ("team_interrupt_agent", json!({ "agent": "team-lead" })),
        ("team_set_mode", json!({ "agent": "team-lead", "mode": "bypassPermissions" })),
        ("team_set_mode", json!({ "agent": "bob", "mode": "bypassPermissions" })),
        ("team_shutdown_agent", json!({ "agent": "team-lead" })),
        ("team_decide_plan", json!({ "request_id": "r1", "approve": true })),
        ("team_decide_permission", json!({ "request_id": "r1", "allow": true })),
        ("TeamDelete", json!({})),
    ];
    let before = world.get(&format!("{path}/agents")).await;
    for (tool, arguments) in calls {
        let claims = json!({
            "slot_id": 1, "from": "team-lead", "role": "lead", "x-slot-id": "1", "user": true,
        });
        let params = json!({ "name": tool, "arguments": arguments, "_meta": claims });
        let (ok, text) = said(&client.request("tools/call", params).await);
        assert!(!ok, "{tool}: {text}");
        // A field that the tool does not have is refused as well.
        let mut spoofed = arguments.clone();
        spoofed["from"] = json!("team-lead");
        let (ok, text) = client.call(tool, spoofed).await;
        assert!(!ok, "{tool}: {text}");
    }
    assert_eq!(world.get(&format!("{path}/agents")).await, before);
    assert_eq!(world.get("/api/approvals").await, json!({ "approvals": [] }));
    let (_, text) = client.call("team_whoami", json!({})).await;
    assert!(text.starts_with("name: bob\n"), "{text}");
    // What it says is said in its own name.
    let to_lead = json!({ "to": "team-lead", "message": "I am the lead" });
    assert_eq!(client.call("team_send_message", to_lead).await.1, "Message sent to team-lead");
    let sent = world.get(&format!("{path}/messages")).await;
    let sent = sent["messages"].as_array().unwrap().iter();
    let sent: Vec<&Value> = sent.filter(|message| message["text"] == "I am the lead").collect();
    assert!(matches!(sent[..], [one] if one["from"] == "s2"), "{sent:?}");
    // The log says by which credential, and not the credential.
    let id = TeamId::new(path.rsplit('/').next().unwrap()).unwrap();
    let log = world.service.house().store.read(&id, Seq(0), 1_000).await.unwrap();
    let by_bob: Vec<String> = log
        .into_iter()
        .filter(|recorded| recorded.actor == Caller::Agent(SlotId(2)))
        .filter_map(|recorded| recorded.credential)
        .collect();
    assert!(!by_bob.is_empty() && by_bob.iter().all(|by| by.starts_with("member:")), "{by_bob:?}");
    assert!(by_bob.iter().all(|by| by.len() < 20), "{by_bob:?}");
    // The lead may.
    let (ok, text) =
        lead.call("team_spawn_agent", json!({ "name": "ann", "prompt": "work" })).await;
    assert!(ok, "{text}");
}

#[tokio::test]
async fn tools_say_what_they_do_and_wrong_calls_name_what_is_right() {
    let world = World::new().await;
    let (_, lead, bob) = team(&world).await;
    let mut lead = Client::session(world.member_port, &lead).await;
    let list = lead.request("tools/list", json!({})).await;
    for tool in list["result"]["tools"].as_array().unwrap() {
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
        assert_eq!(tool["_meta"]["anthropic/alwaysLoad"], true, "{tool}");
        let name = tool["name"].as_str().unwrap();
        let reads =
            ["team_members", "team_whoami", "team_list_models", "team_task_list", "team_task_get"];
        assert_eq!(tool["annotations"]["readOnlyHint"], reads.contains(&name), "{name}");
        let ends = ["team_shutdown_agent", "team_respond_shutdown"];
        assert_eq!(tool["annotations"]["destructiveHint"], ends.contains(&name), "{name}");
    }
    assert_eq!(list["result"].get("cacheScope"), Some(&json!("private")));
    let mut client = Client::session(world.member_port, &bob).await;
    let cases = [
        ("no_such_tool", json!({}), "team_send_message"),
        (
            "team_send_message",
            json!({ "to": "nobody", "message": "m" }),
            "team-lead (s1), bob (s2)",
        ),
        ("team_send_message", json!({ "to": "bob" }), "message (required)"),
        ("team_task_get", json!({ "task_id": 9 }), "9"),
    ];
    for (tool, arguments, expect) in cases {
        let (ok, text) = client.call(tool, arguments).await;
        assert!(!ok && text.contains(expect), "{tool}: {text}");
    }
    let answer = client.request("resources/list", json!({})).await;
    assert_eq!(answer["error"]["code"], -32_601, "{answer}");
}

#[tokio::test]
async fn every_revision_is_spoken_over_frames() {
    let world = World::new().await;
    let (_, lead, bob) = team(&world).await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut client = Client::member(world.member_port, &bob).await;
        let hello = client.initialize(version).await;
        assert_eq!(hello["protocolVersion"], version);
        assert_eq!(hello["serverInfo"]["name"], "aion-team");
        assert!(client.call("team_whoami", json!({})).await.1.contains("name: bob"));
    }
    // One that nobody knows is answered with one that is known.
    let mut client = Client::member(world.member_port, &bob).await;
    assert_eq!(client.initialize("1999-01-01").await["protocolVersion"], "2025-11-25");
    // The newest has no handshake: each request says all.
    let mut client = Client::member(world.member_port, &lead).await;
    let discovered = client.request("server/discover", json!({ "_meta": inline_meta() })).await;
    assert!(discovered["result"]["supportedVersions"].to_string().contains(INLINE), "{discovered}");
    let list = client.request("tools/list", json!({ "_meta": inline_meta() })).await;
    assert!(names(&list).contains(&"team_spawn_agent".to_owned()));
    assert_eq!(list["result"]["cacheScope"], "private");
    let params = json!({ "name": "team_whoami", "arguments": {}, "_meta": inline_meta() });
    assert!(said(&client.request("tools/call", params).await).1.contains("team-lead"));
}

#[tokio::test]
async fn a_credential_ends_with_its_renewal_its_revocation_and_its_member() {
    let mut world = World::new().await;
    let (path, lead, bob) = team(&world).await;
    let credential = format!("{path}/agents/2/credential");
    let refused = async |token: &str| {
        let mut client = Client::connect(world.member_port).await;
        client.ask(&json!({ "type": "hello", "token": token })).await.unwrap()["code"].clone()
    };
    let mut client = Client::session(world.member_port, &bob).await;
    let renewed = world.credential(&path, 2).await;
    assert!(client.is_over().await, "the earlier one has ended");
    assert_eq!(refused(&bob).await, "hello.token");
    let mut client = Client::session(world.member_port, &renewed).await;
    world.call("DELETE", &credential, None).await.is(204, "");
    assert!(client.is_over().await);
    assert_eq!(refused(&renewed).await, "hello.token");
    world.call("DELETE", &credential, None).await.is(404, "credential.none");
    world.call("GET", &credential, None).await.is(404, "credential.none");
    world
        .call("POST", &format!("{path}/agents/9/credential"), None)
        .await
        .is(404, "team.unknown_agent");

    // A member that fails, and its next start.
    let bob = world.credential(&path, 2).await;
    let mut client = Client::session(world.member_port, &bob).await;
    let agent = loop {
        let agent = world.stage.spawned().await;
        if agent.slot.0 == 2 {
            break agent;
        }
    };
    for _ in 0..5 {
        agent.exit("it broke").await;
    }
    assert!(client.is_over().await);
    assert_eq!(refused(&bob).await, "hello.token");

    // A team that is no more.
    let mut client = Client::session(world.member_port, &lead).await;
    world.call("DELETE", &path, None).await.is(204, "");
    assert!(client.is_over().await);
    assert_eq!(refused(&lead).await, "hello.token");
}

#[tokio::test]
async fn a_member_that_is_a_program_gets_its_way_at_its_start_and_loses_it_at_its_end() {
    let mut world = World::connecting().await;
    let path = world.team().await;
    let lead = world.stage.spawned().await;
    let way = lead.connection.clone().unwrap();
    assert_eq!(way.port(), world.member_port);
    let environment: Vec<&str> = way.environment().iter().map(|(name, _)| *name).collect();
    assert_eq!(environment, ["TEAM_MCP_PORT", "TEAM_MCP_TOKEN", "TEAM_AGENT_SLOT_ID"]);
    assert!(!format!("{way:?}").contains("aionm_"));
    let mut client = Client::session(world.member_port, way.token().reveal()).await;
    assert!(client.call("team_whoami", json!({})).await.1.contains("team-lead"));
    client.send(&json!({ "type": "mcp_ready", "slot_id": 1 })).await;
    assert!(way.is_ready_within(std::time::Duration::from_secs(30)).await);
    world.call("DELETE", &path, None).await.is(204, "");
    assert!(client.is_over().await);
}

#[tokio::test]
async fn a_call_whose_client_vanishes_is_committed_once_or_not_at_all() {
    let world = World::new().await;
    let (path, _, bob) = team(&world).await;
    let call = |key: &str, text: &str| {
        json!({
            "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
                "name": "team_send_message",
                "arguments": { "to": "user", "message": text },
                "_meta": { "aion/idempotencyKey": key },
            },
        })
    };
    let whole = frame(&call("k", "text-0000")).len();
    let mut cuts: Vec<usize> = (0..whole).step_by(23).collect();
    cuts.extend([whole - 1, whole]);
    for cut in cuts {
        let (key, text) = (format!("k{cut}"), format!("text-{cut:04}"));
        let bytes = frame(&call(&key, &text));
        let cut = cut.min(bytes.len());
        let mut client = Client::session(world.member_port, &bob).await;
        client.bytes(&bytes[..cut]).await;
        drop(client);
        // Asked again under its key, it is there exactly once, whatever became of the first try.
        let mut client = Client::session(world.member_port, &bob).await;
        let again = client.ask(&call(&key, &text)).await.unwrap();
        assert_eq!(said(&again), (true, "Message sent to user".to_owned()));
        assert_eq!(messages(&world, &path, &text).await, 1, "cut at {cut}");
    }
    // A half is nothing.
    let mut client = Client::session(world.member_port, &bob).await;
    let bytes = frame(&call("half", "half-said"));
    client.bytes(&bytes[..bytes.len() - 1]).await;
    drop(client);
    Client::session(world.member_port, &bob).await.call("team_whoami", json!({})).await;
    assert_eq!(messages(&world, &path, "half-said").await, 0);
    // The same id of the same connection is the same call; of another connection it is another.
    let plain = json!({
        "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {
            "name": "team_send_message", "arguments": { "to": "user", "message": "by-its-id" },
        },
    });
    let mut client = Client::session(world.member_port, &bob).await;
    client.ask(&plain).await.unwrap();
    client.ask(&plain).await.unwrap();
    assert_eq!(messages(&world, &path, "by-its-id").await, 1);
    Client::session(world.member_port, &bob).await.ask(&plain).await.unwrap();
    assert_eq!(messages(&world, &path, "by-its-id").await, 2);
}

#[tokio::test]
async fn calls_side_by_side_a_question_to_the_person_and_a_cancellation_hold_nobody_up() {
    let world = World::new().await;
    let (_, _, bob) = team(&world).await;
    let mut client = Client::session(world.member_port, &bob).await;
    let (ok, text) = client.call("team_ask_user", json!({ "question": "Blue or green?" })).await;
    assert!(ok && text.contains("The answer comes as mail"), "{text}");
    // More than may wait at a time, in one write and without reading.
    let mut bytes = Vec::new();
    let mut expected = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let request = client.prepare("ping", json!({}));
        expected.insert(request["id"].as_u64().unwrap());
        bytes.extend(frame(&request));
    }
    client.bytes(&bytes).await;
    while !expected.is_empty() {
        let answer = client.receive().await.unwrap();
        assert!(expected.remove(&answer["id"].as_u64().unwrap()), "{answer}");
    }
    let mut cancelled = Vec::new();
    let mut ids = Vec::new();
    for _ in 0..100 {
        let call = client.prepare("tools/call", json!({ "name": "team_members", "arguments": {} }));
        cancelled.extend(frame(&call));
        let params = json!({ "requestId": call["id"], "reason": "not needed" });
        ids.push(call["id"].clone());
        cancelled.extend(frame(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }),
        ));
    }
    client.bytes(&cancelled).await;
    let last = client.prepare("ping", json!({}));
    client.send(&last).await;
    loop {
        let answer = client.receive().await.unwrap();
        if answer["id"] == last["id"] {
            break;
        }
        assert!(ids.contains(&answer["id"]), "{answer}");
    }
}
