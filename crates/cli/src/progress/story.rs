//! Progress as a story: the steps that matter, each as a line in its member's colour.

use std::collections::BTreeMap;
use std::io::{self, Write};

use aion_core::event::{Event, Recorded};
use aion_core::id::SlotId;
use aion_core::message::{Body, Sender};
use aion_core::team::Team;

use super::Watcher;
use super::width::fill;
use crate::answer::Question;
use crate::describe::{Happening, Weight};
use crate::exit::Failure;
use crate::output;
use crate::terminal::{Paint, clean_line, clean_text};

/// Columns of a name.
const NAME: usize = 10;

/// Tells what happens.
#[derive(Debug)]
pub(crate) struct StoryTeller {
    paint: Paint,
    colours: BTreeMap<SlotId, String>,
}

impl StoryTeller {
    /// For standard output.
    pub(crate) fn new() -> Self {
        Self { paint: Paint::of_stdout(), colours: BTreeMap::new() }
    }

    fn tell(&self, slot: Option<SlotId>, who: &str, text: &str) -> Result<(), Failure> {
        let name = fill(&clean_line(who, NAME), NAME);
        let name = match slot.and_then(|slot| self.colours.get(&slot)) {
            Some(colour) => self.paint.member(colour, &name),
            None => self.paint.bold(&name),
        };
        output::line(&format!("  {name} {text}"))
    }
}

impl Watcher for StoryTeller {
    fn happened(
        &mut self,
        team: &Team,
        recorded: &Recorded,
        happening: &Happening,
    ) -> Result<(), Failure> {
        for agent in team.agents() {
            self.colours.entry(agent.slot()).or_insert_with(|| agent.color().to_owned());
        }
        let who = if happening.slot == Some(SlotId::LEAD) { "lead" } else { &happening.who };
        match &recorded.event {
            // The house's own words to the person repeat what the story tells.
            Event::MessageSent { message, .. }
                if message.from == Sender::System && matches!(message.body, Body::Text(_)) =>
            {
                return Ok(());
            }
            Event::AgentReady { .. } => return Ok(()),
            _ => {}
        }
        let text = clean_line(&happening.clause, 110);
        match happening.weight {
            Weight::Detail => Ok(()),
            Weight::Step => self.tell(happening.slot, who, &text),
            Weight::Alert => self.tell(happening.slot, who, &self.paint.warn(&text)),
        }
    }

    fn ask(&mut self, _: &Team, question: &Question) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let head = format!("▲ {} asks ({}):", question.from, question.kind.replace('_', " "));
        writeln!(out, "\n  {}", self.paint.warn(&head))?;
        for line in clean_text(&question.what).lines().take(20) {
            writeln!(out, "    {line}")?;
        }
        for (at, option) in question.options.iter().enumerate() {
            writeln!(out, "    {} {}", at + 1, clean_line(option, 200))?;
        }
        write!(out, "  {}\n  > ", self.paint.dim(&question.keys))?;
        Ok(out.flush()?)
    }

    fn answered(&mut self, _: &Team, note: &str) -> Result<(), Failure> {
        output::line(&clean_line(note, 200))
    }

    fn note(&mut self, _: &Team, text: &str) -> Result<(), Failure> {
        output::line(&format!("  {}", self.paint.bold(&clean_text(text))))
    }
}
