//! Waits for the ends of turns by one reader of each team's events; it asks the team nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use aion_core::event::Event;
use aion_core::id::{Seq, SlotId, TurnId};
use aion_runtime::{SubscriptionEnd, TeamHandle};
use anyhow::{Context, Result};
use tokio::sync::oneshot;

/// The ends of some members' turns in one team.
#[derive(Clone, Debug, Default)]
pub(crate) struct TurnEnds(Arc<Mutex<Ends>>);

#[derive(Debug, Default)]
struct Ends {
    /// Turns that have ended before somebody waited for them.
    ended: BTreeSet<TurnId>,
    waiting: BTreeMap<TurnId, oneshot::Sender<()>>,
}

impl TurnEnds {
    /// Follows a team from its beginning until it is closed.
    pub(crate) fn follow(team: TeamHandle, slots: BTreeSet<SlotId>) -> Self {
        let ends = Self::default();
        let told = ends.clone();
        tokio::spawn(async move {
            let mut events = team.subscribe(Seq(0));
            loop {
                let recorded = match events.next().await {
                    Ok(Some(recorded)) => recorded,
                    Err(SubscriptionEnd::TooSlow { seen }) => {
                        events = team.subscribe(seen);
                        continue;
                    }
                    Ok(None) | Err(SubscriptionEnd::Store(_)) => break,
                };
                if let Event::TurnEnded { turn, slot, .. } = recorded.event
                    && slots.contains(&slot)
                {
                    told.tell(turn);
                }
            }
        });
        ends
    }

    fn tell(&self, turn: TurnId) {
        let mut ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match ends.waiting.remove(&turn) {
            // Whoever waited may have gone.
            Some(waiting) => drop(waiting.send(())),
            None => drop(ends.ended.insert(turn)),
        }
    }

    /// Returns when a turn has ended.
    pub(crate) async fn wait(&self, turn: TurnId) -> Result<()> {
        let ended = {
            let mut ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if ends.ended.remove(&turn) {
                return Ok(());
            }
            let (told, ended) = oneshot::channel();
            ends.waiting.insert(turn, told);
            ended
        };
        ended.await.context("nobody follows the team any more")
    }
}
