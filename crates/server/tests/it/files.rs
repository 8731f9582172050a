//! Conversations with one agent, files that go along with messages, budgets, and what was used.

use aion_core::budget::Usage;
use serde_json::{Value, json};

use crate::world::World;

async fn give(world: &World, bytes: &str) -> Value {
    let bearer = world.token.bearer();
    let headers =
        [("authorization", bearer.as_str()), ("content-type", "application/octet-stream")];
    let answer = world.raw("POST", "/api/files", &headers, Some(bytes)).await;
    answer.is(201, "");
    answer.body
}

#[tokio::test]
async fn a_conversation_is_a_team_of_one_and_no_team() {
    let world = World::new().await;
    let team = world.team().await;
    let made = world.call("POST", "/api/conversations", Some(json!({ "name": "chat" }))).await;
    made.is(201, "");
    assert_eq!(made.body["agents"][0]["role"], "solo");
    let id = made.body["id"].as_str().unwrap();
    let path = format!("/api/conversations/{id}");
    let ids = |list: Value| list["teams"].as_array().unwrap().len();
    assert_eq!(world.get("/api/conversations").await["teams"][0]["id"], id);
    assert_eq!(
        (ids(world.get("/api/conversations").await), ids(world.get("/api/teams").await)),
        (1, 1)
    );
    world
        .call("POST", &format!("{path}/messages"), Some(json!({ "text": "hello" })))
        .await
        .is(202, "");
    let messages = world.get(&format!("{path}/messages")).await;
    assert_eq!(messages["messages"][0]["text"], "hello");
    world.get(&format!("{path}/transcript")).await;
    // What teams have, it has too.
    world.get(&format!("/api/teams/{id}/events")).await;
    // A conversation brings nobody in.
    let spawn = json!({ "name": "bob", "prompt": "help" });
    world
        .call("POST", &format!("/api/teams/{id}/agents"), Some(spawn))
        .await
        .is(403, "team.not_allowed");

    let tag = made.etag();
    let named = json!({ "name": "talk" });
    let stale =
        world.call_with("PATCH", &path, &[("if-match", "\"x\"")], Some(named.clone())).await;
    stale.is(412, "edit.stale");
    let edited = world.call_with("PATCH", &path, &[("if-match", &tag)], Some(named)).await;
    edited.is(200, "");
    assert_eq!(world.get(&path).await["name"], "talk");

    // A team is no conversation, in whatever way it is asked for.
    let other = team.replace("/api/teams/", "/api/conversations/");
    for (method, path) in [
        ("GET", other.clone()),
        ("DELETE", other.clone()),
        ("GET", format!("{other}/messages")),
        ("GET", format!("{other}/transcript")),
    ] {
        world.call(method, &path, None).await.is(404, "conversation.not_found");
    }
    world.get(&team).await;
    world.call("DELETE", &path, None).await.is(204, "");
    world.call("GET", &path, None).await.is(404, "team.not_found");
}

#[tokio::test]
async fn a_key_begins_one_conversation_and_stands_for_no_team() {
    let world = World::new().await;
    let key = [("idempotency-key", "k1")];
    let body = json!({ "name": "chat" });
    let first = world.call_with("POST", "/api/conversations", &key, Some(body.clone())).await;
    first.is(201, "");
    let again = world.call_with("POST", "/api/conversations", &key, Some(body.clone())).await;
    again.is(200, "");
    assert_eq!(again.body["id"], first.body["id"]);
    let team = world.call_with("POST", "/api/teams", &key, Some(body)).await;
    team.is(201, "");
    assert_ne!(team.body["id"], first.body["id"]);
}

