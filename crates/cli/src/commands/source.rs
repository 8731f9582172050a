//! Where a team's past is read: the store of this machine, beside whoever writes, or a daemon that
//! was named.

use std::sync::Arc;

use aion_core::event::Recorded;
use aion_core::id::{Seq, TeamId};
use aion_store::EventStore;

use super::Reading;
use crate::args::Reach;
use crate::client::{Client, connect, find_team, page};
use crate::exit::Failure;

/// Events read at a time.
const PAGE: usize = 1_000;

/// A team's past.
pub(super) struct Source {
    /// The team.
    pub(super) id: TeamId,
    from: From,
}

enum From {
    Store(Arc<dyn EventStore>),
    Daemon(Client),
}

impl Source {
    /// Of the team that is meant.
    pub(super) async fn open(reach: &Reach, wanted: Option<&str>) -> Result<Self, Failure> {
        if reach.url.is_some() {
            let client = connect(reach).await?;
            let id = TeamId::new(find_team(&client, wanted).await?.id)?;
            return Ok(Self { id, from: From::Daemon(client) });
        }
        let reading = Reading::open(&reach.data).await?;
        let (store, row) = reading.team(wanted)?;
        Ok(Self { id: row.team.clone(), from: From::Store(Arc::clone(store)) })
    }

    /// The next events; none at the end of the log.
    pub(super) async fn page(&self, after: Seq) -> Result<Vec<Recorded>, Failure> {
        match &self.from {
            From::Store(store) => Ok(store.read(&self.id, after, PAGE).await?),
            From::Daemon(client) => page(client, self.id.as_str(), after).await,
        }
    }

    /// All events, one page after the other.
    pub(super) async fn all(
        &self,
        mut take: impl FnMut(&Recorded) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut after = Seq(0);
        loop {
            let page = self.page(after).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.seq;
            for recorded in &page {
                take(recorded)?;
            }
        }
    }
}
