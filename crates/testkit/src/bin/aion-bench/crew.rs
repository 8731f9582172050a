//! Teams as the benchmarks set them up, and what they do to them; it measures nothing.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aion_backends::Backend;
use aion_core::agent::{AgentState, MemberSpec, PermissionMode};
use aion_core::command::{Caller, Command, SendMessage, Settings};
use aion_core::id::{AgentName, ConversationId, SlotId, TeamId};
use aion_core::limits::Limits;
use aion_core::message::{Recipient, Urgency};
use aion_core::turn::TurnOutcome;
use aion_runtime::tools::Catalogue;
use aion_runtime::{Backends, House, NewTeam, TeamHandle, TeamService};
use aion_store::{EventStore, SqliteOptions, SqliteStore, StoreError};
use aion_testkit::figures::Report;
use anyhow::{Context, Result};

/// The text of every message: as long as a short remark.
pub(crate) const TEXT: &str = "The parser now keeps comments. Please run the checks again when you \
    have a moment, and tell me whether the two slow ones got any quicker; I changed nothing else in \
    that file, so the others should be as before.";

/// Messages that are read at a time, by the default limit.
const BATCH: usize = 32;

/// The limits that the benchmarks lift, and nothing else.
pub(crate) fn settings() -> Settings {
    let limits = Limits {
        members: 100,
        messages_per_minute: 0,
        unread: 1_000_000,
        unread_bytes: u64::MAX,
        turns_without_progress: u32::MAX,
        ..Limits::default()
    };
    Settings { limits, auto_claim: false, ..Settings::default() }
}

/// Tells which limits were lifted.
pub(crate) fn tell_limits(report: &mut Report) {
    let Limits { members, messages_per_minute, unread, turns_without_progress, .. } =
        settings().limits;
    report.set("members", members.to_string());
    report.set("messages_per_minute", format!("{messages_per_minute} (no limit)"));
    report.set("unread", unread.to_string());
    report.set("unread_bytes", "no limit");
    report.set("turns_without_progress", format!("{turns_without_progress} (no limit)"));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    report.set("cores", cores.to_string());
}

/// A store in a directory. One that was closed just now may take a moment to let go of it.
pub(crate) fn sqlite(directory: &Path) -> Result<Arc<SqliteStore>> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match SqliteStore::open(directory, &SqliteOptions::default()) {
            Ok(store) => return Ok(Arc::new(store)),
            Err(StoreError::Locked { .. }) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// A service over a store and one backend.
pub(crate) fn service(store: Arc<dyn EventStore>, backend: Arc<dyn Backend>) -> TeamService {
    TeamService::new(House::new(store, Backends::all(backend), Catalogue::default()))
}

/// What a member is made from. Its model tells a provider which team it is in.
pub(crate) fn member(team: &str, index: u32) -> Result<MemberSpec> {
    Ok(MemberSpec {
        name: if index == 0 {
            AgentName::lead()
        } else {
            AgentName::parse(&format!("mate-{index}"))?
        },
        label: None,
        agent_type: "measured".to_owned(),
        model: Some(team.to_owned()),
        color: None,
        prompt: String::new(),
        mode: PermissionMode::Default,
        conversation: ConversationId::new(format!("{team}-{index}"))?,
        parent_call: None,
        parent_conversation: None,
    })
}

/// Creates a team of `members` and waits until all of them are ready.
pub(crate) async fn create(service: &TeamService, name: &str, members: u32) -> Result<TeamHandle> {
    let new = NewTeam {
        name: name.to_owned(),
        owner: "somebody".to_owned(),
        workspace: std::env::temp_dir().display().to_string(),
        solo: false,
        lead: member(name, 0)?,
        settings: settings(),
    };
    let id = TeamId::new(name)?;
    let team = service.create_as(id, Caller::User, None, new).await.context("create a team")?;
    let spawns = (1..members).map(|index| {
        let team = &team;
        async move {
            let member = Box::new(member(name, index)?);
            team.submit(Caller::User, None, Command::SpawnAgent { member }).await?;
            anyhow::Ok(())
        }
    });
    futures::future::try_join_all(spawns).await?;
    until(&team, move |team| {
        let ready =
            |state: &AgentState| matches!(state, AgentState::Idle | AgentState::Active { .. });
        team.agents().filter(|agent| ready(agent.state())).count() == members as usize
    })
    .await?;
    Ok(team)
}

/// Waits until something holds of a team.
pub(crate) async fn until(
    team: &TeamHandle,
    holds: impl Fn(&aion_core::team::Team) -> bool + Copy + Send + 'static,
) -> Result<()> {
    while !team.query(holds).await? {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// A message to one member.
pub(crate) fn message(to: Recipient) -> Command {
    Command::SendMessage(Box::new(SendMessage {
        to,
        text: TEXT.to_owned(),
        summary: None,
        urgency: Urgency::Wake,
        files: Vec::new(),
        key: None,
    }))
}

/// Keeps a member busy: it is always in a turn, reads all its mail every 20 ms and ends a turn
/// every 200 ms. Never returns, unless the team is closed.
pub(crate) async fn keep_busy(team: TeamHandle, slot: SlotId) {
    for step in 1_u32.. {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let live = team.query(move |team| Some(team.agent(slot)?.turn()?.id())).await;
        let Ok(live) = live else { return };
        let Some(turn) = live else { continue };
        if step.is_multiple_of(10) {
            let outcome = TurnOutcome::Done { last_text: None };
            let end = Command::EndTurn { turn, outcome, usage: None };
            // A turn that has ended meanwhile needs no end.
            let _ = team.submit(Caller::System, None, end).await;
            continue;
        }
        loop {
            let take = Command::TakeMail { turn, step };
            let taken = team.submit(Caller::Agent(slot), None, take).await;
            if taken.map_or(0, |committed| committed.events.len()) < BATCH {
                break;
            }
        }
    }
}
