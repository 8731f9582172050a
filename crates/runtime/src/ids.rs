//! Draws what must not be guessed: handles and nonces; never the ids that a decision makes.

use std::fmt;
use std::fmt::Write;

use aion_core::id::{ConversationId, TeamId};

/// Draws handles and nonces. A trait, so that a simulation draws the same ones again.
pub trait Ids: Send + Sync + fmt::Debug + 'static {
    /// 32 lower-case hexadecimal digits that nobody can guess.
    fn draw(&self) -> String;

    /// A new team's handle.
    fn team(&self) -> TeamId {
        handle(TeamId::new(self.draw()))
    }

    /// A new conversation's handle.
    fn conversation(&self) -> ConversationId {
        handle(ConversationId::new(self.draw()))
    }

    /// A nonce for one wrapper.
    fn nonce(&self) -> String {
        let mut text = self.draw();
        text.truncate(16);
        text
    }
}

#[expect(clippy::expect_used, reason = "32 hexadecimal digits are always a valid handle")]
fn handle<T>(drawn: Result<T, aion_core::id::InvalidId>) -> T {
    drawn.expect("32 hexadecimal digits are a valid handle")
}

/// Draws from the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomIds;

impl Ids for RandomIds {
    #[expect(clippy::expect_used, reason = "a system without randomness cannot run agents safely")]
    fn draw(&self) -> String {
        let mut bytes = [0_u8; 16];
        // The system's generator fails only where none exists; going on without it would make
        // handles and nonces guessable, so this is the one right moment to stop.
        getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
        bytes.iter().fold(String::with_capacity(32), |mut out, byte| {
            // Writing to a string cannot fail.
            let _ = write!(out, "{byte:02x}");
            out
        })
    }
}
