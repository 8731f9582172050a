//! Sending: how long, how many, and what a long log costs; it needs no model.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aion_core::command::{Caller, Command};
use aion_core::event::{EVENT_VERSION, Event, Recorded};
use aion_core::id::{CommandId, Seq, SlotId, TeamId};
use aion_core::message::Recipient;
use aion_core::team::Team;
use aion_core::time::Timestamp;
use aion_core::turn::{Turn, TurnOutcome};
use aion_runtime::{TeamHandle, TeamService};
use aion_store::{Append, EventStore, SqliteStore};
use aion_testkit::chance::Chance;
use aion_testkit::figures::{Report, Target, quantile};
use anyhow::{Context, Result};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::baseline::{DiskBaseline, cpu_seconds};
use crate::ends::TurnEnds;
use crate::inbox::InboxTeam;
use crate::opening::copy_files;
use crate::sink::{Ending, Held, Sink};
use crate::{Form, crew, tell};

/// Who sends at the same time.
const SENDERS: u32 = 64;
/// The length of a slice.
const SLICE: Duration = Duration::from_secs(1);
/// Members of the team with many senders.
const MEMBERS: u32 = 10;
/// Messages after which the recipient of single commits has read its mail.
const READ_AFTER: u32 = 20;
/// Members whose inbox files are polled.
const POLLED: u32 = 40;

/// Runs the benchmark.
pub(crate) async fn measure(form: &Form) -> Result<Report> {
    let mut report = Report::new("bench mailbox");
    crew::tell_limits(&mut report);
    report.set("message", format!("{} bytes", crew::TEXT.len()));
    report.set("senders", SENDERS.to_string());
    report.set("slices", "1 s, interleaved with their baseline");
    let directory = tempfile::Builder::new().prefix("aion-bench-").tempdir()?;
    if form.wants("latency") {
        latency(form, directory.path(), &mut report).await?;
    }
    if form.wants("throughput") {
        throughput(form, directory.path(), &mut report).await?;
    }
    if form.wants("growth") {
        growth(form, directory.path(), &mut report).await?;
    }
    Ok(report)
}

/// From the send to the recipient's runner holding it, one at a time.
async fn latency(form: &Form, directory: &Path, report: &mut Report) -> Result<()> {
    let (sink, mut held) = Sink::told(Ending::AtOnce);
    let service = crew::service(crew::sqlite(&directory.join("latency"))?, sink);
    let team = crew::create(&service, "latency", 2).await?;
    let mut disk = DiskBaseline::new(directory)?;
    let mut inboxes = InboxTeam::start(directory, POLLED);
    let (mut fsync, mut ours, mut accepted, mut file) = (vec![], vec![], vec![], vec![]);
    for slice in 0..form.scale(10, 1) {
        tell(&format!("latency, slice {slice}"));
        fsync.extend(disk.slice(SLICE)?);
        latency_slice(&team, &mut held, &mut ours, &mut accepted).await?;
        file.extend(inboxes.slice(SLICE, crew::TEXT)?);
    }
    inboxes.stop()?;
    service.stop_all().await;
    let (disk, sent) = (quantile(&mut fsync, 0.5), quantile(&mut ours, 0.5));
    let polled = quantile(&mut file, 0.5);
    let ms = |seconds: f64| seconds * 1_000.0;
    let none = Target::None;
    report.add("fsync_p50", "4 KiB append + fdatasync, p50", ms(disk), "ms", none);
    report.add("send_p50", "send → runner holds it, p50", ms(sent), "ms", none);
    report.add(
        "send_p99",
        "send → runner holds it, p99",
        ms(quantile(&mut ours, 0.99)),
        "ms",
        none,
    );
    report.add(
        "accepted_p50",
        "send → accepted, p50",
        ms(quantile(&mut accepted, 0.5)),
        "ms",
        none,
    );
    report.add("inbox_p50", "lock + JSON inbox + 500 ms poll, p50", ms(polled), "ms", none);
    report.add("send_to_fsync", "send → held, to fdatasync", sent / disk, "×", Target::AtMost(2.0));
    let share = sent / polled;
    report.add("send_to_inbox", "send → held, to the inbox", share, "×", Target::AtMost(0.01));
    Ok(())
}

