//! `aion team undo`: puts a workspace back as it was when its team began; nobody works in it
//! meanwhile.

use std::io::{self, IsTerminal};
use std::path::Path;

use aion_api::{
    CommandAcceptedResponse, Exit, FileChange, ProgressResponse, ProgressState, TeamListResponse,
    TeamResponse,
};
use serde_json::json;

use super::Reading;
use super::team::print_changes;
use crate::args::Undo;
use crate::client::{Client, Look, look};
use crate::confirm::ask;
use crate::daemon;
use crate::exit::{Failure, Outcome};
use crate::git::Repository;
use crate::history::fold;
use crate::output;
use crate::terminal::{clean_line, clean_text};

pub(super) async fn run(args: &Undo, json: bool) -> Outcome {
    let reading = Reading::open(&args.data).await?;
    let (store, row) = reading.team(Some(&args.team))?;
    let workspace = fold(store, &row.team, None).await?.team.workspace().to_owned();
    let repository = Repository::around(Path::new(&workspace))
        .filter(|repository| repository.has_start(&row.team))
        .ok_or_else(|| {
            let message = format!(
                "the start of {:?} is not recorded: {} is no git work tree, or was none then",
                clean_line(&row.name, 60),
                clean_line(&workspace, 200)
            );
            Failure::new(Exit::NotFound, "undo.no_start", message)
        })?;
    Repository::refuse_data_inside(Path::new(&workspace), &reading.dir)?;
    // Held until all is done: no team of this directory may write meanwhile.
    let (quiet, _alone) = match look(&reading.dir) {
        Look::There(file) => {
            let client = Client::of(&reading.dir, &file)?;
            (Some(Quiet::make(client, &workspace).await?), None)
        }
        Look::Gone(_) | Look::Nobody => (None, Some(daemon::alone_in(&reading.dir)?)),
    };
    let undone = put_back(args, json, &workspace, &repository, &row.team);
    if let Some(quiet) = quiet {
        quiet.end().await?;
    }
    undone
}

fn put_back(
    args: &Undo,
    json: bool,
    workspace: &str,
    repository: &Repository,
    team: &aion_core::id::TeamId,
) -> Outcome {
    let changes = repository.changes(team)?;
    if changes.is_empty() {
        return undone(json, workspace, &changes, None);
    }
    if !args.yes {
        agree(workspace, &changes, json)?;
    }
    let kept = repository.undo(team, &changes)?;
    undone(json, workspace, &changes, Some(&kept))
}

/// The teams of a daemon that work in a directory, held while it is put back.
struct Quiet {
    client: Client,
    /// Those that were not held before.
    paused: Vec<String>,
}

impl Quiet {
    /// Refuses where one of them is in a turn: nobody's work is taken away under his hands.
    async fn make(client: Client, workspace: &str) -> Result<Self, Failure> {
        let list: TeamListResponse = client.get("/api/teams").await?;
        let mut quiet = Self { client, paused: Vec::new() };
        let beside = |other: &str| {
            let (one, other) = (Path::new(workspace), Path::new(other));
            one.starts_with(other) || other.starts_with(one)
        };
        for team in list.teams.iter().filter(|team| !team.ended && beside(&team.workspace)) {
            let path = format!("/api/teams/{}", team.id);
            let shown: TeamResponse = quiet.client.get(&path).await?;
            if shown.holds.is_empty() {
                let _: CommandAcceptedResponse =
                    quiet.client.tell(&format!("{path}/pause")).await?;
                quiet.paused.push(team.id.clone());
            }
            let progress: ProgressResponse = quiet.client.get(&format!("{path}/progress")).await?;
            if !progress.busy.is_empty() || progress.state == ProgressState::Working {
                quiet.end().await?;
                let name = clean_line(&team.name, 60);
                let message = format!("{name} is at work in {}", clean_line(workspace, 200));
                let short: String = team.id.chars().take(8).collect();
                return Err(Failure::new(Exit::Conflict, "undo.at_work", message)
                    .with_hint(format!("aion team stop {short} stops it first")));
            }
        }
        Ok(quiet)
    }

    async fn end(self) -> Result<(), Failure> {
        for team in &self.paused {
            let _: CommandAcceptedResponse =
                self.client.tell(&format!("/api/teams/{team}/resume")).await?;
        }
        Ok(())
    }
}

fn agree(workspace: &str, changes: &[FileChange], json: bool) -> Result<(), Failure> {
    if json || !io::stdin().is_terminal() {
        let message =
            format!("{} file(s) would be put back; nobody is there to ask", changes.len());
        return Err(Failure::new(Exit::NeedsInput, "undo.unconfirmed", message)
            .with_hint("look with `aion team show`, then add --yes"));
    }
    output::line(&format!("These files in {} go back:", clean_line(workspace, 200)))?;
    print_changes(changes)?;
    if ask(&format!("Put {} file(s) back as they were?", changes.len()))? {
        Ok(())
    } else {
        Err(Failure::new(Exit::Failure, "undo.declined", "nothing was changed"))
    }
}

fn undone(json: bool, workspace: &str, changes: &[FileChange], kept: Option<&str>) -> Outcome {
    if json {
        output::json(&json!({ "workspace": workspace, "restored": changes, "kept_at": kept }))?;
        return Ok(Exit::Success);
    }
    match kept {
        None => output::line("Nothing to undo: no file changed since the team began.")?,
        Some(kept) => {
            output::line(&format!("{} file(s) are as they were.", changes.len()))?;
            output::line(&clean_text(&format!(
                "What was there is kept at {kept}; commits made since then stay in the history."
            )))?;
        }
    }
    Ok(Exit::Success)
}
