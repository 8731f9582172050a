//! What a turn costs beyond the exchange with its model's service, with the whole product around it;
//! the service is a process of its own, and answers the same to the bare client.

mod canned;

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command as Process, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aion_agent::host::Delta;
use aion_agent::leash::LeashConfig;
use aion_agent::models::{Catalogue, Service, ServiceConfig, ServiceProvider, calls};
use aion_agent::provider::Provider;
use aion_agent::runtime::RuntimeConfig;
use aion_agent::sandbox::Sandbox;
use aion_agent::tools::ToolConfig;
use aion_backends::{InProcessBackend, InProcessConfig, ProviderSource};
use aion_core::command::{Caller, Command, SendMessage};
use aion_core::event::Event;
use aion_core::id::TeamId;
use aion_core::message::{Recipient, Urgency};
use aion_runtime::{TeamHandle, TeamService};
use aion_testkit::figures::{Report, Target, quantile};
use aion_testkit::model_server::allow_clients;
use anyhow::{Context, Result};
use reqwest::Client;
use tokio::task::JoinSet;

pub(crate) use self::canned::serve;
use self::canned::{MANY, TOKENS, now};
use crate::baseline::private_bytes;
use crate::{Form, crew, tell};

/// Turns of one team before another is taken, so that conversations stay of one length.
const TURNS: u64 = 40;
/// Members of a team that streams with others.
const MEMBERS: u32 = 10;
/// Bytes of what each of many agents is given.
const CONTEXT: usize = 50 * 1024;

/// Runs the benchmark.
pub(crate) async fn measure(form: &Form) -> Result<Report> {
    let mut report = Report::new("bench turn");
    crew::tell_limits(&mut report);
    report.set("store", "SQLite");
    report.set("service", "a process of its own, Anthropic's Messages, one connection kept");
    let model = Model::start()?;
    let directory = tempfile::Builder::new().prefix("aion-bench-").tempdir()?;
    let store = crew::sqlite(&directory.path().join("store"))?;
    let service = crew::service(store, Arc::new(backend(&model.url)?));
    // Memory first: what the others leave behind is not theirs.
    if form.wants("memory") {
        memory(form, &service, &mut report).await?;
    }
    allow_clients();
    let http = calls(Client::builder())?;
    if form.wants("exchange") {
        exchange(form, &service, &model, &http, &mut report).await?;
    }
    if form.wants("tokens") {
        tokens(form, &service, &model, &http, &mut report).await?;
    }
    service.stop_all().await;
    Ok(report)
}

/// The service in its own process.
struct Model {
    url: String,
    process: Child,
}

