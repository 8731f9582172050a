//! The calls: each does what it says, says what it did, and refuses by a stable code.

use aion_core::event::Event;
use aion_core::id::Seq;
use aion_core::turn::TurnOutcome;
use aion_testkit::backend::Seen;
use serde_json::{Value, json};

use crate::world::World;

#[tokio::test]
async fn progress_says_who_is_waited_for() {
    let mut world = World::new().await;
    let team = world.team().await;
    let path = format!("{team}/progress");
    let begin = Some(json!({ "text": "begin" }));
    world.call("POST", &format!("{team}/messages"), begin).await;
    let (agent, turn) = world.stage.turn().await;
    let progress = world.get(&path).await;
    assert_eq!(progress["state"], "working");
    assert_eq!(progress["busy"], json!([1]));
    World::ask(&agent, turn.turn, "make").await;
    let progress = world.get(&path).await;
    assert_eq!(progress["state"], "waiting");
    assert_eq!(progress["requests"].as_array().unwrap().len(), 1);
    let events = world.get(&format!("{team}/events?limit=500")).await;
    let last = events["events"].as_array().unwrap().last().unwrap()["seq"].clone();
    assert_eq!(progress["seq"], last);
    let answer =
        world.call("PUT", &format!("{team}/scenario"), Some(json!({ "scenario": "" }))).await;
    assert_eq!(answer.status, 422);
    assert_eq!(answer.body["code"], "scenario.unknown");
}

#[tokio::test]
async fn a_team_is_made_shown_changed_and_erased() {
    let world = World::new().await;
    let made = world.call("POST", "/api/teams", Some(json!({ "name": "web" }))).await;
    let team = made.is(201, "").body.clone();
    assert_eq!(team["name"], "web");
    assert_eq!(team["user_id"], "ada");
    assert_eq!(team["workspace_mode"], "shared");
    assert_eq!(team["lead_slot_id"], 1);
    let lead = &team["agents"][0];
    assert_eq!(lead["agent_name"], "team-lead");
    assert_eq!(lead["agent_id"], format!("team-lead@{}", team["id"].as_str().unwrap()));
    assert_eq!(lead["agent_type"], "stand-in");
    assert!(std::fs::metadata(team["workspace"].as_str().unwrap()).unwrap().is_dir());

    let path = format!("/api/teams/{}", team["id"].as_str().unwrap());
    let seen = world.call("GET", &path, None).await.etag();
    let rename = Some(json!({ "name": "shop", "settings": { "auto_claim": false } }));
    let renamed = world.call_with("PATCH", &path, &[("if-match", &seen)], rename).await;
    assert_eq!(renamed.is(200, "").body["name"], "shop");
    assert_eq!(renamed.body["settings"]["auto_claim"], false);
    assert_eq!(renamed.body["settings"]["limits"]["members"], 16);
    let late = world.call_with("PATCH", &path, &[("if-match", &seen)], Some(json!({}))).await;
    late.is(412, "edit.stale");
    let any = world.call_with("PATCH", &path, &[("if-match", "*")], Some(json!({}))).await;
    any.is(200, "");
    let odd = world.call_with("PATCH", &path, &[("if-match", "x")], Some(json!({}))).await;
    odd.is(400, "header.invalid");
    let bad = Some(json!({ "settings": { "no_such": 1 } }));
    world.call("PATCH", &path, bad).await.is(422, "settings.invalid");
    world.call("PATCH", &path, Some(json!({ "name": " " }))).await.is(422, "team.empty");

    let list = world.get("/api/teams").await;
    assert_eq!(list["teams"][0]["name"], "shop");
    world.call("DELETE", &path, None).await.is(204, "");
    world.call("GET", &path, None).await.is(404, "team.not_found");
    world.call("DELETE", &path, None).await.is(404, "team.not_found");
    assert_eq!(world.get("/api/teams").await, json!({ "teams": [] }));
}

#[tokio::test]
async fn edits_at_the_same_time_do_not_overwrite_each_other() {
    let world = World::new().await;
    let path = world.team().await;
    let seen = world.call("GET", &path, None).await.etag();
    let headers = [("if-match", seen.as_str())];
    let edit =
        |name: &str| world.call_with("PATCH", &path, &headers, Some(json!({ "name": name })));
    let (a, b, c) = tokio::join!(edit("a"), edit("b"), edit("c"));
    let mut statuses = [a.status, b.status, c.status].map(|status| status.as_u16());
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 412, 412]);
}

