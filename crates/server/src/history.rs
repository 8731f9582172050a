//! A team as its log tells it, read page by page; nothing is ever appended.

use aion_core::event::{Event, Recorded};
use aion_core::id::{MessageId, Seq, TeamId};
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

/// The event that accepted a message. Their ids grow along the log: few pages of it are read.
pub(crate) async fn message(
    house: &House,
    team: &TeamId,
    id: MessageId,
) -> Result<Option<Recorded>, StoreError> {
    // It lies behind `before`, if anywhere, and not behind `until` once that is known.
    let (mut before, mut until) = (0_u64, None);
    loop {
        let middle = match until {
            None => before * 2,
            Some(until) if until <= before => return Ok(None),
            Some(until) if until - before <= PAGE as u64 => before,
            Some(until) => before.midpoint(until),
        };
        let page = next_messages(house, team, Seq(middle)).await?;
        let first = page.iter().find_map(sent);
        if let Some(found) = page.iter().find(|recorded| sent(recorded) == Some(id)) {
            return Ok(Some(found.clone()));
        }
        match (first, page.last()) {
            (Some(first), Some(last)) if first < id => before = last.seq.0,
            _ if middle == before => return Ok(None),
            _ => until = Some(middle),
        }
    }
}

/// The next page behind `after` that holds a message; nothing where there is none.
async fn next_messages(
    house: &House,
    team: &TeamId,
    after: Seq,
) -> Result<Vec<Recorded>, StoreError> {
    let mut seen = after;
    loop {
        let page = house.store.read(team, seen, PAGE).await?;
        match page.last() {
            Some(last) if page.iter().all(|recorded| sent(recorded).is_none()) => seen = last.seq,
            Some(_) | None => return Ok(page),
        }
    }
}

fn sent(recorded: &Recorded) -> Option<MessageId> {
    match &recorded.event {
        Event::MessageSent { message, .. } => Some(message.id),
        _ => None,
    }
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
