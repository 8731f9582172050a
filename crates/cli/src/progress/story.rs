//! Progress as a story: the steps that matter, each as a line in its member's colour.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use aion_core::event::{Event, Recorded};
use aion_core::id::SlotId;
use aion_core::message::{Body, Sender};
use aion_core::team::Team;
use aion_core::turn::TurnOutcome;

use super::Watcher;
use super::width::{cut, fill, wrap};
use crate::answer::{Question, is_for_person};
use crate::describe::{Happening, Weight};
use crate::exit::Failure;
use crate::output;
use crate::terminal::{Paint, clean_line, clean_text};

/// Columns of a name.
const NAME: usize = 10;
/// Columns where a terminal does not say how many it has.
const COLUMNS: usize = 120;

/// Tells what happens.
#[derive(Debug)]
pub(crate) struct StoryTeller {
    paint: Paint,
    /// Whether a person is asked in between.
    asks: bool,
    colours: BTreeMap<SlotId, String>,
    /// What a person is looking at, at the bottom of the screen.
    question: Option<String>,
}

impl StoryTeller {
    /// For standard output.
    pub(crate) fn new(asks: bool) -> Self {
        Self { paint: Paint::of_stdout(), asks, colours: BTreeMap::new(), question: None }
    }

    /// Writes a line above the question, if there is one.
    fn line(&self, text: &str) -> Result<(), Failure> {
        let Some(question) = &self.question else {
            return output::line(text);
        };
        let up = question.matches('\n').count();
        let mut out = io::stdout().lock();
        write!(out, "\r\u{1b}[{up}A\u{1b}[J{text}\n{question}")?;
        Ok(out.flush()?)
    }

    /// How much of a line is left for a text behind a name.
    fn room() -> usize {
        let columns = terminal_size::terminal_size().map_or(COLUMNS, |(c, _)| usize::from(c.0));
        columns.saturating_sub(NAME + 4).clamp(20, 110)
    }

    fn tell(&self, slot: Option<SlotId>, who: &str, text: &str) -> Result<(), Failure> {
        let name = fill(&clean_line(who, NAME), NAME);
        let name = match slot.and_then(|slot| self.colours.get(&slot)) {
            Some(colour) => self.paint.member(colour, &name),
            None => self.paint.bold(&name),
        };
        self.line(&format!("  {name} {text}"))
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
            // The question itself is shown.
            Event::RequestOpened { request } if self.asks && is_for_person(request) => {
                return Ok(());
            }
            // The crash is told by itself.
            Event::TurnEnded { outcome: TurnOutcome::AgentFault { error }, .. }
                if error.starts_with("panicked") =>
            {
                return Ok(());
            }
            _ => {}
        }
        let text = cut(&clean_line(&happening.clause, 400), Self::room());
        match happening.weight {
            Weight::Detail => Ok(()),
            Weight::Step => self.tell(happening.slot, who, &text),
            Weight::Alert => self.tell(happening.slot, who, &self.paint.warn(&text)),
        }
    }

    fn ask(&mut self, _: &Team, question: &Question) -> Result<(), Failure> {
        let room = Self::room() + NAME;
        let head = format!("▲ {} asks ({}):", question.from, question.kind.replace('_', " "));
        let mut text = format!("\n  {}\n", self.paint.warn(&cut(&head, room)));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "    {}", cut(&clean_line(&question.what, 400), room));
        if !question.details.is_empty() {
            // In full, above what is drawn again.
            let above = format!("In full, what {} asks:", question.from);
            self.line(&format!("\n  {}", self.paint.warn(&cut(&above, room))))?;
            for line in question.details.iter().flat_map(|line| wrap(line, room)) {
                self.line(&format!("    {line}"))?;
            }
        }
        for (at, option) in question.options.iter().enumerate() {
            let line = format!("{} {}", at + 1, clean_line(option, 200));
            let _ = writeln!(text, "    {}", cut(&line, room));
        }
        let _ = write!(text, "  {}\n  > ", self.paint.dim(&cut(&question.keys, room)));
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        self.question = Some(text);
        Ok(())
    }

    fn answered(&mut self, _: &Team, note: &str) -> Result<(), Failure> {
        self.question = None;
        output::line(&clean_line(note, 200))
    }

    fn note(&mut self, _: &Team, text: &str) -> Result<(), Failure> {
        self.line(&format!("  {}", self.paint.bold(&clean_text(text))))
    }
}
