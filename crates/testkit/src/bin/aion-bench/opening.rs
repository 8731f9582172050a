//! Opening a team with a long log, and listing many teams; it changes no log that it measures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::sync::Arc;
use std::time::Instant;

use aion_core::command::{Caller, Command};
use aion_core::event::{EVENT_VERSION, Event, Recorded};
use aion_core::id::{CommandId, Seq, SlotId, TeamId};
use aion_core::message::Recipient;
use aion_core::team::Team;
use aion_core::time::Timestamp;
use aion_core::turn::TurnOutcome;
use aion_store::{Append, EventStore, Snapshot, SqliteStore};
use aion_testkit::figures::{Report, Target, quantile};
use anyhow::{Context, Result, bail};

use crate::sink::{Ending, Sink};
use crate::{Form, crew, tell};

/// Members of the team.
const MEMBERS: u32 = 10;
/// Tasks on its board.
const TASKS: u32 = 200;
/// Events between two snapshots, as the runtime keeps them.
const SPACING: u64 = 2_000;
/// Bytes after which the growing log is appended.
const PIECE: usize = 200;

/// Runs the benchmark.
pub(crate) async fn measure(form: &Form) -> Result<Report> {
    let events = form.scale(100_000, 5_000);
    let unread = form.scale(1_000, 20);
    let teams = form.scale(1_000, 20);
    let runs = form.scale(7, 2);
    let mut report = Report::new("bench open");
    crew::tell_limits(&mut report);
    report.set("events", events.to_string());
    report.set("unread", unread.to_string());
    report.set("tasks", TASKS.to_string());
    report.set("snapshots", format!("every {SPACING} events; the tail is as long as it gets"));
    report.set("opened", "until the team answers; its pages are in the system's cache");
    let directory = tempfile::Builder::new().prefix("aion-bench-").tempdir()?;

    tell("write the long log");
    let (with, without) = (directory.path().join("with"), directory.path().join("without"));
    write_log(&with, events, unread, true).await?;
    write_log(&without, events, unread, false).await?;
    let (mut quick, mut slow) = (vec![], vec![]);
    for run in 0..runs {
        tell(&format!("open, run {run}"));
        quick.push(opened(&with, &directory.path().join("copy")).await?);
        slow.push(opened(&without, &directory.path().join("copy")).await?);
    }
    let target = if form.is_whole() { Target::AtMost(15.0) } else { Target::None };
    let ms = |list: &mut Vec<f64>, at: f64| quantile(list, at) * 1_000.0;
    report.add("with", "opened with snapshots, median", ms(&mut quick, 0.5), "ms", target);
    report.add("with_worst", "  the slowest", ms(&mut quick, 1.0), "ms", Target::None);
    let median = quantile(&mut slow, 0.5);
    report.add("without", "opened without, median", median, "s", Target::AtMost(2.0));
    report.add("without_worst", "  the slowest", quantile(&mut slow, 1.0), "s", Target::None);

    tell(&format!("list {teams} teams"));
    list(form, directory.path(), teams, &mut report).await?;
    Ok(report)
}

/// Seconds until a copy of a data directory has its team open and answering.
async fn opened(from: &Path, copy: &Path) -> Result<f64> {
    copy_files(from, copy)?;
    let store = crew::sqlite(copy)?;
    let service = crew::service(store, Sink::silent(Ending::ByOthers));
    let begun = Instant::now();
    let team = service.open(&TeamId::new("long")?).await?;
    let tasks = team.query(|team| team.board().open().len()).await?;
    let took = begun.elapsed().as_secs_f64();
    if tasks != TASKS as usize {
        bail!("the opened team has {tasks} tasks");
    }
    service.stop_all().await;
    drop((team, service));
    fs::remove_dir_all(copy)?;
    Ok(took)
}

/// Copies a data directory that nobody has open; the copy is on the disk when this returns.
pub(crate) fn copy_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            let copy = to.join(entry.file_name());
            fs::copy(entry.path(), &copy)?;
            // The commits that are measured must not pay for the copy.
            fs::File::open(copy)?.sync_all()?;
        }
    }
    Ok(fs::File::open(to)?.sync_all()?)
}

/// A log that is being written by the rules alone.
struct Log {
    store: Arc<SqliteStore>,
    id: TeamId,
    team: Team,
    epoch: u64,
    stored: Seq,
    waiting: Vec<Recorded>,
    /// After the last of these numbers no snapshot is kept.
    snapshots_until: u64,
    last_snapshot: u64,
}

impl Log {
    fn seq(&self) -> u64 {
        self.stored.0 + self.waiting.len() as u64
    }

    async fn submit(&mut self, caller: Caller, command: Command) -> Result<Vec<Event>> {
        let at = Timestamp(self.seq());
        let decided = self.team.handle(at, caller, &command);
        let events = decided.map_err(|rejection| anyhow::anyhow!("{rejection}"))?;
        let command_id = CommandId::new(format!("c-{}", self.seq()))?;
        for event in &events {
            let seq = Seq(self.seq() + 1);
            self.waiting.push(Recorded {
                seq,
                at,
                version: EVENT_VERSION,
                actor: caller,
                credential: None,
                command_id: command_id.clone(),
                event: event.clone(),
            });
        }
        if self.waiting.len() >= PIECE {
            self.store().await?;
        }
        Ok(events)
    }

