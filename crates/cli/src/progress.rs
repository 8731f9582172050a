//! How a person sees a team at work: a tree, lines, JSON, or nothing; it never touches the team.

mod json;
mod plain;
mod story;
mod tree;
mod width;

use aion_core::event::Recorded;
use aion_core::team::Team;

pub(crate) use self::json::JsonLines;
pub(crate) use self::plain::Plain;
pub(crate) use self::story::StoryTeller;
pub(crate) use self::tree::Tree;
use crate::answer::Question;
use crate::daemon::SCRIPTED;
use crate::describe::Happening;
use crate::exit::Failure;
use crate::hosting::Who;

/// Somebody who shows what happens.
pub(crate) trait Watcher {
    /// The work begins.
    fn begin(&mut self, _beginning: &Beginning) -> Result<(), Failure> {
        Ok(())
    }
    /// Something happened; `team` is the state after it.
    fn happened(
        &mut self,
        team: &Team,
        recorded: &Recorded,
        happening: &Happening,
    ) -> Result<(), Failure>;
    /// A person is asked.
    fn ask(&mut self, team: &Team, question: &Question) -> Result<(), Failure>;
    /// The answer that was typed, or that the question needs none any more.
    fn answered(&mut self, team: &Team, note: &str) -> Result<(), Failure>;
    /// A word of the program itself.
    fn note(&mut self, team: &Team, text: &str) -> Result<(), Failure>;
    /// Time has passed, or several things have happened: draw again what is drawn.
    fn refresh(&mut self, _team: &Team) -> Result<(), Failure> {
        Ok(())
    }
    /// Nothing has happened for long.
    fn silence(&mut self, _team: &Team) -> Result<(), Failure> {
        Ok(())
    }
    /// The work has ended; nothing is drawn again.
    fn end(&mut self, _team: &Team) -> Result<(), Failure> {
        Ok(())
    }
}

/// What is known before the first event.
#[derive(Clone, Debug)]
pub(crate) struct Beginning {
    /// The team.
    pub(crate) team: String,
    /// Its name.
    pub(crate) name: String,
    /// The directory it works in.
    pub(crate) workspace: String,
    /// Where the start of the work tree is kept.
    pub(crate) start_ref: Option<String>,
    /// Who leads it, where it is a new team.
    pub(crate) lead: Option<Who>,
}

impl Beginning {
    /// The service and the model that the lead thinks with; nobody's in a team that plays a
    /// scenario.
    pub(crate) fn thinks(&self) -> Option<(&str, Option<&str>)> {
        let lead = self.lead.as_ref().filter(|lead| lead.agent_type != SCRIPTED)?;
        Some((&lead.agent_type, lead.model.as_deref()))
    }
}

/// Shows nothing but what a person has to know.
#[derive(Debug)]
pub(crate) struct Quiet;

impl Watcher for Quiet {
    fn happened(&mut self, _: &Team, _: &Recorded, _: &Happening) -> Result<(), Failure> {
        Ok(())
    }
    fn ask(&mut self, _: &Team, question: &Question) -> Result<(), Failure> {
        plain::prompt(question)
    }
    fn answered(&mut self, _: &Team, _: &str) -> Result<(), Failure> {
        Ok(())
    }
    fn note(&mut self, _: &Team, text: &str) -> Result<(), Failure> {
        plain::say(text)
    }
}
