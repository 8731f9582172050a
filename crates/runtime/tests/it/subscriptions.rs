//! Events by sequence number: past and future, no gap, no double.

use aion_agent::host::Delta;
use aion_core::command::Caller;
use aion_core::event::Event;
use aion_core::id::Seq;
use aion_core::message::Recipient;
use aion_runtime::SubscriptionEnd;
use futures::FutureExt;

use crate::house::{TestHouse, message, until};

#[tokio::test]
async fn a_watcher_that_comes_and_goes_sees_every_event_once() {
    let mut house = TestHouse::new();
    let (handle, _lead) = house.team().await;
    let sender = tokio::spawn({
        let handle = handle.clone();
        async move {
            for n in 0..300 {
                let text = n.to_string();
                handle.submit(Caller::User, None, message(Recipient::Lead, &text)).await.unwrap();
            }
        }
    });
    let mut seen = Vec::new();
    let mut sent = 0;
    while sent < 300 {
        let from = seen.last().copied().unwrap_or(Seq(0));
        let mut events = handle.subscribe(from);
        // Leaves after a few, and comes again with its last number.
        for _ in 0..7 {
            let recorded = events.next().await.unwrap().unwrap();
            seen.push(recorded.seq);
            sent += usize::from(matches!(recorded.event, Event::MessageSent { .. }));
            if sent == 300 {
                break;
            }
        }
    }
    sender.await.unwrap();
    let expected: Vec<_> = (1..=seen.len() as u64).map(Seq).collect();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_slow_watcher_is_told_where_to_resume() {
    let mut house = TestHouse::new();
    let (handle, _lead) = house.team().await;
    let mut slow = handle.subscribe(Seq(0));
    // It has read the past and waits for the future.
    while slow.next().now_or_never().is_some() {}
    let seen = slow.seen();
    for n in 0..300 {
        let text = n.to_string();
        handle.submit(Caller::User, None, message(Recipient::Lead, &text)).await.unwrap();
    }
    let end = slow.next().await.unwrap_err();
    assert!(matches!(end, SubscriptionEnd::TooSlow { seen: at } if at == seen));
    let mut again = handle.subscribe(seen);
    assert_eq!(again.next().await.unwrap().unwrap().seq, seen.next());
}

#[tokio::test]
async fn subscriptions_end_with_the_team() {
    let mut house = TestHouse::new();
    let (handle, _lead) = house.team().await;
    let mut events = handle.subscribe(Seq(0));
    let mut deltas = handle.subscribe_deltas();
    house.service.close(handle.team()).await;
    while let Some(recorded) = events.next().await.unwrap() {
        assert!(recorded.seq > Seq(0));
    }
    assert_eq!(deltas.next().await, None);
    assert_eq!(handle.subscribe_deltas().next().await, None);
}

#[tokio::test]
async fn whoever_comes_late_sees_what_the_running_turn_wrote() {
    let mut house = TestHouse::new();
    let (handle, lead) = house.team().await;
    handle.submit(Caller::User, None, message(Recipient::Lead, "write")).await.unwrap();
    let (_, input) = house.stage.turn().await;
    let text = |text: &str| Delta::Text { step: 0, text: text.to_owned() };
    lead.host.delta(input.turn, text("Hello, "));
    let mut deltas = handle.subscribe_deltas();
    lead.host.delta(input.turn, text("world"));
    let first = deltas.next().await.unwrap();
    let second = deltas.next().await.unwrap();
    assert_eq!((&*first.delta, first.offset), (&text("Hello, "), 0));
    assert_eq!((&*second.delta, second.offset), (&text("world"), 7));
    // 64 KiB are kept, not more.
    for _ in 0..200 {
        lead.host.delta(input.turn, text(&"x".repeat(1_024)));
    }
    let mut late = handle.subscribe_deltas();
    let mut bytes = 0;
    while let Some(Some(piece)) = late.next().now_or_never() {
        if let Delta::Text { text, .. } = &*piece.delta {
            bytes += text.len();
        }
    }
    assert!((32 * 1_024..=64 * 1_024).contains(&bytes), "{bytes}");
}

#[tokio::test]
async fn a_turn_that_has_ended_writes_nothing_more() {
    let mut house = TestHouse::new();
    let (handle, lead) = house.team().await;
    handle.submit(Caller::User, None, message(Recipient::Lead, "write")).await.unwrap();
    let (_, input) = house.stage.turn().await;
    let text = |text: &str| Delta::Text { step: 0, text: text.to_owned() };
    lead.host.delta(input.turn, text("in time"));
    let mut deltas = handle.subscribe_deltas();
    assert_eq!(*deltas.next().await.unwrap().delta, text("in time"));
    lead.done(input.turn, "done").await;
    until(&handle, |event| matches!(event, Event::TurnEnded { .. })).await;
    // Whoever asks now has waited until the session was through with the end.
    handle.query(|_| ()).await.unwrap();
    lead.host.delta(input.turn, text("too late"));
    assert_eq!(deltas.next().now_or_never(), None);
    assert_eq!(handle.subscribe_deltas().next().now_or_never(), None);
}