async fn latency_slice(
    team: &TeamHandle,
    held: &mut UnboundedReceiver<Held>,
    ours: &mut Vec<f64>,
    accepted: &mut Vec<f64>,
) -> Result<()> {
    let mate = SlotId(2);
    let end = Instant::now() + SLICE;
    while Instant::now() < end {
        let begun = Instant::now();
        team.submit(Caller::User, None, crew::message(Recipient::Agent(mate))).await?;
        accepted.push(begun.elapsed().as_secs_f64());
        let at = loop {
            let held = held.recv().await.context("the backend is gone")?;
            if held.slot == mate {
                break held.at;
            }
        };
        ours.push((at - begun).as_secs_f64());
        crew::until(team, move |team| team.agent(mate).is_some_and(|a| a.turn().is_none())).await?;
    }
    Ok(())
}

/// Messages a second with many senders, against one commit for each message.
async fn throughput(form: &Form, directory: &Path, report: &mut Report) -> Result<()> {
    let store = crew::sqlite(&directory.join("throughput"))?;
    let mut single = SingleCommits::new(Arc::clone(&store)).await?;
    let busy = crew::service(Arc::<SqliteStore>::clone(&store), Sink::silent(Ending::ByOthers));
    let (sink, mut held) = Sink::told(Ending::AtOnce);
    let turns = crew::service(Arc::<SqliteStore>::clone(&store), sink);

    let one = crew::create(&busy, "busy-one", MEMBERS).await?;
    let one_team: Vec<Sender> = (0..SENDERS).map(|n| Sender::within(&one, n, MEMBERS)).collect();
    let mut many_teams = Vec::new();
    for n in 0..SENDERS {
        many_teams.push(Sender::within(&crew::create(&busy, &format!("busy-{n}"), 2).await?, 0, 2));
    }
    let mut busy_tasks = Vec::new();
    for (team, slots) in std::iter::once((&one, 1..=MEMBERS))
        .chain(many_teams.iter().map(|sender| (&sender.team, 1..=2)))
    {
        for slot in slots {
            busy_tasks.push(tokio::spawn(crew::keep_busy(team.clone(), SlotId(slot))));
        }
    }

    let crowd = crew::create(&turns, "turns-one", SENDERS + 1).await?;
    let slots = (0..SENDERS).map(|n| SlotId(n + 2));
    let ends = TurnEnds::follow(crowd.clone(), slots.clone().collect());
    let crowd: Vec<Turns> = slots.map(|slot| Turns::of(&crowd, slot, &ends)).collect();
    let (mut leads, mut mates) = (Vec::new(), Vec::new());
    for n in 0..SENDERS {
        let team = crew::create(&turns, &format!("turns-{n}"), 2).await?;
        let ends = TurnEnds::follow(team.clone(), [SlotId::LEAD, SlotId(2)].into());
        leads.push(Turns::of(&team, SlotId::LEAD, &ends));
        mates.push(Turns::of(&team, SlotId(2), &ends));
    }

    let mut rates: [Vec<f64>; 6] = Default::default();
    for slice in 0..form.scale(8, 1) {
        tell(&format!("throughput, slice {slice}"));
        rates[0].push(single.slice(SLICE).await?);
        rates[1].push(send_slice(&one_team, SLICE).await?);
        rates[2].push(send_slice(&many_teams, SLICE).await?);
        rates[3].push(turn_slice(&crowd, &mut held, SLICE).await?);
        rates[4].push(turn_slice(&leads, &mut held, SLICE).await?);
        rates[5].push(turn_slice(&mates, &mut held, SLICE).await?);
    }
    for task in busy_tasks {
        task.abort();
    }
    busy.stop_all().await;
    turns.stop_all().await;
    let [base, one, many, crowd, leads, mates] = rates.map(|mut slices| quantile(&mut slices, 0.5));
    let none = Target::None;
    report.add("single", "one commit per message", base, "/s", none);
    report.add("busy_1", "64 senders, busy recipients, 1 team", one, "/s", none);
    report.add("busy_64", "64 senders, busy recipients, 64 teams", many, "/s", none);
    report.add("turns_1", "a full turn per message, 1 team", crowd, "/s", none);
    report.add("turns_64", "a full turn per message, 64 teams", leads, "/s", none);
    report.add("mates_64", "  and the lead's turn for its notice", mates, "/s", none);
    let eight = Target::AtLeast(8.0);
    report.add("busy_1_ratio", "busy, 1 team, to one commit each", one / base, "×", eight);
    report.add("busy_64_ratio", "busy, 64 teams, to one commit each", many / base, "×", eight);
    let four = Target::AtLeast(4.0);
    report.add("turns_1_ratio", "full turns, 1 team, to one commit each", crowd / base, "×", four);
    report.add(
        "turns_64_ratio",
        "full turns, 64 teams, to one commit each",
        leads / base,
        "×",
        four,
    );
    Ok(())
}

