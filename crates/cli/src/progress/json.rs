//! Progress as a stream of JSON lines.

use aion_api::{RUN_SCHEMA, RunLine};
use aion_core::event::Recorded;
use aion_core::team::Team;

use super::{Beginning, Watcher, plain};
use crate::answer::Question;
use crate::describe::Happening;
use crate::exit::Failure;
use crate::{output, view};

/// Writes a line for each event.
#[derive(Debug, Default)]
pub(crate) struct JsonLines {
    team: String,
}

impl Watcher for JsonLines {
    fn begin(&mut self, beginning: &Beginning) -> Result<(), Failure> {
        self.team.clone_from(&beginning.team);
        output::json(&RunLine::Start {
            schema: RUN_SCHEMA.to_owned(),
            team: beginning.team.clone(),
            name: beginning.name.clone(),
            workspace: beginning.workspace.clone(),
            start_ref: beginning.start_ref.clone(),
            provider: beginning.thinks().map(|(provider, _)| provider.to_owned()),
            model: beginning.thinks().and_then(|(_, model)| model).map(str::to_owned),
        })
    }

    fn happened(&mut self, _: &Team, recorded: &Recorded, _: &Happening) -> Result<(), Failure> {
        output::json(&RunLine::Event(view::event_line(&self.team, recorded)))
    }

    fn ask(&mut self, team: &Team, question: &Question) -> Result<(), Failure> {
        match view::request(team, question.request, team.now_floor()) {
            Some(row) => output::json(&RunLine::Needs(row)),
            None => Ok(()),
        }
    }

    fn answered(&mut self, _: &Team, _: &str) -> Result<(), Failure> {
        Ok(())
    }

    fn note(&mut self, _: &Team, text: &str) -> Result<(), Failure> {
        plain::say(text)
    }
}
