//! What a session stores together, and who waits for it; it never decides what goes in.

use std::ops::Range;
use std::sync::Arc;

use aion_core::Rejection;
use aion_core::command::{Command, Receipt};
use aion_core::event::Recorded;
use aion_core::id::Seq;
use aion_core::team::Team;
use aion_store::APPEND_LIMIT;
use serde::Serialize;

use crate::handle::{Committed, Events, Query, Reply, SubmitError};

/// Commands that are stored together at most.
const COMMANDS: usize = 256;
/// Bytes after which a batch takes nothing more in: the next command seldom makes it larger than
/// one append may be.
const BYTES: usize = APPEND_LIMIT / 2;
/// What the store adds to an event: its envelope and its place in the chain, with room to spare.
const ENVELOPE: usize = 512;

/// Events that are to be stored together, while more are taken in.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) events: Vec<Recorded>,
    pub(crate) bytes: usize,
    pub(crate) commands: usize,
    pub(crate) waiting: Vec<Waiting>,
    /// The team is closed after it.
    pub(crate) closing: bool,
}

/// A batch that takes nothing more in. Append, answers and watchers share its events.
pub(crate) struct Sealed {
    pub(crate) events: Arc<[Recorded]>,
    pub(crate) waiting: Vec<Waiting>,
    bytes: usize,
}

/// What is owed once the batch is durable.
pub(crate) enum Waiting {
    Accepted {
        reply: Option<Reply>,
        range: Range<usize>,
        receipt: Option<Receipt>,
    },
    Rejected {
        reply: Option<Reply>,
        rejection: Rejection,
    },
    /// A command of the shell itself. It is tried again where the store fails.
    Own(Box<Command>),
    Query(Query),
}

impl Batch {
    pub(crate) fn is_full(&self) -> bool {
        self.commands >= COMMANDS || self.bytes >= BYTES || self.closing
    }

    pub(crate) fn push(&mut self, recorded: Recorded) {
        self.bytes += weight(&recorded.event);
        self.events.push(recorded);
    }

    pub(crate) fn seal(self) -> Sealed {
        Sealed { events: self.events.into(), waiting: self.waiting, bytes: self.bytes }
    }
}

impl Sealed {
    /// The end of the log once all of it is stored.
    pub(crate) fn end(&self) -> Option<&Recorded> {
        self.events.last()
    }

    /// Its events in appends that a store takes: one, unless a single command made more than fits,
    /// as the end of a large team does. A fall between two of them leaves such a command half
    /// decided: the end of a team and a removal say the rest when they are asked for again.
    pub(crate) fn appends(&self) -> Vec<Arc<[Recorded]>> {
        if self.bytes < APPEND_LIMIT {
            return vec![Arc::clone(&self.events)];
        }
        let (mut appends, mut bytes) = (vec![Vec::new()], 0);
        for recorded in self.events.iter() {
            let weight = weight(&recorded.event);
            if bytes + weight >= APPEND_LIMIT {
                appends.push(Vec::new());
                bytes = 0;
            }
            bytes += weight;
            // There is always a last one.
            if let Some(last) = appends.last_mut() {
                last.push(recorded.clone());
            }
        }
        appends.into_iter().map(Arc::from).collect()
    }
}

/// Bytes that an event or a transcript's item takes in the log, near enough for a limit.
pub(crate) fn weight(event: &impl Serialize) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(ENVELOPE);
    // An event that cannot be written is refused by the store, which says so better.
    let _ = serde_json::to_writer(&mut count, event);
    count.0
}

/// Gives what is owed.
pub(crate) fn answer(waiting: Waiting, state: &Team, seq: Seq, batch: &Arc<[Recorded]>) {
    let (reply, result) = match waiting {
        Waiting::Query(query) => return query(state),
        Waiting::Own(_) => return,
        Waiting::Rejected { reply, rejection } => (reply, Err(SubmitError::Rejected(rejection))),
        Waiting::Accepted { reply, range, receipt } => {
            let seq = batch[range.clone()].last().map_or(seq, |event| event.seq);
            let events = Events::new(Arc::clone(batch), range);
            (reply, Ok(Committed { seq, events, receipt }))
        }
    };
    if let Some(reply) = reply {
        // Whoever asked may have gone away; what was decided stands.
        let _ = reply.send(result);
    }
}

/// Says that it is not known to be durable.
pub(crate) fn refuse(reply: Option<Reply>, reason: &str) {
    if let Some(reply) = reply {
        // Whoever asked may have gone away.
        let _ = reply.send(Err(SubmitError::Unavailable(reason.to_owned())));
    }
}
