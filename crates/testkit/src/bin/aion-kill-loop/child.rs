//! The process that is killed: opens the team, shows that it works, and keeps it busy; it never
//! ends by itself, unless it is told to let the team settle.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aion_agent::leash::{DirectoryLedger, LeashConfig};
use aion_agent::runtime::RuntimeConfig;
use aion_agent::sandbox::Sandbox;
use aion_agent::tools::ToolConfig;
use aion_backends::{InProcessBackend, InProcessConfig};
use aion_core::Rejection;
use aion_core::agent::Agent;
use aion_core::command::{Caller, Command};
use aion_core::event::Event;
use aion_core::id::{AgentName, MessageId, RequestId, Seq, SlotId, TeamId};
use aion_core::request::{Decision, RequestState};
use aion_core::team::Team;
use aion_core::turn::{ToolCallState, Turn};
use aion_runtime::tools::Catalogue;
use aion_runtime::{
    Backends, CreateError, House, NewTeam, OpenError, SubmitError, TeamHandle, TeamService,
};
use aion_store::{SqliteOptions, SqliteStore};
use aion_testkit::chance::Chance;
use anyhow::{Context, Result, bail};
use clap::Args;
use tokio::time::sleep;

use crate::cast::{self, Chatter};
use crate::processes::MARK;
use crate::words::Word;

/// Who keeps sending, and how long each waits between two messages.
const SENDERS: u64 = 6;
const PAUSE_MS: u64 = 16;
/// How often open requests are decided and holders are set to work again.
const STIR: Duration = Duration::from_millis(400);

/// What the loop tells the child.
#[derive(Debug, Args)]
pub(crate) struct ChildArguments {
    /// The data directory.
    #[arg(long)]
    dir: PathBuf,
    /// The team.
    #[arg(long)]
    team: String,
    /// The number of this start; part of every key.
    #[arg(long)]
    run: u64,
    /// A file of keys to be sent again, one a line.
    #[arg(long)]
    again: Option<PathBuf>,
    /// Decide what is open, let everything come to rest, and end.
    #[arg(long)]
    settle: bool,
}

/// Runs the child; what fails is said to the loop.
pub(crate) fn run(arguments: &ChildArguments) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(live(arguments));
    if let Err(error) = &done {
        Word::Failed(format!("{error:#}")).say();
    }
    done
}

/// The store of a data directory.
pub(crate) fn store_dir(dir: &Path) -> PathBuf {
    dir.join("store")
}

async fn live(arguments: &ChildArguments) -> Result<()> {
    let ledger = DirectoryLedger::open(arguments.dir.join("leashes"))?;
    ledger.reap().context("reap what an earlier start left")?;
    let service = TeamService::new(house(&arguments.dir, ledger)?);
    Word::Opening.say();
    let team = open(&service, &arguments.team, &arguments.dir).await?;
    probe(&team, arguments.run).await?;
    Word::Resumed.say();
    if let Some(again) = &arguments.again {
        for key in std::fs::read_to_string(again)?.lines() {
            send(&team, key.to_owned()).await?;
        }
    }
    if arguments.settle {
        settle(&team).await?;
        service.stop_all().await;
        Word::Settled.say();
        return Ok(());
    }
    let senders = (0..SENDERS).map(|sender| keep_sending(&team, arguments.run, sender));
    let stirring = stir(&team, arguments.run, &arguments.team);
    let (_, stirred) = tokio::join!(futures::future::join_all(senders), stirring);
    stirred
}

fn house(dir: &Path, ledger: DirectoryLedger) -> Result<House> {
    let store = SqliteStore::open(&store_dir(dir), &SqliteOptions::default())?;
    let leash = LeashConfig::by_own_binary(Some(Arc::new(ledger)))?;
    let visible = |name: &str| std::env::var_os(name).map(|value| (OsString::from(name), value));
    let environment = ["PATH", MARK].into_iter().filter_map(visible).collect();
    let config = InProcessConfig {
        runtime: Arc::new(RuntimeConfig::default()),
        tools: Arc::new(ToolConfig {
            leash,
            environment,
            sandbox: Arc::new(Sandbox::off()),
            web: None,
            mcp: None,
        }),
    };
    let backend = InProcessBackend::new(Arc::new(Arc::new(Chatter)), config);
    Ok(House::new(Arc::new(store), Backends::all(Arc::new(backend)), Catalogue::default()))
}

/// Opens the team, and makes what an earlier start did not get to make of it.
async fn open(service: &TeamService, name: &str, dir: &Path) -> Result<TeamHandle> {
    let id = TeamId::new(name)?;
    let team = match service.open(&id).await {
        Ok(team) => team,
        Err(OpenError::NoTeam(_)) => create(service, id, name, dir).await?,
        Err(error) => return Err(error).context("open the team"),
    };
    for member in &cast::MEMBERS[1..] {
        spawn(&team, name, member).await?;
    }
    Ok(team)
}

async fn create(service: &TeamService, id: TeamId, name: &str, dir: &Path) -> Result<TeamHandle> {
    let new = NewTeam {
        name: name.to_owned(),
        owner: "somebody".to_owned(),
        workspace: dir.display().to_string(),
        solo: false,
        lead: cast::member(name, cast::MEMBERS[0])?,
        settings: cast::settings(),
    };
    match service.create_as(id, Caller::User, None, new).await {
        Ok(team) => Ok(team),
        Err(error @ (CreateError::Submit(_) | CreateError::Open(_))) => {
            Err(error).context("create the team")
        }
    }
}