#[tokio::test]
async fn what_cannot_be_made_is_refused_by_name() {
    let world = World::new().await;
    let check = async |body: Value, status: u16, code: &str| {
        world.call("POST", "/api/teams", Some(body)).await.is(status, code).body.clone()
    };
    check(json!({ "user_id": "eve" }), 422, "body.invalid").await;
    check(json!([]), 422, "body.invalid").await;
    check(json!({ "workspace": "relative" }), 422, "workspace.unusable").await;
    check(json!({ "workspace": "/no/such/place" }), 422, "workspace.unusable").await;
    let unknown = check(json!({ "lead": { "agent_type": "x" } }), 422, "agent.unknown").await;
    assert_eq!(unknown["choices"], json!(["stand-in"]));
    check(json!({ "lead": { "agent_type": "absent" } }), 422, "agent.unknown").await;
    let bearer = world.token.bearer();
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    world.raw("POST", "/api/teams", &headers, Some("{")).await.is(400, "body.no_json");
    let large = format!("{{\"name\":\"{}\"}}", "x".repeat(2 * 1024 * 1024));
    world.raw("POST", "/api/teams", &headers, Some(&large)).await.is(413, "body.too_large");
    world.raw("PUT", "/api/teams", &headers, None).await.is(405, "method.not_allowed");
    world.raw("GET", "/api/nothing", &headers, None).await.is(404, "path.not_found");
    assert_eq!(world.get("/api/teams").await, json!({ "teams": [] }));
}

#[tokio::test]
async fn a_key_makes_one_team() {
    let world = World::new().await;
    let make = |key: &'static str, name: &'static str| {
        let (world, body) = (&world, Some(json!({ "name": name })));
        async move { world.call_with("POST", "/api/teams", &[("idempotency-key", key)], body).await }
    };
    let first = make("k1", "web").await;
    let again = make("k1", "web").await;
    assert_eq!(first.is(201, "").body["id"], again.is(200, "").body["id"]);
    make("k1", "shop").await.is(422, "team.key_reused");
    assert_ne!(make("k2", "web").await.is(201, "").body["id"], first.body["id"]);
    let (a, b) = tokio::join!(make("k3", "web"), make("k3", "web"));
    assert_eq!(a.body["id"], b.body["id"]);
    assert_eq!(world.get("/api/teams").await["teams"].as_array().unwrap().len(), 3);
    make("", "web").await.is(400, "header.invalid");
}

#[tokio::test]
async fn a_message_is_accepted_once_per_key_and_followed_to_its_end() {
    let mut world = World::new().await;
    let path = world.team().await;
    let messages = format!("{path}/messages");
    let send = async |world: &World, key: &str, text: &str| {
        let body = Some(json!({ "text": text }));
        world.call_with("POST", &messages, &[("idempotency-key", key)], body).await
    };
    let first = send(&world, "k1", "begin").await;
    first.is(202, "");
    let again = send(&world, "k1", "begin").await;
    assert_eq!(first.body["message_id"], again.is(202, "").body["message_id"]);
    send(&world, "k1", "something else").await.is(422, "team.key_reused");

    let (agent, turn) = world.stage.turn().await;
    let list = world.get(&messages).await;
    let row = &list["messages"][0];
    assert_eq!(list["messages"].as_array().unwrap().len(), 1);
    assert_eq!(row["text"], "begin");
    assert_eq!(row["from"], "user");
    assert_eq!(row["to"], json!([1]));
    assert_eq!(row["seq"], first.body["seq"]);
    assert_eq!(row["deliveries"], json!([{ "slot_id": 1, "state": "delivered" }]));
    agent.end(turn.turn, TurnOutcome::Done { last_text: Some("done".to_owned()) }).await;
    let team = path.rsplit('/').next().unwrap().parse().unwrap();
    let mut events = world.service.open(&team).await.unwrap().subscribe(Seq(0));
    while let Ok(Some(event)) = events.next().await {
        if matches!(event.event, Event::TurnEnded { .. }) {
            break;
        }
    }
    let row = &world.get(&messages).await["messages"][0];
    assert_eq!(row["deliveries"], json!([{ "slot_id": 1, "state": "acknowledged" }]));

    world.call("POST", &messages, Some(json!({ "text": "" }))).await.is(422, "team.empty");
    let long = json!({ "text": "x".repeat(100_000) });
    world.call("POST", &messages, Some(long)).await.is(422, "team.limit");
    world.call("POST", &messages, Some(json!({}))).await.is(422, "body.invalid");
    let forged = json!({ "text": "hi", "from": "team-lead" });
    world.call("POST", &messages, Some(forged)).await.is(422, "body.invalid");
    let nobody = format!("{path}/agents/9/messages");
    let unknown = world.call("POST", &nobody, Some(json!({ "text": "hi" }))).await;
    assert_eq!(unknown.is(404, "team.unknown_agent").body["choices"], json!(["team-lead"]));
}

