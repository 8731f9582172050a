//! State is O(open): what is acknowledged, closed or finished leaves it.

use aion_core::mode::PermissionMode;
use aion_core::permission::ToolClass;
use aion_core::time::Millis;
use aion_core::{Caller, Command};

use crate::world::{ANN, LEAD, USER, World, proposal};

/// Sends `n` messages to Ann, with a tool call and a notice each now and then, without replaying.
fn busy(w: &mut World, n: usize) {
    for i in 0..n {
        w.now = w.now + Millis(10);
        let mut go = |caller, command: &Command| w.team.handle(w.now, caller, command).unwrap();
        let message =
            crate::world::text(aion_core::message::Recipient::Agent(ANN), &format!("message {i}"));
        go(USER, &message);
        let turn = w.team.agent(ANN).unwrap().turn().unwrap().id();
        if i % 10 == 0 {
            let mut go = |caller, command: &Command| w.team.handle(w.now, caller, command).unwrap();
            go(Caller::Agent(ANN), &proposal(turn, "c", "Bash", ToolClass::Execute));
            go(
                Caller::Agent(ANN),
                &Command::FinishTool { turn, call: "c".to_owned(), ok: true, changed: true },
            );
        }
        let outcome = aion_core::turn::TurnOutcome::Done { last_text: Some("ok".to_owned()) };
        for slot in [ANN, LEAD] {
            if let Some(turn) = w.team.agent(slot).unwrap().turn() {
                let turn = turn.id();
                let end = Command::EndTurn { turn, outcome: outcome.clone(), usage: None };
                w.team.handle(w.now, Caller::System, &end).unwrap();
            }
        }
    }
}

#[test]
fn after_a_hundred_thousand_messages_the_state_is_as_small_as_after_a_thousand() {
    let mut w = World::new();
    w.ok(USER, &Command::SetMode { slot: ANN, mode: PermissionMode::BypassPermissions });
    let size = |w: &World| serde_json::to_vec(&w.team).unwrap().len();
    busy(&mut w, 1_000);
    let small = size(&w);
    busy(&mut w, 99_000);
    let large = size(&w);
    assert!(large * 10 <= small * 12, "{small} bytes after 1,000 messages, {large} after 100,000");
}
