//! What this machine prepares around a team's beginning: its scenario, and the record of its work
//! tree by which it can be undone; it decides nothing about the team.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aion_api::Exit;
use aion_core::id::TeamId;
use aion_server::{Groundwork, GroundworkError};

use crate::daemon::sessions;
use crate::exit::Failure;
use crate::git::Repository;
use crate::scenarios::Scenarios;

/// The groundwork of one data directory.
#[derive(Debug)]
pub(crate) struct Ground {
    dir: PathBuf,
    scenarios: Arc<Scenarios>,
}

impl Ground {
    /// Of a data directory with its scenarios.
    pub(crate) fn new(dir: &Path, scenarios: Arc<Scenarios>) -> Self {
        Self { dir: dir.to_owned(), scenarios }
    }
}

impl Groundwork for Ground {
    fn prepare(
        &self,
        team: &TeamId,
        workspace: &Path,
        scenario: Option<&str>,
    ) -> Result<(), GroundworkError> {
        Repository::refuse_data_inside(workspace, &self.dir).map_err(refused)?;
        if let Some(scenario) = scenario {
            self.scenarios.keep(team, scenario).map_err(refused)?;
        }
        if let Some(repository) = Repository::around(workspace) {
            repository.record_start(team).map_err(refused)?;
        }
        Ok(())
    }

    fn keep_scenario(&self, team: &TeamId, scenario: &str) -> Result<(), GroundworkError> {
        self.scenarios.keep(team, scenario).map_err(refused)
    }

    fn forget(&self, team: &TeamId, workspace: &Path) {
        self.scenarios.forget(team);
        if let Ok(sessions) = sessions(&self.dir) {
            sessions.forget(team);
        }
        if let Some(repository) = Repository::around(workspace) {
            repository.forget(team);
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is the end of the failure's way")]
fn refused(failure: Failure) -> GroundworkError {
    if failure.exit() == Exit::Failure {
        // Nothing that was asked for would be possible: the machine did not let us.
        return GroundworkError::Failed(failure.message().to_owned());
    }
    let (code, detail) = (failure.code().to_owned(), failure.message().to_owned());
    GroundworkError::Refused { code, detail }
}
