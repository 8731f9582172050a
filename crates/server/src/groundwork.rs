//! What is prepared around a team's beginning: its scenario is kept, its work tree is recorded; the
//! composition root says how, and nothing here decides whether a team may begin.

use std::fmt;
use std::path::Path;

use aion_core::id::TeamId;

/// What the house does around a team's beginning and its end. Called on a thread that may wait.
pub trait Groundwork: Send + Sync + fmt::Debug + 'static {
    /// Before a team begins in a workspace. Doing it twice is as good as once.
    fn prepare(
        &self,
        team: &TeamId,
        workspace: &Path,
        scenario: Option<&str>,
    ) -> Result<(), GroundworkError>;

    /// Gives a team another scenario to play; agents that start later play it.
    fn keep_scenario(&self, team: &TeamId, scenario: &str) -> Result<(), GroundworkError>;

    /// The team did not begin, or is erased: leaves nothing of it.
    fn forget(&self, team: &TeamId, workspace: &Path);
}

/// Why a team was not prepared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroundworkError {
    /// What was asked for is not possible.
    #[error("{detail}")]
    Refused {
        /// A stable word for programs.
        code: String,
        /// A sentence for people.
        detail: String,
    },
    /// The machine did not let us.
    #[error("{0}")]
    Failed(String),
}

/// Prepares nothing, and has no scenarios.
impl Groundwork for () {
    fn prepare(
        &self,
        team: &TeamId,
        _: &Path,
        scenario: Option<&str>,
    ) -> Result<(), GroundworkError> {
        scenario.map_or(Ok(()), |scenario| self.keep_scenario(team, scenario))
    }

    fn keep_scenario(&self, _: &TeamId, _: &str) -> Result<(), GroundworkError> {
        Err(GroundworkError::Refused {
            code: "scenario.unknown".to_owned(),
            detail: "no scenarios are played here".to_owned(),
        })
    }

    fn forget(&self, _: &TeamId, _: &Path) {}
}