#[tokio::test]
async fn what_a_mailbox_gave_up_is_shown_and_sent_again() {
    let mut world = World::new().await;
    let path = world.team().await;
    let messages = format!("{path}/messages");
    for name in ["bob", "carol"] {
        let member = json!({ "name": name, "prompt": "work" });
        world.call("POST", &format!("{path}/agents"), Some(member)).await.is(202, "");
        world.stage.turn().await;
    }
    let to_bob = format!("{path}/agents/2/messages");
    let sent = world.call("POST", &to_bob, Some(json!({ "text": "the fence is green" }))).await;
    let id = sent.is(202, "").body["message_id"].as_str().unwrap().to_owned();
    let again = format!("{messages}/{id}/redeliver");
    world.call("POST", &again, Some(json!({}))).await.is(409, "message.not_dead");
    world.call("POST", &again, Some(json!({ "slot_id": 2 }))).await.is(409, "team.wrong_state");
    world.call("POST", &format!("{path}/agents/2/kill"), None).await.is(202, "");
    let row = async |id: &str| {
        let list = world.get(&messages).await;
        let rows = list["messages"].as_array().unwrap();
        rows.iter().find(|row| row["message_id"] == id).cloned().unwrap()
    };
    while row(&id).await["deliveries"][0]["state"] != "dead" {
        tokio::task::yield_now().await;
    }
    // Whom it was for is gone; somebody else reads it.
    world.call("POST", &again, Some(json!({}))).await.is(409, "team.recipient_gone");
    let body = json!({ "slot_id": 3 });
    let key = [("idempotency-key", "k")];
    let twice = [
        world.call_with("POST", &again, &key, Some(body.clone())).await,
        world.call_with("POST", &again, &key, Some(body)).await,
    ];
    let new = twice[0].is(202, "").body["message_id"].as_str().unwrap().to_owned();
    assert_eq!(twice[1].is(202, "").body["message_id"], *new);
    let shown = row(&new).await;
    assert_eq!((&shown["again"], &shown["from"]), (&json!(id), &json!("user")));
    assert_eq!(shown["deliveries"], json!([{ "slot_id": 3, "state": "queued" }]));
}

#[tokio::test]
async fn a_message_is_found_wherever_it_is_in_a_long_log() {
    let world = World::new().await;
    let path = world.team().await;
    let messages = format!("{path}/messages");
    for n in 1..=700 {
        let text = json!({ "text": format!("text {n}") });
        world.call("POST", &messages, Some(text)).await.is(202, "");
        if n % 100 == 0 {
            // Events between them that accept nothing.
            let name = json!({ "name": format!("name {n}") });
            for _ in 0..3 {
                world.call("PATCH", &path, Some(name.clone())).await.is(200, "");
            }
        }
    }
    let again = async |id: &str| {
        let again = format!("{messages}/{id}/redeliver");
        world.call("POST", &again, Some(json!({ "slot_id": 1 }))).await
    };
    for n in [1, 2, 255, 256, 350, 511, 512, 513, 699, 700] {
        again(&format!("m{n}")).await.is(409, "team.wrong_state");
    }
    for unknown in ["m0", "m701", "m99999999", "x"] {
        again(unknown).await.is(404, "message.unknown");
    }
}

