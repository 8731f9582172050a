//! Each of the 13 protocol messages: produced by its real command, delivered, acted on, replayed.

use std::collections::BTreeSet;

use aion_core::message::Body;
use aion_core::mode::PermissionMode;
use aion_core::permission::{Delegation, GrantScope, ToolClass};
use aion_core::request::Decision;
use aion_core::{Caller, Command, Event};

use crate::world::{ANN, BOB, LEAD, USER, World, proposal, task};

#[test]
fn all_thirteen_are_produced_delivered_acted_on_and_replayed() {
    let mut w = World::with(|s| {
        s.auto_claim = false;
        s.delegation = Delegation {
            plans: true,
            tools: ["Bash".to_owned()].into(),
            hosts: ["example.org".to_owned()].into(),
        };
    });

    // task_assignment wakes the owner.
    w.ok(USER, &task("a", &[]));
    let owner = aion_core::task::TaskChange { owner: Some(Some(ANN)), ..Default::default() };
    w.ok(
        Caller::Agent(LEAD),
        &Command::UpdateTask {
            task: aion_core::id::TaskId(1),
            change: Box::new(owner),
            version: None,
        },
    );
    assert!(w.is_active(ANN));

    // permission_request wakes the lead; permission_response lets the tool run.
    let turn = w.turn(ANN);
    w.ok(Caller::Agent(ANN), &proposal(turn, "c1", "Bash", ToolClass::Execute));
    assert!(w.is_active(LEAD));
    let decide = |w: &World, decision| Command::Decide { request: w.open_request(), decision };
    w.ok(Caller::Agent(LEAD), &decide(&w, Decision::ONCE));
    w.ok(Caller::Agent(ANN), &Command::StartTool { turn, call: "c1".to_owned() });

    // sandbox_permission_request and _response: the connection goes on.
    let host = "example.org".to_owned();
    w.ok(
        Caller::Agent(ANN),
        &Command::RequestNetwork { turn, call: "c1".to_owned(), host, finding: None },
    );
    let request = w.open_request();
    let lead_turn = w.turn(LEAD);
    w.ok(Caller::Agent(LEAD), &Command::TakeMail { turn: lead_turn, step: 1 });
    w.ok(Caller::Agent(LEAD), &decide(&w, Decision::ONCE));
    w.ok(Caller::Agent(ANN), &Command::TakeAnswer { turn, request });
    assert!(w.team.request(request).is_none());

    // team_permission_update: a grant of the person for everybody takes effect for Bob.
    w.ok(Caller::Agent(ANN), &proposal(turn, "c2", "Make", ToolClass::Execute));
    w.ok(USER, &decide(&w, Decision::Allow { scope: GrantScope::Team, rule: None }));
    let bob = w.wake(BOB);
    let events = w.ok(Caller::Agent(BOB), &proposal(bob, "b1", "Make", ToolClass::Execute));
    assert!(matches!(&events[0], Event::ToolProposed { grant: Some(_), .. }));
    w.ok(Caller::Agent(ANN), &Command::StartTool { turn, call: "c2".to_owned() });

    // mode_set_request, plan_approval_request, plan_approval_response.
    w.ok(Caller::Agent(LEAD), &Command::SetMode { slot: BOB, mode: PermissionMode::Plan });
    w.ok(Caller::Agent(BOB), &Command::SubmitPlan { text: "small steps".to_owned() });
    w.ok(Caller::Agent(LEAD), &decide(&w, Decision::ApprovePlan { mode: None }));
    assert_eq!(w.team.agent(BOB).unwrap().mode(), PermissionMode::Default);

    // shutdown_request, shutdown_rejected, shutdown_approved.
    for decision in
        [Decision::RejectShutdown { reason: "not yet".to_owned() }, Decision::ApproveShutdown]
    {
        w.ok(Caller::Agent(LEAD), &Command::RequestShutdown { slot: BOB, reason: None });
        w.ok(Caller::Agent(BOB), &decide(&w, decision));
    }
    w.end(BOB);
    w.ok(Caller::System, &Command::AgentExited { slot: BOB, generation: 1, cause: String::new() });

    // idle_notification: the lead hears of Ann when she is done.
    w.settle();

    let mut produced = BTreeSet::new();
    let mut owed = BTreeSet::new();
    let mut done = BTreeSet::new();
    for (_, event) in &w.log {
        match event {
            Event::MessageSent { message, recipients, .. } => {
                if let Body::Protocol(protocol) = &message.body {
                    produced.insert(protocol.kind());
                    if !recipients.is_empty() {
                        owed.insert(message.id);
                    }
                }
            }
            Event::TurnEnded { acknowledged, .. } => done.extend(acknowledged.iter().copied()),
            Event::MessageSuperseded { message, .. }
            | Event::MessageDeadLettered { message, .. } => {
                done.insert(*message);
            }
            _ => {}
        }
    }
    assert_eq!(produced.len(), 13, "{produced:?}");
    let waiting: Vec<_> =
        owed.difference(&done).filter(|id| w.team.message(**id).is_none()).collect();
    assert_eq!(waiting, Vec::<&aion_core::id::MessageId>::new(), "gone without an end");
    assert_eq!(w.replayed(), w.team);
}
