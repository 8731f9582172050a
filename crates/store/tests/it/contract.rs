//! What every store keeps to, whatever keeps its bytes; it never looks behind the trait.

use aion_core::event::{DeadLetterReason, Event, Recorded};
use aion_core::id::{CommandId, MessageId, Seq, SlotId, TeamId};
use aion_store::{
    APPEND_LIMIT, EventStore, INLINE_LIMIT, MessageState, Snapshot, StoreError, Totals,
};
use futures::future::join_all;

use crate::events::{
    MATE, append, conversation, created, recorded, said, sent, spawned, team, turn_ended,
    turn_started,
};

/// All that holds for a store on which nothing fails.
pub(crate) async fn check(store: &impl EventStore) {
    an_unknown_team_is_empty_when_opened_and_else_unknown(store).await;
    events_come_back_in_order_and_equal(store).await;
    the_place_and_the_epoch_are_checked(store).await;
    a_failing_append_fails_alone(store).await;
    many_teams_append_at_once(store).await;
    the_size_of_an_append_is_capped(store).await;
    a_reader_does_not_disturb_a_writer(store).await;
    snapshots_are_kept_by_distance(store).await;
    transcripts_are_appended_behind_what_is_there(store).await;
    rows_and_numbers_follow_the_log(store).await;
    every_message_has_a_state_in_every_mailbox(store).await;
    what_is_erased_is_gone(store).await;
}

async fn begin(store: &impl EventStore, team: &TeamId) -> u64 {
    let loaded = store.open(team).await.unwrap();
    assert_eq!(loaded.events, []);
    store.append(append(team, loaded.epoch, 0, vec![created(team), spawned()])).await.unwrap();
    loaded.epoch
}

async fn an_unknown_team_is_empty_when_opened_and_else_unknown(store: &impl EventStore) {
    let a = team("unknown");
    assert!(matches!(store.read(&a, Seq(0), 10).await, Err(StoreError::NoTeam(t)) if t == a));
    assert!(matches!(store.totals(&a).await, Err(StoreError::NoTeam(_))));
    assert!(matches!(store.erase(&a).await, Err(StoreError::NoTeam(_))));
    let early = store.append(append(&a, 1, 0, vec![created(&a)])).await;
    assert!(matches!(early, Err(StoreError::NoTeam(_))), "{early:?}");
    let loaded = store.open(&a).await.unwrap();
    assert_eq!((loaded.events, loaded.snapshot, loaded.last_append_wall_ms), (vec![], None, 0));
    assert_eq!(store.read(&a, Seq(0), 10).await.unwrap(), []);
    assert_eq!(store.totals(&a).await.unwrap(), Totals::default());
    assert!(store.teams().await.unwrap().iter().all(|row| row.team != a));
}

async fn events_come_back_in_order_and_equal(store: &impl EventStore) {
    let a = team("order");
    let epoch = begin(store, &a).await;
    let mut all = recorded(0, "c-0", vec![created(&a), spawned()]);
    for n in 0..20 {
        let expected = all.len() as u64;
        let next =
            append(&a, epoch, expected, vec![sent(2 * n, "é\u{0}\"x\""), sent(2 * n + 1, "")]);
        all.extend(next.events.iter().cloned());
        store.append(next).await.unwrap();
    }
    assert_eq!(store.read(&a, Seq(0), usize::MAX).await.unwrap(), all);
    assert_eq!(store.read(&a, Seq(5), 3).await.unwrap(), all[5..8]);
    assert_eq!(store.read(&a, Seq(all.len() as u64), 3).await.unwrap(), []);
    assert_eq!(store.read(&a, Seq(1_000), 3).await.unwrap(), []);
    let loaded = store.open(&a).await.unwrap();
    assert_eq!(loaded.events, all);
    assert!(loaded.epoch > epoch);
    assert!(loaded.last_append_wall_ms > 0);
}

