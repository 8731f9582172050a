//! Signals of the person and the system, counted in stages; it ends nothing by itself.

use tokio::signal::unix::{Signal, SignalKind, signal};

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
    /// A signal to stop, or a terminal that went away.
    Terminate,
}

/// Listens for signals from here on.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    stage: Stage,
}

impl Signals {
    /// Begins to listen. From then on Ctrl+C does not end the process by itself.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let on = |kind| signal(kind).map_err(|error| Failure::io("listen for signals", &error));
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hangup: on(SignalKind::hangup())?,
            stage: Stage::default(),
        })
    }

    /// The next wish.
    pub(crate) async fn next(&mut self) -> Wish {
        let signalled = tokio::select! {
            Some(()) = self.interrupt.recv() => Signalled::Interrupt,
            Some(()) = self.terminate.recv() => Signalled::Terminate,
            Some(()) = self.hangup.recv() => Signalled::Terminate,
            else => std::future::pending().await,
        };
        self.stage.advance(signalled)
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
