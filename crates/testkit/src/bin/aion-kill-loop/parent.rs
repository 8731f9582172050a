//! The loop: starts the child, kills it, reads what is left, and says what that comes to.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use aion_core::id::{MessageId, TeamId};
use aion_store::{EventStore, SqliteOptions, SqliteStore};
use aion_testkit::chance::Chance;
use aion_testkit::figures::{Report, Target};
use anyhow::{Context, Result};
use clap::Args;

use crate::books::{Books, Sums};
use crate::cast;
use crate::child::store_dir;
use crate::driver::{self, Life, Start, Visits};
use crate::plan::{self, Kill};
use crate::processes;
use crate::words::Word;

/// Kills of one team before the next begins: an agent reads its whole transcript in each turn.
const KILLS_A_TEAM: usize = 20;
/// Keys with an answer that are sent again at each start.
const ANSWERED_AGAIN: usize = 3;
/// How long processes may take to be gone after their holder.
const PATIENCE: Duration = Duration::from_secs(10);
/// From so many kills on the sums have to be reached, too.
const WHOLE: usize = 200;

/// What the loop is told.
#[derive(Debug, Args)]
pub(crate) struct LoopArguments {
    /// How many times the process is killed.
    #[arg(long, default_value_t = 20)]
    kills: usize,
    /// What the kills follow from; drawn anew if not said.
    #[arg(long)]
    seed: Option<u64>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Keep the data directory; it is kept after a fault in any case.
    #[arg(long)]
    keep: bool,
}

/// What all kills come to.
#[derive(Debug, Default)]
struct Tally {
    kills: u64,
    at_points: u64,
    recovering: u64,
    holding: u64,
    starts_to_resume: u64,
    resumed: u64,
    processes_left: u64,
    sent_again: u64,
    running: Duration,
    visits: Visits,
    faults: Vec<String>,
}

/// Runs the loop; says whether all is well.
pub(crate) fn run(arguments: &LoopArguments) -> Result<bool> {
    if !cfg!(feature = "failpoints") {
        anyhow::bail!("this program was built without its points: add --features failpoints");
    }
    let seed = arguments.seed.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        u64::from(now.unwrap_or_default().subsec_nanos())
    });
    let begun = Instant::now();
    let dir = tempfile::Builder::new().prefix("aion-kill-loop-").tempdir()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut killing = Killing {
        dir: dir.path(),
        mark: format!("{}-{seed}", std::process::id()),
        chance: Chance::new(seed),
        runtime: &runtime,
        tally: Tally::default(),
        usual: Duration::from_millis(200),
        run: 0,
    };
    let books = killing.all_teams(arguments.kills)?;
    let report = killing.report(seed, arguments.kills, &books, begun.elapsed());
    report.print(arguments.json);
    if arguments.keep || !report.is_good() {
        eprint_line(&format!("the data directory is kept: {}", dir.keep().display()));
    }
    Ok(report.is_good())
}

struct Killing<'a> {
    dir: &'a Path,
    mark: String,
    chance: Chance,
    runtime: &'a tokio::runtime::Runtime,
    tally: Tally,
    /// How long a start usually takes to work again.
    usual: Duration,
    run: u64,
}