#[tokio::test]
async fn members_are_brought_in_steered_and_sent_away() {
    let world = World::new().await;
    let path = world.team().await;
    let agents = format!("{path}/agents");
    let bob = json!({ "name": "bob", "prompt": "work", "plan_mode_required": true });
    let key = [("idempotency-key", "bob")];
    let spawned = world.call_with("POST", &agents, &key, Some(bob.clone())).await;
    assert_eq!(spawned.is(202, "").body["slot_id"], 2);
    assert!(spawned.body["ticket"].as_str().unwrap().starts_with("s2."));
    let again = world.call_with("POST", &agents, &key, Some(bob.clone())).await;
    assert_eq!(again.is(202, "").body["slot_id"], 2);
    world.call("POST", &agents, Some(bob)).await.is(409, "team.name_taken");
    let check = async |body: Value, status, code: &str| {
        world.call("POST", &agents, Some(body)).await.is(status, code);
    };
    check(json!({ "name": "Team Lead", "prompt": "x" }), 422, "team.bad_name").await;
    check(json!({ "name": "../x", "prompt": "x" }), 422, "team.bad_name").await;
    check(json!({ "name": "eve", "prompt": "x", "agent_type": "y" }), 422, "agent.unknown").await;
    check(json!({ "name": "eve", "prompt": "x", "role": "lead" }), 422, "body.invalid").await;

    let list = world.get(&agents).await;
    assert_eq!(list["agents"][1]["permission_mode"], "plan");
    let one = format!("{agents}/2");
    let seen = world.call("GET", &one, None).await.etag();
    let name = Some(json!({ "name": "rob", "label": "Robert" }));
    let renamed = world.call_with("PATCH", &one, &[("if-match", &seen)], name.clone()).await;
    assert_eq!(renamed.is(200, "").body["label"], "Robert");
    world
        .call_with("PATCH", &one, &[("if-match", &seen)], name.clone())
        .await
        .is(412, "edit.stale");
    world.call("PATCH", &format!("{agents}/9"), name).await.is(404, "team.unknown_agent");
    world.call("GET", &format!("{agents}/9"), None).await.is(404, "team.unknown_agent");
    world.call("GET", &format!("{agents}/x"), None).await.is(404, "path.not_found");

    let mode = Some(json!({ "mode": "acceptEdits" }));
    world.call("POST", &format!("{one}/mode"), mode).await.is(202, "");
    let model = Some(json!({ "model": "large" }));
    world.call("POST", &format!("{one}/model"), model).await.is(202, "");
    let shown = world.get(&one).await;
    assert_eq!(
        (&shown["permission_mode"], &shown["model"]),
        (&json!("acceptEdits"), &json!("large"))
    );
    for verb in ["pause", "resume"] {
        world.call("POST", &format!("{one}/{verb}"), None).await.is(202, "");
        world.call("POST", &format!("{path}/{verb}"), None).await.is(202, "");
    }
    world.call("POST", &format!("{one}/restart"), None).await.is(409, "team.wrong_state");
    let asked = world.call("POST", &format!("{one}/stop"), Some(json!({ "reason": "done" }))).await;
    let team = path.rsplit('/').next().unwrap();
    assert_eq!(asked.is(202, "").body["request_id"], format!("{team}.r1"));
    world.call("POST", &format!("{one}/stop"), None).await.is(409, "team.already_asked");
    world.call("POST", &format!("{one}/kill"), None).await.is(202, "");
    world.call("DELETE", &format!("{agents}/1"), None).await.is(409, "team.lead_stays");
    world.call("POST", &format!("{path}/stop"), None).await.is(202, "");
    let holds = world.get(&path).await["holds"].clone();
    assert_eq!(holds, json!(["stopping"]));
}