/// One that sends to its peers, one message after the other.
#[derive(Clone, Debug)]
struct Sender {
    team: TeamHandle,
    from: SlotId,
    members: u32,
    chance: Chance,
}

impl Sender {
    /// The n-th sender of a team.
    fn within(team: &TeamHandle, n: u32, members: u32) -> Self {
        let chance = Chance::new(u64::from(n));
        Self { team: team.clone(), from: SlotId(1 + n % members), members, chance }
    }

    /// Sends to any other member; returns when it is accepted.
    async fn send(&mut self) -> Result<()> {
        let others = u64::from(self.members - 1);
        let step = 1 + u32::try_from(self.chance.below(others))?;
        let to = SlotId(1 + (self.from.0 - 1 + step) % self.members);
        let to = if to == SlotId::LEAD { Recipient::Lead } else { Recipient::Agent(to) };
        self.team.submit(Caller::Agent(self.from), None, crew::message(to)).await?;
        Ok(())
    }
}

/// Accepted messages a second.
async fn send_slice(senders: &[Sender], length: Duration) -> Result<f64> {
    let begun = Instant::now();
    let end = begun + length;
    let tasks: Vec<_> = senders
        .iter()
        .cloned()
        .map(|mut sender| {
            tokio::spawn(async move {
                let mut sent = 0_u32;
                while Instant::now() < end {
                    sender.send().await?;
                    sent += 1;
                }
                anyhow::Ok(sent)
            })
        })
        .collect();
    let mut sent = 0;
    for task in tasks {
        sent += task.await??;
    }
    Ok(f64::from(sent) / begun.elapsed().as_secs_f64())
}

/// A member whose turns are waited for.
#[derive(Clone, Debug)]
struct Turns {
    team: TeamHandle,
    slot: SlotId,
    ends: TurnEnds,
}

impl Turns {
    fn of(team: &TeamHandle, slot: SlotId, ends: &TurnEnds) -> Self {
        Self { team: team.clone(), slot, ends: ends.clone() }
    }
}

/// Messages a second that were accepted and had a turn of their own, which has ended.
async fn turn_slice(
    recipients: &[Turns],
    held: &mut UnboundedReceiver<Held>,
    length: Duration,
) -> Result<f64> {
    // What is told is not needed here.
    while held.try_recv().is_ok() {}
    let begun = Instant::now();
    let end = begun + length;
    let tasks: Vec<_> = recipients
        .iter()
        .cloned()
        .map(|Turns { team, slot, ends }| {
            tokio::spawn(async move {
                let mut done = 0_u32;
                while Instant::now() < end {
                    let message = crew::message(Recipient::Agent(slot));
                    let committed = team.submit(Caller::User, None, message).await?;
                    let turn = committed.events.iter().find_map(|r| match r.event {
                        Event::TurnStarted { turn, slot: s, .. } if s == slot => Some(turn),
                        _ => None,
                    });
                    let turn = turn.context("the recipient was busy")?;
                    ends.wait(turn).await?;
                    done += 1;
                }
                anyhow::Ok(done)
            })
        })
        .collect();
    let mut done = 0;
    for task in tasks {
        done += task.await??;
    }
    Ok(f64::from(done) / begun.elapsed().as_secs_f64())
}

