//! A team's totals, counted from its log alone; the store's read models are not asked.

use aion_core::event::{Event, Recorded};
use aion_core::task::TaskStatus;
use aion_store::Totals;

/// Counts a whole log, given in order from its first event.
pub(crate) fn count<'a>(events: impl IntoIterator<Item = &'a Recorded>) -> Totals {
    let mut totals = Totals::default();
    for recorded in events {
        add(&mut totals, &recorded.event);
    }
    totals
}

/// Counts one more event.
pub(crate) fn add(totals: &mut Totals, event: &Event) {
    match event {
        Event::TurnEnded { acknowledged, .. } => {
            totals.turns += 1;
            totals.messages_acknowledged += acknowledged.len() as u64;
        }
        Event::MessageSent { recipients, .. } => {
            totals.messages_accepted += recipients.len() as u64;
        }
        Event::MessageDeadLettered { .. } => totals.messages_dead += 1,
        Event::MessageSuperseded { .. } => totals.messages_superseded += 1,
        Event::TaskChanged { change, .. } if change.status == Some(TaskStatus::Completed) => {
            totals.tasks_completed += 1;
        }
        Event::RequestDecided { .. } => totals.requests_decided += 1,
        Event::AgentRestarting { .. } => totals.restarts += 1,
        _ => {}
    }
}

/// The same in the words of `--json`.
pub(crate) fn wire(totals: Totals, ok: bool, files: u64) -> aion_api::Totals {
    aion_api::Totals {
        ok,
        turns: totals.turns,
        messages_accepted: totals.messages_accepted,
        messages_acknowledged: totals.messages_acknowledged,
        messages_dead: totals.messages_dead,
        tasks_completed: totals.tasks_completed,
        requests_decided: totals.requests_decided,
        restarts: totals.restarts,
        files,
    }
}