async fn the_place_and_the_epoch_are_checked(store: &impl EventStore) {
    let a = team("fenced");
    let old = begin(store, &a).await;
    let behind = store.append(append(&a, old, 1, vec![sent(1, "x")])).await;
    assert!(
        matches!(&behind, Err(StoreError::Conflict { team, expected: Seq(1), actual: Seq(2) }) if *team == a),
        "{behind:?}"
    );
    let ahead = store.append(append(&a, old, 3, vec![sent(1, "x")])).await;
    assert!(matches!(ahead, Err(StoreError::Conflict { actual: Seq(2), .. })), "{ahead:?}");
    let mut gap = append(&a, old, 2, vec![sent(1, "x"), sent(2, "y")]);
    let mut events = gap.events.to_vec();
    events[1].seq = Seq(5);
    gap.events = events.into();
    let gap = store.append(gap).await;
    assert!(matches!(gap, Err(StoreError::Conflict { .. })), "{gap:?}");

    let new = store.open(&a).await.unwrap().epoch;
    let fenced = store.append(append(&a, old, 2, vec![sent(1, "x")])).await;
    assert!(
        matches!(fenced, Err(StoreError::StaleEpoch { current, .. }) if current == new),
        "{fenced:?}"
    );
    store.append(append(&a, new, 2, vec![sent(1, "x")])).await.unwrap();
    store.append(append(&a, new, 3, vec![])).await.unwrap();
    assert_eq!(store.read(&a, Seq(0), 10).await.unwrap().len(), 3);
}

async fn a_failing_append_fails_alone(store: &impl EventStore) {
    let teams: Vec<TeamId> = (0..8).map(|n| team(&format!("batch-{n}"))).collect();
    let mut epochs = Vec::new();
    for a in &teams {
        epochs.push(begin(store, a).await);
    }
    let appends = teams.iter().zip(&epochs).enumerate().map(|(n, (a, epoch))| {
        store.append(match n {
            2 => append(a, *epoch, 7, vec![sent(1, "a gap")]),
            4 => append(a, *epoch - 1, 2, vec![sent(1, "an old owner")]),
            6 => append(a, *epoch, 2, vec![sent(1, &"x".repeat(APPEND_LIMIT))]),
            _ => append(a, *epoch, 2, vec![sent(1, "fine"), turn_started(1, &[1])]),
        })
    });
    let results = join_all(appends).await;
    for (n, (result, a)) in results.into_iter().zip(&teams).enumerate() {
        let length = store.read(a, Seq(0), 10).await.unwrap().len();
        match n {
            2 => assert!(matches!(result, Err(StoreError::Conflict { .. })), "{result:?}"),
            4 => assert!(matches!(result, Err(StoreError::StaleEpoch { .. })), "{result:?}"),
            6 => assert!(matches!(result, Err(StoreError::TooLarge { .. })), "{result:?}"),
            _ => result.unwrap(),
        }
        assert_eq!(length, if matches!(n, 2 | 4 | 6) { 2 } else { 4 }, "{a}");
    }
}

async fn many_teams_append_at_once(store: &impl EventStore) {
    let teams: Vec<TeamId> = (0..16).map(|n| team(&format!("many-{n}"))).collect();
    let logs = join_all(teams.iter().map(|a| async move {
        let epoch = begin(store, a).await;
        let mut all = recorded(0, "c-0", vec![created(a), spawned()]);
        for n in 0..25 {
            let next = append(a, epoch, 2 + n, vec![sent(n, a.as_str())]);
            all.extend(next.events.iter().cloned());
            store.append(next).await.unwrap();
        }
        all
    }))
    .await;
    for (a, log) in teams.iter().zip(logs) {
        assert_eq!(store.read(a, Seq(0), 100).await.unwrap(), log);
    }
}