async fn spawn(team: &TeamHandle, name: &str, member: &str) -> Result<()> {
    let command = Command::SpawnAgent { member: Box::new(cast::member(name, member)?) };
    match team.submit(Caller::User, None, command).await {
        Ok(_) | Err(SubmitError::Rejected(Rejection::NameTaken { .. })) => Ok(()),
        Err(error) => Err(error).context("bring a member in"),
    }
}

/// Sends a message that was never sent before and waits until a turn has acknowledged it.
async fn probe(team: &TeamHandle, run: u64) -> Result<()> {
    let accepted = send(team, format!("p-{run}")).await?;
    let mut events = team.subscribe(accepted.seq);
    while let Some(recorded) = events.next().await.context("follow the team")? {
        if let Event::TurnEnded { acknowledged, .. } = &recorded.event
            && acknowledged.contains(&accepted.id)
        {
            return Ok(());
        }
    }
    bail!("the team closed before it processed the probe")
}

/// An accepted message.
struct Accepted {
    id: MessageId,
    seq: Seq,
}

/// Sends the message of a key; says so before, and that it was accepted after.
async fn send(team: &TeamHandle, key: String) -> Result<Accepted> {
    Word::Intent(key.clone()).say();
    let command = Command::SendMessage(Box::new(cast::message(&key)));
    let committed = team.submit(Caller::User, None, command).await.context("send a message")?;
    let made = committed.events.iter().find_map(|recorded| match &recorded.event {
        Event::MessageSent { message, .. } => Some((message.id, recorded.seq)),
        _ => None,
    });
    let repeated = || Some((committed.receipt.as_ref()?.message?, committed.seq));
    let (id, seq) = made.or_else(repeated).context("an accepted message has no number")?;
    Word::Accepted(key, id.0).say();
    Ok(Accepted { id, seq })
}

async fn keep_sending(team: &TeamHandle, run: u64, sender: u64) {
    let mut chance = Chance::new(run * 100 + sender);
    for n in 0_u64.. {
        let key = format!("m-{run}-{sender}-{n}");
        if let Err(error) = send(team, key).await {
            Word::Failed(format!("{error:#}")).say();
            return;
        }
        sleep(Duration::from_millis(PAUSE_MS / 2 + chance.below(PAUSE_MS))).await;
    }
}

/// Decides what is open, sets the holders to work again, and lets a guest come and go.
async fn stir(team: &TeamHandle, run: u64, name: &str) -> Result<()> {
    for round in 0_u64.. {
        decide_all(team, round).await?;
        for slot in cast::HOLDERS {
            send(team, format!("h-{run}-{round}-{slot}")).await?;
        }
        come_and_go(team, name, &format!("guest-{run}-{round}")).await?;
        sleep(STIR).await;
    }
    Ok(())
}

async fn decide_all(team: &TeamHandle, round: u64) -> Result<()> {
    for request in team.query(open_requests).await? {
        let decision = if (request.0 + round).is_multiple_of(3) {
            Decision::Deny { reason: "not now".to_owned() }
        } else {
            Decision::ONCE
        };
        match team.submit(Caller::User, None, Command::Decide { request, decision }).await {
            Ok(_) | Err(SubmitError::Rejected(_)) => {}
            Err(error) => return Err(error).context("decide a request"),
        }
    }
    Ok(())
}

fn open_requests(team: &Team) -> Vec<RequestId> {
    let open = team.requests().filter(|(_, state)| matches!(state, RequestState::Open));
    open.map(|(request, _)| request.id).collect()
}

/// A member that is brought in and ended at once, with mail on its way to it.
async fn come_and_go(team: &TeamHandle, name: &str, guest: &str) -> Result<()> {
    let mut member = cast::member(name, guest)?;
    member.name = AgentName::parse(guest)?;
    let command = Command::SpawnAgent { member: Box::new(member) };
    let committed = team.submit(Caller::User, None, command).await.context("bring a guest in")?;
    let slot: Option<SlotId> = committed.events.iter().find_map(|recorded| match recorded.event {
        Event::AgentSpawned { slot, .. } => Some(slot),
        _ => None,
    });
    let Some(slot) = slot else { return Ok(()) };
    match team.submit(Caller::User, None, Command::KillAgent { slot }).await {
        Ok(_) | Err(SubmitError::Rejected(_)) => Ok(()),
        Err(error) => Err(error).context("end a guest"),
    }
}

/// Lets the team come to rest: no request, no command, no turn, no mail.
async fn settle(team: &TeamHandle) -> Result<()> {
    loop {
        decide_all(team, 0).await?;
        for slot in team.query(running_commands).await? {
            match team.submit(Caller::User, None, Command::Interrupt { slot }).await {
                Ok(_) | Err(SubmitError::Rejected(_)) => {}
                Err(error) => return Err(error).context("interrupt a turn"),
            }
        }
        let at_rest = team
            .query(|team| {
                team.agents().all(|agent| agent.turn().is_none() && agent.mailbox().is_empty())
            })
            .await?;
        if at_rest {
            return Ok(());
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Who has a command running.
fn running_commands(team: &Team) -> Vec<SlotId> {
    let runs = |turn: &Turn| {
        turn.calls().values().any(|call| matches!(call, ToolCallState::Started { .. }))
    };
    team.agents().filter(|agent| agent.turn().is_some_and(runs)).map(Agent::slot).collect()
}
