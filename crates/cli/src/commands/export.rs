//! `aion export`: a team's log as a file, for programs or for people; it never overwrites one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use aion_api::{Exit, TaskState};
use aion_core::event::{Event, Recorded};
use aion_core::id::{Seq, SlotId};
use aion_core::message::Body;
use aion_core::time::Timestamp;
use serde_json::json;

use super::Reading;
use super::team::after;
use crate::args::{self, Format};
use crate::counts;
use crate::describe::{Story, Weight};
use crate::exit::{Failure, Outcome};
use crate::history::{Folded, Names, read_all};
use crate::output;
use crate::terminal::{clean_line, clean_text};
use crate::view::{self, recipient_name, sender_name};

pub(super) async fn run(args: args::Export, json: bool) -> Outcome {
    let reading = Reading::open(&args.data).await?;
    let (store, row) = reading.team(Some(&args.team))?;
    let events = read_all(store, &row.team, Seq(0)).await?;
    let text = match args.format {
        Format::Jsonl => jsonl(&events)?,
        Format::Md => markdown(&events),
    };
    match &args.output {
        None => io::stdout().lock().write_all(text.as_bytes())?,
        Some(path) => {
            write_new(path, text.as_bytes())?;
            if json {
                let file = path.display().to_string();
                output::json(&json!({ "file": file, "events": events.len() }))?;
            } else {
                output::line(&format!("{} event(s) in {}", events.len(), path.display()))?;
            }
        }
    }
    Ok(Exit::Success)
}

fn write_new(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let made = OpenOptions::new().write(true).create_new(true).open(path);
    let written = made.and_then(|mut file| file.write_all(bytes));
    written.map_err(|error| {
        if error.kind() == ErrorKind::AlreadyExists {
            let message = format!("{} exists already", path.display());
            Failure::new(Exit::Conflict, "export.exists", message)
                .with_hint("give another file with --output")
        } else {
            Failure::io(format!("write {}", path.display()), &error)
        }
    })
}

/// Every event, one JSON object a line: what `aion replay` reads.
pub(crate) fn jsonl(events: &[Recorded]) -> Result<String, Failure> {
    let mut text = String::new();
    for recorded in events {
        text.push_str(&serde_json::to_string(recorded).map_err(io::Error::from)?);
        text.push('\n');
    }
    Ok(text)
}

/// A report for people.
fn markdown(events: &[Recorded]) -> String {
    let mut story = Story::new(Folded::new());
    let begin = events.first().map_or(Timestamp(0), |first| first.at);
    let mut happened = String::new();
    let mut mail = String::new();
    let mut members: BTreeMap<SlotId, String> = BTreeMap::new();
    // Writing to a string cannot fail.
    for recorded in events {
        let happening = story.tell(recorded);
        let team = story.team();
        members.extend(team.agents().map(|agent| {
            (agent.slot(), format!("{} ({})", agent.name(), clean_line(agent.agent_type(), 40)))
        }));
        if happening.weight > Weight::Detail {
            let clause = escape(&clean_line(&happening.clause, 300));
            let at = after(recorded.at, begin);
            let _ = writeln!(happened, "- `{}` {at}: **{}** {clause}", recorded.seq, happening.who);
        }
        if let Event::MessageSent { message, .. } = &recorded.event
            && let Body::Text(text) = &message.body
        {
            let from = sender_name(team, message.from);
            let to = recipient_name(team, message.to);
            let _ = writeln!(mail, "### {}: {from} to {to}\n\n{}\n", message.id, quote(text));
        }
    }
    let team = story.team();
    let totals = counts::count(events);
    let mut text = String::new();
    let _ = writeln!(text, "# {}\n", escape(&clean_line(team.name(), 200)));
    let _ = writeln!(text, "Workspace: {}\n", escape(&clean_line(team.workspace(), 400)));
    let _ = writeln!(
        text,
        "{} events, {} turns, {} messages accepted, {} acknowledged, {} dead letters, {} tasks completed, {} requests decided, {} restarts\n",
        events.len(),
        totals.turns,
        totals.messages_accepted,
        totals.messages_acknowledged,
        totals.messages_dead,
        totals.tasks_completed,
        totals.requests_decided,
        totals.restarts
    );
    let _ = writeln!(text, "## Members\n");
    for (slot, member) in &members {
        let here = if team.agent(*slot).is_some() { "" } else { ", has left" };
        let _ = writeln!(text, "- {}{here}", escape(member));
    }
    let _ = writeln!(text, "\n## Tasks\n");
    let names = Names::of(events);
    for task in view::tasks(team, |slot| names.get(team, slot)) {
        let owner = task.owner.map_or(String::new(), |owner| format!(" ({owner})"));
        let done = if task.status == TaskState::Completed { "x" } else { " " };
        let subject = escape(&clean_line(&task.subject, 200));
        let _ = writeln!(text, "- [{done}] #{} {subject}{owner}", task.id);
    }
    let _ = writeln!(text, "\n## What happened\n\n{happened}");
    let _ = writeln!(text, "## Messages\n\n{}", mail.trim_end());
    text
}

/// Keeps a text from being taken for markup.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '_' | '`' | '<' | '#' | '[' | ']' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn quote(text: &str) -> String {
    let lines: Vec<String> =
        clean_text(text).lines().map(|line| format!("> {}", escape(line))).collect();
    lines.join("\n")
}
