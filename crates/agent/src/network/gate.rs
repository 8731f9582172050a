//! Where a connection waits for a decision; it decides nothing.

use tokio::sync::{mpsc, oneshot};

/// Questions of one command that wait at a time; more are refused.
const WAITING: usize = 32;

/// A host that somebody has to decide about.
#[derive(Debug)]
pub struct HostAsk {
    /// Its name.
    pub host: String,
    /// Where the decision goes; a refusal has a reason.
    pub answer: oneshot::Sender<Result<(), String>>,
}

/// The asking side, for one command.
#[derive(Clone, Debug)]
pub struct Gate(mpsc::Sender<HostAsk>);

impl Gate {
    /// A gate, and the side that answers.
    pub fn new() -> (Self, mpsc::Receiver<HostAsk>) {
        let (asks, asked) = mpsc::channel(WAITING);
        (Self(asks), asked)
    }

    /// Asks, and waits for the answer. It ends with the one who answers.
    pub(super) async fn ask(&self, host: &str) -> Result<(), String> {
        let (answer, answered) = oneshot::channel();
        let nobody = "nobody is there to decide about it any more";
        self.0.try_send(HostAsk { host: host.to_owned(), answer }).map_err(
            |error| match error {
                mpsc::error::TrySendError::Full(_) => "too many hosts wait for a decision",
                mpsc::error::TrySendError::Closed(_) => nobody,
            },
        )?;
        answered.await.unwrap_or_else(|_| Err(nobody.to_owned()))
    }
}
