//! Progress as a tree on a terminal: who does what, drawn again in place; only lines that changed
//! are written.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Instant;

use aion_api::{AgentStatus, StatusReason};
use aion_core::agent::{Agent, Role};
use aion_core::event::{Event, Recorded};
use aion_core::id::SlotId;
use aion_core::message::{Body, Recipient};
use aion_core::team::Team;

use super::width::{cut, fill, width, wrap};
use super::{Beginning, Watcher};
use crate::answer::Question;
use crate::describe::{Happening, Weight};
use crate::exit::Failure;
use crate::terminal::{Paint, clean_line, clean_text};
use crate::view;

/// Cells of the bar.
const BAR: usize = 12;
/// Columns where a terminal does not say how many it has.
const COLUMNS: usize = 80;

/// Draws the tree.
#[derive(Debug)]
pub(crate) struct Tree {
    paint: Paint,
    title: String,
    /// Since when, and on what, each member works.
    doing: BTreeMap<SlotId, Doing>,
    /// The lines on the screen.
    drawn: Vec<String>,
    question: Option<String>,
}

#[derive(Debug)]
struct Doing {
    since: Instant,
    what: String,
}

impl Tree {
    /// For a terminal on standard output.
    pub(crate) fn new() -> Self {
        Self {
            paint: Paint::of_stdout(),
            title: String::new(),
            doing: BTreeMap::new(),
            drawn: Vec::new(),
            question: None,
        }
    }

    fn lines(&self, team: &Team, columns: usize, rows: usize) -> Vec<String> {
        let mut lines = vec![self.paint.bold(&cut(&self.title, columns))];
        let agents: Vec<&Agent> = team.agents().collect();
        let shown = agents.len().min(rows.saturating_sub(4).max(1));
        let names = agents.iter().map(|agent| width(agent.label())).max().unwrap_or(0).min(24);
        for (at, agent) in agents.iter().take(shown).enumerate() {
            let branch = match agent.role() {
                Role::Lead | Role::Solo => " ",
                Role::Teammate if at + 1 == agents.len() => " └ ",
                Role::Teammate => " ├ ",
            };
            lines.push(self.member(team, agent, branch, names, columns));
        }
        if shown < agents.len() {
            lines.push(format!(" … and {} more", agents.len() - shown));
        }
        lines.push(Self::summary(team, columns));
        lines
    }

    fn member(
        &self,
        team: &Team,
        agent: &Agent,
        branch: &str,
        names: usize,
        columns: usize,
    ) -> String {
        let (status, reason) = view::status(team, agent.slot());
        let mark = mark(status, reason);
        let name = fill(&cut(&clean_line(agent.label(), 24), names), names);
        let doing = self.doing.get(&agent.slot());
        let text = match (status, reason, doing) {
            (AgentStatus::Active, StatusReason::Working, Some(doing)) => doing.what.clone(),
            (_, StatusReason::NeedsYou, _) => {
                let asked = team
                    .requests()
                    .find(|(r, _)| r.from == aion_core::message::Sender::Agent(agent.slot()));
                match asked {
                    Some((request, _)) => format!("needs you: {}", view::what(team, &request.kind)),
                    None => "needs you".to_owned(),
                }
            }
            (AgentStatus::Failed, _, _) => "crashed".to_owned(),
            _ => view::word(&reason).replace('_', " "),
        };
        let time = match (status, doing) {
            (AgentStatus::Active, Some(doing)) => format!("{}s", doing.since.elapsed().as_secs()),
            _ => String::new(),
        };
        let used = width(branch) + 2 + names + 2;
        let room = columns.saturating_sub(used + 7);
        let text = fill(&cut(&clean_line(&text, 400), room), room);
        let time = format!("{time:>6}");
        let text = match reason {
            StatusReason::NeedsYou => self.paint.warn(&text),
            StatusReason::Working => text,
            _ => self.paint.dim(&text),
        };
        let name = self.paint.member(agent.color(), &name);
        format!("{branch}{mark} {name}  {text}{}", self.paint.dim(&time))
    }

