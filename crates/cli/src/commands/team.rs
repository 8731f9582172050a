//! `aion team`: lists and shows teams, and puts a workspace back; it never changes a team.

use std::path::Path;

use aion_api::{
    AgentStatus, Exit, FileChange, FileChangeKind, StatusReason, TaskState, TeamListResponse,
    TeamView,
};
use aion_core::id::SlotId;
use aion_core::time::Timestamp;
use aion_store::TeamRow;

use super::source::Source;
use super::{Reading, steer, undo};
use crate::args::{self, Everything, OneTeam};
use crate::client::connect;
use crate::exit::{Failure, Outcome};
use crate::git::Repository;
use crate::history::{Folded, Names, fold, names};
use crate::terminal::{Paint, clean_line};
use crate::{counts, output, view};

pub(super) async fn run(command: args::Team, json: bool) -> Outcome {
    match command {
        args::Team::Create(args) => steer::create(args, json).await,
        args::Team::Rename(args) => steer::rename(args, json).await,
        args::Team::Pause(args) => {
            steer::tell(&args, "pause", "is paused: no member starts a turn", json).await
        }
        args::Team::Resume(args) => steer::tell(&args, "resume", "goes on", json).await,
        args::Team::Stop(args) => {
            steer::tell(&args, "stop", "is stopped; aion team resume lets it go on", json).await
        }
        args::Team::Archive(args) => steer::archive(args, json).await,
        args::Team::Rm(args) => steer::remove(args, json).await,
        args::Team::Ls(everything) => list(&everything, json).await,
        args::Team::Show(one) => show(&one, json).await,
        args::Team::Undo(args) => undo::run(&args, json).await,
    }
}

async fn list(args: &Everything, json: bool) -> Outcome {
    let rows: Vec<aion_api::TeamRow> = if args.reach.url.is_some() {
        let list: TeamListResponse = connect(&args.reach).await?.get("/api/teams").await?;
        list.teams
    } else {
        Reading::open(&args.reach.data).await?.teams.iter().map(row).collect()
    };
    if json {
        output::json(&rows)?;
    } else if rows.is_empty() {
        output::line("There is no team yet. `aion demo` shows one at work.")?;
    } else {
        let cells: Vec<Vec<String>> = rows
            .iter()
            .map(|row| {
                vec![
                    row.id.chars().take(8).collect(),
                    clean_line(&row.name, 40),
                    if row.ended { "ended".to_owned() } else { row.members.to_string() },
                    format!("{}/{}", row.tasks_completed, row.tasks_completed + row.tasks_open),
                    row.requests_open.to_string(),
                    row.messages_open.to_string(),
                    when(row.updated_at_ms),
                ]
            })
            .collect();
        let head = ["ID", "NAME", "MEMBERS", "TASKS", "WAITING", "MAIL", "LAST ACTIVE"];
        output::table(&head, &cells)?;
    }
    Ok(Exit::Success)
}

fn row(row: &TeamRow) -> aion_api::TeamRow {
    aion_api::TeamRow {
        id: row.team.to_string(),
        name: row.name.clone(),
        workspace: row.workspace.clone(),
        ended: row.ended,
        members: row.members,
        tasks_open: row.tasks_open,
        tasks_completed: row.tasks_done,
        requests_open: row.requests_open,
        messages_open: row.messages_open,
        seq: row.seq.0,
        updated_at_ms: row.updated_wall_ms,
    }
}

/// A point of a team's running time for people: how long after its beginning.
pub(super) fn after(at: Timestamp, begin: Timestamp) -> String {
    let ms = (at - begin).0;
    let (hours, minutes, seconds) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    format!("{hours}:{minutes:02}:{seconds:02}.{:03}", ms % 1_000)
}

