//! Plans, shutdowns, consents and questions: one inbox, one decision, nobody decides his own.

use aion_core::agent::AgentState;
use aion_core::command::SendMessage;
use aion_core::consent::TeamProposal;
use aion_core::id::{RequestId, SlotId, TeamId};
use aion_core::message::{ProtocolMessage, Recipient, Urgency};
use aion_core::mode::PermissionMode;
use aion_core::permission::Delegation;
use aion_core::request::Decision;
use aion_core::team::{Progress, Reason, Status};
use aion_core::time::Millis;
use aion_core::{Caller, Command, Effect, Event, Rejection};

use crate::world::{ANN, BOB, LEAD, USER, World, names, protocol, sent, spec, text};

fn decide(request: RequestId, decision: Decision) -> Command {
    Command::Decide { request, decision }
}

fn plan(words: &str) -> Command {
    Command::SubmitPlan { text: words.to_owned() }
}

#[test]
fn a_returned_plan_comes_back_changed_and_only_the_new_text_can_be_approved() {
    let mut w = World::new();
    w.ok(USER, &Command::SetMode { slot: ANN, mode: PermissionMode::Plan });
    w.wake(ANN);
    w.ok(Caller::Agent(ANN), &plan("rewrite it all"));
    let first = w.open_request();
    let returned = Decision::ReturnPlan { feedback: "smaller, please".to_owned() };
    let events = w.ok(Caller::Agent(LEAD), &decide(first, returned));
    match protocol(&events, "plan_approval_response") {
        ProtocolMessage::PlanApprovalResponse { approved, feedback, .. } => {
            assert_eq!((*approved, feedback.as_deref()), (false, Some("smaller, please")));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(w.team.agent(ANN).unwrap().mode(), PermissionMode::Plan);
    w.ok(Caller::Agent(ANN), &plan("one file"));
    let second = w.open_request();
    w.ok(Caller::Agent(ANN), &plan("two files"));
    let third = w.open_request();
    let approve = Decision::ApprovePlan { mode: None };
    assert_eq!(
        w.no(Caller::Agent(LEAD), &decide(second, approve.clone())),
        Rejection::AlreadyDecided { request: second }
    );
    assert_eq!(w.no(Caller::Agent(ANN), &decide(third, approve.clone())), Rejection::OwnRequest);
    let wide = Decision::ApprovePlan { mode: Some(PermissionMode::BypassPermissions) };
    assert_eq!(w.no(Caller::Agent(LEAD), &decide(third, wide)).code(), "not_allowed");
    w.ok(Caller::Agent(LEAD), &decide(third, approve));
    assert_eq!(w.team.agent(ANN).unwrap().mode(), PermissionMode::Default);
}

#[test]
fn approving_a_plan_widens_nothing_beyond_the_leads_own_rights() {
    for (own, member, expect) in [
        (PermissionMode::Default, PermissionMode::Plan, PermissionMode::Default),
        (PermissionMode::DontAsk, PermissionMode::Plan, PermissionMode::DontAsk),
        (PermissionMode::Default, PermissionMode::DontAsk, PermissionMode::DontAsk),
        (PermissionMode::Default, PermissionMode::AcceptEdits, PermissionMode::AcceptEdits),
    ] {
        let mut w = World::new();
        w.ok(USER, &Command::SetMode { slot: LEAD, mode: own });
        w.ok(USER, &Command::SetMode { slot: ANN, mode: member });
        w.ok(Caller::Agent(ANN), &plan("small"));
        let mode = Some(PermissionMode::Default);
        let approve = decide(w.open_request(), Decision::ApprovePlan { mode });
        w.ok(Caller::Agent(LEAD), &approve);
        assert_eq!(w.team.agent(ANN).unwrap().mode(), expect, "{own:?} {member:?}");
    }
}

#[test]
fn the_leads_own_plan_is_the_persons_to_decide() {
    let mut w = World::new();
    w.ok(Caller::Agent(LEAD), &plan("mine"));
    assert_eq!(w.team.status(LEAD), Some((Status::Idle, Reason::NeedsYou)));
    let approve = Decision::ApprovePlan { mode: None };
    let request = w.open_request();
    assert_eq!(w.no(Caller::Agent(ANN), &decide(request, approve.clone())).code(), "not_allowed");
    w.ok(USER, &decide(request, approve));
}

#[test]
fn a_refused_shutdown_leaves_the_member_and_an_approved_one_removes_it() {
    let mut w = World::new();
    let ask = Command::RequestShutdown { slot: ANN, reason: Some("done".to_owned()) };
    w.ok(Caller::Agent(LEAD), &ask);
    let first = w.open_request();
    assert_eq!(w.no(Caller::Agent(LEAD), &ask), Rejection::AlreadyAsked { request: first });
    assert_eq!(
        w.no(Caller::Agent(BOB), &decide(first, Decision::ApproveShutdown)).code(),
        "not_allowed"
    );
    let no = Decision::RejectShutdown { reason: "tests still fail".to_owned() };
    let events = w.ok(Caller::Agent(ANN), &decide(first, no));
    protocol(&events, "shutdown_rejected");
    assert!(w.team.agent(ANN).unwrap().is_running());
    w.ok(Caller::Agent(LEAD), &ask);
    let second = w.open_request();
    let events = w.ok(Caller::Agent(ANN), &decide(second, Decision::ApproveShutdown));
    protocol(&events, "shutdown_approved");
    assert!(w.team.outstanding().contains(&Effect::Stop { slot: ANN, generation: 1, kill: false }));
    w.end(ANN);
    w.ok(Caller::System, &Command::AgentExited { slot: ANN, generation: 1, cause: String::new() });
    assert!(w.team.agent(ANN).is_none());
    assert_eq!(w.team.status(ANN).unwrap().0, Status::Removed);
    assert_eq!(w.no(Caller::Agent(ANN), &text(Recipient::Lead, "hi")).code(), "recipient_gone");
}

#[test]
fn an_unanswered_shutdown_becomes_the_persons_after_a_minute() {
    let mut w = World::new();
    w.ok(Caller::Agent(LEAD), &Command::RequestShutdown { slot: ANN, reason: None });
    let request = w.open_request();
    assert_eq!(
        w.no(Caller::Agent(LEAD), &decide(request, Decision::ForceShutdown)).code(),
        "not_allowed"
    );
    w.settle();
    let events = w.wait(Millis::seconds(60));
    assert_eq!(names(&events), ["request_escalated"]);
    assert!(matches!(w.team.progress(), Progress::Waiting { .. }));
    w.ok(USER, &decide(request, Decision::ForceShutdown));
    assert!(w.team.outstanding().contains(&Effect::Stop { slot: ANN, generation: 1, kill: true }));
}

#[test]
fn the_person_ends_a_member_or_lets_it_stay_and_never_answers_in_its_name() {
    let answers =
        [Decision::ApproveShutdown, Decision::RejectShutdown { reason: "it has work".to_owned() }];
    for asker in [Caller::Agent(LEAD), USER] {
        let mut w = World::new();
        w.ok(asker, &Command::RequestShutdown { slot: ANN, reason: None });
        let request = w.open_request();
        for answer in &answers {
            assert_eq!(w.no(USER, &decide(request, answer.clone())).code(), "not_allowed");
        }
        let events = w.ok(USER, &Command::Withdraw { request });
        assert!(w.team.agent(ANN).unwrap().is_running());
        // Who waits for an answer hears that none comes.
        let told = sent(&events).iter().any(|(_, to, kind)| to.contains(&LEAD) && *kind == "text");
        assert_eq!(told, asker == Caller::Agent(LEAD), "{events:?}");
        w.ok(asker, &Command::RequestShutdown { slot: ANN, reason: None });
        w.ok(USER, &decide(w.open_request(), Decision::ForceShutdown));
        assert!(matches!(w.team.agent(ANN).unwrap().state(), AgentState::Stopping { .. }));
    }
    // A wish of its own is the person's to answer.
    for answer in answers {
        let mut w = World::new();
        w.ok(Caller::Agent(ANN), &Command::RequestShutdown { slot: ANN, reason: None });
        w.ok(USER, &decide(w.open_request(), answer));
    }
}

#[test]
fn a_teammate_asks_for_its_own_end_and_the_lead_answers() {
    let mut w = World::new();
    let own = Command::RequestShutdown { slot: ANN, reason: Some("nothing left".to_owned()) };
    let events = w.ok(Caller::Agent(ANN), &own);
    protocol(&events, "shutdown_request");
    assert!(w.is_active(LEAD));
    let request = w.open_request();
    let yes = decide(request, Decision::ApproveShutdown);
    assert_eq!(w.no(Caller::Agent(ANN), &yes), Rejection::OwnRequest);
    w.ok(Caller::Agent(LEAD), &yes);
    assert!(matches!(w.team.agent(ANN).unwrap().state(), AgentState::Stopping { .. }));
    let other = Command::RequestShutdown { slot: BOB, reason: None };
    w.ok(Caller::System, &Command::AgentExited { slot: ANN, generation: 1, cause: String::new() });
    assert_eq!(w.no(Caller::Agent(SlotId(2)), &other).code(), "recipient_gone");
    let lead = Command::RequestShutdown { slot: LEAD, reason: None };
    assert_eq!(w.no(USER, &lead), Rejection::LeadStays);
    assert_eq!(w.no(Caller::Agent(BOB), &lead), Rejection::LeadStays);
}

#[test]
fn only_the_exact_text_to_the_asker_answers_a_shutdown() {
    for (words, to, answers) in [
        ("shutdown_approved", Recipient::Lead, true),
        ("shutdown_approved ", Recipient::Lead, false),
        ("I would say shutdown_approved", Recipient::Lead, false),
        ("shutdown_approved", Recipient::Agent(BOB), false),
        ("shutdown_approved", Recipient::Everyone, false),
    ] {
        let mut w = World::new();
        w.ok(Caller::Agent(LEAD), &Command::RequestShutdown { slot: ANN, reason: None });
        w.ok(Caller::Agent(ANN), &text(to, words));
        let stopping = matches!(w.team.agent(ANN).unwrap().state(), AgentState::Stopping { .. });
        assert_eq!(stopping, answers, "{words:?} to {to:?}");
    }
    let mut w = World::new();
    w.ok(Caller::Agent(LEAD), &Command::RequestShutdown { slot: ANN, reason: None });
    w.ok(Caller::Agent(BOB), &text(Recipient::Lead, "shutdown_approved"));
    assert!(w.team.agent(BOB).unwrap().is_running());
    let events = w.ok(Caller::Agent(ANN), &text(Recipient::Lead, "shutdown_rejected: busy"));
    protocol(&events, "shutdown_rejected");
    let events = w.ok(Caller::Agent(ANN), &text(Recipient::Lead, "shutdown_approved"));
    assert_eq!(sent(&events)[0].2, "text", "nothing is asked any more");
}

#[test]
fn a_dead_member_that_asked_to_leave_is_removed_and_nothing_is_sent_to_it() {
    let mut w = World::new();
    w.ok(Caller::Agent(ANN), &Command::RequestShutdown { slot: ANN, reason: None });
    let request = w.open_request();
    for generation in 1..=4 {
        let exited = Command::AgentExited { slot: ANN, generation, cause: "dead".to_owned() };
        w.ok(Caller::System, &exited);
        w.wait(Millis::seconds(5));
        if generation < 4 {
            let generation = generation + 1;
            w.ok(Caller::System, &Command::AgentReady { slot: ANN, generation });
        }
    }
    let events = w.ok(Caller::Agent(LEAD), &decide(request, Decision::ApproveShutdown));
    assert!(sent(&events).iter().all(|(_, to, _)| !to.contains(&ANN)), "{events:?}");
    assert!(!names(&events).contains(&"request_withdrawn"));
    assert!(w.team.agent(ANN).is_none());
}

#[test]
fn what_was_delegated_can_be_taken_back() {
    let mut w = World::new();
    w.ok(Caller::Agent(ANN), &plan("small"));
    let request = w.open_request();
    let delegation = Delegation { plans: false, ..Delegation::default() };
    w.ok(USER, &Command::Delegate { delegation });
    let approve = decide(request, Decision::ApprovePlan { mode: None });
    assert_eq!(w.no(Caller::Agent(LEAD), &approve).code(), "not_allowed");
    w.ok(USER, &approve);
}

#[test]
fn beyond_its_allowance_the_lead_asks_and_teammates_never_bring_anybody_in() {
    let mut w = World::with(|s| s.spawn_allowance = 1);
    let spawn = |name: &str| Command::SpawnAgent { member: Box::new(spec(name)) };
    assert_eq!(w.no(Caller::Agent(ANN), &spawn("x")).code(), "not_allowed");
    assert!(names(&w.ok(Caller::Agent(LEAD), &spawn("carol"))).contains(&"agent_spawned"));
    assert_eq!(names(&w.ok(Caller::Agent(LEAD), &spawn("dave"))), ["request_opened"]);
    let request = w.open_request();
    assert_eq!(
        w.no(Caller::Agent(LEAD), &decide(request, Decision::Consent)),
        Rejection::OwnRequest
    );
    w.ok(USER, &decide(request, Decision::Consent));
    assert!(w.team.agent_named("dave").is_some());
    w.ok(Caller::Agent(LEAD), &spawn("erin"));
    let request = w.open_request();
    w.ok(USER, &decide(request, Decision::Decline { reason: None }));
    assert!(w.team.agent_named("erin").is_none());
}

#[test]
fn rights_only_shrink_along_delegation() {
    let mut w = World::new();
    let mut member = spec("carol");
    member.mode = PermissionMode::BypassPermissions;
    w.ok(Caller::Agent(LEAD), &Command::SpawnAgent { member: Box::new(member) });
    assert_eq!(w.team.agent_named("carol").unwrap().mode(), PermissionMode::Default);
    let wide = Command::SetMode { slot: ANN, mode: PermissionMode::AcceptEdits };
    assert_eq!(w.no(Caller::Agent(LEAD), &wide).code(), "not_allowed");
    assert_eq!(w.no(Caller::Agent(ANN), &wide).code(), "not_allowed");
    w.ok(Caller::Agent(LEAD), &Command::SetMode { slot: ANN, mode: PermissionMode::Plan });
    w.ok(Caller::Agent(BOB), &Command::SetMode { slot: BOB, mode: PermissionMode::DontAsk });
    w.ok(USER, &wide);
}

#[test]
fn a_question_is_answered_by_mail() {
    let mut w = World::new();
    let ask = Command::AskUser { text: "blue or red?".to_owned(), options: vec!["blue".into()] };
    w.ok(Caller::Agent(ANN), &ask);
    let request = w.open_request();
    let answer = Decision::Answer { text: "red".to_owned() };
    assert_eq!(w.no(Caller::Agent(LEAD), &decide(request, answer.clone())).code(), "not_allowed");
    let wrong = w.no(USER, &decide(request, Decision::Consent));
    assert_eq!(wrong.to_string(), "a question request is answered by one of: answer, decline");
    w.ok(USER, &decide(request, answer));
    assert!(w.is_active(ANN));
}

#[test]
fn a_conversation_proposes_a_team_that_the_person_must_want() {
    let mut w = World::empty();
    w.ok(
        USER,
        &Command::CreateTeam {
            team: TeamId::new("c-1").unwrap(),
            name: "chat".to_owned(),
            owner: "me".to_owned(),
            workspace: "/w".to_owned(),
            solo: true,
            lead: Box::new(spec("coder")),
            settings: Box::default(),
        },
    );
    w.ok(Caller::System, &Command::AgentReady { slot: LEAD, generation: 1 });
    let own = Caller::Agent(LEAD);
    assert_eq!(
        w.no(own, &Command::SpawnAgent { member: Box::new(spec("x")) }).code(),
        "not_allowed"
    );
    assert_eq!(w.no(own, &text(Recipient::User, "x")).code(), "not_allowed");
    let proposal = TeamProposal {
        name: "big".to_owned(),
        summary: "two areas".to_owned(),
        why: "they run side by side".to_owned(),
        members: Vec::new(),
    };
    w.ok(own, &Command::ProposeTeam(Box::new(proposal)));
    let request = w.open_request();
    assert_eq!(w.no(own, &decide(request, Decision::Consent)), Rejection::OwnRequest);
    w.ok(USER, &decide(request, Decision::Consent));
    assert_eq!(w.team.outstanding(), [Effect::CreateTeam { request }]);
    let team = TeamId::new("t-2").unwrap();
    w.ok(Caller::System, &Command::LinkTeam { request, team: team.clone() });
    assert_eq!(w.team.outstanding(), []);
    assert_eq!(
        w.no(Caller::System, &Command::LinkTeam { request, team }).code(),
        "unknown_request"
    );
}

#[test]
fn the_lead_ends_the_team_only_with_the_persons_consent() {
    let mut w = World::new();
    w.wake(ANN);
    assert_eq!(w.no(Caller::Agent(LEAD), &Command::EndTeam).code(), "wrong_state");
    w.settle();
    w.ok(Caller::Agent(LEAD), &Command::EndTeam);
    let request = w.open_request();
    w.say(USER, ANN, "wait");
    let waiting = w.say(USER, ANN, "never read");
    let events = w.ok(USER, &decide(request, Decision::Consent));
    assert!(
        events.iter().any(
            |e| matches!(e, Event::MessageDeadLettered { message, .. } if *message == waiting)
        )
    );
    assert!(w.team.is_ended());
    assert_eq!(w.team.outstanding(), []);
    assert_eq!(w.team.agents().count(), 0);
    assert_eq!(w.no(USER, &text(Recipient::Lead, "hello?")), Rejection::TeamEnded);
}

#[test]
fn the_person_hears_by_an_unread_mark_only_what_is_urgent_for_it() {
    // A message to the person is shown and not queued: nobody's mailbox owes it.
    let mut w = World::new();
    let message = Command::SendMessage(Box::new(SendMessage {
        to: Recipient::User,
        text: "done".to_owned(),
        summary: None,
        urgency: Urgency::Wake,
        files: Vec::new(),
        key: None,
    }));
    let events = w.ok(Caller::Agent(LEAD), &message);
    assert_eq!(sent(&events)[0].1, Vec::<SlotId>::new());
    assert!(w.team.message(sent(&events)[0].0).is_none());
}
