//! Signals of the person and the system, counted in stages; it never decides what becomes of a team.

use std::time::Duration;

use aion_api::Exit;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::exit::Failure;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// End the lead's turn; teammates go on.
    InterruptLead,
    /// Stop all, and keep the state.
    StopTeam(Signalled),
    /// End everything at once.
    Kill(Signalled),
}

/// Which signal it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signalled {
    /// Ctrl+C.
    Interrupt,
    /// A signal to stop.
    Terminate,
    /// The terminal went away.
    HangUp,
}

impl Signalled {
    /// The exit code that goes with it.
    pub(crate) fn exit(self) -> Exit {
        match self {
            Self::Interrupt => Exit::Interrupted,
            Self::Terminate | Self::HangUp => Exit::Terminated,
        }
    }
}

/// How long the program has to end by itself once everything is to end at once.
const PATIENCE: Duration = Duration::from_secs(1);

/// Listens for signals from here on, in a task of its own: a terminal that takes no output must not
/// keep a person from ending the program.
#[derive(Debug)]
pub(crate) struct Signals {
    wishes: mpsc::UnboundedReceiver<Wish>,
    listener: JoinHandle<()>,
}

impl Signals {
    /// Begins to listen. From then on Ctrl+C does not end the process by itself.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let on = |kind| signal(kind).map_err(|error| Failure::io("listen for signals", &error));
        let (sender, wishes) = mpsc::unbounded_channel();
        let listening = listen(
            on(SignalKind::interrupt())?,
            on(SignalKind::terminate())?,
            on(SignalKind::hangup())?,
            sender,
        );
        Ok(Self { wishes, listener: tokio::spawn(listening) })
    }

    /// The next wish.
    pub(crate) async fn next(&mut self) -> Wish {
        match self.wishes.recv().await {
            Some(wish) => wish,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

async fn listen(
    mut interrupt: Signal,
    mut terminate: Signal,
    mut hangup: Signal,
    wishes: mpsc::UnboundedSender<Wish>,
) {
    let mut stage = Stage::default();
    loop {
        let signalled = tokio::select! {
            Some(()) = interrupt.recv() => Signalled::Interrupt,
            Some(()) = terminate.recv() => Signalled::Terminate,
            Some(()) = hangup.recv() => Signalled::HangUp,
            else => return,
        };
        let wish = stage.advance(signalled);
        if wishes.send(wish).is_err() {
            return;
        }
        if let Wish::Kill(signalled) = wish {
            tokio::time::sleep(PATIENCE).await;
            // Every child process hangs on a leash that ends with this process.
            std::process::exit(i32::from(signalled.exit().code()));
        }
    }
}

/// How far a person has gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Running,
    LeadInterrupted,
    Stopping,
}

impl Stage {
    fn advance(&mut self, signalled: Signalled) -> Wish {
        let (next, wish) = match (*self, signalled) {
            (Self::Running, Signalled::Interrupt) => (Self::LeadInterrupted, Wish::InterruptLead),
            (Self::Running | Self::LeadInterrupted, _) => {
                (Self::Stopping, Wish::StopTeam(signalled))
            }
            (Self::Stopping, _) => (Self::Stopping, Wish::Kill(signalled)),
        };
        *self = next;
        wish
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_stages_by_ctrl_c_and_two_by_a_signal_to_stop() {
        use Signalled::{Interrupt, Terminate};
        let check = |signals: &[Signalled], expect: &[Wish]| {
            let mut stage = Stage::default();
            let wishes: Vec<Wish> = signals.iter().map(|signal| stage.advance(*signal)).collect();
            assert_eq!(wishes, expect);
        };
        check(
            &[Interrupt, Interrupt, Interrupt, Interrupt],
            &[
                Wish::InterruptLead,
                Wish::StopTeam(Interrupt),
                Wish::Kill(Interrupt),
                Wish::Kill(Interrupt),
            ],
        );
        check(&[Terminate, Terminate], &[Wish::StopTeam(Terminate), Wish::Kill(Terminate)]);
        check(&[Interrupt, Terminate], &[Wish::InterruptLead, Wish::StopTeam(Terminate)]);
    }
}
