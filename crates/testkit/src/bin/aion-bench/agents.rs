//! Ten thousand agents in one process: what they weigh, how fast they are registered, and how soon
//! a message reaches a model; no model answers but one that says the same at once.

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aion_agent::leash::LeashConfig;
use aion_agent::provider::{Immediate, ModelEvent, ModelRequest, Provider, ProviderError};
use aion_agent::runtime::RuntimeConfig;
use aion_agent::sandbox::Sandbox;
use aion_agent::tools::ToolConfig;
use aion_backends::{InProcessBackend, InProcessConfig, ProviderSource};
use aion_core::command::Caller;
use aion_core::event::Event;
use aion_core::id::{SlotId, TeamId, TurnId};
use aion_core::message::Recipient;
use aion_runtime::{TeamHandle, TeamService};
use aion_store::{EventStore, MemoryStore};
use aion_testkit::chance::Chance;
use aion_testkit::figures::{Report, Target, quantile};
use anyhow::{Context, Result};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use tokio::sync::mpsc;

use crate::baseline::{DiskBaseline, private_bytes};
use crate::{Form, crew, tell};

/// Members of each team.
const MEMBERS: u32 = 10;
/// Turns that every agent has run before it is weighed.
const TURNS: u64 = 50;
/// Teams that are driven at the same time.
const AT_ONCE: usize = 16;
/// Messages a second while the latency is measured.
const RATE: u32 = 100;

/// Runs the benchmark.
pub(crate) async fn measure(form: &Form) -> Result<Report> {
    let teams = form.scale(1_000, 10);
    let agents = teams * u64::from(MEMBERS);
    let mut report = Report::new("bench agents");
    crew::tell_limits(&mut report);
    report.set("teams", teams.to_string());
    report.set("agents", agents.to_string());
    report.set("turns of each agent", TURNS.to_string());
    report.set("memory", "resident pages that are no file's, from /proc/self/statm");
    let directory = tempfile::Builder::new().prefix("aion-bench-").tempdir()?;
    let calls = Arc::new(Calls::default());
    let store = crew::sqlite(&directory.path().join("store"))?;
    let service = crew::service(store, Arc::new(backend(&calls)));

    let before = private_bytes();
    tell(&format!("register {agents} agents, durable"));
    let begun = Instant::now();
    let handles = register(&service, teams).await?;
    let durable = begun.elapsed().as_secs_f64();
    let fresh = private_bytes();

    tell(&format!("run {TURNS} turns of each"));
    let begun = Instant::now();
    let driven: Vec<u64> =
        stream::iter(&handles).map(drive).buffer_unordered(AT_ONCE).try_collect().await?;
    let took = begun.elapsed().as_secs_f64();
    let turns: u64 = driven.iter().sum();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let used = private_bytes();

    let (mut fsync, mut late, mut whole) = (vec![], vec![], vec![]);
    let mut disk = DiskBaseline::new(directory.path())?;
    let mut chance = Chance::new(1);
    calls.noting.store(true, Ordering::Relaxed);
    for slice in 0..form.scale(30, 1) {
        tell(&format!("latency under load, slice {slice}"));
        fsync.extend(disk.slice(Duration::from_secs(1))?);
        load(&handles, &calls, &mut chance, &mut late, &mut whole).await?;
    }
    drop(handles);
    service.stop_all().await;
    drop(service);

    tell(&format!("register {agents} agents, in memory"));
    let memory: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let service = crew::service(memory, Arc::new(backend(&Arc::new(Calls::default()))));
    let begun = Instant::now();
    let handles = register(&service, teams).await?;
    let in_memory = begun.elapsed().as_secs_f64();
    drop(handles);
    service.stop_all().await;

    add(&mut report, agents, &Weights { before, fresh, used });
    let none = Target::None;
    report.add("turns", "turns run", float(turns), "", none);
    report.add("turn_rate", "turns a second, all durable", float(turns) / took, "/s", none);
    let seconds = if form.is_whole() { Target::AtMost(4.0) } else { Target::None };
    report.add("durable", "registered and ready, durable", durable, "s", seconds);
    let each = in_memory * 1e6 / float(agents);
    report.add(
        "in_memory",
        "registered and ready in memory, each",
        each,
        "µs",
        Target::AtMost(30.0),
    );
    let ms = |list: &mut Vec<f64>, at: f64| quantile(list, at) * 1_000.0;
    let base = ms(&mut fsync, 0.99);
    report.add("fsync_p50", "4 KiB append + fdatasync, p50", ms(&mut fsync, 0.5), "ms", none);
    report.add("fsync_p99", "4 KiB append + fdatasync, p99", base, "ms", none);
    report.add("call_p50", "committed → provider call, p50", ms(&mut late, 0.5), "ms", none);
    let p99 = ms(&mut late, 0.99);
    report.add("call_p99", "committed → provider call, p99", p99, "ms", none);
    report.add("sent_p99", "sent → provider call, p99", ms(&mut whole, 0.99), "ms", none);
    report.add(
        "call_ratio",
        "committed → call, to fdatasync, p99",
        p99 / base,
        "×",
        Target::AtMost(3.0),
    );
    Ok(report)
}

/// Memory at three moments, in bytes.
struct Weights {
    before: u64,
    fresh: u64,
    used: u64,
}

fn add(report: &mut Report, agents: u64, weights: &Weights) {
    let kib = |bytes: u64| float(bytes.saturating_sub(weights.before)) / 1_024.0 / float(agents);
    report.add(
        "bytes_fresh",
        "an agent that was just registered",
        kib(weights.fresh),
        "KiB",
        Target::None,
    );
    let target = Target::AtMost(16.0);
    report.add("bytes_idle", "an idle agent after its turns", kib(weights.used), "KiB", target);
}

