//! `aion log`: what happened in a team, and what happens; it reads beside whoever writes.

use std::sync::Arc;
use std::time::Duration;

use aion_api::Exit;
use aion_core::event::Recorded;
use aion_core::id::{Seq, TeamId};
use aion_core::time::Timestamp;
use aion_store::EventStore;

use super::Reading;
use super::team::after;
use crate::args;
use crate::describe::{Happening, Story, Weight};
use crate::exit::{Failure, Outcome};
use crate::history::fold;
use crate::output;
use crate::terminal::{Paint, clean_line};
use crate::view::event_line;

/// How often a follower looks for more. Another process writes; there is nothing to wait on.
const LOOK: Duration = Duration::from_millis(200);
const PAGE: usize = 1_000;

pub(super) async fn run(args: args::Log, json: bool) -> Outcome {
    let reading = Reading::open(&args.data).await?;
    let (store, row) = reading.team(args.team.as_deref())?;
    let mut printer = Printer::begin(store, &row.team, Seq(args.since), json).await?;
    if !args.follow {
        printer.print_rest(store, &row.team).await?;
        return Ok(Exit::Success);
    }
    let mut looks = tokio::time::interval(LOOK);
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    loop {
        tokio::select! {
            _ = &mut interrupted => return Ok(Exit::Interrupted),
            _ = looks.tick() => printer.print_rest(store, &row.team).await?,
        }
    }
}

struct Printer {
    json: bool,
    team: String,
    begin: Timestamp,
    story: Story,
}

impl Printer {
    async fn begin(
        store: &Arc<dyn EventStore>,
        team: &TeamId,
        since: Seq,
        json: bool,
    ) -> Result<Self, Failure> {
        let before = fold(store, team, Some(since)).await?;
        let first = store.read(team, Seq(0), 1).await?;
        let begin = first.first().map_or(Timestamp(0), |first| first.at);
        Ok(Self { json, team: team.to_string(), begin, story: Story::new(before) })
    }

    async fn print_rest(
        &mut self,
        store: &Arc<dyn EventStore>,
        team: &TeamId,
    ) -> Result<(), Failure> {
        loop {
            let page = store.read(team, self.story.seq(), PAGE).await?;
            if page.is_empty() {
                return Ok(());
            }
            for recorded in &page {
                let happening = self.story.tell(recorded);
                if self.json {
                    output::json(&event_line(&self.team, recorded))?;
                } else {
                    output::line(&log_line(recorded, self.begin, &happening))?;
                }
            }
        }
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
