//! What happened in a team, read page by page from its daemon; where that is of this machine, from
//! the store beside it.

use aion_api::EventListResponse;
use aion_core::event::Recorded;
use aion_core::id::{Seq, TeamId};

use super::http::Client;
use super::problem::unreadable;
use super::socket::recorded;
use crate::daemon;
use crate::exit::Failure;
use crate::history::{Folded, fold};

/// Events of a page.
const PAGE: usize = 500;

/// The next page of events; empty at the end of the log.
pub(crate) async fn page(
    client: &Client,
    team: &str,
    after: Seq,
) -> Result<Vec<Recorded>, Failure> {
    let path = format!("/api/teams/{team}/events?after={after}&limit={PAGE}");
    let list: EventListResponse = client.get(&path).await?;
    list.events
        .into_iter()
        .map(|event| recorded(event).map_err(|error| unreadable(&error)))
        .collect()
}

/// The team as it is.
pub(crate) async fn folded(client: &Client, team: &str) -> Result<Folded, Failure> {
    if let Some(dir) = client.local_dir()
        && let Some(store) = daemon::reading(dir)?
    {
        return Ok(fold(&store, &TeamId::new(team)?, None).await?);
    }
    let mut folded = Folded::new();
    loop {
        let page = page(client, team, folded.seq).await?;
        for recorded in &page {
            folded.apply(recorded);
        }
        if page.len() < PAGE {
            return Ok(folded);
        }
    }
}