impl Killing<'_> {
    fn all_teams(&mut self, kills: usize) -> Result<Vec<Books>> {
        let mut plan: VecDeque<Kill> = plan::kills(kills, &mut self.chance).into();
        let mut all = Vec::new();
        // A named point that was not reached is tried again, for a while.
        let mut tries_left = plan::points().len();
        while !plan.is_empty() {
            let id = TeamId::new(format!("team-{}", all.len() + 1))?;
            let mut books = Books::new(id);
            for _ in 0..KILLS_A_TEAM.min(plan.len()) {
                let Some(kill) = plan.pop_front() else { break };
                let reached = self.one(&mut books, kill)?;
                if let (Kill::Point(name, _), false) = (kill, reached)
                    && tries_left > 0
                {
                    tries_left -= 1;
                    // It takes the place of a kill without a name, so that the number stays.
                    let again = Kill::Point(name, 1);
                    if let Some(other) =
                        plan.iter_mut().rev().find(|kill| matches!(kill, Kill::Working(_)))
                    {
                        *other = again;
                    }
                }
            }
            self.rest(&mut books)?;
            all.push(books);
        }
        self.read_models()?;
        Ok(all)
    }

    /// One start and its kill; says whether a named point was reached.
    fn one(&mut self, books: &mut Books, kill: Kill) -> Result<bool> {
        let again = self.write_again(books)?;
        let start = Start {
            dir: self.dir,
            mark: &self.mark,
            team: books.id().as_str(),
            run: self.run,
            again: Some(&again),
        };
        let life = driver::run_and_kill(&start, kill, self.usual)?;
        let reached = life.at_point;
        self.tally.kills += 1;
        if let (Kill::Point(name, _), true) = (kill, reached) {
            self.tally.at_points += 1;
            self.tally.visits.count(name);
        }
        match life.resumed_after {
            Some(after) => {
                self.usual = self.usual.mul_f64(0.8) + after.mul_f64(0.2);
                self.tally.starts_to_resume += 1;
                self.tally.resumed += 1;
            }
            None if matches!(kill, Kill::Recovering(_)) || reached => self.tally.recovering += 1,
            None => self.tally.starts_to_resume += 1,
        }
        self.after(books, life)?;
        self.tally.holding += u64::from(books.is_holding());
        Ok(reached)
    }

    /// The last start of a team: everything comes to rest, and the whole log is checked.
    fn rest(&mut self, books: &mut Books) -> Result<()> {
        let again = self.write_again(books)?;
        let start = Start {
            dir: self.dir,
            mark: &self.mark,
            team: books.id().as_str(),
            run: self.run,
            again: Some(&again),
        };
        let life = driver::run_to_rest(&start)?;
        self.tally.starts_to_resume += 1;
        self.tally.resumed += u64::from(life.resumed_after.is_some());
        self.after(books, life)?;
        if !books.is_at_rest() {
            self.tally.faults.push(format!("{}: mail is owed although it rests", books.id()));
        }
        let store = SqliteStore::open_read_only(&store_dir(self.dir))?;
        self.runtime.block_on(books.check_log(&store))
    }

    /// Takes down what a start said, looks for processes, and reads the store.
    fn after(&mut self, books: &mut Books, life: Life) -> Result<()> {
        let left = processes::left(&self.mark, PATIENCE);
        self.tally.processes_left += left.len() as u64;
        self.tally.faults.extend(left.iter().map(|line| format!("still runs: {line}")));
        let run = self.run - 1;
        self.tally.faults.extend(life.fault.map(|f| format!("start {run}: {f}")));
        self.tally.running += life.lasted;
        for word in life.words {
            match word {
                Word::Intent(key) => books.intend(key),
                Word::Accepted(key, id) => books.promise(&key, Some(MessageId(id))),
                Word::Told(token) => books.promise(&token, None),
                Word::Opening | Word::Resumed | Word::Settled | Word::Failed(_) => {}
            }
        }
        let dir = store_dir(self.dir);
        if SqliteStore::exists(&dir) {
            let store = SqliteStore::open_read_only(&dir).context("read the store after a kill")?;
            self.runtime.block_on(books.catch_up(&store))?;
        }
        Ok(())
    }

    fn write_again(&mut self, books: &Books) -> Result<std::path::PathBuf> {
        self.run += 1;
        let keys = books.to_send_again(ANSWERED_AGAIN);
        self.tally.sent_again += keys.len() as u64;
        let path = self.dir.join("again");
        fs::write(&path, keys.join("\n"))?;
        Ok(path)
    }

    /// The read models are what the logs make of them.
    fn read_models(&mut self) -> Result<()> {
        let store = SqliteStore::open(&store_dir(self.dir), &SqliteOptions::default())?;
        let (kept, rebuilt) = self.runtime.block_on(async {
            let kept = store.dump_read_models().await?;
            store.rebuild().await?;
            let rebuilt = store.dump_read_models().await?;
            anyhow::Ok((kept, rebuilt))
        })?;
        if kept != rebuilt {
            let odd = kept.rows.iter().zip(&rebuilt.rows).find(|(a, b)| a != b);
            self.tally.faults.push(format!("the read models differ from the log: {odd:?}"));
        }
        let teams = self.runtime.block_on(store.teams())?;
        self.tally.faults.extend(teams.iter().filter(|row| row.messages_open != 0).map(|row| {
            format!("{}: the list of teams shows {} open", row.team, row.messages_open)
        }));
        Ok(())
    }

    fn report(&self, seed: u64, kills: usize, books: &[Books], took: Duration) -> Report {
        let tally = &self.tally;
        let mut all = Sums::default();
        let mut report = Report::new("kill loop");
        for (sums, faults) in books.iter().map(Books::sums) {
            all.accepted += sums.accepted;
            all.lost += sums.lost;
            all.doubled += sums.doubled;
            all.acknowledged_twice += sums.acknowledged_twice;
            all.mailboxes += sums.mailboxes;
            report.faults.extend(faults);
        }
        report.faults.extend(tally.faults.iter().cloned());
        let limits = cast::settings().limits;
        report.set("seed", seed.to_string());
        report.set("messages_per_minute", format!("{} (no limit)", limits.messages_per_minute));
        report.set("turns_without_progress", limits.turns_without_progress.to_string());
        report.set("members", cast::MEMBERS.len().to_string());
        report.set("teams", books.len().to_string());
        let visits = |point: &&str| format!("{point} {}", tally.visits.of(point));
        report.set("points", plan::points().iter().map(visits).collect::<Vec<_>>().join(", "));
        let whole = kills >= WHOLE;
        let at_least = |least: f64| if whole { Target::AtLeast(least) } else { Target::None };
        let fewest = plan::points().iter().map(|p| tally.visits.of(p)).min().unwrap_or(0);
        let none = Target::AtMost(0.0);
        let share = |part: u64| 100.0 * float(part) / float(tally.kills.max(1));
        report.add("kills", "kills", float(tally.kills), "", at_least(200.0));
        report.add("at_points", "  at named points", float(tally.at_points), "", Target::None);
        report.add("point_visits", "  at each point, at least", float(fewest), "", at_least(2.0));
        let at_random = float(tally.kills - tally.at_points);
        report.add("at_random", "  at random times", at_random, "", Target::None);
        report.add("recovering", "  in recovery", share(tally.recovering), "%", at_least(10.0));
        report.add(
            "holding",
            "  with a request or a tool",
            share(tally.holding),
            "%",
            at_least(50.0),
        );
        report.add("accepted", "messages accepted", float(all.accepted), "", at_least(10_000.0));
        let rate = float(all.accepted) / tally.running.as_secs_f64().max(0.001);
        report.add("rate", "  while it ran", rate, "/s", Target::AtLeast(50.0));
        report.add("mailboxes", "messages in mailboxes", float(all.mailboxes), "", Target::None);
        report.add("sent_again", "keys sent again", float(tally.sent_again), "", Target::None);
        report.add("lost", "accepted messages lost", float(all.lost), "", none);
        report.add("doubled", "stored twice", float(all.doubled), "", none);
        report.add("acked_twice", "acknowledged twice", float(all.acknowledged_twice), "", none);
        report.add("left", "processes left", float(tally.processes_left), "", none);
        let missing = tally.starts_to_resume - tally.resumed;
        let of = format!("starts that resumed, of {}", tally.starts_to_resume);
        report.add("resumed", of, float(tally.resumed), "", Target::None);
        report.add("not_resumed", "starts that did not", float(missing), "", none);
        report.add("seconds", "time", took.as_secs_f64(), "s", Target::None);
        report
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of one run are far below 2^52")]
fn float(count: u64) -> f64 {
    count as f64
}

fn eprint_line(text: &str) {
    use std::io::Write;
    // Without a standard error there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "{text}");
}
