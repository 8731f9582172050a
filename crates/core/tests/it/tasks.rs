//! The task board: claims, dependencies, offers and assignments.

use aion_core::id::{SlotId, TaskId};
use aion_core::task::{TaskChange, TaskRefusal, TaskStatus};
use aion_core::turn::TurnOutcome;
use aion_core::{Caller, Command, Event, Rejection};

use crate::world::{ANN, BOB, LEAD, USER, World, protocol, sent, task};

fn change(task: u32, change: TaskChange) -> Command {
    Command::UpdateTask { task: TaskId(task), change: Box::new(change), version: None }
}

fn status(task: u32, status: TaskStatus) -> Command {
    change(task, TaskChange { status: Some(status), ..TaskChange::default() })
}

fn owner(task: u32, owner: SlotId) -> Command {
    change(task, TaskChange { owner: Some(Some(owner)), ..TaskChange::default() })
}

fn claim(task: u32) -> Command {
    Command::ClaimTask { task: TaskId(task), version: None }
}

#[test]
fn of_two_claims_one_wins() {
    let mut w = World::new();
    w.ok(USER, &task("a", &[]));
    w.ok(Caller::Agent(ANN), &claim(1));
    let lost = w.no(Caller::Agent(BOB), &claim(1));
    assert_eq!(lost, TaskRefusal::Taken { task: TaskId(1), owner: ANN }.into());
    let stale = Command::ClaimTask { task: TaskId(1), version: Some(1) };
    assert_eq!(
        w.no(Caller::Agent(ANN), &stale),
        TaskRefusal::Stale { task: TaskId(1), current: 2 }.into()
    );
}

#[test]
fn a_blocked_task_never_starts_and_completing_the_blocker_wakes_the_owner() {
    let mut w = World::new();
    w.ok(USER, &task("a", &[]));
    w.ok(USER, &task("b", &[1]));
    w.ok(Caller::Agent(LEAD), &owner(2, BOB));
    w.settle();
    let blocked: Rejection = TaskRefusal::Blocked { task: TaskId(2), by: vec![TaskId(1)] }.into();
    assert_eq!(w.no(Caller::Agent(BOB), &claim(2)), blocked);
    assert_eq!(w.no(Caller::Agent(BOB), &status(2, TaskStatus::InProgress)), blocked);
    assert_eq!(w.no(Caller::Agent(LEAD), &status(2, TaskStatus::Completed)), blocked);
    assert!(!w.is_active(BOB));
    w.ok(Caller::Agent(ANN), &claim(1));
    w.ok(Caller::Agent(ANN), &status(1, TaskStatus::Completed));
    assert_eq!(w.team.agent(BOB).unwrap().turn().unwrap().offer(), Some(TaskId(2)));
    assert_eq!(
        w.no(Caller::Agent(ANN), &change(2, TaskChange::default())),
        TaskRefusal::Taken { task: TaskId(2), owner: BOB }.into()
    );
}

#[test]
fn dependencies_never_close_a_circle_and_exist() {
    let mut w = World::new();
    for on in [&[][..], &[1], &[2]] {
        w.ok(USER, &task("t", on));
    }
    let add = |task, on| {
        change(task, TaskChange { add_blocked_by: [TaskId(on)].into(), ..TaskChange::default() })
    };
    assert_eq!(
        w.no(USER, &add(1, 3)),
        TaskRefusal::Cycle { task: TaskId(1), on: TaskId(3) }.into()
    );
    assert_eq!(
        w.no(USER, &add(1, 1)),
        TaskRefusal::Cycle { task: TaskId(1), on: TaskId(1) }.into()
    );
    assert_eq!(w.no(USER, &add(1, 9)), TaskRefusal::Unknown(TaskId(9)).into());
    assert_eq!(w.no(USER, &task("x", &[4])), TaskRefusal::Unknown(TaskId(4)).into());
}