async fn the_size_of_an_append_is_capped(store: &impl EventStore) {
    let a = team("size");
    let epoch = begin(store, &a).await;
    let overhead = size(&append(&a, epoch, 2, vec![sent(1, "")]).events);
    let fits = "x".repeat(APPEND_LIMIT - overhead);
    let over = format!("{fits}x");
    let refused = store.append(append(&a, epoch, 2, vec![sent(1, &over)])).await;
    assert!(
        matches!(refused, Err(StoreError::TooLarge { bytes, limit }) if bytes == limit + 1),
        "{refused:?}"
    );
    assert_eq!(store.read(&a, Seq(0), 10).await.unwrap().len(), 2);
    store.append(append(&a, epoch, 2, vec![sent(1, &fits)])).await.unwrap();
    assert_eq!(store.read(&a, Seq(2), 10).await.unwrap().len(), 1);
}

fn size(events: &[Recorded]) -> usize {
    events.iter().map(|event| serde_json::to_vec(event).unwrap().len()).sum()
}

async fn a_reader_does_not_disturb_a_writer(store: &impl EventStore) {
    let a = team("beside");
    let epoch = begin(store, &a).await;
    let read = async {
        let mut seen = 0;
        while seen < 202 {
            let page = store.read(&a, Seq(seen), 7).await.unwrap();
            for event in page {
                assert_eq!(event.seq, Seq(seen + 1));
                seen += 1;
            }
            tokio::task::yield_now().await;
        }
    };
    let write = async {
        for n in 2..202 {
            store.append(append(&a, epoch, n, vec![sent(n, "x")])).await.unwrap();
        }
    };
    futures::join!(read, write);
}

async fn snapshots_are_kept_by_distance(store: &impl EventStore) {
    let a = team("snapshots");
    let epoch = begin(store, &a).await;
    let mut expected = 2;
    for _ in 0..21 {
        let events = (0..200).map(|n| sent(expected + n, "x")).collect();
        store.append(append(&a, epoch, expected, events)).await.unwrap();
        expected += 200;
    }
    let shot = |seq: u64| Snapshot { seq: Seq(seq), state_version: 1, bytes: vec![seq as u8; 9] };
    for seq in [500, 1_500, 2_100, 3_900, 4_001, 4_150] {
        store.keep_snapshot(&a, shot(seq)).await.unwrap();
    }
    store.keep_snapshot(&a, shot(4_100)).await.unwrap();
    let ahead = store.keep_snapshot(&a, shot(expected + 1)).await;
    assert!(matches!(ahead, Err(StoreError::Conflict { .. })), "{ahead:?}");
    assert!(matches!(
        store.keep_snapshot(&team("nobody"), shot(1)).await,
        Err(StoreError::NoTeam(_))
    ));
    for (at, found) in [
        (1_499, None),
        (1_500, Some(1_500)),
        (3_899, Some(1_500)),
        (4_149, Some(3_900)),
        (expected, Some(4_150)),
        (u64::MAX, Some(4_150)),
    ] {
        assert_eq!(store.snapshot_before(&a, Seq(at)).await.unwrap(), found.map(shot), "{at}");
    }
    assert_eq!(store.snapshot_before(&team("nobody"), Seq(9)).await.unwrap(), None);
    let loaded = store.open(&a).await.unwrap();
    assert_eq!(loaded.snapshot, Some(shot(4_150)));
    assert_eq!(loaded.events, store.read(&a, Seq(4_150), usize::MAX).await.unwrap());
    assert_eq!(loaded.events.len() as u64, expected - 4_150);
}

