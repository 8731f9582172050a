//! `aion log`: what happened in a team, and what happens; it reads beside whoever writes.

use std::time::Duration;

use aion_api::Exit;
use aion_core::event::{Event, Recorded};
use aion_core::id::Seq;
use aion_core::time::Timestamp;

use super::source::Source;
use super::team::after;
use crate::args;
use crate::args::duration;
use crate::describe::{Happening, Story, Weight};
use crate::exit::{Failure, Outcome};
use crate::history::Folded;
use crate::output;
use crate::terminal::{Paint, clean_line};
use crate::view::event_line;

/// How often a follower looks for more. Another process writes; there is nothing to wait on.
const LOOK: Duration = Duration::from_millis(200);

pub(super) async fn run(args: args::Log, json: bool) -> Outcome {
    let since = Since::read(&args.since)?;
    let source = Source::open(&args.reach, args.team.as_deref()).await?;
    let since = since.place(&source).await?;
    let mut printer = Printer {
        json,
        team: source.id.to_string(),
        begin: None,
        since,
        kinds: args.kinds,
        story: Story::new(Folded::new()),
    };
    printer.print_rest(&source).await?;
    if !args.follow {
        return Ok(Exit::Success);
    }
    let mut looks = tokio::time::interval(LOOK);
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    loop {
        tokio::select! {
            _ = &mut interrupted => return Ok(Exit::Interrupted),
            _ = looks.tick() => printer.print_rest(&source).await?,
        }
    }
}

/// Where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    /// After an event.
    Event(Seq),
    /// So long before the last one, on the team's running clock.
    Before(Duration),
}

impl Since {
    fn read(text: &str) -> Result<Self, Failure> {
        if let Ok(seq) = text.parse() {
            return Ok(Self::Event(Seq(seq)));
        }
        duration(text).map(Self::Before).map_err(|_| {
            Failure::usage(format!(
                "--since {:?} is neither an event's number nor a time like 10m",
                clean_line(text, 40)
            ))
        })
    }

    async fn place(self, source: &Source) -> Result<Seq, Failure> {
        let span = match self {
            Self::Event(seq) => return Ok(seq),
            Self::Before(span) => u64::try_from(span.as_millis()).unwrap_or(u64::MAX),
        };
        let mut times = Vec::new();
        source
            .all(|recorded| {
                times.push((recorded.at, recorded.seq));
                Ok(())
            })
            .await?;
        let from = times.last().map_or(0, |(at, _)| at.0.saturating_sub(span));
        let before = times.iter().take_while(|(at, _)| at.0 < from).last();
        Ok(before.map_or(Seq(0), |(_, seq)| *seq))
    }
}

struct Printer {
    json: bool,
    team: String,
    /// When the log begins.
    begin: Option<Timestamp>,
    /// Only what comes after this event is printed.
    since: Seq,
    /// Only events of these names are printed; all without one.
    kinds: Vec<String>,
    story: Story,
}

impl Printer {
    async fn print_rest(&mut self, source: &Source) -> Result<(), Failure> {
        loop {
            let page = source.page(self.story.seq()).await?;
            if page.is_empty() {
                return Ok(());
            }
            for recorded in &page {
                let begin = *self.begin.get_or_insert(recorded.at);
                let happening = self.story.tell(recorded);
                if recorded.seq <= self.since || !self.wants(recorded) {
                    continue;
                }
                if self.json {
                    output::json(&event_line(&self.team, recorded))?;
                } else {
                    output::line(&log_line(recorded, begin, &happening))?;
                }
            }
        }
    }

    /// Whether an event is of a name that was asked for, whole or its beginning. That a key was used
    /// is told to programs and to who asks for it.
    fn wants(&self, recorded: &Recorded) -> bool {
        let name = recorded.event.name();
        if self.kinds.is_empty() {
            return self.json || !matches!(recorded.event, Event::KeyUsed { .. });
        }
        self.kinds.iter().any(|kind| name.starts_with(kind.as_str()))
    }
}

fn log_line(recorded: &Recorded, begin: Timestamp, happening: &Happening) -> String {
    let paint = Paint::of_stdout();
    let text = clean_line(&format!("{} {}", happening.who, happening.clause), 200);
    let text = match happening.weight {
        Weight::Detail => paint.dim(&text),
        Weight::Step => text,
        Weight::Alert => paint.warn(&text),
    };
    let place = format!("{:>6}  {}", recorded.seq.0, after(recorded.at, begin));
    format!("{}  {text}", paint.dim(&place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_an_event_or_a_time() {
        assert_eq!(Since::read("40").unwrap(), Since::Event(Seq(40)));
        assert_eq!(Since::read("10m").unwrap(), Since::Before(Duration::from_mins(10)));
        assert!(Since::read("soon").is_err());
        assert!(Since::read("").is_err());
    }
}
