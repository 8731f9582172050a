//! Members and teams coming, failing, being held and going on.

use std::collections::{BTreeMap, BTreeSet};

use aion_core::agent::{AgentState, Hold, TeamHold};
use aion_core::message::Recipient;
use aion_core::team::{Progress, Reason, Status, TimerReason};
use aion_core::time::Millis;
use aion_core::turn::TurnOutcome;
use aion_core::{Caller, Command, Effect, Event, Rejection};

use crate::world::{ANN, LEAD, USER, World, names, spec, task, text};

fn exited(generation: u32) -> Command {
    Command::AgentExited { slot: ANN, generation, cause: "panicked".to_owned() }
}

fn ready(generation: u32) -> Command {
    Command::AgentReady { slot: ANN, generation }
}

#[test]
fn registration_is_spawning_and_the_handshake_makes_it_idle() {
    let mut w = World::new();
    w.ok(USER, &Command::SpawnAgent { member: Box::new(spec("carol")) });
    let slot = w.team.agent_named("carol").unwrap().slot();
    assert_eq!(w.team.status(slot), Some((Status::Pending, Reason::Starting)));
    assert!(w.team.outstanding().contains(&Effect::Spawn { slot, generation: 1 }));
    w.say(USER, slot, "first job");
    assert!(!w.is_active(slot));
    let events = w.ok(Caller::System, &Command::AgentReady { slot, generation: 1 });
    assert_eq!(names(&events), ["agent_ready", "turn_started"]);
}

#[test]
fn a_crash_is_restarted_with_growing_pauses_three_times_and_then_reported() {
    let mut w = World::new();
    let id = w.say(USER, ANN, "job");
    let events = w.ok(Caller::System, &exited(1));
    assert!(names(&events).contains(&"agent_restarting"), "the first restart is at once");
    assert_eq!(w.ok(Caller::System, &exited(1)), [], "an older start does not count");
    w.ok(Caller::System, &ready(2));
    w.wait(Millis::seconds(2));
    w.ok(Caller::System, &exited(2));
    assert_eq!(w.team.poll_timeout().map(|(_, reason)| reason), Some(TimerReason::Restart));
    w.wait(Millis::seconds(1));
    w.ok(Caller::System, &ready(3));
    w.ok(Caller::System, &exited(3));
    w.wait(Millis::seconds(2));
    w.ok(Caller::System, &ready(4));
    w.ok(Caller::System, &exited(4));
    assert_eq!(w.team.status(ANN), Some((Status::Failed, Reason::Stalled)));
    assert!(w.is_active(LEAD), "the lead is told");
    assert!(w.team.message(id).is_none() || w.unread(ANN) == 1);
    w.ok(USER, &Command::RestartAgent { slot: ANN });
    w.ok(Caller::System, &ready(5));
    assert_eq!(w.no(USER, &Command::RestartAgent { slot: ANN }).code(), "wrong_state");
}

#[test]
fn a_member_that_never_was_ready_fails_at_once_with_the_reason() {
    let mut w = World::new();
    w.ok(USER, &Command::SpawnAgent { member: Box::new(spec("carol")) });
    let slot = w.team.agent_named("carol").unwrap().slot();
    let cause = "handshake: not installed".to_owned();
    w.ok(Caller::System, &Command::AgentExited { slot, generation: 1, cause });
    assert_eq!(w.team.status(slot), Some((Status::Failed, Reason::Stalled)));
}

#[test]
fn a_lead_past_its_limit_holds_the_team_and_its_restart_frees_it() {
    let mut w = World::new();
    w.wake(ANN);
    for generation in 1..=4 {
        w.ok(
            Caller::System,
            &Command::AgentExited { slot: LEAD, generation, cause: "dead".to_owned() },
        );
        w.wait(Millis::seconds(10));
        if generation < 4 {
            let generation = generation + 1;
            w.ok(Caller::System, &Command::AgentReady { slot: LEAD, generation });
        }
    }
    assert_eq!(w.team.holds().next(), Some(TeamHold::LeadDown));
    assert!(w.is_active(ANN), "teammates finish their turn");
    w.say(USER, ANN, "more");
    w.end(ANN);
    assert!(!w.is_active(ANN));
    assert!(matches!(w.team.progress(), Progress::Waiting { .. }));
    w.ok(USER, &Command::ResumeTeam);
    assert!(w.is_active(ANN));
    w.ok(Caller::System, &Command::AgentReady { slot: LEAD, generation: 5 });
    assert_eq!(w.team.holds().next(), None);
}

