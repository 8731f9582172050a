//! A store that takes nothing for a while, as on a full disk: what is asked is refused and not lost,
//! what is known can be read, and afterwards all goes on by itself.

use aion_testkit::faults::{Fault, FaultPlan, Operation};
use serde_json::json;

use crate::world::World;

impl World {
    /// Nothing can be written from here on.
    fn fill_the_disk(&self) {
        let all = [Operation::Append, Operation::Open, Operation::AppendItems];
        let calls = all.into_iter().flat_map(|operation| {
            let next = self.store.calls(operation) + 1;
            (next..next + 10_000).map(move |nth| (operation, nth))
        });
        self.store.set_plan(calls.fold(FaultPlan::none(), |plan, (operation, nth)| {
            plan.at(operation, nth, Fault::Unavailable)
        }));
    }

    fn make_room(&self) {
        self.store.set_plan(FaultPlan::none());
    }
}

#[tokio::test]
async fn what_cannot_be_written_can_still_be_read() {
    let world = World::new().await;
    let path = world.team().await;
    let task = json!({ "subject": "kept" });
    world.call("POST", &format!("{path}/tasks"), Some(task)).await.is(201, "");
    world.fill_the_disk();
    let send = async |key: &str| {
        let body = json!({ "text": "hello" });
        let path = format!("{path}/messages");
        world.call_with("POST", &path, &[("idempotency-key", key)], Some(body)).await
    };
    let refused = send("k1").await;
    refused.is(503, "team.unavailable");
    assert_eq!(refused.headers["retry-after"], "1");
    for read in ["", "/agents", "/tasks", "/messages", "/events", "/state", "/usage", "/rules"] {
        world.get(&format!("{path}{read}")).await;
    }
    assert_eq!(world.get(&format!("{path}/tasks")).await["tasks"][0]["subject"], "kept");
    assert_eq!(world.get("/api/teams").await["teams"].as_array().unwrap().len(), 1);
    world.get("/api/approvals").await;
    world.get("/api/health").await;
    let other = world.call("POST", "/api/teams", Some(json!({ "name": "other" }))).await;
    assert_eq!(other.status, 503, "{}", other.body);

    world.make_room();
    // The session looks again by itself, and whoever asks again with the same key is heard once.
    let accepted = loop {
        let answer = send("k1").await;
        if answer.status == 202 {
            break answer.body["message_id"].clone();
        }
        answer.is(503, "team.unavailable");
        tokio::task::yield_now().await;
    };
    assert_eq!(send("k1").await.body["message_id"], accepted);
    let messages = world.get(&format!("{path}/messages")).await;
    let texts = messages["messages"].as_array().unwrap();
    assert_eq!(texts.iter().filter(|message| message["text"] == "hello").count(), 1);
}