async fn transcripts_are_appended_behind_what_is_there(store: &impl EventStore) {
    let (a, b) = (team("speaks"), team("other"));
    begin(store, &a).await;
    begin(store, &b).await;
    let talk = conversation("talk");
    assert_eq!(store.items(&talk, 0, 10).await.unwrap(), []);
    let large = said(2, &"é".repeat(INLINE_LIMIT));
    let first = vec![said(0, "one"), said(1, "two"), large.clone()];
    store.append_items(&a, &talk, 0, first.clone()).await.unwrap();
    let again = store.append_items(&a, &talk, 0, first.clone()).await;
    assert!(
        matches!(again, Err(StoreError::Conflict { expected: Seq(0), actual: Seq(3), .. })),
        "{again:?}"
    );
    let foreign = store.append_items(&b, &talk, 3, first.clone()).await;
    assert!(matches!(foreign, Err(StoreError::Conflict { .. })), "{foreign:?}");
    let nobody = store.append_items(&team("nobody"), &talk, 3, first.clone()).await;
    assert!(matches!(nobody, Err(StoreError::NoTeam(_))), "{nobody:?}");
    store.append_items(&a, &talk, 3, vec![]).await.unwrap();
    let much = vec![said(3, &"x".repeat(INLINE_LIMIT - 100)); 17];
    let refused = store.append_items(&a, &talk, 3, much).await;
    assert!(matches!(refused, Err(StoreError::TooLarge { .. })), "{refused:?}");
    // The same large content twice is one content, and two items.
    store.append_items(&a, &talk, 3, vec![large.clone(), said(4, "end")]).await.unwrap();
    store.append_items(&a, &conversation("aside"), 0, vec![said(0, "hm")]).await.unwrap();
    let mut all = first;
    all.extend([large, said(4, "end")]);
    assert_eq!(store.items(&talk, 0, usize::MAX).await.unwrap(), all);
    assert_eq!(store.items(&talk, 1, 3).await.unwrap(), all[1..4]);
    assert_eq!(store.items(&talk, 5, 3).await.unwrap(), []);
    assert_eq!(store.items(&conversation("aside"), 0, 9).await.unwrap(), [said(0, "hm")]);
}

async fn rows_and_numbers_follow_the_log(store: &impl EventStore) {
    let a = team("numbers");
    let epoch = begin(store, &a).await;
    let events = vec![
        sent(1, "x"),
        turn_started(1, &[1]),
        sent(2, "y"),
        turn_ended(1, &[1]),
        sent(3, "z"),
        turn_started(2, &[2, 3]),
        turn_ended(2, &[2]),
        // Said twice: counted once.
        turn_ended(2, &[2]),
    ];
    store.append(append(&a, epoch, 2, events)).await.unwrap();
    assert_eq!(
        store.totals(&a).await.unwrap(),
        Totals { turns: 3, messages_accepted: 3, messages_acknowledged: 2, ..Totals::default() }
    );
    let rows = store.teams().await.unwrap();
    let row = rows.iter().find(|row| row.team == a).unwrap();
    assert_eq!((row.name.as_str(), row.owner.as_str()), ("name of numbers", "ann"));
    assert_eq!((row.workspace.as_str(), row.solo, row.ended), ("/w", false, false));
    assert_eq!((row.members, row.messages_open, row.seq), (2, 1, Seq(10)));
    assert!(row.updated_wall_ms > 0);
    assert!(rows.is_sorted_by(|a, b| a.name <= b.name));
}

async fn every_message_has_a_state_in_every_mailbox(store: &impl EventStore) {
    let a = team("mailboxes");
    let epoch = begin(store, &a).await;
    let lead = SlotId::LEAD;
    let Event::MessageSent { message, held, key, .. } = sent(1, "to all") else { unreachable!() };
    let both = Event::MessageSent { message, recipients: vec![MATE, lead], held, key };
    let dead = Event::MessageDeadLettered {
        message: MessageId(1),
        slot: lead,
        reason: DeadLetterReason::RecipientGone,
    };
    let first = vec![both, turn_started(1, &[1]), dead, turn_ended(1, &[1])];
    store.append(append(&a, epoch, 2, first)).await.unwrap();
    // Far enough behind that the first one is found over many others.
    let many = (2..400).map(|n| sent(n, "")).collect();
    store.append(append(&a, epoch, 6, many)).await.unwrap();
    store.append(append(&a, epoch, 404, vec![turn_started(2, &[399])])).await.unwrap();
    let asked = [Seq(404), Seq(3), Seq(1), Seq(9_000), Seq(70), Seq(0)];
    let found = store.deliveries(&a, &asked).await.unwrap();
    let mate = |state| vec![(MATE, state)];
    assert_eq!(found[0], mate(MessageState::Delivered));
    assert_eq!(found[1], [(lead, MessageState::Dead), (MATE, MessageState::Acknowledged)]);
    assert_eq!(found[2..4], [vec![], vec![]], "an event that accepted nothing, and none");
    assert_eq!(found[4..], [mate(MessageState::Queued), vec![]]);
    assert!(matches!(store.deliveries(&team("nobody"), &[]).await, Err(StoreError::NoTeam(_))));
}

