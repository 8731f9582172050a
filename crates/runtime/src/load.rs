//! Folds a team's log into its state; it never writes.

use std::collections::{BTreeMap, BTreeSet};

use aion_core::command::Command;
use aion_core::event::Recorded;
use aion_core::id::{Seq, TeamId};
use aion_core::team::Team;
use aion_store::{Snapshot, StoreError};

use crate::world::Shared;

/// Events read at a time where no snapshot helps.
const PAGE: usize = 2_000;

/// Why a team could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no such team.
    #[error("find a team {0}")]
    NoTeam(TeamId),
    /// Its log could not be read.
    #[error("read the team's log")]
    Store(#[from] StoreError),
    /// Its session fell too often.
    #[error("keep the team's session alive: {0}")]
    Fallen(String),
}

/// A loaded team.
pub(crate) struct Opened {
    pub(crate) state: Team,
    pub(crate) seq: Seq,
    pub(crate) epoch: u64,
    /// Up to where a snapshot covers it.
    pub(crate) snapshot_seq: Seq,
    /// The events after the snapshot.
    pub(crate) tail: Vec<Recorded>,
    last_append_wall_ms: u64,
}

pub(crate) async fn open(shared: &Shared) -> Result<Opened, StoreError> {
    let store = &shared.house.store;
    let loaded = store.open(&shared.team).await?;
    let (mut state, mut seq) = loaded.snapshot.as_ref().and_then(usable).unwrap_or_else(empty);
    let snapshot_seq = seq;
    let tail_begins = loaded.events.first().map_or(Seq(u64::MAX), |event| event.seq);
    if loaded.snapshot.is_some() && seq == Seq(0) {
        // The snapshot is of no use: what it stood for is read from the log.
        loop {
            let page = store.read(&shared.team, seq, PAGE).await?;
            let before = page.iter().filter(|event| event.seq < tail_begins);
            let last = seq;
            fold(&mut state, &mut seq, before)?;
            if seq == last {
                break;
            }
        }
    }
    fold(&mut state, &mut seq, loaded.events.iter())?;
    Ok(Opened {
        state,
        seq,
        epoch: loaded.epoch,
        snapshot_seq,
        tail: loaded.events,
        last_append_wall_ms: loaded.last_append_wall_ms,
    })
}

/// What the opening itself is to the rules: how long the house was away, and which turns go on.
pub(crate) fn opened_command(shared: &Shared, opened: &Opened) -> Command {
    let resumable: BTreeSet<_> = opened
        .state
        .agents()
        .filter(|agent| {
            let backend = shared.house.backends.of(agent.agent_type());
            backend.is_some_and(|backend| backend.resumes_turns())
        })
        .filter_map(|agent| agent.turn().map(aion_core::turn::Turn::id))
        .collect();
    let downtime_ms = match opened.last_append_wall_ms {
        0 => 0,
        last => shared.house.clock.wall_ms().saturating_sub(last),
    };
    Command::Opened { downtime_ms, resumable, detached: BTreeMap::new() }
}

fn empty() -> (Team, Seq) {
    (Team::new(), Seq(0))
}

/// A snapshot of another state version, or a damaged one, is as good as none.
fn usable(snapshot: &Snapshot) -> Option<(Team, Seq)> {
    if snapshot.state_version != Team::STATE_VERSION {
        return None;
    }
    serde_json::from_slice(&snapshot.bytes).ok().map(|team| (team, snapshot.seq))
}

fn fold<'a>(
    state: &mut Team,
    seq: &mut Seq,
    events: impl Iterator<Item = &'a Recorded>,
) -> Result<(), StoreError> {
    for recorded in events {
        if recorded.seq != seq.next() {
            return Err(StoreError::Corrupt(format!(
                "event {} follows event {seq} in the log",
                recorded.seq
            )));
        }
        state.evolve(recorded.at, &recorded.event);
        *seq = recorded.seq;
    }
    Ok(())
}
