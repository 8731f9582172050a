//! One team as its store tells it, held against what its members and senders were told; it reads
//! the store and never writes.

use std::collections::{BTreeMap, BTreeSet};

use aion_core::event::Event;
use aion_core::id::{MessageId, Seq, SlotId, TeamId};
use aion_core::mailbox::Place;
use aion_core::message::Body;
use aion_core::request::RequestState;
use aion_core::team::Team;
use aion_core::turn::ToolCallState;
use aion_store::{EventStore, SqliteStore};
use anyhow::{Context, Result};

/// Events read at a time.
const PAGE: usize = 4_000;

/// What became of one message in one mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    /// It is owed.
    Open,
    /// A turn that ended well had it in its input.
    Acknowledged,
    /// It will not be delivered, or a newer one took its place.
    Closed,
}

/// The books of one team.
#[derive(Debug)]
pub(crate) struct Books {
    id: TeamId,
    team: Team,
    seq: Seq,
    homes: BTreeMap<(MessageId, SlotId), Home>,
    /// The message of every token in the log.
    tokens: BTreeMap<String, MessageId>,
    /// What senders were told: key or token, with the number where they learnt it.
    promised: BTreeMap<String, Option<MessageId>>,
    /// Keys that were about to be sent, and whose answer never came.
    unanswered: BTreeSet<String>,
    /// Messages that were stored twice for one key or token.
    doubled: BTreeSet<String>,
    acknowledged_twice: BTreeSet<(MessageId, SlotId)>,
    faults: Vec<String>,
}

/// What one team comes to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    /// Messages whose acceptance somebody was told.
    pub(crate) accepted: u64,
    /// Of these: not in the log, or under another number.
    pub(crate) lost: u64,
    /// Keys and tokens with more than one message.
    pub(crate) doubled: u64,
    /// Messages that a mailbox acknowledged twice.
    pub(crate) acknowledged_twice: u64,
    /// All messages in the log, counted by mailbox.
    pub(crate) mailboxes: u64,
}

impl Books {
    pub(crate) fn new(id: TeamId) -> Self {
        Self {
            id,
            team: Team::new(),
            seq: Seq(0),
            homes: BTreeMap::new(),
            tokens: BTreeMap::new(),
            promised: BTreeMap::new(),
            unanswered: BTreeSet::new(),
            doubled: BTreeSet::new(),
            acknowledged_twice: BTreeSet::new(),
            faults: Vec::new(),
        }
    }

    pub(crate) fn id(&self) -> &TeamId {
        &self.id
    }

    /// A key is about to be sent.
    pub(crate) fn intend(&mut self, key: String) {
        self.unanswered.insert(key);
    }

    /// Somebody was told that a message was accepted.
    pub(crate) fn promise(&mut self, key: &str, id: Option<MessageId>) {
        self.unanswered.remove(key);
        let before = self.promised.insert(key.to_owned(), id);
        if let (Some(Some(before)), Some(now)) = (before, id)
            && before != now
        {
            self.faults.push(format!("the key {key} was {before} and is {now}"));
        }
    }

    /// The keys that wait for an answer, and some that have one.
    pub(crate) fn to_send_again(&self, answered: usize) -> Vec<String> {
        let known = self.promised.keys().rev().filter(|key| !key.starts_with("a-"));
        self.unanswered.iter().chain(known.take(answered)).cloned().collect()
    }

    /// Reads what is new in the store and checks every home.
    pub(crate) async fn catch_up(&mut self, store: &SqliteStore) -> Result<()> {
        loop {
            let page = match store.read(&self.id, self.seq, PAGE).await {
                Ok(page) => page,
                // The team may have been killed before its first commit.
                Err(aion_store::StoreError::NoTeam(_)) if self.seq == Seq(0) => break,
                Err(error) => return Err(error).context("read the log"),
            };
            let last = page.len() < PAGE;
            for recorded in page {
                if recorded.seq != self.seq.next() {
                    self.faults.push(format!("event {} follows {}", recorded.seq, self.seq));
                }
                self.seq = recorded.seq;
                self.team.evolve(recorded.at, &recorded.event);
                self.note(&recorded.event);
            }
            if last {
                break;
            }
        }
        self.check_homes();
        Ok(())
    }

