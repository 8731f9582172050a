//! Which pairs of members talk without anything getting done; it never says what follows from it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::id::SlotId;

/// Turns without progress between two members, since anything last got done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Standstill {
    /// The smaller slot first.
    pairs: BTreeMap<SlotId, BTreeMap<SlotId, u32>>,
    /// No pair has more turns: what is asked after every event need not look at every pair.
    most: u32,
}

impl Standstill {
    /// Counts a turn of one member that a message of another began and that brought nothing.
    pub(super) fn count(&mut self, one: SlotId, other: SlotId) {
        let turns = self.pairs.entry(one.min(other)).or_default().entry(one.max(other));
        let turns = turns.and_modify(|turns| *turns = turns.saturating_add(1)).or_insert(1);
        self.most = self.most.max(*turns);
    }

    /// Something got done.
    pub(super) fn clear(&mut self) {
        self.pairs.clear();
        self.most = 0;
    }

    /// A member's place is taken by another start of it, or by nobody.
    pub(super) fn forget(&mut self, slot: SlotId) {
        self.pairs.remove(&slot);
        self.pairs.retain(|_, others| {
            others.remove(&slot);
            !others.is_empty()
        });
    }

    /// The members of all pairs that have so many turns or more.
    pub(super) fn reaching(&self, turns: u32) -> BTreeSet<SlotId> {
        if self.most < turns {
            return BTreeSet::new();
        }
        self.pairs
            .iter()
            .flat_map(|(low, others)| others.iter().map(move |(high, count)| (low, high, count)))
            .filter(|(_, _, count)| **count >= turns)
            .flat_map(|(low, high, _)| [*low, *high])
            .collect()
    }
}