    async fn store(&mut self) -> Result<()> {
        let events: Arc<[Recorded]> = std::mem::take(&mut self.waiting).into();
        let last = Seq(self.stored.0 + events.len() as u64);
        let (team, epoch, expected) = (self.id.clone(), self.epoch, self.stored);
        self.store.append(Append::new(team, epoch, expected, events)).await?;
        self.stored = last;
        // The last one comes early, so that the tail is as long as it can be.
        let due = last.0 - self.last_snapshot >= SPACING || last.0 >= self.snapshots_until;
        if due && self.last_snapshot < self.snapshots_until {
            self.last_snapshot = last.0;
            let bytes = serde_json::to_vec(&self.team)?;
            let snapshot = Snapshot { seq: last, state_version: Team::STATE_VERSION, bytes };
            self.store.keep_snapshot(&self.id, snapshot).await?;
        }
        Ok(())
    }
}

/// A team that worked for long and is paused, with unread mail and open tasks.
async fn write_log(directory: &Path, events: u64, unread: u64, snapshots: bool) -> Result<()> {
    let store = crew::sqlite(directory)?;
    let id = TeamId::new("long")?;
    let epoch = store.open(&id).await?.epoch;
    let mut log = Log {
        store,
        id: id.clone(),
        team: Team::new(),
        epoch,
        stored: Seq(0),
        waiting: Vec::new(),
        snapshots_until: if snapshots { events.saturating_sub(SPACING) } else { 0 },
        last_snapshot: 0,
    };
    let create = Command::CreateTeam {
        team: id,
        name: "long".to_owned(),
        owner: "somebody".to_owned(),
        workspace: std::env::temp_dir().display().to_string(),
        solo: false,
        lead: Box::new(crew::member("long", 0)?),
        settings: Box::new(crew::settings()),
    };
    log.submit(Caller::User, create).await?;
    for index in 1..MEMBERS {
        let member = Box::new(crew::member("long", index)?);
        log.submit(Caller::User, Command::SpawnAgent { member }).await?;
    }
    for slot in (1..=MEMBERS).map(SlotId) {
        log.submit(Caller::System, Command::AgentReady { slot, generation: 1 }).await?;
    }
    for n in 0..TASKS {
        let create = Command::CreateTask {
            subject: format!("Task {n}"),
            description: crew::TEXT.to_owned(),
            active_form: None,
            owner: None,
            blocked_by: std::collections::BTreeSet::new(),
            metadata: std::collections::BTreeMap::new(),
        };
        log.submit(Caller::User, create).await?;
    }
    let mut n = 0_u32;
    // What comes after is less than one distance between two snapshots.
    while log.seq() + unread + 1 < events {
        n += 1;
        work(&mut log, SlotId(1 + n % MEMBERS)).await?;
    }
    log.submit(Caller::User, Command::PauseTeam).await?;
    for n in 0..u32::try_from(unread)? {
        let to = Recipient::Agent(SlotId(1 + n % MEMBERS));
        log.submit(Caller::User, crew::message(to)).await?;
    }
    log.store().await?;
    tell(&format!(
        "  {} events, the last snapshot at {}, {} unread",
        log.seq(),
        log.last_snapshot,
        log.team.agents().map(|agent| agent.mailbox().unread()).sum::<usize>()
    ));
    Ok(())
}

/// One message and its turn, with every turn that follows from it.
async fn work(log: &mut Log, slot: SlotId) -> Result<()> {
    let mut events = log.submit(Caller::User, crew::message(Recipient::Agent(slot))).await?;
    loop {
        let started = events.iter().find_map(|event| match event {
            Event::TurnStarted { turn, .. } => Some(*turn),
            _ => None,
        });
        let Some(turn) = started else { return Ok(()) };
        let outcome = TurnOutcome::Done { last_text: Some("Done.".to_owned()) };
        events =
            log.submit(Caller::System, Command::EndTurn { turn, outcome, usage: None }).await?;
    }
}

/// How long it takes to list many teams, by the command where it is built.
async fn list(form: &Form, directory: &Path, teams: u64, report: &mut Report) -> Result<()> {
    let data = directory.join("teams");
    let store = crew::sqlite(&data)?;
    let service = crew::service(Arc::<SqliteStore>::clone(&store), Sink::silent(Ending::AtOnce));
    let names: Vec<String> = (0..teams).map(|n| format!("team-{n}")).collect();
    futures::future::try_join_all(names.iter().map(|name| crew::create(&service, name, 3))).await?;
    let mut query = Vec::new();
    for _ in 0..form.scale(20, 2) {
        let begun = Instant::now();
        let rows = service.list().await?.len() as u64;
        query.push(begun.elapsed().as_secs_f64());
        if rows != teams {
            bail!("the list has {rows} teams");
        }
    }
    service.stop_all().await;
    drop((service, store));
    let query = quantile(&mut query, 0.5) * 1_000.0;
    let target = Target::AtMost(50.0);
    let Some(aion) = aion() else {
        report.set("aion", "not built: the store's query stands in for `aion team ls --json`");
        report.add("list", "list of all teams, the query alone", query, "ms", target);
        return Ok(());
    };
    let mut command = Vec::new();
    for _ in 0..form.scale(20, 2) {
        let begun = Instant::now();
        let output = Process::new(&aion)
            .args(["team", "ls", "--json", "--data-dir"])
            .arg(&data)
            .output()
            .context("start aion")?;
        command.push(begun.elapsed().as_secs_f64());
        if !output.status.success() || output.stdout.len() < usize::try_from(teams)? * 20 {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            bail!("aion team ls ended with {}: {said}", output.status);
        }
    }
    report.add("list_query", "list of all teams, the query alone", query, "ms", Target::None);
    let command = quantile(&mut command, 0.5) * 1_000.0;
    report.add("list", "aion team ls --json, start to end", command, "ms", target);
    Ok(())
}

/// The product's binary, where it was built beside this one.
fn aion() -> Option<PathBuf> {
    let aion = std::env::current_exe().ok()?.with_file_name("aion");
    aion.is_file().then_some(aion)
}
