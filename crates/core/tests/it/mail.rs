//! Mail: exactly one home, order, wake, delivery in the middle of a turn, and what a turn's end does.

use aion_core::agent::Hold;
use aion_core::command::SendMessage;
use aion_core::event::DeadLetterReason;
use aion_core::id::{MessageId, SlotId};
use aion_core::mailbox::Place;
use aion_core::message::{Body, Envelope, ProtocolMessage, Recipient, Sender, Urgency};
use aion_core::time::{Millis, Timestamp};
use aion_core::turn::{TurnOutcome, Unavailable};
use aion_core::{Caller, Command, Event, Rejection};

use crate::world::{ANN, BOB, LEAD, USER, World, names, sent, text};

fn fault() -> TurnOutcome {
    TurnOutcome::AgentFault { error: "boom".to_owned() }
}

#[test]
fn a_message_to_an_idle_member_starts_its_turn_in_the_same_commit() {
    let mut w = World::new();
    let events = w.ok(USER, &text(Recipient::Lead, "build it"));
    assert_eq!(names(&events), ["message_sent", "turn_started"]);
    let turn = w.team.lead().unwrap().turn().unwrap();
    assert_eq!(turn.mail().keys().copied().collect::<Vec<_>>(), [MessageId(1)]);
}

#[test]
fn mail_for_a_busy_member_waits_and_comes_as_one_batch_in_order() {
    let mut w = World::new();
    w.wake(ANN);
    let waiting: Vec<MessageId> = (0..3).map(|n| w.say(USER, ANN, &format!("n{n}"))).collect();
    let events = w.end(ANN);
    let batch = events.iter().find_map(|e| match e {
        Event::TurnStarted { slot, batch, .. } if *slot == ANN => Some(batch.clone()),
        _ => None,
    });
    assert_eq!(batch, Some(waiting));
}

#[test]
fn mail_is_read_between_two_steps_and_only_then_counts_as_delivered() {
    let mut w = World::new();
    let turn = w.wake(ANN);
    let late = w.say(USER, ANN, "one more thing");
    let take = Command::TakeMail { turn, step: 2 };
    let events = w.ok(Caller::Agent(ANN), &take);
    assert_eq!(events, [Event::MessageDelivered { message: late, slot: ANN, turn, step: 2 }]);
    assert_eq!(w.ok(Caller::Agent(ANN), &take), []);
    w.ok(Caller::System, &Command::ReturnMail { turn, messages: vec![late] });
    assert_eq!(w.unread(ANN), 1);
    assert_eq!(w.team.agent(ANN).unwrap().mailbox().entries()[&late].attempts(), 0);
}

#[test]
fn done_and_interrupted_acknowledge_and_the_state_forgets_the_mail() {
    for outcome in [TurnOutcome::Done { last_text: None }, TurnOutcome::Interrupted] {
        let mut w = World::new();
        let id = w.say(USER, ANN, "hello");
        w.end_as(ANN, outcome);
        assert!(w.team.message(id).is_none());
        assert!(w.team.agent(ANN).unwrap().mailbox().is_empty());
    }
}

#[test]
fn a_provider_outage_of_ten_minutes_dead_letters_nothing_and_makes_no_empty_turns() {
    let mut w = World::new();
    let id = w.say(USER, ANN, "hello");
    let end = w.now + Millis::minutes(10);
    let mut turns = 1;
    while w.now < end {
        let until = Some(w.now + Millis::seconds(30));
        let why = Unavailable::Provider;
        w.end_as(ANN, TurnOutcome::Unavailable { why, until, said: None });
        assert!(!w.is_active(ANN));
        assert_eq!(w.team.agent(ANN).unwrap().holds().next(), Some(Hold::Provider { until }));
        assert_eq!(w.team.poll_timeout().map(|(at, _)| at), until);
        w.wait(Millis::seconds(30));
        turns += 1;
        assert_eq!(w.team.agent(ANN).unwrap().mailbox().entries()[&id].attempts(), 0);
    }
    assert_eq!(turns, 21);
    w.settle();
    assert!(w.team.message(id).is_none());
    assert!(!w.log.iter().any(|(_, e)| matches!(e, Event::MessageDeadLettered { .. })));
}

