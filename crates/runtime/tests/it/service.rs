//! The service: creating, opening once, and making the teams that were agreed to.

use aion_core::Rejection;
use aion_core::command::{Caller, Command, Settings};
use aion_core::consent::{ProposedMember, TeamProposal};
use aion_core::event::{Event, Recorded};
use aion_core::id::{RequestId, Seq};
use aion_core::message::Sender;
use aion_core::request::{Decision, Request, RequestKind};
use aion_core::time::Millis;
use aion_runtime::{CreateError, NewTeam, OpenError, SubmitError};
use aion_store::{Append, EventStore};
use aion_testkit::faults::{Fault, Operation};

use crate::house::{LEAD, TestHouse, count, log, member, until, until_idle};

fn new(name: &str, solo: bool) -> NewTeam {
    NewTeam {
        name: name.to_owned(),
        owner: "ada".to_owned(),
        workspace: "/work".to_owned(),
        solo,
        lead: member("chat", ""),
        settings: Settings::default(),
    }
}

#[tokio::test]
async fn a_team_that_the_rules_refuse_leaves_nothing() {
    let house = TestHouse::new();
    let refused = house.service.create(Caller::User, None, new("  ", false)).await;
    let Err(CreateError::Submit(SubmitError::Rejected(why))) = refused else {
        panic!("an empty name is refused")
    };
    assert_eq!(why, Rejection::Empty { what: "a team's name" });
    assert!(house.service.list().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_store_that_fails_at_the_opening_is_told_once_and_tried_again() {
    let mut house = TestHouse::new();
    let (handle, _lead) = house.team().await;
    house.service.stop_all().await;
    house.store.fail_next(Operation::Open, Fault::Unavailable);
    let failed = house.service.open(handle.team()).await;
    assert!(matches!(failed, Err(OpenError::Store(_))));
    let opened = house.service.open(handle.team()).await.unwrap();
    assert_eq!(opened.query(|team| team.name().to_owned()).await.unwrap(), "Crew");
}

#[tokio::test]
async fn many_who_open_at_once_share_one_session() {
    let mut house = TestHouse::new();
    let (handle, _lead) = house.team().await;
    house.service.stop_all().await;
    let before = house.store.calls(Operation::Open);
    let opening: Vec<_> = (0..20)
        .map(|_| {
            let (service, team) = (house.service.clone(), handle.team().clone());
            tokio::spawn(async move { service.open(&team).await.map(|_| ()) })
        })
        .collect();
    for one in opening {
        one.await.unwrap().unwrap();
    }
    assert_eq!(house.store.calls(Operation::Open) - before, 1);
}

#[tokio::test]
async fn a_conversation_becomes_the_team_that_was_agreed_to_once() {
    let mut house = TestHouse::new();
    let chat = house.service.create(Caller::User, None, new("Chat", true)).await.unwrap();
    let solo = house.stage.spawned().await;
    assert!(solo.host.team_tools().is_empty());
    let proposal = TeamProposal {
        name: "Builders".to_owned(),
        summary: "Build a page".to_owned(),
        why: "two hands are faster".to_owned(),
        members: vec![ProposedMember {
            name: "writer".to_owned(),
            agent_type: "stand-in".to_owned(),
            model: None,
            task: "the text".to_owned(),
        }],
    };
    let propose = Command::ProposeTeam(Box::new(proposal));
    let proposed = chat.submit(Caller::Agent(solo.slot), None, propose).await.unwrap();
    let request = proposed
        .events
        .iter()
        .find_map(|recorded| match &recorded.event {
            Event::RequestOpened { request } => Some(request.id),
            _ => None,
        })
        .unwrap();
    let consent = Command::Decide { request, decision: Decision::Consent };
    chat.submit(Caller::User, None, consent).await.unwrap();
    let linked = until(&chat, |event| matches!(event, Event::TeamLinked { .. })).await;
    let Event::TeamLinked { team, .. } = linked.event else { unreachable!() };
    let made = house.service.open(&team).await.unwrap();
    assert_eq!(made.query(|team| team.name().to_owned()).await.unwrap(), "Builders");
    let (lead, input) = house.stage.turn().await;
    assert_eq!(lead.name.as_str(), "team-lead");
    assert!(input.opening.contains("Build a page") && input.opening.contains("writer"));
    assert_eq!(house.service.list().await.unwrap().len(), 2);
}

/// A proposal that is in a log already may be one that the rules refuse to carry out.
#[tokio::test]
async fn a_conversation_is_told_once_why_its_team_was_not_made() {
    let mut house = TestHouse::new();
    let chat = house.service.create(Caller::User, None, new("Chat", true)).await.unwrap();
    house.stage.spawned().await;
    until_idle(&chat, LEAD).await;
    house.service.stop_all().await;
    let loaded = house.store.open(chat.team()).await.unwrap();
    let last = log(&*house.store, chat.team()).await.pop().unwrap();
    let proposal = TeamProposal {
        name: "n".repeat(10_000),
        summary: "Build a page".to_owned(),
        why: String::new(),
        members: Vec::new(),
    };
    let id = RequestId(1);
    let request = Request {
        id,
        from: Sender::Agent(LEAD),
        turn: None,
        kind: RequestKind::CreateTeam(Box::new(proposal)),
        delegated: false,
        asked_at: last.at,
    };
    let (by, decision) = (Sender::User, Decision::Consent);
    let granted = [
        Event::RequestOpened { request },
        Event::RequestDecided { request: id, by, decision, delegated: false },
    ];
    let recorded = |(n, event): (usize, Event)| {
        let seq = Seq(last.seq.0 + 1 + n as u64);
        Recorded { seq, event, ..last.clone() }
    };
    let events = granted.into_iter().enumerate().map(recorded).collect();
    let (team, epoch, expected) = (chat.team().clone(), loaded.epoch, last.seq);
    house.store.append(Append::new(team, epoch, expected, events)).await.unwrap();

    let mut house = house.again();
    house.service.open(chat.team()).await.unwrap();
    let (_, input) = house.stage.turn().await;
    assert!(input.opening.contains("request r1"), "{}", input.opening);
    // At every later opening it is tried once more, and nothing more is said of it.
    let house = house.again();
    let chat = house.service.open(chat.team()).await.unwrap();
    let mut opened = house.store.calls(Operation::Open);
    for n in 0..100 {
        if n == 50 {
            opened = house.store.calls(Operation::Open);
        }
        house.clock.advance(Millis(60_000));
        chat.query(|_| ()).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(house.store.calls(Operation::Open), opened);
    let log = log(&*house.store, chat.team()).await;
    assert_eq!(count(&log, |event| matches!(event, Event::MessageSent { .. })), 1);
    assert_eq!(house.service.list().await.unwrap().len(), 1);
}
