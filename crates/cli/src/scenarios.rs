//! Which scenario the scripted agents of a team play; it keeps them beside the teams' logs, and
//! plays none itself.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aion_agent::provider::Provider;
use aion_agent::scripted::{Scenario, Scripted};
use aion_api::Exit;
use aion_backends::ProviderSource;
use aion_core::id::TeamId;

use crate::exit::Failure;
use crate::replace::replace;

/// The scenarios of one data directory.
#[derive(Debug)]
pub(crate) struct Scenarios {
    dir: PathBuf,
    whose: Whose,
    /// Those that are played. Only spares reading: a team that is not here is looked up.
    played: Mutex<BTreeMap<TeamId, Arc<Scripted>>>,
}

#[derive(Debug)]
enum Whose {
    /// Every team plays this one.
    All(Arc<Scripted>),
    /// Every team plays its own, and this one where it has none.
    Each(Option<Arc<Scripted>>),
}

impl Scenarios {
    /// One for every team.
    pub(crate) fn one(dir: &Path, scenario: Scenario) -> Self {
        Self::new(dir, Whose::All(Arc::new(Scripted::new(scenario))))
    }

    /// Each team's own; `otherwise` for teams that have none.
    pub(crate) fn kept(dir: &Path, otherwise: Option<Scenario>) -> Self {
        Self::new(dir, Whose::Each(otherwise.map(|scenario| Arc::new(Scripted::new(scenario)))))
    }

    fn new(dir: &Path, whose: Whose) -> Self {
        Self { dir: dir.to_owned(), whose, played: Mutex::default() }
    }

    /// Keeps a team's scenario beside its log, so that it survives restarts.
    pub(crate) fn keep(&self, team: &TeamId, text: &str) -> Result<(), Failure> {
        let scenario = parse(&kept(&self.dir, team).display().to_string(), text)?;
        keep(&self.dir, team, text)?;
        self.lock().insert(team.clone(), Arc::new(Scripted::new(scenario)));
        Ok(())
    }

    /// Forgets a team's scenario.
    pub(crate) fn forget(&self, team: &TeamId) {
        self.lock().remove(team);
        // A file that stays belongs to no team, and is played by nobody.
        let _ = fs::remove_file(kept(&self.dir, team));
    }

    /// Whether a team that was given none has one to play all the same.
    pub(crate) fn plays_for_all(&self) -> bool {
        match &self.whose {
            Whose::All(_) => true,
            Whose::Each(otherwise) => otherwise.is_some(),
        }
    }

    fn of(&self, team: &TeamId) -> Result<Arc<Scripted>, String> {
        let otherwise = match &self.whose {
            Whose::All(scripted) => return Ok(Arc::clone(scripted)),
            Whose::Each(otherwise) => otherwise,
        };
        if let Some(scripted) = self.lock().get(team) {
            return Ok(Arc::clone(scripted));
        }
        let path = kept(&self.dir, team);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return otherwise.clone().ok_or_else(|| {
                    "the team has no scenario to play; aion run --resume TEAM --script FILE gives \
                     it one"
                        .to_owned()
                });
            }
            Err(error) => return Err(format!("read {}: {error}", path.display())),
        };
        let scenario = Scenario::parse(&path.display().to_string(), &text)
            .map_err(|error| error.to_string())?;
        let scripted = Arc::new(Scripted::new(scenario));
        self.lock().insert(team.clone(), Arc::clone(&scripted));
        Ok(scripted)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TeamId, Arc<Scripted>>> {
        // Nothing in here can be half-done: a poisoned lock holds valid data.
        self.played.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProviderSource for Scenarios {
    fn provider(
        &self,
        team: &TeamId,
        _: &str,
        _: Option<&str>,
    ) -> Result<Arc<dyn Provider>, String> {
        Ok(self.of(team)?)
    }
}

/// Reads a scenario from a file.
pub(crate) fn scenario(path: &Path) -> Result<(Scenario, String), Failure> {
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::new(
            Exit::NotFound,
            "scenario.unreadable",
            format!("read {}: {error}", path.display()),
        )
    })?;
    let parsed = parse(&path.display().to_string(), &text)?;
    Ok((parsed, text))
}

/// Reads a scenario's text; `name` is what messages call it.
pub(crate) fn parse(name: &str, text: &str) -> Result<Scenario, Failure> {
    Scenario::parse(name, text)
        .map_err(|error| Failure::new(Exit::Usage, "scenario.invalid", error.to_string()))
}

/// Keeps a team's scenario beside its log, so that the team can go on without being given it again.
pub(crate) fn keep(dir: &Path, team: &TeamId, text: &str) -> Result<(), Failure> {
    let path = kept(dir, team);
    replace(&path, text.as_bytes(), 0o600)
        .map_err(|error| Failure::io(format!("keep {}", path.display()), &error))
}

/// Where a team's scenario is kept.
pub(crate) fn kept(dir: &Path, team: &TeamId) -> PathBuf {
    dir.join("scenarios").join(format!("{team}.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "[[agent.team-lead.rule]]\nwhen = [{ given = \".\" }]\nsay = \"Done.\"\n";

    #[test]
    fn a_team_plays_its_own_scenario_also_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let team = TeamId::new("t1").unwrap();
        let first = Scenarios::kept(dir.path(), None);
        assert!(first.of(&team).unwrap_err().contains("--script"));
        assert!(first.keep(&team, "no toml").is_err());
        first.keep(&team, ONE).unwrap();
        let played = first.of(&team).unwrap();
        assert!(Arc::ptr_eq(&played, &first.of(&team).unwrap()));
        let second = Scenarios::kept(dir.path(), None);
        assert_eq!(second.of(&team).unwrap().scenario().agents().count(), 1);
        second.forget(&team);
        assert!(second.of(&team).is_err());
        let other = Scenarios::kept(dir.path(), Some(parse("one", ONE).unwrap()));
        assert!(other.of(&team).is_ok());
    }
}
