//! The port through which members that are programs of their own get their way to the team; it
//! listens to nobody itself.

use std::fmt;

use aion_backends::Connection;
use aion_core::id::{SlotId, TeamId};

/// Who hands out the ways to a team, and ends them. Neither call waits for anything.
pub trait Connections: fmt::Debug + Send + Sync + 'static {
    /// Draws the secret of one start of a member. The secrets of its earlier starts end.
    fn issue(&self, team: &TeamId, slot: SlotId, generation: u32) -> Connection;
    /// Ends every secret of this start of a member, and what is connected by it.
    fn revoke(&self, team: &TeamId, slot: SlotId, generation: u32);
}