#[test]
fn a_held_member_gets_mail_and_starts_no_turn() {
    let mut w = World::new();
    w.ok(USER, &Command::PauseAgent { slot: ANN });
    assert_eq!(w.no(Caller::Agent(LEAD), &Command::PauseAgent { slot: ANN }).code(), "not_allowed");
    w.say(USER, ANN, "later");
    assert!(!w.is_active(ANN));
    assert_eq!(w.team.status(ANN), Some((Status::Idle, Reason::Held)));
    assert_eq!(w.team.agent(ANN).unwrap().holds().next(), Some(Hold::User));
    w.ok(USER, &Command::ResumeAgent { slot: ANN });
    assert!(w.is_active(ANN));
}

#[test]
fn pausing_stopping_and_resuming_a_team() {
    let mut w = World::new();
    w.wake(ANN);
    w.ok(USER, &Command::PauseTeam);
    w.ok(USER, &text(Recipient::Lead, "hello"));
    assert!(!w.is_active(LEAD) && w.is_active(ANN));
    w.ok(USER, &Command::ResumeTeam);
    assert!(w.is_active(LEAD));
    let events = w.ok(USER, &Command::StopTeam);
    assert_eq!(names(&events), ["team_held", "interrupt_requested", "interrupt_requested"]);
    w.end_as(ANN, TurnOutcome::Interrupted);
    w.end_as(LEAD, TurnOutcome::Interrupted);
    assert!(!matches!(w.team.progress(), Progress::Working));
    w.ok(USER, &Command::ResumeTeam);
}

#[test]
fn after_a_long_downtime_a_team_waits_for_one_resume() {
    for (cap, downtime, waits) in [
        (false, Millis::minutes(9), false),
        (false, Millis::minutes(11), true),
        (true, Millis::minutes(59), false),
        (true, Millis::minutes(61), true),
    ] {
        let mut w = World::with(|s| s.cap = cap.then(aion_core::budget::Cap::default));
        w.wake(ANN);
        let opened = Command::Opened {
            downtime_ms: downtime.0,
            resumable: BTreeSet::new(),
            detached: BTreeMap::new(),
        };
        w.ok(Caller::System, &opened);
        assert_eq!(!w.is_active(ANN), waits, "{downtime:?}, cap {cap}");
        w.ok(USER, &Command::ResumeTeam);
        assert!(w.is_active(ANN));
    }
}

#[test]
fn a_turn_that_goes_on_outside_is_waited_for_and_then_lost() {
    let mut w = World::new();
    let turn = w.wake(ANN);
    let detached: BTreeMap<_, _> = [(turn, Millis::seconds(30))].into();
    let opened = Command::Opened { downtime_ms: 5, resumable: BTreeSet::new(), detached };
    w.ok(Caller::System, &opened);
    assert_eq!(w.team.outstanding(), []);
    assert_eq!(w.team.status(ANN), Some((Status::Active, Reason::Stalled)));
    w.wait(Millis::seconds(29));
    assert_eq!(w.turn(ANN), turn);
    w.wait(Millis::seconds(1));
    assert_ne!(w.turn(ANN), turn, "its mail is given again");
}

#[test]
fn what_is_outstanding_follows_from_the_log_alone() {
    let mut w = World::new();
    w.wake(ANN);
    w.ok(USER, &Command::Interrupt { slot: ANN });
    w.ok(USER, &Command::SpawnAgent { member: Box::new(spec("carol")) });
    assert_eq!(w.replayed().outstanding(), w.team.outstanding());
    assert_eq!(w.team.outstanding().len(), 3);
}

#[test]
fn a_team_is_settled_when_nothing_is_left_to_do() {
    let mut w = World::new();
    assert_eq!(w.team.progress(), Progress::Settled { all_tasks_completed: true });
    w.ok(USER, &task("a", &[]));
    w.ok(USER, &text(Recipient::Lead, "go"));
    assert_eq!(w.team.progress(), Progress::Working);
    w.settle();
    assert_eq!(w.team.progress(), Progress::Settled { all_tasks_completed: false });
    w.ok(Caller::Agent(ANN), &Command::AskUser { text: "?".to_owned(), options: vec![] });
    assert_eq!(
        w.team.progress(),
        Progress::Waiting { requests: vec![w.open_request()], held: vec![] }
    );
}