#[tokio::test]
async fn a_file_goes_along_with_a_message_and_comes_back() {
    let world = World::new().await;
    let path = world.team().await;
    let kept = give(&world, "what to do\n").await;
    assert_eq!(kept["bytes"], 11);
    assert_eq!(give(&world, "what to do\n").await, kept);
    let sha256 = kept["sha256"].as_str().unwrap();
    let file = json!({ "sha256": sha256, "name": "plan.txt" });
    let body = json!({ "text": "read it", "files": [file] });
    world.call("POST", &format!("{path}/messages"), Some(body)).await.is(202, "");
    let workspace = world.get(&path).await["workspace"].as_str().unwrap().to_owned();
    let place = format!("{workspace}/.aion/files/{}/plan.txt", &sha256[..12]);
    assert_eq!(std::fs::read_to_string(place).unwrap(), "what to do\n");
    let back = world.call("GET", &format!("/api/files/{sha256}"), None).await;
    assert_eq!(back.body, "what to do\n");
    assert_eq!(back.headers["content-type"], "application/octet-stream");
    assert_eq!(back.headers["content-disposition"], "attachment");

    let send = async |files: Value| {
        let body = json!({ "text": "read it", "files": files });
        world.call("POST", &format!("{path}/messages"), Some(body)).await
    };
    send(json!([{ "sha256": "0".repeat(64), "name": "a" }])).await.is(422, "file.not_found");
    send(json!([{ "sha256": sha256, "name": "../a" }])).await.is(422, "file.name");
    send(json!(vec![file.clone(); 17])).await.is(422, "team.limit");
    send(json!([{ "sha256": sha256, "name": "a", "path": "/etc/passwd" }]))
        .await
        .is(422, "body.invalid");
    world.call("GET", "/api/files/none", None).await.is(404, "file.not_found");
    let json_type = world.call("POST", "/api/files", Some(json!({}))).await;
    json_type.is(415, "body.content_type");
}

#[tokio::test]
async fn a_budget_is_set_and_taken_away() {
    let world = World::new().await;
    let path = world.team().await;
    let set = async |body: Value| world.call("PUT", &format!("{path}/budget"), Some(body)).await;
    set(json!({ "tokens": 1_000_000, "micro_usd": 5_000_000 })).await.is(202, "");
    let usage = world.get(&format!("{path}/usage")).await;
    assert_eq!(
        (&usage["cap_tokens"], &usage["cap_micro_usd"]),
        (&json!(1_000_000), &json!(5_000_000))
    );
    set(json!({ "tokens": 0 })).await.is(422, "budget.zero");
    set(json!({ "tokens": -1 })).await.is(422, "body.invalid");
    set(json!({})).await.is(202, "");
    assert!(world.get(&format!("{path}/usage")).await["cap_tokens"].is_null());
}

#[tokio::test]
async fn a_log_is_taken_away_whole() {
    let world = World::new().await;
    let path = world.team().await;
    // More than are read at a time.
    for number in 0..510 {
        let body = json!({ "text": format!("message {number}"), "urgency": "queue" });
        world.call("POST", &format!("{path}/messages"), Some(body)).await.is(202, "");
    }
    let answer = world.call("GET", &format!("{path}/export"), None).await;
    assert_eq!(answer.headers["content-type"], "application/x-ndjson");
    let text = answer.body.as_str().unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbers: Vec<u64> = lines.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert!(numbers.len() > 510);
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_was_used_is_told_by_member_and_model() {
    let mut world = World::new().await;
    let path = world.team().await;
    let work = async |world: &mut World, input: u64| {
        let text = json!({ "text": "go" });
        world.call("POST", &format!("{path}/messages"), Some(text)).await.is(202, "");
        let (agent, turn) = world.stage.turn().await;
        let usage = Usage { input, output: 1, micro_usd: 5, ..Usage::default() };
        agent.done_using(turn.turn, usage).await;
    };
    work(&mut world, 10).await;
    work(&mut world, 20).await;
    let row = loop {
        let usage = world.get(&format!("{path}/usage/members")).await;
        if usage["members"][0]["turns"] == 2 {
            break usage["members"][0].clone();
        }
        tokio::task::yield_now().await;
    };
    assert_eq!((&row["slot_id"], &row["agent_name"]), (&json!(1), &json!("team-lead")));
    assert_eq!(
        (&row["input_tokens"], &row["turns"], &row["micro_usd"]),
        (&json!(30), &json!(2), &json!(10))
    );
    let all = world.get(&format!("{path}/usage")).await;
    assert_eq!(all["input_tokens"], row["input_tokens"]);
}