/// A point of time for people.
fn when(ms: u64) -> String {
    i64::try_from(ms)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
        .map_or_else(|| "?".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%SZ").to_string())
}

async fn show(args: &OneTeam, json: bool) -> Outcome {
    let view =
        if args.reach.url.is_some() { far_view(args).await? } else { near_view(args).await? };
    if json {
        output::json(&view)?;
    } else {
        print(&view)?;
    }
    Ok(Exit::Success)
}

/// A team of this machine, with what changed in its workspace.
async fn near_view(args: &OneTeam) -> Result<TeamView, Failure> {
    let reading = Reading::open(&args.reach.data).await?;
    let (store, row) = reading.team(args.team.as_deref())?;
    let totals = store.totals(&row.team).await?;
    let folded = fold(store, &row.team, None).await?;
    let repository = Repository::around(Path::new(folded.team.workspace()))
        .filter(|repository| repository.has_start(&row.team));
    let changes = match &repository {
        Some(repository) => Some(repository.changes(&row.team)?),
        None => None,
    };
    let names = names(store, &row.team, &folded.team).await?;
    Ok(view_of(&folded, &names, totals, changes))
}

/// A team of a daemon that was named; its workspace is not here.
async fn far_view(args: &OneTeam) -> Result<TeamView, Failure> {
    let source = Source::open(&args.reach, args.team.as_deref()).await?;
    let mut folded = Folded::new();
    let mut events = Vec::new();
    source
        .all(|recorded| {
            folded.apply(recorded);
            events.push(recorded.clone());
            Ok(())
        })
        .await?;
    Ok(view_of(&folded, &Names::of(&events), counts::count(&events), None))
}

fn view_of(
    folded: &Folded,
    names: &Names,
    totals: aion_store::Totals,
    changes: Option<Vec<FileChange>>,
) -> TeamView {
    let team = &folded.team;
    let files = changes.as_ref().map_or(0, Vec::len) as u64;
    TeamView {
        id: team.id().map_or_else(String::new, ToString::to_string),
        name: team.name().to_owned(),
        user_id: team.owner().to_owned(),
        workspace: team.workspace().to_owned(),
        ended: team.is_ended(),
        holds: team.holds().map(|hold| view::word(&hold)).collect(),
        lead_slot_id: SlotId::LEAD.0.into(),
        agents: view::agents(team),
        task_counts: view::task_counts(team),
        tasks: view::tasks(team, |slot| names.get(team, slot)),
        requests: view::requests(team, team.now_floor()),
        totals: counts::wire(totals, totals.messages_dead == 0, files),
        seq: folded.seq.0,
        changes,
    }
}

fn print(view: &TeamView) -> Result<(), Failure> {
    let paint = Paint::of_stdout();
    output::line(&format!(
        "{}  {}",
        paint.bold(&clean_line(&view.name, 100)),
        paint.dim(&view.id)
    ))?;
    output::line(&format!("workspace  {}", clean_line(&view.workspace, 300)))?;
    if view.ended {
        output::line("the team has ended")?;
    }
    if !view.holds.is_empty() {
        output::line(&format!("held by    {}", view.holds.join(", ")))?;
    }
    output::line("")?;
    print_members(&view.agents)?;
    output::line("")?;
    print_tasks(&view.tasks)?;
    print_requests(&view.requests)?;
    let totals = &view.totals;
    output::line("")?;
    output::line(&format!(
        "{} turns, {} messages ({} read, {} lost), {} requests decided, {} restarts",
        totals.turns,
        totals.messages_accepted,
        totals.messages_acknowledged,
        totals.messages_dead,
        totals.requests_decided,
        totals.restarts
    ))?;
    match &view.changes {
        None => output::line("changes are not known: the workspace is no git work tree"),
        Some(changes) if changes.is_empty() => output::line("no file changed since it began"),
        Some(changes) => {
            output::line(&format!("{} file(s) changed since it began:", changes.len()))?;
            print_changes(changes)
        }
    }
}

/// The members as a table.
pub(super) fn print_members(agents: &[aion_api::AgentRow]) -> Result<(), Failure> {
    let rows: Vec<Vec<String>> = agents
        .iter()
        .map(|agent| {
            vec![
                agent.agent_name.clone(),
                clean_line(&agent.agent_type, 20),
                format!("{} ({})", view::word(&agent.status), reason(agent.status, agent.reason)),
                agent.permission_mode.clone(),
                agent.unread.to_string(),
            ]
        })
        .collect();
    output::table(&["MEMBER", "AGENT", "STATUS", "MODE", "UNREAD"], &rows)
}

fn reason(status: AgentStatus, reason: StatusReason) -> String {
    match (status, reason) {
        (_, StatusReason::NeedsYou) => "needs you".to_owned(),
        (AgentStatus::Removed, _) => "left".to_owned(),
        _ => view::word(&reason).replace('_', " "),
    }
}

/// The board as a table.
pub(super) fn print_tasks(tasks: &[aion_api::TaskRow]) -> Result<(), Failure> {
    if tasks.is_empty() {
        return output::line("no tasks");
    }
    let rows: Vec<Vec<String>> = tasks
        .iter()
        .map(|task| {
            let waits: Vec<String> = task.blocked_by.iter().map(|id| format!("#{id}")).collect();
            let status = match (task.status, waits.is_empty()) {
                (TaskState::Pending, false) => format!("waits for {}", waits.join(", ")),
                (TaskState::Pending, true) => "ready".to_owned(),
                (TaskState::InProgress, _) => "in progress".to_owned(),
                (TaskState::Completed, _) => "completed".to_owned(),
            };
            vec![
                format!("#{}", task.id),
                status,
                task.owner.clone().unwrap_or_else(|| "-".to_owned()),
                clean_line(&task.subject, 80),
            ]
        })
        .collect();
    output::table(&["TASK", "STATUS", "OWNER", "SUBJECT"], &rows)
}

/// What waits for a decision; nothing if nothing does.
pub(super) fn print_requests(requests: &[aion_api::RequestRow]) -> Result<(), Failure> {
    if requests.is_empty() {
        return Ok(());
    }
    output::line("")?;
    let rows: Vec<Vec<String>> = requests
        .iter()
        .map(|request| {
            vec![
                format!("r{}", request.id),
                request.from.clone(),
                request.kind.replace('_', " "),
                clean_line(&request.what, 100),
            ]
        })
        .collect();
    output::table(&["WAITS", "FROM", "FOR", "WHAT"], &rows)
}

/// Changed files, a line each.
pub(crate) fn print_changes(changes: &[FileChange]) -> Result<(), Failure> {
    let paint = Paint::of_stdout();
    for change in changes {
        let mark = match change.change {
            FileChangeKind::Added => paint.good("+"),
            FileChangeKind::Modified => paint.warn("~"),
            FileChangeKind::Deleted => paint.bad("-"),
        };
        output::line(&format!("  {mark} {}", clean_line(&change.path, 300)))?;
    }
    Ok(())
}