#[expect(clippy::cast_precision_loss, reason = "counts of one run are far below 2^52")]
fn float(count: u64) -> f64 {
    count as f64
}

/// Creates all teams and waits until every member is ready.
async fn register(service: &TeamService, teams: u64) -> Result<Vec<TeamHandle>> {
    let names: Vec<String> = (0..teams).map(|n| format!("team-{n}")).collect();
    let made = names.iter().map(|name| crew::create(service, name, MEMBERS));
    futures::future::try_join_all(made).await
}

/// Lets every member of a team run its turns; answers how many turns those were.
async fn drive(team: &TeamHandle) -> Result<u64> {
    for _ in 0..TURNS {
        team.submit(Caller::User, None, crew::message(Recipient::Everyone)).await?;
        crew::until(team, |team| {
            team.agents().all(|a| a.turn().is_none() && a.mailbox().is_empty())
        })
        .await?;
    }
    Ok(TURNS * u64::from(MEMBERS))
}

/// One second of messages to leads of random teams, evenly spread; the seconds from commit and
/// from send to the call of the provider.
async fn load(
    teams: &[TeamHandle],
    calls: &Arc<Calls>,
    chance: &mut Chance,
    late: &mut Vec<f64>,
    whole: &mut Vec<f64>,
) -> Result<()> {
    let start = Instant::now();
    let (done, mut times) = mpsc::unbounded_channel();
    for n in 0..RATE {
        let due = start + Duration::from_secs(1) * n / RATE;
        tokio::time::sleep_until(due.into()).await;
        let team = teams[usize::try_from(chance.below(teams.len() as u64))?].clone();
        let (calls, done) = (Arc::clone(calls), done.clone());
        tokio::spawn(async move {
            // Whoever measured may be done.
            let _ = done.send(timed(&team, &calls).await);
        });
    }
    drop(done);
    while let Some(timed) = times.recv().await {
        if let Some((from_commit, from_send)) = timed? {
            late.push(from_commit);
            whole.push(from_send);
        }
    }
    Ok(())
}

/// Sends to a lead; none where it was in a turn and read the message there.
async fn timed(team: &TeamHandle, calls: &Calls) -> Result<Option<(f64, f64)>> {
    let begun = Instant::now();
    let committed = team.submit(Caller::User, None, crew::message(Recipient::Lead)).await?;
    let accepted = Instant::now();
    let turn = committed.events.iter().find_map(|recorded| match recorded.event {
        Event::TurnStarted { turn, slot: SlotId::LEAD, .. } => Some(turn),
        _ => None,
    });
    let Some(turn) = turn else { return Ok(None) };
    let called = calls.wait(team.team().as_str(), turn).await?;
    let from_commit = called.saturating_duration_since(accepted).as_secs_f64();
    Ok(Some((from_commit, (called - begun).as_secs_f64())))
}

/// When the provider was called for which turn of which team. Only leads are noted.
#[derive(Debug, Default)]
struct Calls {
    /// Whether anybody wants to know.
    noting: AtomicBool,
    noted: Mutex<HashMap<(String, TurnId), Instant>>,
}

impl Calls {
    fn note(&self, team: &str, turn: TurnId) {
        if !self.noting.load(Ordering::Relaxed) {
            return;
        }
        let at = Instant::now();
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        noted.insert((team.to_owned(), turn), at);
    }

    async fn wait(&self, team: &str, turn: TurnId) -> Result<Instant> {
        let deadline = Instant::now() + Duration::from_secs(30);
        while Instant::now() < deadline {
            let found = {
                let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
                noted.remove(&(team.to_owned(), turn))
            };
            if let Some(at) = found {
                return Ok(at);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        None.context("the provider was not called")
    }
}

fn backend(calls: &Arc<Calls>) -> InProcessBackend {
    // No agent of this benchmark starts a process.
    let leash = LeashConfig { program: "/nonexistent".into(), arguments: vec![], ledger: None };
    let tools = ToolConfig::new(
        leash,
        Arc::new(Sandbox::off()),
        std::iter::empty::<(OsString, OsString)>(),
    );
    let config =
        InProcessConfig { runtime: Arc::new(RuntimeConfig::default()), tools: Arc::new(tools) };
    InProcessBackend::new(Arc::new(Providers { calls: Arc::clone(calls) }), config)
}

/// One provider for each team: an agent's model is its team's name.
#[derive(Debug)]
struct Providers {
    calls: Arc<Calls>,
}

impl ProviderSource for Providers {
    fn provider(
        &self,
        _: &TeamId,
        _: &str,
        model: Option<&str>,
    ) -> Result<Arc<dyn Provider>, String> {
        let team = model.ok_or("no team")?.into();
        let answers = Immediate::new("Noted; nothing to add.");
        Ok(Arc::new(Noting { team, calls: Arc::clone(&self.calls), answers }))
    }
}

/// Notes when it is called.
#[derive(Debug)]
struct Noting {
    team: Arc<str>,
    calls: Arc<Calls>,
    answers: Immediate,
}

impl Provider for Noting {
    fn stream(
        &self,
        request: ModelRequest,
    ) -> BoxStream<'static, Result<ModelEvent, ProviderError>> {
        if request.agent.as_str() == "team-lead" {
            self.calls.note(&self.team, request.turn);
        }
        self.answers.stream(request)
    }
}