#[test]
fn an_assignment_by_another_is_one_message_and_by_oneself_none() {
    let mut w = World::new();
    w.ok(USER, &task("a", &[]));
    let events = w.ok(Caller::Agent(LEAD), &owner(1, ANN));
    assert_eq!(sent(&events).len(), 1);
    protocol(&events, "task_assignment");
    assert!(w.is_active(ANN));
    w.ok(USER, &task("b", &[]));
    assert_eq!(sent(&w.ok(Caller::Agent(BOB), &claim(2))), []);
    assert_eq!(w.no(Caller::Agent(BOB), &owner(2, ANN)).code(), "not_allowed");
}

#[test]
fn a_ready_task_is_offered_once_a_version_and_a_declined_one_not_again() {
    let mut w = World::with(|_| {});
    w.ok(USER, &task("a", &[]));
    assert_eq!(w.team.agent(ANN).unwrap().turn().unwrap().offer(), Some(TaskId(1)));
    assert!(!w.is_active(BOB), "one offer at a time");
    w.end(ANN);
    assert!(!w.is_active(ANN), "declined");
    assert_eq!(w.team.agent(BOB).unwrap().turn().unwrap().offer(), Some(TaskId(1)));
    w.end(BOB);
    w.settle();
    let turns = w.log.iter().filter(|(_, e)| matches!(e, Event::TurnStarted { .. })).count();
    w.wait(aion_core::time::Millis::hours(2));
    w.settle();
    let later = w.log.iter().filter(|(_, e)| matches!(e, Event::TurnStarted { .. })).count();
    assert_eq!(turns, later, "nothing new, no turn");
    let new = TaskChange { description: Some("easier".to_owned()), ..TaskChange::default() };
    w.ok(USER, &change(1, new));
    assert!(w.is_active(ANN), "a changed task is a new offer");
}

#[test]
fn an_offer_that_could_not_be_considered_is_made_again() {
    let mut w = World::with(|_| {});
    w.ok(USER, &task("a", &[]));
    w.end_as(ANN, TurnOutcome::Lost);
    assert_eq!(w.team.agent(ANN).unwrap().turn().unwrap().offer(), Some(TaskId(1)));
}

#[test]
fn death_releases_tasks_and_a_restart_does_not() {
    let mut w = World::new();
    w.ok(USER, &task("a", &[]));
    w.ok(Caller::Agent(ANN), &claim(1));
    let mut generation = 1;
    for _ in 0..3 {
        let exited = Command::AgentExited { slot: ANN, generation, cause: "segfault".to_owned() };
        w.ok(Caller::System, &exited);
        assert_eq!(w.team.board().open()[&TaskId(1)].owner(), Some(ANN));
        w.wait(aion_core::time::Millis::seconds(5));
        generation += 1;
        w.ok(Caller::System, &Command::AgentReady { slot: ANN, generation });
    }
    let exited = Command::AgentExited { slot: ANN, generation, cause: "segfault".to_owned() };
    w.ok(Caller::System, &exited);
    let task = &w.team.board().open()[&TaskId(1)];
    assert_eq!((task.owner(), task.status()), (None, TaskStatus::Pending));
    assert!(w.is_active(LEAD), "the lead is told");
}

#[test]
fn a_closed_task_says_so() {
    let mut w = World::new();
    w.ok(USER, &task("a", &[]));
    w.ok(USER, &owner(1, ANN));
    w.ok(USER, &status(1, TaskStatus::Completed));
    assert_eq!(w.no(USER, &status(1, TaskStatus::Pending)), TaskRefusal::Closed(TaskId(1)).into());
    assert_eq!(w.no(USER, &claim(7)).code(), "not_allowed");
    assert_eq!(w.no(Caller::Agent(ANN), &claim(7)), TaskRefusal::Unknown(TaskId(7)).into());
    w.ok(USER, &task("b", &[1]));
    assert_eq!(
        w.no(USER, &status(2, TaskStatus::InProgress)),
        TaskRefusal::NoOwner(TaskId(2)).into()
    );
}
