//! Whether anybody wants something of the daemon; it ends nothing.

use std::time::Duration;

use aion_core::team::{Progress, Team};

use crate::app::App;

/// Looks at a daemon that serves. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Activity {
    app: App,
}

impl Activity {
    pub(crate) fn new(app: App) -> Self {
        Self { app }
    }

    /// How long nobody has called or followed, and no team has worked or waited for a person. None
    /// while somebody does.
    pub async fn idle_for(&self) -> Option<Duration> {
        if self.app.counts.sockets() > 0 || self.app.members.are_connected() {
            return None;
        }
        for row in self.app.service.list().await.ok()? {
            let Some(team) = self.app.service.opened(&row.team) else { continue };
            if row.ended {
                continue;
            }
            match team.query(Team::progress).await {
                Ok(Progress::Working) => return None,
                Ok(Progress::Waiting { requests, .. }) if !requests.is_empty() => return None,
                // A team that cannot be asked does not work.
                Ok(Progress::Waiting { .. } | Progress::Settled { .. }) | Err(_) => {}
            }
        }
        Some(self.app.counts.silent_for().min(self.app.members.silent_for()))
    }
}
