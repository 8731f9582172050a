//! Progress as one line for each change: for logs, pipes and screen readers.

use std::fmt::Write as _;
use std::io::{self, Write};

use aion_api::StatusReason;
use aion_core::event::Recorded;
use aion_core::team::Team;

use super::{Beginning, Watcher};
use crate::answer::Question;
use crate::describe::{Happening, Weight};
use crate::exit::Failure;
use crate::terminal::{clean_line, clean_text};
use crate::{output, view};

/// Writes `time team who word key=value ...`.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    name: String,
}

impl Plain {
    fn write(&self, who: &str, word: &str, facts: &[(&str, String)]) -> Result<(), Failure> {
        output::line(&line(&now(), &self.name, who, word, facts))
    }
}

/// The wall time, to the second.
fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn line(time: &str, team: &str, who: &str, word: &str, facts: &[(&str, String)]) -> String {
    let mut text = format!("{time} {team} {who} {word}");
    for (name, value) in facts {
        let value = clean_line(value, 160);
        text.push(' ');
        text.push_str(name);
        text.push('=');
        if value.is_empty() || value.contains([' ', '"', '=']) {
            text.push('"');
            text.push_str(&value.replace('\\', "\\\\").replace('"', "\\\""));
            text.push('"');
        } else {
            text.push_str(&value);
        }
    }
    text
}

impl Watcher for Plain {
    fn begin(&mut self, beginning: &Beginning) -> Result<(), Failure> {
        self.name = clean_line(&beginning.name, 60).replace(' ', "-");
        let mut facts =
            vec![("id", beginning.team.clone()), ("workspace", beginning.workspace.clone())];
        if let Some((provider, model)) = beginning.thinks() {
            facts.push(("provider", provider.to_owned()));
            facts.extend(model.map(|model| ("model", model.to_owned())));
        }
        self.write("team", "begins", &facts)
    }

    fn happened(&mut self, _: &Team, _: &Recorded, happening: &Happening) -> Result<(), Failure> {
        let status = matches!(happening.word, "ready" | "working" | "idle");
        if happening.weight > Weight::Detail || status {
            return self.write(&happening.who, happening.word, &happening.facts);
        }
        Ok(())
    }

    fn ask(&mut self, _: &Team, question: &Question) -> Result<(), Failure> {
        prompt(question)
    }

    fn answered(&mut self, _: &Team, _: &str) -> Result<(), Failure> {
        Ok(())
    }

    fn note(&mut self, _: &Team, text: &str) -> Result<(), Failure> {
        say(text)
    }

    fn silence(&mut self, team: &Team) -> Result<(), Failure> {
        for agent in team.agents() {
            let (_, reason) = view::status(team, agent.slot());
            if !matches!(reason, StatusReason::NoTask) {
                let facts = [("reason", view::word(&reason))];
                self.write(agent.name().as_str(), "still", &facts)?;
            }
        }
        Ok(())
    }
}

/// Puts a question to a person on standard error.
pub(super) fn prompt(question: &Question) -> Result<(), Failure> {
    let mut text = format!(
        "{} asks ({}): {}\n",
        question.from,
        question.kind.replace('_', " "),
        clean_line(&question.what, 300)
    );
    for line in &question.details {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "    {line}");
    }
    for (at, option) in question.options.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {} {}", at + 1, clean_line(option, 200));
    }
    if !question.keys.is_empty() {
        text.push_str(&question.keys);
        text.push_str("\n> ");
    }
    let mut out = io::stderr().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Says something on standard error.
pub(super) fn say(text: &str) -> Result<(), Failure> {
    Ok(writeln!(io::stderr(), "{}", clean_text(text))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_made_of_words_and_facts() {
        let facts = [
            ("permission", "r7".to_owned()),
            ("command", "cargo test -p \"api\"\n".to_owned()),
            ("empty", String::new()),
        ];
        assert_eq!(
            line("2026-11-30T17:02:11Z", "web", "tester", "needs_you", &facts),
            "2026-11-30T17:02:11Z web tester needs_you permission=r7 command=\"cargo test -p \\\"api\\\"\" empty=\"\""
        );
    }
}