/// The same store without group commits: each message is decided, appended and durable before the
/// next.
struct SingleCommits {
    store: Arc<SqliteStore>,
    id: TeamId,
    team: Team,
    epoch: u64,
    seq: Seq,
}

impl SingleCommits {
    async fn new(store: Arc<SqliteStore>) -> Result<Self> {
        let id = TeamId::new("single")?;
        let epoch = store.open(&id).await?.epoch;
        let mut single = Self { store, id: id.clone(), team: Team::new(), epoch, seq: Seq(0) };
        let create = Command::CreateTeam {
            team: id,
            name: "single".to_owned(),
            owner: "somebody".to_owned(),
            workspace: "/".to_owned(),
            solo: false,
            lead: Box::new(crew::member("single", 0)?),
            settings: Box::new(crew::settings()),
        };
        single.commit(Caller::User, &create).await?;
        let ready = Command::AgentReady { slot: SlotId::LEAD, generation: 1 };
        single.commit(Caller::System, &ready).await?;
        Ok(single)
    }

    async fn commit(&mut self, caller: Caller, command: &Command) -> Result<()> {
        let at = Timestamp(self.seq.0);
        let decided = self.team.handle(at, caller, command);
        let decided = decided.map_err(|rejection| anyhow::anyhow!("{rejection}"))?;
        let command_id = CommandId::new(format!("single-{}", self.seq.0))?;
        let events: Vec<Recorded> = (self.seq.0 + 1..)
            .zip(decided)
            .map(|(seq, event)| Recorded {
                seq: Seq(seq),
                at,
                version: EVENT_VERSION,
                actor: caller,
                credential: None,
                command_id: command_id.clone(),
                event,
            })
            .collect();
        let last = Seq(self.seq.0 + events.len() as u64);
        let (team, epoch, expected) = (self.id.clone(), self.epoch, self.seq);
        self.store.append(Append::new(team, epoch, expected, events.into())).await?;
        self.seq = last;
        Ok(())
    }

    /// Messages a second.
    async fn slice(&mut self, length: Duration) -> Result<f64> {
        let begun = Instant::now();
        let mut commits = 0_u32;
        while begun.elapsed() < length {
            for _ in 0..READ_AFTER {
                self.commit(Caller::User, &crew::message(Recipient::Lead)).await?;
            }
            // An ever fuller mailbox would slow it down for another reason.
            let turn = self.team.lead().and_then(|lead| lead.turn()).map(Turn::id);
            if let Some(turn) = turn {
                let take = Command::TakeMail { turn, step: 1 };
                self.commit(Caller::Agent(SlotId::LEAD), &take).await?;
                let outcome = TurnOutcome::Done { last_text: None };
                let end = Command::EndTurn { turn, outcome, usage: None };
                self.commit(Caller::System, &end).await?;
            }
            commits += READ_AFTER + 2;
        }
        Ok(f64::from(commits) / begun.elapsed().as_secs_f64())
    }
}