    fn summary(team: &Team, columns: usize) -> String {
        let counts = view::task_counts(team);
        let all = counts.completed + counts.in_progress + counts.pending;
        let filled = usize::try_from((counts.completed * BAR as u64).checked_div(all).unwrap_or(0))
            .unwrap_or(0);
        let bar = format!("{}{}", "█".repeat(filled), "░".repeat(BAR - filled));
        let mut text = format!(" tasks {bar} {}/{all}", counts.completed);
        let usage = team.budget().usage();
        if usage.amount().tokens > 0 {
            let _ = write!(text, "   {} tokens", usage.amount().tokens);
        }
        if usage.micro_usd > 0 {
            let cents = usage.micro_usd / 10_000;
            let _ = write!(text, "   spent ${}.{:02}", cents / 100, cents % 100);
        }
        let waiting = view::requests(team, team.now_floor()).len();
        if waiting > 0 {
            let _ = write!(text, "   {waiting} waiting for an answer");
        }
        cut(&text, columns)
    }

    fn draw(&mut self, team: &Team) -> Result<(), Failure> {
        let (columns, rows) = size();
        let lines = self.lines(team, columns, rows);
        let mut out = String::new();
        if lines.len() == self.drawn.len() && !self.drawn.is_empty() {
            // The cursor stays where a person types.
            out.push_str("\u{1b}7");
            let below = self.below();
            let _ = write!(out, "\r\u{1b}[{}A", self.drawn.len() + below);
            for (new, old) in lines.iter().zip(&self.drawn) {
                if new == old {
                    out.push_str("\u{1b}[1B");
                } else {
                    let _ = write!(out, "\r{new}\u{1b}[K\u{1b}[1B");
                }
            }
            out.push_str("\u{1b}8");
        } else {
            out.push_str(&self.erase());
            for line in &lines {
                let _ = write!(out, "{line}\u{1b}[K\r\n");
            }
            if let Some(question) = &self.question {
                out.push_str(question);
            }
        }
        self.drawn = lines;
        write(&out)
    }

    /// Lines between the tree and the cursor.
    fn below(&self) -> usize {
        self.question.as_ref().map_or(0, |question| question.matches('\n').count())
    }

    /// Takes what is drawn off the screen.
    fn erase(&mut self) -> String {
        let up = self.drawn.len() + if self.drawn.is_empty() { 0 } else { self.below() };
        self.drawn.clear();
        if up == 0 { String::new() } else { format!("\r\u{1b}[{up}A\u{1b}[J") }
    }

    /// Writes lines that stay, above the tree.
    fn keep(&mut self, team: &Team, text: &str) -> Result<(), Failure> {
        let mut out = self.erase();
        for line in text.lines() {
            let _ = write!(out, "{line}\u{1b}[K\r\n");
        }
        write(&out)?;
        self.draw(team)
    }
}

/// Columns and rows of the terminal.
fn size() -> (usize, usize) {
    match terminal_size::terminal_size() {
        Some((columns, rows)) => (usize::from(columns.0).max(20), usize::from(rows.0).max(6)),
        None => (COLUMNS, 24),
    }
}

fn write(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

fn mark(status: AgentStatus, reason: StatusReason) -> &'static str {
    match (status, reason) {
        (_, StatusReason::NeedsYou) => "▲",
        (AgentStatus::Failed, _) => "✗",
        (AgentStatus::Pending, _) => "◔",
        (AgentStatus::Active, StatusReason::Stopping) => "◌",
        (_, StatusReason::WaitingForPeer | StatusReason::RateLimited | StatusReason::Held) => "⧖",
        (AgentStatus::Active, _) => "◐",
        (AgentStatus::Idle | AgentStatus::Removed, _) => "○",
    }
}

