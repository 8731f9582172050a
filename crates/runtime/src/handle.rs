//! How everybody else reaches a team: submit, query, subscribe; it never touches the team's state.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use aion_core::Rejection;
use aion_core::command::{Caller, Command, Receipt};
use aion_core::event::Recorded;
use aion_core::id::{Seq, TeamId};
use aion_core::team::Team;
use aion_core::time::Timestamp;
use tokio::sync::{mpsc, oneshot};

use crate::bus::{DeltaSubscription, Subscription};
use crate::world::Shared;

/// A team, as seen from outside its session. Cheap to clone.
#[derive(Clone)]
pub struct TeamHandle {
    inbox: mpsc::Sender<Input>,
    shared: Arc<Shared>,
}

impl fmt::Debug for TeamHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TeamHandle").field(&self.shared.team).finish()
    }
}

/// What became of an accepted command.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The last event of the command; where it made none, the end of the log.
    pub seq: Seq,
    /// The events it made, durable by the time anybody reads this.
    pub events: Events,
    /// The answer to an idempotency key that was used before; nothing new was decided then.
    pub receipt: Option<Receipt>,
}

/// The events of one command: a part of the batch that was stored together.
#[derive(Clone, Debug)]
pub struct Events {
    batch: Arc<[Recorded]>,
    range: Range<usize>,
}

impl Events {
    pub(crate) fn new(batch: Arc<[Recorded]>, range: Range<usize>) -> Self {
        Self { batch, range }
    }
}

impl Deref for Events {
    type Target = [Recorded];
    fn deref(&self) -> &[Recorded] {
        &self.batch[self.range.clone()]
    }
}

/// Why a command was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The rules refuse it.
    #[error("{0}")]
    Rejected(Rejection),
    /// It is not known to be durable; try again with the same idempotency key.
    #[error("the team is not available: {0}")]
    Unavailable(String),
    /// The team's session has ended.
    #[error("the team is closed")]
    Closed,
}

pub(crate) type Reply = oneshot::Sender<Result<Committed, SubmitError>>;
pub(crate) type Query = Box<dyn FnOnce(&Team) + Send>;

/// What a session takes in.
pub(crate) enum Input {
    Submit(Box<Submission>),
    /// A command of the shell itself, whose answer nobody waits for.
    Own(Box<Command>),
    Query(Query),
    Close,
}

/// One command on its way.
pub(crate) struct Submission {
    pub(crate) caller: Caller,
    pub(crate) credential: Option<String>,
    pub(crate) command: Command,
    pub(crate) reply: Option<Reply>,
}

impl TeamHandle {
    pub(crate) fn new(inbox: mpsc::Sender<Input>, shared: Arc<Shared>) -> Self {
        Self { inbox, shared }
    }

    /// The team.
    pub fn team(&self) -> &TeamId {
        &self.shared.team
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Asks something of the team, and answers once it is durable.
    pub async fn submit(
        &self,
        caller: Caller,
        credential: Option<String>,
        command: Command,
    ) -> Result<Committed, SubmitError> {
        let (reply, answer) = oneshot::channel();
        let submission = Submission { caller, credential, command, reply: Some(reply) };
        self.inbox
            .send(Input::Submit(Box::new(submission)))
            .await
            .map_err(|_| SubmitError::Closed)?;
        answer.await.unwrap_or_else(|_| Err(self.unanswered()))
    }

    /// Reads the team's committed state. The function runs on the team's own task: keep it short.
    pub async fn query<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Team) -> T + Send + 'static,
    ) -> Result<T, SubmitError> {
        let (reply, answer) = oneshot::channel();
        let query: Query = Box::new(move |team| {
            // Whoever asked may have gone away; then nobody needs the answer.
            let _ = reply.send(read(team));
        });
        self.inbox.send(Input::Query(query)).await.map_err(|_| SubmitError::Closed)?;
        answer.await.map_err(|_| self.unanswered())
    }

    /// All events after `from`, past and future, in order, each once.
    pub fn subscribe(&self, from: Seq) -> Subscription {
        Subscription::new(Arc::clone(&self.shared), from)
    }

    /// What agents write while they write it. Lossy by nature: a slow reader is told to come again.
    pub fn subscribe_deltas(&self) -> DeltaSubscription {
        self.shared.bus.subscribe_deltas()
    }

    /// The team's running time.
    pub fn now(&self) -> Timestamp {
        self.shared.now()
    }

    pub(crate) async fn close(&self) {
        // A session that is gone is closed already.
        let _ = self.inbox.send(Input::Close).await;
        self.inbox.closed().await;
    }

    fn unanswered(&self) -> SubmitError {
        if self.inbox.is_closed() {
            SubmitError::Closed
        } else {
            SubmitError::Unavailable(
                "the team's session did not answer; whether it was accepted is not known"
                    .to_owned(),
            )
        }
    }
}