#[tokio::test]
async fn tasks_are_changed_by_whoever_saw_their_version() {
    let world = World::new().await;
    let path = world.team().await;
    let tasks = format!("{path}/tasks");
    let first = world.call("POST", &tasks, Some(json!({ "subject": "build" }))).await;
    assert_eq!(first.is(201, "").body["id"], 1);
    let seen = first.etag();
    let second = json!({ "subject": "test", "blocked_by": [1], "owner_slot_id": 1 });
    let second = world.call("POST", &tasks, Some(second)).await;
    assert_eq!(second.is(201, "").body["blocked_by"], json!([1]));
    assert_eq!(second.body["owner_slot_id"], 1);
    let one = format!("{tasks}/1");
    let change = Some(json!({ "description": "all of it" }));
    let changed = world.call_with("PATCH", &one, &[("if-match", &seen)], change.clone()).await;
    assert_eq!(changed.is(200, "").body["description"], "all of it");
    world
        .call_with("PATCH", &one, &[("if-match", &seen)], change)
        .await
        .is(412, "team.task_changed");
    let start = Some(json!({ "status": "in_progress" }));
    let blocked = world.call("PATCH", &format!("{tasks}/2"), start).await;
    assert_eq!(blocked.is(409, "team.task_blocked").body["choices"], json!(["#1"]));
    let circle = Some(json!({ "add_blocked_by": [2] }));
    world.call("PATCH", &one, circle).await.is(422, "team.task_cycle");
    let both = Some(json!({ "owner_slot_id": 1, "release": true }));
    world.call("PATCH", &one, both).await.is(422, "body.invalid");
    let done = Some(json!({ "status": "completed" }));
    world.call("PATCH", &one, done.clone()).await.is(200, "");
    world.call("PATCH", &one, done).await.is(409, "team.task_closed");
    world
        .call("PATCH", &format!("{tasks}/2"), Some(json!({ "status": "deleted" })))
        .await
        .is(204, "");
    world.call("GET", &format!("{tasks}/2"), None).await.is(404, "team.unknown_task");
    world.call("PATCH", &format!("{tasks}/9"), Some(json!({}))).await.is(404, "team.unknown_task");
    let list = world.get(&tasks).await;
    assert_eq!(list["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(list["tasks"][0]["status"], "completed");
}

#[tokio::test]
async fn of_two_deciders_one_counts() {
    let mut world = World::new().await;
    let path = world.team().await;
    world
        .call("POST", &format!("{path}/messages"), Some(json!({ "text": "go" })))
        .await
        .is(202, "");
    let (agent, turn) = world.stage.turn().await;
    World::ask(&agent, turn.turn, "make").await;
    let inbox = world.get("/api/approvals").await;
    let asked = &inbox["approvals"][0];
    assert_eq!(asked["kind"], "permission");
    assert_eq!(asked["from"], "team-lead");
    assert_eq!(asked["what"], "run make");
    assert_eq!(asked["choices"], json!(["allow", "deny"]));
    assert_eq!(asked["detail"]["tool"], "bash");
    let decide = format!("/api/approvals/{}", asked["request_id"].as_str().unwrap());
    let wrong = world.call("POST", &decide, Some(json!({ "decision": "consent" }))).await;
    assert_eq!(wrong.is(422, "team.wrong_decision").body["choices"], json!(["allow", "deny"]));
    world.call("POST", &decide, Some(json!({ "decision": "sure" }))).await.is(422, "body.invalid");

    let allow = world.call("POST", &decide, Some(json!({ "decision": "allow" })));
    let deny = world.call("POST", &decide, Some(json!({ "decision": "deny", "reason": "no" })));
    let (allow, deny) = tokio::join!(allow, deny);
    let mut statuses = [allow.status.as_u16(), deny.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [202, 409]);
    world
        .call("POST", &decide, Some(json!({ "decision": "allow" })))
        .await
        .is(409, "team.already_decided");
    assert_eq!(world.get("/api/approvals").await, json!({ "approvals": [] }));
    let absent = format!("{decide}9");
    world
        .call("POST", &absent, Some(json!({ "decision": "allow" })))
        .await
        .is(404, "team.unknown_request");
    world
        .call("POST", "/api/approvals/x", Some(json!({ "decision": "allow" })))
        .await
        .is(404, "team.unknown_request");
}

#[tokio::test]
async fn the_past_is_read_page_by_page() {
    let world = World::new().await;
    let path = world.team().await;
    for number in 1..=7 {
        let task = Some(json!({ "subject": format!("task {number}") }));
        world.call("POST", &format!("{path}/tasks"), task).await.is(201, "");
    }
    let all = world.get(&format!("{path}/events?limit=500")).await;
    let all = all["events"].as_array().unwrap().clone();
    let mut pages = Vec::new();
    let mut after = Some(0);
    while let Some(from) = after {
        let page = world.get(&format!("{path}/events?after={from}&limit=3")).await;
        pages.extend(page["events"].as_array().unwrap().clone());
        after = page["next"].as_u64();
    }
    assert_eq!(pages, all);
    let seqs: Vec<u64> = all.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert_eq!(all[0]["type"], "team.created");
    assert_eq!(all[0]["data"]["type"], "team_created");

    let third = all.iter().filter(|event| event["type"] == "team.task").nth(2).unwrap();
    let seq = third["seq"].as_u64().unwrap();
    let state = world.get(&format!("{path}/state?at={seq}")).await;
    assert_eq!((&state["seq"], state["tasks"].as_array().unwrap().len()), (&json!(seq), 3));
    let now = world.get(&format!("{path}/state")).await;
    assert_eq!(now["team"], world.get(&path).await);
    world.call("GET", &format!("{path}/state?at=0"), None).await.is(404, "team.no_such_event");
    world.call("GET", &format!("{path}/state?at=9999"), None).await.is(404, "team.no_such_event");
    for bad in ["limit=0", "limit=501", "limit=x", "after=-1", "no=1"] {
        world.call("GET", &format!("{path}/events?{bad}"), None).await.is(400, "query.invalid");
    }
    let transcript = world.get(&format!("{path}/transcript?slot_id=1")).await;
    assert_eq!(transcript, json!({ "items": [] }));
    world
        .call("GET", &format!("{path}/transcript?slot_id=7"), None)
        .await
        .is(404, "team.unknown_agent");
    assert_eq!(world.get(&format!("{path}/usage")).await["input_tokens"], 0);
}

#[tokio::test]
async fn the_daemon_says_how_it_is() {
    let world = World::new().await;
    world.team().await;
    let health = world.get("/api/health").await;
    assert_eq!((&health["status"], &health["teams"]), (&json!("ok"), &json!(1)));
    let agents = world.get("/api/agents").await;
    assert_eq!(agents["agents"][0]["reason"], "it is not installed");
    assert_eq!(agents["agents"][1]["available"], true);
    let metrics = world.call("GET", "/metrics", None).await;
    let text = metrics.is(200, "").body.as_str().unwrap().to_owned();
    assert!(text.contains("\naion_teams 1\n"), "{text}");
    assert!(text.contains("\naion_http_responses_total{class=\"2xx\"} 3\n"), "{text}");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("aion_") && value.parse::<f64>().is_ok(), "{line}");
    }
}