    fn note(&mut self, event: &Event) {
        match event {
            Event::MessageSent { message, recipients, .. } => {
                for slot in recipients {
                    if self.homes.insert((message.id, *slot), Home::Open).is_some() {
                        self.faults.push(format!("{} was sent twice to {slot}", message.id));
                    }
                }
                if let Body::Text(text) = &message.body
                    && let Some(token) = token(text)
                    && self.tokens.insert(token.to_owned(), message.id).is_some()
                {
                    self.doubled.insert(token.to_owned());
                }
            }
            Event::TurnEnded { slot, acknowledged, .. } => {
                for id in acknowledged {
                    self.close(*id, *slot, Home::Acknowledged);
                }
            }
            Event::MessageDeadLettered { message, slot, .. }
            | Event::MessageSuperseded { message, slot, .. } => {
                self.close(*message, *slot, Home::Closed);
            }
            _ => {}
        }
    }

    fn close(&mut self, id: MessageId, slot: SlotId, home: Home) {
        match self.homes.insert((id, slot), home) {
            Some(Home::Open) => {}
            Some(Home::Acknowledged) if home == Home::Acknowledged => {
                self.acknowledged_twice.insert((id, slot));
            }
            before => self.faults.push(format!("{id} of {slot} was {before:?} and is {home:?}")),
        }
    }

    /// What is owed is in exactly one mailbox, in the queue or in its owner's live turn; what is
    /// not owed is in none.
    fn check_homes(&mut self) {
        let owed: BTreeSet<(MessageId, SlotId)> = self
            .homes
            .iter()
            .filter(|(_, home)| **home == Home::Open)
            .map(|(place, _)| *place)
            .collect();
        let mut held = BTreeSet::new();
        for agent in self.team.agents() {
            for (id, entry) in agent.mailbox().entries() {
                held.insert((*id, agent.slot()));
                if let Place::InTurn(turn) = entry.place() {
                    let live = agent.turn().filter(|live| live.id() == turn);
                    if live.is_none_or(|live| !live.mail().contains_key(id)) {
                        self.faults.push(format!("{id} is in {turn}, which does not have it"));
                    }
                }
            }
        }
        if owed != held {
            let odd: Vec<_> = owed.symmetric_difference(&held).take(5).collect();
            self.faults.push(format!("mail without exactly one home: {odd:?}"));
        }
    }

    /// Whether the team waits for a decision or has a command running.
    pub(crate) fn is_holding(&self) -> bool {
        let asks = self.team.requests().any(|(_, state)| matches!(state, RequestState::Open));
        let runs = self.team.agents().filter_map(|agent| agent.turn()).any(|turn| {
            turn.calls().values().any(|call| matches!(call, ToolCallState::Started { .. }))
        });
        asks || runs
    }

    /// Whether nothing is owed any more.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.homes.values().all(|home| *home != Home::Open)
    }

    /// Checks the whole chain, and that a snapshot with its tail, and the whole log, fold to the
    /// same state.
    pub(crate) async fn check_log(&mut self, store: &SqliteStore) -> Result<()> {
        let verified = store.verify(&self.id).await.context("verify the chain")?;
        if verified.events != self.seq.0 {
            self.faults.push(format!("the chain has {} events, not {}", verified.events, self.seq));
        }
        let snapshot =
            store.snapshot_before(&self.id, self.seq).await.context("read a snapshot")?;
        let Some(snapshot) = snapshot else { return Ok(()) };
        let mut state: Team =
            serde_json::from_slice(&snapshot.bytes).context("read a snapshot's state")?;
        let tail = store.read(&self.id, snapshot.seq, usize::MAX).await.context("read the tail")?;
        for recorded in tail {
            state.evolve(recorded.at, &recorded.event);
        }
        if state != self.team {
            self.faults.push(format!("the snapshot at {} leads elsewhere", snapshot.seq));
        }
        Ok(())
    }

    /// The sums, and what is wrong.
    pub(crate) fn sums(&self) -> (Sums, Vec<String>) {
        let lost = self.promised.iter().filter(|(key, id)| match self.tokens.get(*key) {
            None => true,
            Some(stored) => id.is_some_and(|id| id != *stored),
        });
        let sums = Sums {
            accepted: self.promised.len() as u64,
            lost: lost.count() as u64,
            doubled: self.doubled.len() as u64,
            acknowledged_twice: self.acknowledged_twice.len() as u64,
            mailboxes: self.homes.len() as u64,
        };
        let faults = self.faults.iter().map(|fault| format!("{}: {fault}", self.id)).collect();
        (sums, faults)
    }
}

/// What is unique in the text of a message of the cast.
fn token(text: &str) -> Option<&str> {
    let first = text.split(' ').next()?;
    ["p-", "h-", "m-", "a-"].iter().any(|kind| first.starts_with(kind)).then_some(first)
}
