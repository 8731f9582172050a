//! What all handlers share: the service, the credentials, the ways to a team; no state of a team.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aion_core::command::{Caller, Command};
use aion_core::id::TeamId;
use aion_core::team::Team;
use aion_runtime::{Committed, SubmitError, TeamHandle, TeamRow, TeamService};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::{Access, Principal};
use crate::editor::Editor;
use crate::error::{Answer, Failure};
use crate::feed::Feed;
use crate::files::FileStore;
use crate::groundwork::Groundwork;
use crate::history;
use crate::mcp::MemberTokens;
use crate::metrics::Counts;
use crate::names::Names;

/// Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct App {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) service: TeamService,
    pub(crate) access: Access,
    /// The members' secrets.
    pub(crate) members: Arc<MemberTokens>,
    pub(crate) editor: Editor,
    pub(crate) feed: Feed,
    pub(crate) counts: Counts,
    /// The owners of teams that were asked for.
    pub(crate) owners: Mutex<BTreeMap<TeamId, Arc<str>>>,
    /// Where fresh workspaces are made.
    pub(crate) workspaces: PathBuf,
    /// Files that go along with messages.
    pub(crate) files: FileStore,
    /// What is prepared around a team's beginning.
    pub(crate) groundwork: Arc<dyn Groundwork>,
    /// What this machine calls the daemon.
    pub(crate) names: Arc<Names>,
    /// Ends every WebSocket.
    pub(crate) stop: CancellationToken,
    /// The sockets.
    pub(crate) sockets: TaskTracker,
}

impl std::ops::Deref for App {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.inner
    }
}

impl App {
    pub(crate) fn new(inner: Inner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// A team of the caller's. Another user's team is no team.
    pub(crate) async fn team(&self, principal: &Principal, id: &str) -> Answer<TeamHandle> {
        let id = TeamId::new(id).map_err(|_| Failure::no_team())?;
        let handle = if let Some(handle) = self.service.opened(&id) {
            handle
        } else {
            // Asked of the read models first: opening a team lets its members start.
            let rows = self.teams(principal).await?;
            if rows.iter().all(|row| row.team != id) {
                return Err(Failure::no_team());
            }
            self.service.open(&id).await?
        };
        if self.owner(&handle).await?.is_some_and(|owner| *owner == *principal.user) {
            Ok(handle)
        } else {
            Err(Failure::no_team())
        }
    }

    /// Who owns a team that is open. It never changes, so that a team is asked once: a question
    /// to a busy team waits for a commit.
    async fn owner(&self, team: &TeamHandle) -> Answer<Option<Arc<str>>> {
        let known = self.owners().get(team.team()).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let asked = self.read(team, |team| team.id().map(|_| Arc::from(team.owner()))).await?;
        if let Some(owner) = &asked {
            self.owners().insert(team.team().clone(), Arc::clone(owner));
        }
        Ok(asked)
    }

    /// Forgets a team that is erased.
    pub(crate) fn forget(&self, team: &TeamId) {
        self.owners().remove(team);
    }

    fn owners(&self) -> MutexGuard<'_, BTreeMap<TeamId, Arc<str>>> {
        // Nothing in here can be half-done: a poisoned lock holds valid data.
        self.inner.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A conversation of the caller's: a team of one.
    pub(crate) async fn conversation(&self, principal: &Principal, id: &str) -> Answer<TeamHandle> {
        let handle = self.team(principal, id).await?;
        if self.read(&handle, Team::is_conversation).await? {
            return Ok(handle);
        }
        Err(Failure::not_found("conversation.not_found", "there is no such conversation"))
    }

    /// The teams of the caller, from the read models.
    pub(crate) async fn teams(&self, principal: &Principal) -> Answer<Vec<TeamRow>> {
        let mut rows = self.service.list().await?;
        rows.retain(|row| row.owner == principal.user);
        Ok(rows)
    }

    /// Asks something of a team in the caller's name.
    pub(crate) async fn submit(
        &self,
        team: &TeamHandle,
        principal: &Principal,
        key: Option<String>,
        command: Command,
    ) -> Answer<Committed> {
        let command = match key {
            Some(key) => Command::Keyed { key, command: Box::new(command) },
            None => command,
        };
        Ok(team.submit(Caller::User, Some(principal.credential.clone()), command).await?)
    }

    /// Reads a team's committed state. Where nothing can be written at present, as on a full disk,
    /// it is read from the log.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        team: &TeamHandle,
        read: impl FnOnce(&Team) -> T + Clone + Send + 'static,
    ) -> Answer<T> {
        match team.query(read.clone()).await {
            Err(SubmitError::Unavailable(_)) => {
                let (state, _) = history::fold(self.service.house(), team.team(), None).await?;
                Ok(read(&state))
            }
            asked => Ok(asked?),
        }
    }
}