impl Watcher for Tree {
    fn begin(&mut self, beginning: &Beginning) -> Result<(), Failure> {
        let name = clean_line(&beginning.name, 60);
        self.title = format!("{name}  ·  {}", clean_line(&beginning.workspace, 200));
        if let Some((provider, model)) = beginning.thinks() {
            let thinks = format!("  ·  {provider} {}", clean_line(model.unwrap_or_default(), 60));
            self.title.push_str(thinks.trim_end());
        }
        Ok(())
    }

    fn happened(
        &mut self,
        team: &Team,
        recorded: &Recorded,
        happening: &Happening,
    ) -> Result<(), Failure> {
        match &recorded.event {
            Event::TurnStarted { slot, .. } | Event::TurnResumed { slot, .. } => {
                let what = "thinking".to_owned();
                self.doing.insert(*slot, Doing { since: Instant::now(), what });
            }
            Event::TurnEnded { slot, .. } => {
                self.doing.remove(slot);
            }
            Event::ToolProposed { slot, description, .. } => {
                if let Some(doing) = self.doing.get_mut(slot) {
                    doing.what.clone_from(description);
                }
            }
            Event::MessageSent { message, .. }
                if message.to == Recipient::User && matches!(message.body, Body::Text(_)) =>
            {
                let text = format!("{} {}", happening.who, happening.clause);
                return self.keep(team, &clean_text(&text));
            }
            _ => {}
        }
        let told = happening.weight == Weight::Alert
            && !matches!(recorded.event, Event::RequestOpened { .. });
        if told {
            let text = clean_line(&format!("{} {}", happening.who, happening.clause), 400);
            let text = self.paint.warn(&cut(&text, size().0));
            return self.keep(team, &text);
        }
        Ok(())
    }

    fn ask(&mut self, team: &Team, question: &Question) -> Result<(), Failure> {
        let (columns, _) = size();
        let mut text = String::new();
        let head = format!("▲ {} asks ({})", question.from, question.kind.replace('_', " "));
        let _ = write!(text, "{}\r\n", self.paint.warn(&cut(&head, columns)));
        let room = columns.saturating_sub(2);
        let _ = write!(text, "  {}\r\n", cut(&clean_line(&question.what, 400), room));
        if !question.details.is_empty() {
            // In full, above what is drawn again.
            let above = format!("In full, what {} asks:", question.from);
            let mut all = self.paint.warn(&cut(&above, columns));
            for line in question.details.iter().flat_map(|line| wrap(line, room)) {
                let _ = write!(all, "\n  {line}");
            }
            self.keep(team, &all)?;
        }
        for (at, option) in question.options.iter().enumerate() {
            let line = format!("  {} {}", at + 1, clean_line(option, 200));
            let _ = write!(text, "{}\r\n", cut(&line, columns));
        }
        if !question.keys.is_empty() {
            let _ = write!(text, "{}\r\n> ", self.paint.dim(&cut(&question.keys, columns)));
        }
        let erased = self.erase();
        self.question = Some(text);
        write(&erased)?;
        self.draw(team)
    }

    fn answered(&mut self, team: &Team, note: &str) -> Result<(), Failure> {
        // What was typed ended its line: the cursor is one below the question.
        let mut out = self.erase();
        if note.is_empty() && !out.is_empty() {
            out = format!("\u{1b}[1A{out}");
        } else if !note.is_empty() {
            let _ = write!(out, "{}\r\n", clean_line(note, 200));
        }
        self.question = None;
        write(&out)?;
        self.draw(team)
    }

    fn note(&mut self, team: &Team, text: &str) -> Result<(), Failure> {
        let text = self.paint.bold(&clean_text(text));
        self.keep(team, &text)
    }

    fn refresh(&mut self, team: &Team) -> Result<(), Failure> {
        self.draw(team)
    }

    fn end(&mut self, team: &Team) -> Result<(), Failure> {
        self.question = None;
        self.draw(team)
    }
}