impl Model {
    fn start() -> Result<Self> {
        let mut process = Process::new(std::env::current_exe()?)
            .arg("canned-service")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("start the service")?;
        let out = process.stdout.take().context("the service has no output")?;
        let mut url = String::new();
        BufReader::new(out).read_line(&mut url)?;
        Ok(Self { url: url.trim().to_owned(), process })
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn backend(url: &str) -> Result<InProcessBackend> {
    // No agent of this benchmark starts a process.
    let leash = LeashConfig { program: "/nonexistent".into(), arguments: vec![], ledger: None };
    let sandbox = Arc::new(Sandbox::off());
    let tools = ToolConfig::new(leash, sandbox, std::iter::empty::<(OsString, OsString)>());
    let config =
        InProcessConfig { runtime: Arc::new(RuntimeConfig::default()), tools: Arc::new(tools) };
    let config_of =
        ServiceConfig { service: Service::Anthropic, base_url: Some(url.to_owned()), key: None };
    let catalogue = Arc::new(Catalogue::new(Vec::new()));
    allow_clients();
    let http = calls(Client::builder())?;
    let provider = ServiceProvider::new(config_of, "any".to_owned(), catalogue, http)?;
    Ok(InProcessBackend::new(Arc::new(One(Arc::new(provider))), config))
}

/// One provider for all: an agent's model is its team's name.
#[derive(Debug)]
struct One(Arc<dyn Provider>);

impl ProviderSource for One {
    fn provider(&self, _: &TeamId, _: &str, _: Option<&str>) -> Result<Arc<dyn Provider>, String> {
        Ok(Arc::clone(&self.0))
    }
}

/// Turns and bare exchanges of the same bytes, one after the other.
async fn exchange(
    form: &Form,
    service: &TeamService,
    model: &Model,
    http: &Client,
    report: &mut Report,
) -> Result<()> {
    let (mut whole, mut bare, mut added) = (vec![], vec![], vec![]);
    for number in 0..form.scale(10, 1) {
        tell(&format!("turns, slice {number}"));
        let team = crew::create(service, &format!("once-{number}"), 1).await?;
        for _ in 0..TURNS {
            let turn = turn(&team, crew::TEXT).await?;
            let body = http.get(format!("{}/last", model.url)).send().await?.bytes().await?;
            let begun = Instant::now();
            read(http, model, body.to_vec(), |_| {}).await?;
            let exchanged = begun.elapsed().as_secs_f64();
            whole.push(turn * 1e3);
            bare.push(exchanged * 1e3);
            added.push((turn - exchanged) * 1e3);
        }
        service.close(team.team()).await;
    }
    report.add("exchange", "the exchange alone, p50", quantile(&mut bare, 0.5), "ms", Target::None);
    report.add(
        "turn",
        "message sent → turn ended, p50",
        quantile(&mut whole, 0.5),
        "ms",
        Target::None,
    );
    let half = quantile(&mut added, 0.5);
    report.add("added", "added by the product, p50", half, "ms", Target::AtMost(2.0));
    report.add("added_p99", "the same, p99", quantile(&mut added, 0.99), "ms", Target::None);
    Ok(())
}

/// Sends a message, and waits until the turn that it began has ended; seconds.
async fn turn(team: &TeamHandle, text: &str) -> Result<f64> {
    let begun = Instant::now();
    let sent = team.submit(Caller::User, None, message(Recipient::Lead, text)).await?;
    let mut events = team.subscribe(sent.seq);
    while let Some(recorded) = events.next().await? {
        if matches!(recorded.event, Event::TurnEnded { .. }) {
            return Ok(begun.elapsed().as_secs_f64());
        }
    }
    anyhow::bail!("the team was closed")
}

fn message(to: Recipient, text: &str) -> Command {
    Command::SendMessage(Box::new(SendMessage {
        to,
        text: text.to_owned(),
        summary: None,
        urgency: Urgency::Wake,
        files: Vec::new(),
        key: None,
    }))
}

/// One call without the product; every piece is handed over as it comes.
async fn read(
    http: &Client,
    model: &Model,
    body: Vec<u8>,
    mut piece: impl FnMut(&[u8]),
) -> Result<()> {
    let call = http.post(format!("{}/v1/messages", model.url));
    let mut response = call.header("content-type", "application/json").body(body).send().await?;
    while let Some(bytes) = response.chunk().await? {
        piece(&bytes);
    }
    Ok(())
}

/// How late a token is with whoever watches the agent, and with a bare client.
async fn tokens(
    form: &Form,
    service: &TeamService,
    model: &Model,
    http: &Client,
    report: &mut Report,
) -> Result<()> {
    let (mut ours, mut bare) = (vec![], vec![]);
    let team = crew::create(service, "paced-0", 1).await?;
    for number in 0..form.scale(10, 1) {
        tell(&format!("tokens, slice {number}"));
        let mut deltas = team.subscribe_deltas();
        let watching = tokio::spawn(async move {
            let mut late = Vec::new();
            while late.len() < TOKENS {
                let Some(live) = deltas.next().await else { break };
                if let Delta::Text { text, .. } = &*live.delta {
                    late.extend(stamps(text.as_bytes()));
                }
            }
            late
        });
        turn(&team, crew::TEXT).await?;
        ours.extend(watching.await?);
        let body = http.get(format!("{}/last", model.url)).send().await?.bytes().await?;
        read(http, model, body.to_vec(), |bytes| bare.extend(stamps(bytes))).await?;
    }
    let (half, half_bare) = (quantile(&mut ours, 0.5), quantile(&mut bare, 0.5));
    let what = "a token, added until a watcher has it, p50";
    report.add("token_added", what, half - half_bare, "ms", Target::AtMost(1.0));
    let (late, late_bare) = (quantile(&mut ours, 0.99), quantile(&mut bare, 0.99));
    report.add("token_p99", "a token until a watcher has it, p99", late, "ms", Target::None);
    report.add("bare_p99", "the same until a bare client has it", late_bare, "ms", Target::None);
    service.close(team.team()).await;
    Ok(())
}

/// How many milliseconds ago the tokens of a text were sent, by what they say.
fn stamps(text: &[u8]) -> Vec<f64> {
    let now = now();
    String::from_utf8_lossy(text)
        .split(|c: char| !c.is_ascii_digit())
        .filter(|digits| digits.len() == 19)
        .filter_map(|digits| digits.parse::<u64>().ok())
        .map(|sent| Duration::from_nanos(now.saturating_sub(sent)).as_secs_f64() * 1e3)
        .collect()
}

/// What the process weighs while many agents stream at once.
async fn memory(form: &Form, service: &TeamService, report: &mut Report) -> Result<()> {
    let teams = u64::try_from(MANY)? / u64::from(MEMBERS);
    if !form.is_whole() {
        // The service waits for all of them.
        tell("memory: only in a whole run");
        return Ok(());
    }
    tell(&format!("{MANY} agents stream at once"));
    let before = private_bytes();
    let mut all = Vec::new();
    for number in 0..teams {
        all.push(crew::create(service, &format!("many-{number}"), MEMBERS).await?);
    }
    let text = crew::TEXT.repeat(CONTEXT / crew::TEXT.len() + 1);
    let mut working = JoinSet::new();
    for team in &all {
        let (team, text) = (team.clone(), text.clone());
        working.spawn(async move {
            team.submit(Caller::User, None, message(Recipient::Everyone, &text)).await?;
            crew::until(&team, |team| {
                team.agents().all(|a| a.turn().is_none() && a.mailbox().is_empty())
            })
            .await
        });
    }
    let (mut private, mut resident) = (0, 0);
    while !working.is_empty() {
        tokio::select! {
            joined = working.join_next() => if let Some(joined) = joined { joined?? },
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
        }
        private = private.max(private_bytes());
        resident = resident.max(resident_bytes());
    }
    let mib = |bytes: u64| Duration::from_micros(bytes).as_secs_f64() * 1e6 / 1024.0 / 1024.0;
    let what = format!("{MANY} agents streaming at once, 50 KiB each: the process at most");
    report.add("memory", what, mib(resident), "MiB", Target::AtMost(200.0));
    let grown = mib(private.saturating_sub(before));
    report.add(
        "memory_grown",
        "of it grown since before they were there",
        grown,
        "MiB",
        Target::None,
    );
    for team in all {
        service.close(team.team()).await;
    }
    Ok(())
}

/// Memory of this process that is in RAM, in bytes.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|field| field.parse::<u64>().ok());
    // The page size of every machine that this is measured on.
    pages.unwrap_or(0) * 4_096
}