#[test]
fn a_lost_turn_requeues_uncounted_and_says_so() {
    let mut w = World::new();
    let id = w.say(USER, ANN, "hello");
    for _ in 0..5 {
        w.crash(false);
        let entry = &w.team.agent(ANN).unwrap().mailbox().entries()[&id];
        assert_eq!((entry.attempts(), entry.redelivered()), (0, true));
        assert_eq!(entry.place(), Place::InTurn(w.turn(ANN)));
    }
}

#[test]
fn after_the_third_fault_the_message_is_dead_and_sender_and_lead_are_told() {
    let mut w = World::new();
    w.wake(ANN);
    let first = w.say(Caller::Agent(BOB), ANN, "poison");
    let second = w.say(Caller::Agent(BOB), ANN, "fine");
    w.end(ANN);
    let batch = |w: &World| w.team.agent(ANN).unwrap().turn().unwrap().mail().len();
    assert_eq!(batch(&w), 2);
    w.end_as(ANN, fault());
    assert!(!w.is_active(ANN), "a failed turn is repeated only after a pause");
    w.wait(Millis::seconds(2));
    assert_eq!(batch(&w), 1, "from the second attempt messages go alone");
    w.end_as(ANN, fault());
    w.wait(Millis::seconds(4));
    let events = w.end_as(ANN, fault());
    let dead: Vec<_> = events
        .iter()
        .filter_map(|e| match e {
            Event::MessageDeadLettered { message, reason, .. } => Some((*message, reason.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(dead, [(first, DeadLetterReason::Attempts { error: "boom".to_owned() })]);
    let told: Vec<Vec<SlotId>> = sent(&events)
        .into_iter()
        .filter(|(_, _, kind)| *kind == "text")
        .map(|(_, to, _)| to)
        .collect();
    assert_eq!(told, [vec![BOB], vec![LEAD]]);
    assert!(w.team.message(second).is_some());
}

#[test]
fn the_leads_own_dead_letters_go_to_the_person() {
    let mut w = World::new();
    w.say(Caller::Agent(ANN), LEAD, "poison");
    for pause in [2, 4, 8] {
        w.end_as(LEAD, fault());
        w.wait(Millis::seconds(pause));
    }
    let told = w.log.iter().any(|(_, e)| {
        matches!(e, Event::MessageSent { message, recipients, .. }
            if message.to == Recipient::User && message.from == Sender::System && recipients.is_empty())
    });
    assert!(told);
}

#[test]
fn what_was_given_up_is_sent_again_in_its_writers_name_and_only_by_the_person() {
    let mut w = World::new();
    let id = w.say(Caller::Agent(BOB), ANN, "poison");
    let message = Box::new(w.team.message(id).unwrap().clone());
    let again = Command::SendAgain { slot: ANN, message: message.clone() };
    let refused = w.no(USER, &again);
    assert_eq!(refused.code(), "wrong_state", "it is still on its way: {refused}");
    for pause in [2, 4, 8] {
        w.end_as(ANN, fault());
        w.wait(Millis::seconds(pause));
    }
    assert!(w.team.message(id).is_none());
    for caller in [Caller::Agent(BOB), Caller::Agent(LEAD)] {
        assert_eq!(w.no(caller, &again).code(), "not_allowed", "{caller:?}");
    }
    let events = w.ok(USER, &again);
    let Some(Event::MessageSent { message: sent, recipients, .. }) = events.first() else {
        panic!("{events:?}")
    };
    assert_eq!((sent.from, sent.again, &sent.body), (Sender::Agent(BOB), Some(id), &message.body));
    assert_eq!(recipients, &[ANN]);
    w.settle();
    assert!(w.team.message(sent.id).is_none(), "it was read this time");
    // To somebody else, too; never a notice, whose meaning was of its moment.
    w.ok(USER, &Command::SendAgain { slot: LEAD, message: message.clone() });
    let kind =
        ProtocolMessage::TeamPermissionUpdate { tool: "Bash".to_owned(), rule: "x".to_owned() };
    let notice = Envelope { body: Body::Protocol(kind), ..*message };
    let refused = w.no(USER, &Command::SendAgain { slot: ANN, message: Box::new(notice) });
    assert_eq!(refused.code(), "not_allowed");
}

#[test]
fn a_broadcast_reaches_each_other_member_once_and_no_later_one() {
    let mut w = World::new();
    let events = w.ok(Caller::Agent(ANN), &text(Recipient::Everyone, "all"));
    assert_eq!(sent(&events)[0].1, [LEAD, BOB]);
    w.ok(USER, &Command::SpawnAgent { member: Box::new(crate::world::spec("carol")) });
    assert!(w.team.agent(SlotId(4)).unwrap().mailbox().is_empty());
}

#[test]
fn a_key_makes_a_message_once_and_never_another() {
    let mut w = World::new();
    let keyed = |words: &str| {
        let mut message = match text(Recipient::Agent(ANN), words) {
            Command::SendMessage(message) => message,
            other => panic!("{other:?}"),
        };
        message.key = Some("k1".to_owned());
        Command::SendMessage(message)
    };
    assert!(w.team.receipt(w.now, Caller::Agent(BOB), &keyed("one")).is_none());
    let id = sent(&w.ok(Caller::Agent(BOB), &keyed("one")))[0].0;
    let receipt = w.team.receipt(w.now, Caller::Agent(BOB), &keyed("one")).unwrap();
    assert_eq!(receipt.message, Some(id));
    assert_eq!(w.ok(Caller::Agent(BOB), &keyed("one")), [], "decided again it makes nothing");
    assert_eq!(w.no(Caller::Agent(BOB), &keyed("two")), Rejection::KeyReused);
    assert_eq!(sent(&w.ok(Caller::Agent(LEAD), &keyed("two"))).len(), 1, "keys are per sender");
    w.now = w.now + Millis::hours(25);
    assert_eq!(sent(&w.ok(Caller::Agent(BOB), &keyed("two"))).len(), 1, "a day later it is free");
}

#[test]
fn a_full_mailbox_a_long_message_and_a_fast_sender_are_refused_by_name() {
    let mut w = World::with(|s| {
        s.limits.unread = 2;
        s.limits.messages_per_minute = 4;
    });
    w.wake(ANN);
    w.say(USER, ANN, "1");
    w.say(USER, ANN, "2");
    let full = w.no(Caller::Agent(BOB), &text(Recipient::Agent(ANN), "3"));
    assert_eq!(full.code(), "inbox_full");
    let long = w.no(USER, &text(Recipient::Lead, &"x".repeat(64 * 1024 + 1)));
    assert_eq!(long, Rejection::Limit { limit: "message_bytes", allowed: 65_536, asked: 65_537 });
    w.ok(USER, &text(Recipient::Lead, &"x".repeat(64 * 1024)));
    for n in 0..4 {
        w.ok(Caller::Agent(BOB), &text(Recipient::User, &format!("{n}")));
    }
    let fast = w.no(Caller::Agent(BOB), &text(Recipient::User, "5"));
    assert_eq!(fast.code(), "limit");
    w.wait(Millis::seconds(15));
    w.ok(Caller::Agent(BOB), &text(Recipient::User, "5"));
}

#[test]
fn queued_mail_waits_for_another_reason_and_interrupts_are_for_user_and_lead() {
    let mut w = World::new();
    let with = |urgency| {
        Command::SendMessage(Box::new(SendMessage {
            to: Recipient::Agent(ANN),
            text: "x".to_owned(),
            summary: None,
            urgency,
            files: Vec::new(),
            key: None,
        }))
    };
    w.ok(Caller::Agent(BOB), &with(Urgency::Queue));
    assert!(!w.is_active(ANN));
    assert_eq!(w.no(Caller::Agent(BOB), &with(Urgency::Interrupt)).code(), "not_allowed");
    w.ok(Caller::Agent(LEAD), &with(Urgency::Wake));
    assert_eq!(w.team.agent(ANN).unwrap().turn().unwrap().mail().len(), 2);
    let events = w.ok(Caller::Agent(LEAD), &with(Urgency::Interrupt));
    assert_eq!(names(&events), ["message_sent", "interrupt_requested"]);
    w.end_as(ANN, TurnOutcome::Interrupted);
    assert_eq!(w.team.agent(ANN).unwrap().turn().unwrap().mail().len(), 1);
}

#[test]
fn an_interrupt_of_the_lead_leaves_the_teammates_working() {
    let mut w = World::new();
    w.wake(LEAD);
    w.wake(ANN);
    w.ok(USER, &Command::Interrupt { slot: LEAD });
    w.end_as(LEAD, TurnOutcome::Interrupted);
    assert!(!w.is_active(LEAD));
    assert!(w.is_active(ANN));
    assert!(w.team.agent(ANN).unwrap().turn().unwrap().interrupted_by().is_none());
}

#[test]
fn notices_come_as_one_digest_when_all_teammates_are_settled() {
    let mut w = World::new();
    w.wake(ANN);
    w.wake(BOB);
    w.end(ANN);
    assert!(!w.is_active(LEAD), "Bob still works");
    w.end(BOB);
    assert_eq!(w.team.lead().unwrap().turn().unwrap().mail().len(), 2);
    w.end(LEAD);
    assert!(!w.is_active(LEAD), "the digest is read once");
}

#[test]
fn notices_do_not_wait_longer_than_a_minute_and_a_newer_one_takes_the_place_of_an_older() {
    let mut w = World::new();
    w.wake(BOB);
    w.wake(ANN);
    w.end(ANN);
    w.wake(ANN);
    let events = w.end(ANN);
    assert!(names(&events).contains(&"message_superseded"));
    w.wait(Millis::seconds(59));
    assert!(!w.is_active(LEAD));
    w.wait(Millis::seconds(1));
    assert_eq!(w.team.lead().unwrap().turn().unwrap().mail().len(), 1);
}

#[test]
fn two_members_that_get_nowhere_are_held_and_a_word_of_the_person_frees_them() {
    let mut w = World::with(|s| {
        s.limits.messages_per_minute = 0;
        s.auto_claim = false;
    });
    w.say(Caller::Agent(ANN), BOB, "ping");
    let mut turns = 0;
    while w.is_active(ANN) || w.is_active(BOB) {
        let (from, to) = if w.is_active(BOB) { (BOB, ANN) } else { (ANN, BOB) };
        w.say(Caller::Agent(from), to, "pong");
        w.end(from);
        if w.is_active(LEAD) {
            w.end(LEAD);
        }
        turns += 1;
        assert!(turns < 50, "nothing stops them");
    }
    assert_eq!(w.team.agent(ANN).unwrap().holds().next(), Some(Hold::NoProgress));
    assert!(turns >= 12);
    w.say(USER, LEAD, "look at them");
    assert!(w.is_active(ANN) || w.is_active(BOB), "what waited goes on");
}

#[test]
fn a_removed_member_gets_no_mail_and_its_undelivered_mail_is_returned_by_name() {
    let mut w = World::new();
    w.wake(BOB);
    let lost = w.say(Caller::Agent(ANN), BOB, "are you there?");
    w.ok(USER, &Command::KillAgent { slot: BOB });
    let exited = Command::AgentExited { slot: BOB, generation: 1, cause: "killed".to_owned() };
    let events = w.ok(Caller::System, &exited);
    assert!(events.contains(&Event::MessageDeadLettered {
        message: lost,
        slot: BOB,
        reason: DeadLetterReason::RecipientGone,
    }));
    assert!(w.is_active(ANN), "Ann is told");
    assert_eq!(
        w.no(USER, &text(Recipient::Agent(BOB), "?")),
        Rejection::RecipientGone { slot: BOB }
    );
    assert_eq!(w.no(USER, &text(Recipient::Agent(SlotId(9)), "?")).code(), "unknown_agent");
}

#[test]
fn time_that_runs_backwards_changes_nothing() {
    let mut w = World::new();
    w.wake(ANN);
    w.end(ANN);
    let before = w.team.now_floor();
    w.now = Timestamp(0);
    let events = w.team.clone().handle(w.now, USER, &text(Recipient::Lead, "hi")).unwrap();
    let at = events.iter().find_map(|e| match e {
        Event::MessageSent { message, .. } => Some(message.sent_at),
        _ => None,
    });
    assert_eq!(at, Some(before));
}

#[test]
fn replaced_plans_and_assignments_leave_one_message_and_the_person_is_never_shut_out() {
    let mut w = World::with(|s| {
        s.auto_claim = false;
        s.limits.unread = 5;
        s.limits.messages_per_minute = 10;
    });
    w.ok(USER, &Command::PauseAgent { slot: LEAD });
    w.ok(USER, &Command::PauseAgent { slot: ANN });
    for n in 0..8 {
        w.ok(Caller::Agent(BOB), &Command::SubmitPlan { text: format!("version {n}") });
    }
    assert_eq!(w.unread(LEAD), 1);
    w.ok(Caller::Agent(BOB), &Command::SubmitPlan { text: "9".to_owned() });
    w.ok(Caller::Agent(BOB), &Command::SubmitPlan { text: "10".to_owned() });
    let flood = Command::SubmitPlan { text: "11".to_owned() };
    assert_eq!(w.no(Caller::Agent(BOB), &flood).code(), "limit");
    w.ok(USER, &crate::world::task("t", &[]));
    for _ in 0..10 {
        for slot in [ANN, BOB] {
            let change =
                aion_core::task::TaskChange { owner: Some(Some(slot)), ..Default::default() };
            let task = aion_core::id::TaskId(1);
            w.ok(USER, &Command::UpdateTask { task, change: Box::new(change), version: None });
            if w.is_active(BOB) {
                w.end(BOB);
            }
        }
    }
    assert!(w.unread(ANN) <= 1, "{}", w.unread(ANN));
    for n in 0..3 {
        w.say(Caller::Agent(ANN), LEAD, &format!("{n}"));
    }
    assert_eq!(w.no(Caller::Agent(ANN), &text(Recipient::Lead, "5")).code(), "inbox_full");
    w.say(USER, LEAD, "I am heard");
}

#[test]
fn a_text_answer_keeps_its_key() {
    let mut w = World::new();
    let answer = Command::SendMessage(Box::new(SendMessage {
        to: Recipient::Lead,
        text: "shutdown_rejected: busy".to_owned(),
        summary: None,
        urgency: Urgency::Wake,
        files: Vec::new(),
        key: Some("k".to_owned()),
    }));
    let ask = Command::RequestShutdown { slot: ANN, reason: None };
    w.ok(Caller::Agent(LEAD), &ask);
    let first = w.open_request();
    w.ok(Caller::Agent(ANN), &answer);
    let receipt = w.team.receipt(w.now, Caller::Agent(ANN), &answer).unwrap();
    assert_eq!(receipt.request, Some(first));
    w.ok(Caller::Agent(LEAD), &ask);
    assert_eq!(w.ok(Caller::Agent(ANN), &answer), [], "one send, one decision");
}

#[test]
fn mail_of_a_failed_member_is_not_settled() {
    let mut w = World::new();
    for generation in 1..=4 {
        let exited = Command::AgentExited { slot: ANN, generation, cause: "dead".to_owned() };
        w.ok(Caller::System, &exited);
        w.wait(Millis::seconds(5));
        if generation < 4 {
            let generation = generation + 1;
            w.ok(Caller::System, &Command::AgentReady { slot: ANN, generation });
        }
    }
    w.settle();
    w.say(USER, ANN, "are you there?");
    w.settle();
    assert_eq!(
        w.team.progress(),
        aion_core::team::Progress::Waiting { requests: vec![], held: vec![ANN] }
    );
}

#[test]
fn a_pause_of_no_time_is_a_pause() {
    let mut w = World::new();
    w.wake(ANN);
    let until = Some(w.now);
    w.end_as(ANN, TurnOutcome::Unavailable { why: Unavailable::RateLimit, until, said: None });
    assert!(!w.is_active(ANN));
}
