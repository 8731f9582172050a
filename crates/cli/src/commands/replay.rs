//! `aion replay`: a team as it was at a point of its log, folded anew from the events alone.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use aion_api::{Exit, ReplayView};
use aion_core::event::{EVENT_VERSION, Recorded};
use aion_core::id::Seq;
use aion_core::time::Timestamp;
use aion_store::Totals;

use super::Reading;
use super::team::{after, print_members, print_requests, print_tasks};
use crate::args;
use crate::exit::{Failure, Outcome};
use crate::history::{Folded, Names, read_all};
use crate::terminal::{Paint, clean_line};
use crate::{counts, output, view};

pub(super) async fn run(args: args::Replay, json: bool) -> Outcome {
    let path = Path::new(&args.source);
    let events = if path.is_file() {
        read_file(path)?
    } else {
        let reading = Reading::open(&args.data).await?;
        let (store, row) = reading.team(Some(&args.source))?;
        read_all(store, &row.team, Seq(0)).await?
    };
    let view = replay(&events, args.at.map(Seq))?;
    if json {
        output::json(&view)?;
    } else {
        print(&view)?;
    }
    Ok(Exit::Success)
}

/// Reads a file of events, one JSON object a line.
fn read_file(path: &Path) -> Result<Vec<Recorded>, Failure> {
    let fail = |error: &std::io::Error| Failure::io(format!("read {}", path.display()), error);
    let file = File::open(path).map_err(|error| fail(&error))?;
    let mut events: Vec<Recorded> = Vec::new();
    for (at, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|error| fail(&error))?;
        if line.trim().is_empty() {
            continue;
        }
        let bad = |code: &str, why: String| {
            let place = format!("{}, line {}", path.display(), at + 1);
            Failure::new(Exit::Failure, code, format!("{place}: {why}"))
        };
        let newer = serde_json::from_str::<serde_json::Value>(&line)
            .ok()
            .and_then(|value| value.get("version")?.as_u64())
            .filter(|version| *version > u64::from(EVENT_VERSION));
        if let Some(version) = newer {
            let why = format!("event format {version} is newer than this aion; update it");
            return Err(bad("replay.newer", why));
        }
        let recorded: Recorded = serde_json::from_str(&line)
            .map_err(|error| bad("replay.unreadable", format!("no event of a team: {error}")))?;
        let expected = events.last().map_or(Seq(1), |last| last.seq.next());
        if recorded.seq != expected {
            let why = format!("event {} follows, and {expected} is missing", recorded.seq);
            return Err(bad("replay.gap", why));
        }
        events.push(recorded);
    }
    Ok(events)
}

fn replay(events: &[Recorded], at: Option<Seq>) -> Result<ReplayView, Failure> {
    let last = events.last().map(|last| last.seq).ok_or_else(|| {
        Failure::new(Exit::NotFound, "replay.empty", "there is no event to replay")
    })?;
    let at = at.unwrap_or(last);
    if at < Seq(1) || at > last {
        let message = format!("there is no event {at}; the log has events 1 to {last}");
        return Err(Failure::new(Exit::NotFound, "replay.out_of_range", message));
    }
    let mut folded = Folded::new();
    let mut totals = Totals::default();
    for recorded in events.iter().take_while(|recorded| recorded.seq <= at) {
        folded.apply(recorded);
        counts::add(&mut totals, &recorded.event);
    }
    let team = &folded.team;
    let names = Names::of(events);
    Ok(ReplayView {
        id: team.id().map_or_else(String::new, ToString::to_string),
        name: team.name().to_owned(),
        seq: folded.seq.0,
        last_seq: last.0,
        begin_at: events.first().map_or(0, |first| first.at.0),
        at: team.now_floor().0,
        ended: team.is_ended(),
        agents: view::agents(team),
        task_counts: view::task_counts(team),
        tasks: view::tasks(team, |slot| names.get(team, slot)),
        requests: view::requests(team, team.now_floor()),
        mail: view::mail(team),
        totals: counts::wire(totals, totals.messages_dead == 0, 0),
    })
}

fn print(view: &ReplayView) -> Result<(), Failure> {
    let paint = Paint::of_stdout();
    let place = format!(
        "event {} of {}, {}",
        view.seq,
        view.last_seq,
        after(Timestamp(view.at), Timestamp(view.begin_at))
    );
    output::line(&format!("{}  {}", paint.bold(&clean_line(&view.name, 100)), paint.dim(&place)))?;
    if view.ended {
        output::line("the team has ended")?;
    }
    output::line("")?;
    print_members(&view.agents)?;
    output::line("")?;
    print_tasks(&view.tasks)?;
    print_requests(&view.requests)?;
    output::line("")?;
    if view.mail.is_empty() {
        return output::line("no mail waits");
    }
    let rows: Vec<Vec<String>> = view
        .mail
        .iter()
        .map(|mail| {
            let place = match mail.in_turn {
                Some(turn) => format!("read in t{turn}"),
                None if mail.held => "held".to_owned(),
                None => "queued".to_owned(),
            };
            vec![
                format!("m{}", mail.id),
                mail.from.clone(),
                mail.to.clone(),
                place,
                mail.kind.clone(),
                clean_line(&mail.text, 80),
            ]
        })
        .collect();
    output::table(&["MAIL", "FROM", "TO", "STATE", "KIND", "TEXT"], &rows)
}
