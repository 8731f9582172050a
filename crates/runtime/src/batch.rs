//! What a session stores together, and who waits for it; it never decides what goes in.

use std::ops::Range;
use std::sync::Arc;

use aion_core::Rejection;
use aion_core::command::{Command, Receipt};
use aion_core::event::Recorded;
use aion_core::id::Seq;
use aion_core::team::Team;
use aion_store::{APPEND_LIMIT, Body};

use crate::handle::{Committed, Events, Query, Reply, SubmitError};

/// Commands that are stored together at most.
const COMMANDS: usize = 256;
/// Bytes after which a batch takes nothing more in: the next command seldom makes it larger than
/// one append may be.
const BYTES: usize = APPEND_LIMIT / 2;

/// Events that are to be stored together, while more are taken in.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) events: Vec<Recorded>,
    bodies: Vec<Body>,
    bytes: usize,
    pub(crate) commands: usize,
    pub(crate) waiting: Vec<Waiting>,
    /// The team is closed after it.
    pub(crate) closing: bool,
}

/// A batch that takes nothing more in. Append, answers and watchers share its events.
pub(crate) struct Sealed {
    pub(crate) events: Arc<[Recorded]>,
    pub(crate) waiting: Vec<Waiting>,
}

/// Events that are stored in one append.
pub(crate) struct Part {
    pub(crate) events: Arc<[Recorded]>,
    pub(crate) bodies: Vec<Body>,
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
        let body = Body::of(&recorded);
        self.bytes += body.size();
        self.bodies.push(body);
        self.events.push(recorded);
    }

    /// Takes nothing more in, and gives the appends that store it.
    pub(crate) fn seal(self) -> (Sealed, Vec<Part>) {
        let events = Arc::from(self.events);
        let parts = parts(&events, self.bodies, self.bytes);
        (Sealed { events, waiting: self.waiting }, parts)
    }
}

/// Events of a batch in parts that a store takes: one, unless a single command made more than fits,
/// as the end of a large team does. A fall between two of them leaves such a command half decided:
/// the end of a team and a removal say the rest when they are asked for again.
fn parts(events: &Arc<[Recorded]>, bodies: Vec<Body>, bytes: usize) -> Vec<Part> {
    if bytes < APPEND_LIMIT {
        return vec![Part { events: Arc::clone(events), bodies }];
    }
    let (mut parts, mut bytes) = (vec![(Vec::new(), Vec::new())], 0);
    for (recorded, body) in events.iter().zip(bodies) {
        if bytes + body.size() >= APPEND_LIMIT {
            parts.push((Vec::new(), Vec::new()));
            bytes = 0;
        }
        bytes += body.size();
        // There is always a last one.
        if let Some((events, bodies)) = parts.last_mut() {
            events.push(recorded.clone());
            bodies.push(body);
        }
    }
    parts.into_iter().map(|(events, bodies)| Part { events: events.into(), bodies }).collect()
}

impl Sealed {
    /// The end of the log once all of it is stored.
    pub(crate) fn end(&self) -> Option<&Recorded> {
        self.events.last()
    }
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
