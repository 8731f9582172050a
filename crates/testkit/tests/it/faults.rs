//! The faulty store is a store like any other until its plan says otherwise.

use aion_core::id::Seq;
use aion_store::{EventStore, MemoryStore, StoreError};
use aion_testkit::faults::{Fault, FaultPlan, FaultyStore, Operation};

use crate::contract;
use crate::events::{append, conversation, created, said, sent, spawned, team};

#[tokio::test]
async fn without_faults_it_keeps_the_contract() {
    contract::check(&FaultyStore::new(MemoryStore::new(), FaultPlan::none())).await;
}

#[tokio::test]
async fn an_unknown_commit_is_applied_or_not_as_planned() {
    for (fault, applied) in [(Fault::UnknownApplied, true), (Fault::UnknownNotApplied, false)] {
        let store = FaultyStore::new(MemoryStore::new(), FaultPlan::none());
        let arm = || store.fail_next(Operation::Append, fault);
        contract::check_unknown(&store, arm, applied).await;
        contract::check_intact(&store).await;
        assert_eq!(store.injected(), [(Operation::Append, 2, fault)]);
    }
}

#[tokio::test]
async fn every_operation_fails_as_planned_and_only_then() {
    let plan = FaultPlan::none()
        .at(Operation::Open, 1, Fault::Unavailable)
        .at(Operation::Append, 1, Fault::Conflict)
        .at(Operation::Append, 3, Fault::Unavailable)
        .at(Operation::AppendItems, 1, Fault::UnknownNotApplied)
        .at(Operation::Read, 1, Fault::Unavailable);
    let store = FaultyStore::new(MemoryStore::new(), plan);
    let (a, talk) = (team("planned"), conversation("talk"));
    assert!(matches!(store.open(&a).await, Err(StoreError::Unavailable(_))));
    let epoch = store.open(&a).await.unwrap().epoch;
    let begin = append(&a, epoch, 0, vec![created(&a), spawned()]);
    let lost = store.append(begin.clone()).await;
    assert!(
        matches!(lost, Err(StoreError::Conflict { expected: Seq(0), actual: Seq(1), .. })),
        "{lost:?}"
    );
    store.append(begin).await.unwrap();
    let next = append(&a, epoch, 2, vec![sent(1, "x")]);
    assert!(matches!(store.append(next.clone()).await, Err(StoreError::Unavailable(_))));
    assert_eq!(store.inner().read(&a, Seq(0), 9).await.unwrap().len(), 2);
    store.append(next).await.unwrap();
    let items = store.append_items(&a, &talk, 0, vec![said(0, "x")]).await;
    assert!(matches!(items, Err(StoreError::Unknown(_))));
    assert_eq!(store.items(&talk, 0, 9).await.unwrap(), []);
    assert!(matches!(store.read(&a, Seq(0), 9).await, Err(StoreError::Unavailable(_))));
    assert_eq!(store.read(&a, Seq(0), 9).await.unwrap().len(), 3);
    assert_eq!(store.calls(Operation::Append), 4);
}

#[tokio::test]
async fn a_seed_repeats_its_faults() {
    let faults = |seed| async move {
        let store = FaultyStore::new(MemoryStore::new(), FaultPlan::none().seeded(seed, 200));
        let a = team("seeded");
        let epoch = store.open(&a).await.unwrap().epoch;
        for _ in 0..500 {
            // Whether it failed is what is compared below.
            let _ = store.append(append(&a, epoch, 0, vec![created(&a)])).await;
        }
        store.injected()
    };
    let first = faults(7).await;
    assert_eq!(first, faults(7).await);
    assert_ne!(first, faults(8).await);
    assert!((50..150).contains(&first.len()), "{}", first.len());
    for kind in
        [Fault::Unavailable, Fault::UnknownApplied, Fault::UnknownNotApplied, Fault::Conflict]
    {
        assert!(first.iter().any(|(_, _, fault)| *fault == kind), "{kind:?}");
    }
}
