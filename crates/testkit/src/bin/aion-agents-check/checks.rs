//! What a member has to be able to do, tried one after the other with one agent; it repairs nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use aion_testkit::chance::Chance;
use aion_testkit::model_server::{Format, ModelServer};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::daemon::{Daemon, Home};
use crate::model::{PING, RECALL, REMEMBER, RUN, WAIT};
use crate::processes::{self, Living};
use crate::recipe::Recipe;
use crate::{Ground, model, tell};

/// How long a step of an agent may take on a slow machine.
const STEP: Duration = Duration::from_mins(1);
/// How long processes may take to be gone.
const GONE: Duration = Duration::from_secs(15);

/// Leads that only take note.
pub(crate) const LEAD: &str = "[[agent.\"*\".rule]]\notherwise = true\nsay = \"Noted.\"\n";

/// What is tried, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Check {
    /// It is started, and its first turn ends.
    Ready,
    /// A turn in which it calls a tool of the team, for which nobody is asked.
    Tool,
    /// Mail that wakes it.
    Wake,
    /// A call that the person allows.
    Allowed,
    /// A call that the person denies.
    Denied,
    /// A turn that is ended in the middle, and a next one.
    Cancel,
    /// The daemon is killed, and it knows what was said before.
    Resume,
    /// It is sent away, and no process of its is left.
    Stop,
}

