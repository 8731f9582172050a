//! One member's mailbox: order, delivery, attempts and held notices; never the message bodies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{MessageId, TurnId};
use crate::message::Urgency;
use crate::time::Timestamp;

/// Mail that is not yet acknowledged, in the order of acceptance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mailbox {
    entries: BTreeMap<MessageId, Entry>,
    bytes: u64,
    queued: u32,
    /// Of the queued: those that start a turn by themselves.
    waking: u32,
    /// Of the queued: idle notices.
    held: u32,
}

/// One message in one mailbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub(crate) urgency: Urgency,
    pub(crate) bytes: u32,
    pub(crate) accepted_at: Timestamp,
    /// An idle notice: waits until all teammates are settled or it is due.
    pub(crate) held: bool,
    /// Turns that failed with it in their input.
    pub(crate) attempts: u32,
    /// Whether a turn that had it was lost.
    pub(crate) redelivered: bool,
    pub(crate) place: Place,
}

/// Where an unacknowledged message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In the queue.
    Queued,
    /// In the input of a live turn.
    InTurn(TurnId),
}

impl Entry {
    /// Where it is.
    pub fn place(&self) -> Place {
        self.place
    }
    /// How often a turn failed with it.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }
    /// Whether it was read before in a turn that was lost or failed.
    pub fn redelivered(&self) -> bool {
        self.redelivered || self.attempts > 0
    }
    /// Whether it is an idle notice that waits.
    pub fn held(&self) -> bool {
        self.held
    }
}

impl Mailbox {
    /// Everything not yet acknowledged.
    pub fn entries(&self) -> &BTreeMap<MessageId, Entry> {
        &self.entries
    }

    /// Messages in the queue, held ones included.
    pub fn unread(&self) -> usize {
        self.queued as usize
    }

    /// How many are not yet acknowledged.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is owed.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes not yet acknowledged.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether something in the queue starts a turn by itself. Held notices count when `due`.
    pub(crate) fn wakes(&self, due: bool) -> bool {
        self.waking > 0 || (due && self.held > 0)
    }

    /// Whether idle notices wait in the queue.
    pub(crate) fn holds_notices(&self) -> bool {
        self.held > 0
    }

    /// Accepted time of the oldest held notice in the queue.
    pub(crate) fn oldest_held(&self) -> Option<Timestamp> {
        if self.held == 0 {
            return None;
        }
        let queued = |e: &&Entry| e.held && e.place == Place::Queued;
        // The order of acceptance is the order of the ids.
        self.entries.values().find(queued).map(|e| e.accepted_at)
    }

    /// The next batch, oldest first. From the second attempt a message goes alone.
    pub(crate) fn batch(&self, due: bool, max: usize, max_bytes: u64) -> Vec<MessageId> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        for (id, entry) in &self.entries {
            if entry.place != Place::Queued || (entry.held && !due) {
                continue;
            }
            if entry.attempts > 0 {
                if batch.is_empty() {
                    batch.push(*id);
                }
                break;
            }
            if batch.len() == max
                || (!batch.is_empty() && bytes + u64::from(entry.bytes) > max_bytes)
            {
                break;
            }
            bytes += u64::from(entry.bytes);
            batch.push(*id);
        }
        batch
    }

    pub(crate) fn accept(&mut self, id: MessageId, entry: Entry) {
        self.bytes += u64::from(entry.bytes);
        self.count(&entry, 1);
        self.entries.insert(id, entry);
    }

    pub(crate) fn deliver(&mut self, id: MessageId, turn: TurnId) {
        self.place(id, |entry| entry.place = Place::InTurn(turn));
    }

    pub(crate) fn requeue(&mut self, id: MessageId, counted: bool, redelivered: bool) {
        self.place(id, |entry| {
            entry.place = Place::Queued;
            entry.attempts += u32::from(counted);
            entry.redelivered |= redelivered;
        });
    }

    /// Takes a message out for good.
    pub(crate) fn settle(&mut self, id: MessageId) {
        if let Some(entry) = self.entries.remove(&id) {
            self.bytes -= u64::from(entry.bytes);
            self.count(&entry, -1);
        }
    }

    fn place(&mut self, id: MessageId, change: impl FnOnce(&mut Entry)) {
        let Some(mut entry) = self.entries.remove(&id) else {
            return;
        };
        self.count(&entry, -1);
        change(&mut entry);
        self.count(&entry, 1);
        self.entries.insert(id, entry);
    }

    /// Keeps the counters: adds the entry with `sign` 1, takes it away with -1.
    fn count(&mut self, entry: &Entry, sign: i32) {
        if entry.place == Place::Queued {
            let add = |counter: &mut u32| *counter = counter.saturating_add_signed(sign);
            add(&mut self.queued);
            if entry.held {
                add(&mut self.held);
            } else if entry.urgency >= Urgency::Wake {
                add(&mut self.waking);
            }
        }
    }
}