#[tokio::test]
async fn large_answers_are_compressed_for_those_who_ask() {
    let world = World::new().await;
    let answer =
        world.call_with("GET", "/api/openapi.json", &[("accept-encoding", "gzip")], None).await;
    answer.is(200, "");
    let plain = world.get("/api/openapi.json").await;
    assert_eq!(plain["openapi"].as_str().unwrap(), "3.1.0");
}

#[tokio::test]
async fn a_permission_for_all_is_shown_and_taken_back() {
    let mut world = World::new().await;
    let path = world.team().await;
    let text = json!({ "text": "go" });
    world.call("POST", &format!("{path}/messages"), Some(text)).await.is(202, "");
    let (agent, turn) = world.stage.turn().await;
    World::ask(&agent, turn.turn, "make").await;
    let decide = format!("/api/approvals/{}.r1", path.rsplit('/').next().unwrap());
    let allow = json!({ "decision": "allow", "scope": "team" });
    world.call("POST", &decide, Some(allow)).await.is(202, "");
    let rules = world.get(&format!("{path}/rules")).await;
    let rule = json!({ "id": 1, "kind": "tool", "what": "bash", "once": false });
    assert_eq!(rules["rules"][0], rule);
    let one = format!("{path}/rules/1");
    world.call("DELETE", &one, None).await.is(202, "");
    world.call("DELETE", &one, None).await.is(404, "team.unknown_grant");
    assert_eq!(world.get(&format!("{path}/rules")).await, json!({ "rules": [] }));
}

#[tokio::test]
async fn a_team_can_be_erased_in_the_middle_of_everything() {
    let mut world = World::new().await;
    let path = world.team().await;
    let text = json!({ "text": "go" });
    world.call("POST", &format!("{path}/messages"), Some(text.clone())).await.is(202, "");
    let (agent, turn) = world.stage.turn().await;
    let bob = json!({ "name": "bob", "prompt": "work" });
    world.call("POST", &format!("{path}/agents"), Some(bob)).await.is(202, "");
    world.stage.turn().await;
    World::ask(&agent, turn.turn, "make").await;
    world.call("DELETE", &path, None).await.is(204, "");
    // Both members were told to end, and nothing is taken for the team any more.
    let mut ended = std::collections::BTreeSet::new();
    while ended.len() < 2 {
        match world.stage.next().await {
            Seen::Stopped(slot) | Seen::Killed(slot) => {
                ended.insert(slot.0);
            }
            _ => {}
        }
    }
    world.call("POST", &format!("{path}/messages"), Some(text)).await.is(404, "team.not_found");
    assert_eq!(world.get("/api/approvals").await, json!({ "approvals": [] }));
    assert!(world.service.list().await.unwrap().is_empty());
}
