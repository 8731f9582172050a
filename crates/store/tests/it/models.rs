//! The read models say what the log says: rebuilt from it they are the same, in every store.

use aion_core::event::Event;
use aion_core::id::{MessageId, RequestId, Seq, SlotId, TaskId};
use aion_core::message::Sender;
use aion_core::request::{Decision, Withdrawal};
use aion_core::task::{TaskChange, TaskStatus};
use aion_store::{EventStore, MemoryStore, SqliteOptions, SqliteStore, Totals};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::events::{MATE, append, created, sent, spawned, team, turn_ended, turn_started};
use crate::samples;

fn any_event() -> impl Strategy<Value = Event> {
    let id = 1..6_u64;
    let task = (1..5_u32).prop_map(TaskId);
    let request = (1..5_u64).prop_map(RequestId);
    let status = prop_oneof![
        Just(None),
        Just(Some(TaskStatus::Pending)),
        Just(Some(TaskStatus::InProgress)),
        Just(Some(TaskStatus::Completed)),
        Just(Some(TaskStatus::Deleted)),
    ];
    let owner = prop_oneof![Just(None), Just(Some(None)), Just(Some(Some(MATE)))];
    prop_oneof![
        // Every kind that there is, so that none is forgotten by one store.
        proptest::sample::select(
            samples::all().into_iter().map(|(_, event)| event).collect::<Vec<_>>()
        ),
        id.clone().prop_map(|n| sent(n, "x")),
        id.clone().prop_map(|n| turn_started(n, &[n])),
        id.clone().prop_map(|n| turn_ended(n, &[n, n + 1])),
        id.prop_map(|n| Event::MessageSuperseded {
            message: MessageId(n),
            slot: MATE,
            by: MessageId(n + 1),
        }),
        task.clone().prop_map(|task| Event::TaskCreated {
            task,
            subject: String::new(),
            description: String::new(),
            active_form: None,
            owner: None,
            blocked_by: Vec::new(),
            metadata: std::collections::BTreeMap::new(),
            by: Sender::User,
        }),
        (task, status, owner).prop_map(|(task, status, owner)| Event::TaskChanged {
            task,
            change: TaskChange { status, owner, ..TaskChange::default() },
            by: Sender::User,
        }),
        request.clone().prop_map(|request| Event::RequestDecided {
            request,
            by: Sender::User,
            decision: Decision::Consent,
            delegated: false,
        }),
        request.prop_map(|request| Event::RequestWithdrawn { request, why: Withdrawal::ByAsker }),
        (2..4_u32).prop_map(|slot| Event::AgentReady { slot: SlotId(slot), generation: 1 }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rebuilt_models_are_the_same_and_every_store_counts_alike(
        logs in vec(vec(vec(any_event(), 0..12), 1..6), 1..4)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(check(logs));
    }
}

async fn check(logs: Vec<Vec<Vec<Event>>>) {
    let dir = tempfile::tempdir().unwrap();
    let sqlite = SqliteStore::open(dir.path(), &SqliteOptions::default()).unwrap();
    let memory = MemoryStore::new();
    for (n, log) in logs.into_iter().enumerate() {
        let a = team(&format!("t-{n}"));
        let epoch = sqlite.open(&a).await.unwrap().epoch;
        assert_eq!(memory.open(&a).await.unwrap().epoch, epoch);
        let mut seq = 0;
        for events in std::iter::once(vec![created(&a), spawned()]).chain(log) {
            let next = append(&a, epoch, seq, events);
            seq += next.events.len() as u64;
            memory.append(next.clone()).await.unwrap();
            sqlite.append(next).await.unwrap();
        }
        assert_eq!(sqlite.totals(&a).await.unwrap(), memory.totals(&a).await.unwrap());
        assert_eq!(
            sqlite.read(&a, Seq(0), usize::MAX).await.unwrap(),
            memory.read(&a, Seq(0), usize::MAX).await.unwrap()
        );
    }
    let timeless = |mut rows: Vec<aion_store::TeamRow>| {
        for row in &mut rows {
            row.updated_wall_ms = 0;
        }
        rows
    };
    assert_eq!(timeless(sqlite.teams().await.unwrap()), timeless(memory.teams().await.unwrap()));
    let kept = sqlite.dump_read_models().await.unwrap();
    sqlite.rebuild().await.unwrap();
    assert_eq!(sqlite.dump_read_models().await.unwrap(), kept);
}

#[tokio::test]
async fn appending_goes_on_after_a_rebuild() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path(), &SqliteOptions::default()).unwrap();
    let a = team("a");
    let epoch = store.open(&a).await.unwrap().epoch;
    store.append(append(&a, epoch, 0, vec![created(&a), spawned(), sent(1, "x")])).await.unwrap();
    store.rebuild().await.unwrap();
    store
        .append(append(&a, epoch, 3, vec![turn_started(1, &[1]), turn_ended(1, &[1])]))
        .await
        .unwrap();
    let totals =
        Totals { turns: 1, messages_accepted: 1, messages_acknowledged: 1, ..Totals::default() };
    assert_eq!(store.totals(&a).await.unwrap(), totals);
}
