//! A team as its log tells it, read page by page; nothing is ever appended.

use aion_core::event::{Event, Recorded};
use aion_core::id::{Seq, TeamId};
use aion_core::team::Team;
use aion_runtime::{House, StoreError};

/// Events read at a time.
const PAGE: usize = 512;
/// Pages that one call reads at most where it looks for few events among many.
const PAGES: usize = 16;

/// A page of events, with where the next one begins.
#[derive(Clone, Debug)]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    pub(crate) next: Option<u64>,
}

/// Up to `limit` events after `after`.
pub(crate) async fn events(
    house: &House,
    team: &TeamId,
    after: Seq,
    limit: usize,
) -> Result<Page<Recorded>, StoreError> {
    let mut items = house.store.read(team, after, limit + 1).await?;
    let more = items.len() > limit;
    items.truncate(limit);
    let next = more.then(|| items.last().map(|last| last.seq.0)).flatten();
    Ok(Page { items, next })
}

/// Up to `limit` accepted messages after `after`; fewer where they lie far apart.
pub(crate) async fn messages(
    house: &House,
    team: &TeamId,
    after: Seq,
    limit: usize,
) -> Result<Page<Recorded>, StoreError> {
    let mut items = Vec::new();
    let mut seen = after;
    for _ in 0..PAGES {
        let page = house.store.read(team, seen, PAGE).await?;
        let full = page.len() == PAGE;
        for recorded in page {
            if items.len() == limit {
                return Ok(Page { items, next: Some(seen.0) });
            }
            seen = recorded.seq;
            if matches!(recorded.event, Event::MessageSent { .. }) {
                items.push(recorded);
            }
        }
        if !full {
            return Ok(Page { items, next: None });
        }
    }
    Ok(Page { items, next: Some(seen.0) })
}

/// The state after `at`, or after the last event. A snapshot shortens the way where one fits.
pub(crate) async fn fold(
    house: &House,
    team: &TeamId,
    at: Option<Seq>,
) -> Result<(Team, Seq), StoreError> {
    let end = at.unwrap_or(Seq(u64::MAX));
    let snapshot = house.store.snapshot_before(team, end).await?;
    let cached = snapshot
        .filter(|snapshot| snapshot.state_version == Team::STATE_VERSION)
        // A snapshot is a cache: without it the way is longer, and the end the same.
        .and_then(|snapshot| Some((serde_json::from_slice(&snapshot.bytes).ok()?, snapshot.seq)));
    let (mut state, mut seen) = cached.unwrap_or_else(|| (Team::new(), Seq(0)));
    loop {
        let page = house.store.read(team, seen, PAGE).await?;
        let full = page.len() == PAGE;
        for recorded in &page {
            if recorded.seq > end {
                return Ok((state, seen));
            }
            state.evolve(recorded.at, &recorded.event);
            seen = recorded.seq;
        }
        if !full {
            return Ok((state, seen));
        }
    }
}