async fn what_is_erased_is_gone(store: &impl EventStore) {
    let (a, talk) = (team("erased"), conversation("secret"));
    let epoch = begin(store, &a).await;
    let large = said(0, &"x".repeat(2 * INLINE_LIMIT));
    store.append_items(&a, &talk, 0, vec![large, said(1, "y")]).await.unwrap();
    let snapshot = Snapshot { seq: Seq(2), state_version: 1, bytes: vec![1] };
    store.keep_snapshot(&a, snapshot).await.unwrap();
    store.erase(&a).await.unwrap();
    assert!(matches!(store.read(&a, Seq(0), 9).await, Err(StoreError::NoTeam(_))));
    assert_eq!(store.items(&talk, 0, 9).await.unwrap(), []);
    assert_eq!(store.snapshot_before(&a, Seq(9)).await.unwrap(), None);
    assert!(store.teams().await.unwrap().iter().all(|row| row.team != a));
    // Whoever had it open before is not the owner of a team that is made anew.
    let new = store.open(&a).await.unwrap();
    assert_eq!((new.events.len(), new.snapshot), (0, None));
    assert!(new.epoch > epoch);
    let fenced = store.append(append(&a, epoch, 0, vec![created(&a)])).await;
    assert!(matches!(fenced, Err(StoreError::StaleEpoch { .. })), "{fenced:?}");
    store.append(append(&a, new.epoch, 0, vec![created(&a)])).await.unwrap();
    store.append_items(&a, &talk, 0, vec![said(0, "again")]).await.unwrap();
    assert_eq!(store.items(&talk, 0, 9).await.unwrap(), [said(0, "again")]);
}

/// An append whose commit is unknown: the caller reloads and looks for its command. `arm` makes
/// the next append of the store unknown.
pub(crate) async fn check_unknown(store: &impl EventStore, arm: impl Fn(), applied: bool) {
    let a = team("unknown-commit");
    let epoch = begin(store, &a).await;
    arm();
    let unknown = store.append(append(&a, epoch, 2, vec![sent(1, "x")])).await;
    assert!(matches!(unknown, Err(StoreError::Unknown(_))), "{unknown:?}");
    let loaded = store.open(&a).await.unwrap();
    let command = CommandId::new("c-2").unwrap();
    let found = loaded.events.iter().any(|event| event.command_id == command);
    assert_eq!(found, applied);
    let seq = loaded.events.len() as u64;
    assert_eq!(seq, if applied { 3 } else { 2 });
    store.append(append(&a, loaded.epoch, seq, vec![sent(2, "y")])).await.unwrap();
    assert_eq!(store.read(&a, Seq(0), 9).await.unwrap().len() as u64, seq + 1);
}

/// The team of [`check_unknown`] after everything was closed and opened again.
pub(crate) async fn check_intact(store: &impl EventStore) {
    let a = team("unknown-commit");
    let loaded = store.open(&a).await.unwrap();
    let accepted = store.totals(&a).await.unwrap().messages_accepted;
    assert_eq!(loaded.events.len() as u64, 2 + accepted);
}
