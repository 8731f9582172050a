//! Who an agent's code runs for, tied to its task; it gives no authority.
//!
//! The context follows an agent's future over every await, whatever else the thread does in
//! between. It is not inherited by tasks that the future spawns: they are spawned by [`spawn_as`],
//! and blocking work by [`blocking_as`].

use std::future::Future;

use aion_core::id::{AgentName, SlotId, TeamId};
use tokio::task::JoinHandle;

/// One agent of one team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its team.
    pub team: TeamId,
    /// Its place.
    pub slot: SlotId,
    /// Its name.
    pub name: AgentName,
}

tokio::task_local! {
    static IDENTITY: Identity;
}

/// Who the running code belongs to, if it runs for an agent.
pub fn current() -> Option<Identity> {
    IDENTITY.try_with(Identity::clone).ok()
}

/// Spawns a task that runs for an agent.
pub fn spawn_as<F>(identity: Identity, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(IDENTITY.scope(identity, future))
}

/// Runs blocking work for the agent that the running code belongs to.
pub fn blocking_as<F, T>(work: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let identity = current();
    tokio::task::spawn_blocking(move || match identity {
        Some(identity) => IDENTITY.sync_scope(identity, work),
        None => work(),
    })
}