#[test]
fn a_renamed_member_keeps_its_slot_and_names_never_look_alike() {
    let mut w = World::new();
    let rename = |name: &str| Command::RenameAgent {
        slot: ANN,
        name: aion_core::id::AgentName::parse(name).unwrap(),
        label: None,
    };
    assert_eq!(w.no(USER, &rename("b0b")).code(), "name_taken");
    assert_eq!(w.no(Caller::Agent(ANN), &rename("anna")).code(), "not_allowed");
    w.ok(Caller::Agent(LEAD), &rename("anna"));
    assert_eq!(w.team.agent_named("anna").unwrap().slot(), ANN);
    w.say(USER, ANN, "still you");
}

#[test]
fn facts_of_foreign_members_are_recorded_even_where_they_break_a_rule() {
    use aion_core::command::Fact;
    let mut w = World::new();
    let said = Fact::Sent { slot: ANN, to: Recipient::Lead, text: "hi".to_owned() };
    let events = w.ok(Caller::System, &Command::Observe(Box::new(said)));
    assert_eq!(names(&events), ["fact_observed", "message_sent", "turn_started"]);
    let broken = Fact::Sent { slot: ANN, to: Recipient::Agent(ANN), text: "hi".to_owned() };
    let events = w.ok(Caller::System, &Command::Observe(Box::new(broken.clone())));
    assert_eq!(
        events,
        [Event::FactObserved { fact: broken.clone(), conflict: Some("to_self".to_owned()) }]
    );
    assert_eq!(w.no(USER, &Command::Observe(Box::new(broken))).code(), "not_allowed");
}

#[test]
fn stale_reports_are_refused() {
    let mut w = World::new();
    let stale = w.no(Caller::System, &ready(7));
    assert_eq!(stale, Rejection::StaleGeneration { slot: ANN, current: 1 });
}

#[test]
fn any_command_is_done_once_per_key() {
    let mut w = World::new();
    let keyed = Command::Keyed { key: "k".to_owned(), command: Box::new(task("a", &[])) };
    w.ok(USER, &keyed);
    let receipt = w.team.receipt(w.now, USER, &keyed).unwrap();
    assert_eq!(receipt.task, Some(aion_core::id::TaskId(1)));
    assert_eq!(w.ok(USER, &keyed), []);
    assert_eq!(w.team.board().open().len(), 1);
}

#[test]
fn a_polite_stop_that_does_not_end_can_be_made_a_kill() {
    let mut w = World::new();
    w.wake(ANN);
    w.ok(Caller::Agent(LEAD), &Command::RequestShutdown { slot: ANN, reason: None });
    let request = w.open_request();
    let yes = Command::Decide { request, decision: aion_core::request::Decision::ApproveShutdown };
    w.ok(Caller::Agent(ANN), &yes);
    let keys = |w: &World| -> Vec<String> {
        w.team.outstanding().iter().map(|e| e.key().to_string()).collect()
    };
    assert!(keys(&w).contains(&"stop:s2:1".to_owned()), "{:?}", keys(&w));
    w.ok(USER, &Command::KillAgent { slot: ANN });
    assert!(keys(&w).contains(&"kill:s2:1".to_owned()), "{:?}", keys(&w));
    assert_eq!(w.ok(USER, &Command::KillAgent { slot: ANN }), []);
}

#[test]
fn a_member_that_leaves_after_its_turn_is_interrupted_like_any_other() {
    let mut w = World::new();
    w.wake(ANN);
    w.ok(Caller::Agent(LEAD), &Command::RequestShutdown { slot: ANN, reason: None });
    let request = w.open_request();
    let yes = Command::Decide { request, decision: aion_core::request::Decision::ApproveShutdown };
    w.ok(Caller::Agent(ANN), &yes);
    assert!(matches!(w.team.agent(ANN).unwrap().state(), AgentState::Stopping { .. }));
    let events = w.ok(USER, &Command::StopTeam);
    assert!(
        events.iter().any(|e| matches!(e, Event::InterruptRequested { slot: ANN, .. })),
        "{events:?}"
    );
}