impl Check {
    pub(crate) const ALL: [Self; 8] = [
        Self::Ready,
        Self::Tool,
        Self::Wake,
        Self::Allowed,
        Self::Denied,
        Self::Cancel,
        Self::Resume,
        Self::Stop,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Tool => "tool",
            Self::Wake => "wake",
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Cancel => "cancel",
            Self::Resume => "resume",
            Self::Stop => "stop",
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// How a check went.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Went {
    /// As it should, in so long.
    Well(Duration),
    /// It is known that it does not, and why.
    Gap(&'static str),
    /// As it should not.
    Badly(String),
}

/// How all checks of an agent went.
pub(crate) struct Report {
    agent: &'static str,
    version: Option<String>,
    memory: u64,
    processes: usize,
    /// The way in which its session was gone on with.
    resumed: Option<&'static str>,
    went: BTreeMap<Check, Went>,
}

impl Report {
    /// Whether nothing went as it should not.
    pub(crate) fn is_good(&self) -> bool {
        self.went.values().all(|went| !matches!(went, Went::Badly(_)))
    }

    /// For whoever watches.
    pub(crate) fn tell(&self) -> Result<()> {
        let version = self.version.as_deref().unwrap_or("of no known version");
        tell(&format!(
            "{} {version}: {} processes, {} MiB",
            self.agent,
            self.processes,
            self.memory / 1024
        ))?;
        for (check, went) in &self.went {
            tell(&match went {
                Went::Well(took) => format!("  {check:<8} ok, {:.1} s", took.as_secs_f64()),
                Went::Gap(why) => format!("  {check:<8} -, {why}"),
                Went::Badly(why) => format!("  {check:<8} FAILED: {why}"),
            })?;
        }
        Ok(())
    }

    /// For the table.
    pub(crate) fn json(&self) -> Value {
        let went = self.went.iter().map(|(check, went)| {
            let value = match went {
                Went::Well(took) => json!({ "ok": true, "ms": took.as_millis() as u64 }),
                Went::Gap(why) => json!({ "ok": false, "gap": why }),
                Went::Badly(why) => json!({ "ok": false, "failed": why }),
            };
            (check.word().to_owned(), value)
        });
        json!({
            "version": self.version,
            "memory_kib": self.memory,
            "processes": self.processes,
            "resumed": self.resumed,
            "checks": Value::Object(went.collect()),
        })
    }
}

/// Tries everything with one agent.
pub(crate) async fn run(recipe: &Recipe, ground: &Ground) -> Report {
    let mut report = Report {
        agent: recipe.name,
        version: None,
        memory: 0,
        processes: 0,
        resumed: None,
        went: BTreeMap::new(),
    };
    if let Err(error) = all(recipe, ground, &mut report).await {
        let reached = Check::ALL.into_iter().find(|check| !report.went.contains_key(check));
        let check = reached.unwrap_or(Check::Stop);
        report.went.insert(check, Went::Badly(format!("{error:#}")));
    }
    report
}

async fn all(recipe: &Recipe, ground: &Ground, report: &mut Report) -> Result<()> {
    let model = model::start(recipe).await?;
    let home = Home::new(ground, &model.base_url(Format::Anthropic), &[recipe])?;
    if ground.keep {
        tell(&format!("{}: everything is in {}", recipe.name, home.root().display()))?;
    }
    let daemon = home.serve(LEAD).await?;
    let rows = daemon.get("/api/agents?refresh=true").await?;
    let rows = rows["agents"].as_array().context("agents are listed")?;
    let row = rows.iter().find(|row| row["agent_type"] == recipe.name);
    let row = row.context("the agent is not listed")?;
    ensure!(row["available"] == true, "it cannot be used: {}", row["reason"]);
    report.version = row["program"]["version"].as_str().map(str::to_owned);
    let before = processes::others();
    let team = json!({
        "name": "check", "workspace": home.work(), "lead": { "agent_type": "scripted" },
    });
    let team = daemon.call("POST", "/api/teams", Some(team)).await?;
    let path = format!("/api/teams/{}", team["id"].as_str().context("a team has an id")?);
    let mut trial = Trial {
        recipe,
        home: &home,
        model: &model,
        path,
        daemon: Some(daemon),
        chance: Chance::of(&format!("{} {}", recipe.name, home.root().display())),
        resumed: None,
    };
    for check in Check::ALL {
        let gap = recipe.gaps.iter().find(|(word, _)| *word == check.word());
        let began = Instant::now();
        let went = match (gap, trial.tried(check, &before).await) {
            // What is known to fail, and does not, is no gap any more.
            (_, Ok(())) => Went::Well(began.elapsed()),
            (Some((_, why)), Err(_)) => Went::Gap(why),
            (None, Err(error)) => Went::Badly(format!("{error:#}")),
        };
        if check == Check::Ready {
            let own = mine(&before);
            report.memory = own.iter().map(|living| living.memory).sum();
            report.processes = own.len();
        }
        // An agent that does not come to rest passes nothing that follows.
        let broken = matches!(went, Went::Badly(_)) || check == Check::Ready && gap.is_some();
        report.went.insert(check, went);
        if broken {
            break;
        }
    }
    if ground.keep {
        for seen in model.seen() {
            let file = home.root().join(format!("request-{:03}-{}.json", seen.number, seen.agent));
            std::fs::write(file, seen.body.to_string())?;
        }
    }
    report.resumed = trial.resumed;
    if let Some(daemon) = trial.daemon.take() {
        daemon.end().await?;
    }
    none_left(&[], None).await.context("after the daemon's end")
}

/// Waits until no process is left but those that were there before.
pub(crate) async fn none_left(before: &[Living], daemon: Option<u32>) -> Result<()> {
    let deadline = Instant::now() + GONE;
    loop {
        let mut left = mine(before);
        left.retain(|living| Some(living.pid) != daemon);
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let line = |living: &Living| format!("{} {}", living.pid, living.line);
            bail!("processes are left: {}", left.iter().map(line).collect::<Vec<_>>().join("; "));
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// The processes that were not there before.
fn mine(before: &[Living]) -> Vec<Living> {
    let known = |living: &Living| before.iter().any(|old| old.pid == living.pid);
    processes::others().into_iter().filter(|living| !known(living)).collect()
}

/// One agent on trial: it is the member in slot 2.
struct Trial<'a> {
    recipe: &'a Recipe,
    home: &'a Home,
    model: &'a ModelServer,
    path: String,
    daemon: Option<Daemon>,
    chance: Chance,
    resumed: Option<&'static str>,
}

impl Trial<'_> {
    async fn tried(&mut self, check: Check, before: &[Living]) -> Result<()> {
        match check {
            Check::Ready => self.ready().await,
            Check::Tool => self.answers(PING, "pong").await,
            Check::Wake => {
                // It was idle for a while: nothing but its mail tells it to go on.
                sleep(Duration::from_secs(1)).await;
                self.answers(PING, "pong").await
            }
            Check::Allowed => self.asks(true).await,
            Check::Denied => self.asks(false).await,
            Check::Cancel => self.cancel().await,
            Check::Resume => self.resume().await,
            Check::Stop => self.stop(before).await,
        }
    }

    fn daemon(&self) -> Result<&Daemon> {
        self.daemon.as_ref().context("no daemon runs")
    }

    fn word(&mut self) -> String {
        format!("{:016x}", self.chance.draw())
    }

    async fn ready(&mut self) -> Result<()> {
        let member = json!({
            "name": "bob", "prompt": "Stand by.", "agent_type": self.recipe.name,
            "model": self.recipe.model,
        });
        let path = format!("{}/agents", self.path);
        self.daemon()?.call("POST", &path, Some(member)).await?;
        self.idle().await
    }

    /// Waits until the member has nothing to do.
    async fn idle(&self) -> Result<()> {
        let path = format!("{}/agents/2", self.path);
        let settled = |agent: &Value| {
            let status = agent["status"].as_str().unwrap_or_default();
            match status {
                "failed" | "removed" => Some(Err(agent.clone())),
                "idle" if agent["unread"] == 0 => Some(Ok(())),
                _ => None,
            }
        };
        match self.daemon()?.until(&path, "an idle member", STEP, settled).await? {
            Ok(()) => Ok(()),
            Err(agent) => {
                let events = self.daemon()?.get(&format!("{}/events?limit=500", self.path)).await?;
                let all = events["events"].as_array().map(Vec::as_slice).unwrap_or_default();
                let why = all.iter().rev().find(|event| event.to_string().contains("agent_failed"));
                bail!("the member is {}: {}", agent["status"], why.unwrap_or(&Value::Null))
            }
        }
    }

    async fn send(&self, text: &str) -> Result<()> {
        let body = json!({ "text": text });
        let path = format!("{}/agents/2/messages", self.path);
        self.daemon()?.call("POST", &path, Some(body)).await.map(drop)
    }

    /// Sends a word that is to come back in a message to the person.
    async fn answers(&mut self, order: &str, answer: &str) -> Result<()> {
        let word = self.word();
        self.send(&format!("{order} {word}")).await?;
        let wanted = format!("{answer} {word}");
        let path = format!("{}/messages?limit=500", self.path);
        let arrived = |messages: &Value| {
            let all = messages["messages"].as_array()?;
            all.iter().any(|m| m["from"] == "s2" && m["text"] == wanted).then_some(())
        };
        // Nobody is asked for a tool of the team: a request that waits would keep this from coming.
        self.daemon()?.until(&path, "the member's message", STEP, arrived).await?;
        self.idle().await
    }

    /// Has it run a command, which the person allows or denies.
    async fn asks(&mut self, allow: bool) -> Result<()> {
        ensure!(self.recipe.shell.is_some(), "it has no tool of its own that runs a command");
        let word = self.word();
        self.send(&format!("{RUN} {word}")).await?;
        let asked = |approvals: &Value| {
            let all = approvals["approvals"].as_array()?;
            all.iter().find(|request| request.to_string().contains(&word)).cloned()
        };
        let daemon = self.daemon()?;
        let request = daemon.until("/api/approvals", "a request", STEP, asked).await?;
        ensure!(request["kind"] == "permission", "it asks for something else: {request}");
        let file = self.home.work().join(format!("ran-{word}"));
        ensure!(!file.exists(), "the command ran before anybody decided");
        let id = request["request_id"].as_str().context("a request has an id")?;
        let decision = if allow {
            json!({ "decision": "allow" })
        } else {
            json!({ "decision": "deny", "reason": "not here" })
        };
        daemon.call("POST", &format!("/api/approvals/{id}"), Some(decision)).await?;
        self.idle().await?;
        match (allow, file.exists()) {
            (true, false) => bail!("it was allowed, and did not run"),
            (false, true) => bail!("it was denied, and ran"),
            (true, true) | (false, false) => Ok(()),
        }
    }

    /// Ends a turn in which the model says nothing, and has another.
    async fn cancel(&mut self) -> Result<()> {
        let word = self.word();
        self.send(&format!("{WAIT} {word}")).await?;
        self.asked_for(&[&word]).await?;
        let path = format!("{}/agents/2/interrupt", self.path);
        let accepted = self.daemon()?.call("POST", &path, None).await?;
        self.idle().await?;
        let events = format!("{}/events?after={}&limit=500", self.path, accepted["seq"]);
        let ended = |events: &Value| {
            let of_bob = |event: &&Value| {
                event["data"]["type"] == "turn_ended" && event["data"]["slot"] == 2
            };
            let all = events["events"].as_array()?;
            all.iter().find(of_bob).map(|event| event["data"]["outcome"].clone())
        };
        let outcome = self.daemon()?.until(&events, "the turn's end", STEP, ended).await?;
        ensure!(outcome["outcome"] == "interrupted", "the turn ended otherwise: {outcome}");
        self.answers(PING, "pong").await
    }

    /// Waits until the model is asked with all of these words in the request.
    async fn asked_for(&self, words: &[&str]) -> Result<String> {
        let deadline = Instant::now() + STEP;
        loop {
            let seen = self.model.seen();
            let holds = |body: &String| words.iter().all(|word| body.contains(word));
            let bodies = seen.iter().filter(|seen| seen.agent == "bob");
            if let Some(found) = bodies.map(|seen| seen.body.to_string()).find(holds) {
                return Ok(found);
            }
            if Instant::now() >= deadline {
                bail!("the model was not asked with {}", words.join(" and "));
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Tells it something, kills the daemon, and looks whether the next request knows it.
    async fn resume(&mut self) -> Result<()> {
        let fact = self.word();
        self.send(&format!("{REMEMBER} {fact}")).await?;
        self.asked_for(&[&fact]).await?;
        self.idle().await?;
        let daemon = self.daemon.take().context("no daemon runs")?;
        daemon.kill().await?;
        self.daemon = Some(self.home.serve(LEAD).await?);
        self.daemon()?.call("POST", &format!("{}/resume", self.path), None).await.ok();
        let word = self.word();
        self.send(&format!("{RECALL} {word}")).await?;
        let request = self.asked_for(&[&fact, &word]).await?;
        let told = request.contains("<earlier-session>");
        self.resumed =
            Some(if told { "it is told what was said" } else { "its session is opened again" });
        let wanted = format!("recalled {word}");
        let path = format!("{}/messages?limit=500", self.path);
        let arrived = |messages: &Value| messages.to_string().contains(&wanted).then_some(());
        self.daemon()?.until(&path, "the member's message", STEP, arrived).await?;
        self.idle().await
    }

    /// Sends it away.
    async fn stop(&mut self, before: &[Living]) -> Result<()> {
        let path = format!("{}/agents/2", self.path);
        self.daemon()?.call("DELETE", &path, None).await?;
        none_left(before, self.daemon()?.pid()).await
    }
}