/// What a send costs in a store with 100,000 messages, against one with 100. Both are opened anew
/// for each slice, so that both have a log that grows and nothing to move from it.
async fn growth(form: &Form, directory: &Path, report: &mut Report) -> Result<()> {
    let many = form.scale(100_000, 1_000);
    let (few_dir, many_dir) = (directory.join("few"), directory.join("many"));
    Grown::prepare(&few_dir, 100).await?;
    Grown::prepare(&many_dir, many).await?;
    let (mut short_times, mut long_times) = (vec![], vec![]);
    let (mut short_cpu, mut long_cpu) = (vec![], vec![]);
    for slice in 0..form.scale(20, 2) {
        tell(&format!("cost of a send, slice {slice}"));
        // What is sent to the short one is forgotten with its copy.
        let copy = directory.join(format!("few-{slice}"));
        copy_files(&few_dir, &copy)?;
        Grown::cost(&copy, &mut short_times, &mut short_cpu).await?;
        Grown::cost(&many_dir, &mut long_times, &mut long_cpu).await?;
    }
    let us = |mut slices: Vec<f64>| quantile(&mut slices, 0.5) * 1e6;
    let (few_us, many_us) = (us(short_times), us(long_times));
    let (few_cpu, many_cpu) = (us(short_cpu), us(long_cpu));
    let none = Target::None;
    report.add("cost_100", "a send at 100 messages, 64 senders", few_us, "µs", none);
    report.add("cost_100k", format!("a send at {many} messages"), many_us, "µs", none);
    report.add("cpu_100", "CPU for a send at 100 messages", few_cpu, "µs", none);
    report.add("cpu_100k", format!("CPU for a send at {many} messages"), many_cpu, "µs", none);
    let target = Target::AtMost(1.2);
    report.add("growth", "cost of a send, long log to short", many_us / few_us, "×", target);
    Ok(())
}

/// A team with messages behind it, in a store of its own.
struct Grown {
    service: TeamService,
    senders: Vec<Sender>,
    readers: Vec<tokio::task::JoinHandle<()>>,
}

impl Grown {
    /// Makes a store whose team has so many messages behind it.
    async fn prepare(directory: &Path, messages: u64) -> Result<()> {
        let service = crew::service(crew::sqlite(directory)?, Sink::silent(Ending::ByOthers));
        let team = crew::create(&service, "grown", MEMBERS).await?;
        let grown = Self::over(service, &team);
        grown.send(messages / u64::from(SENDERS) + 1).await?;
        grown.stop(&team).await?;
        Ok(())
    }

    /// Seconds for one send of many at the same time: by the clock and of CPU.
    async fn cost(directory: &Path, times: &mut Vec<f64>, cpu: &mut Vec<f64>) -> Result<()> {
        const EACH: u32 = 8;
        let service = crew::service(crew::sqlite(directory)?, Sink::silent(Ending::ByOthers));
        let team = service.open(&TeamId::new("grown")?).await?;
        let grown = Self::over(service, &team);
        // Everybody is in a turn, and every statement has been prepared.
        grown.send(2).await?;
        let (begun, spent) = (Instant::now(), cpu_seconds());
        grown.send(EACH.into()).await?;
        let sends = f64::from(EACH * SENDERS);
        times.push(begun.elapsed().as_secs_f64() / sends);
        cpu.push((cpu_seconds() - spent) / sends);
        grown.stop(&team).await?;
        Ok(())
    }

    fn over(service: TeamService, team: &TeamHandle) -> Self {
        let senders: Vec<Sender> = (0..SENDERS).map(|n| Sender::within(team, n, MEMBERS)).collect();
        let readers = (1..=MEMBERS)
            .map(|slot| tokio::spawn(crew::keep_busy(team.clone(), SlotId(slot))))
            .collect();
        Self { service, senders, readers }
    }

    /// Every sender sends so many.
    async fn send(&self, each: u64) -> Result<()> {
        let tasks: Vec<_> = self
            .senders
            .iter()
            .cloned()
            .map(|mut sender| {
                tokio::spawn(async move {
                    for _ in 0..each {
                        sender.send().await?;
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        for task in tasks {
            task.await??;
        }
        Ok(())
    }

    /// Closes everything once all mail is acknowledged: what is open costs as it is much, whatever
    /// the length of the log. The store is closed when this returns.
    async fn stop(self, team: &TeamHandle) -> Result<()> {
        crew::until(team, |team| team.agents().all(|agent| agent.mailbox().is_empty())).await?;
        for reader in self.readers {
            reader.abort();
            // That it was cut off is its end.
            let _ = reader.await;
        }
        self.service.stop_all().await;
        Ok(())
    }
}
