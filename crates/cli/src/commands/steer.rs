//! `aion team create`, `rename`, `pause` and so on: teams made, held and ended through the daemon.

use std::path::Path;

use aion_api::{
    CommandAcceptedResponse, CreateTeamParams, EditTeamParams, Exit, LeadParams, TeamResponse,
    TeamRow,
};
use serde_json::json;

use super::agent::mode;
use crate::args::{CreateTeam, EndTeam, RenameTeam, WantedTeam};
use crate::client::{Client, connect, find_team};
use crate::confirm::confirm;
use crate::exit::{Failure, Outcome};
use crate::output;
use crate::scenarios::scenario;
use crate::terminal::clean_line;

pub(super) async fn create(args: CreateTeam, json: bool) -> Outcome {
    let scenario = match &args.script {
        Some(path) => Some(scenario(path)?.1),
        None => None,
    };
    let workspace = match &args.workspace {
        Some(path) => Some(absolute(path)?),
        None => None,
    };
    let client = connect(&args.reach).await?;
    let params = CreateTeamParams {
        name: args.name,
        workspace,
        prompt: args.prompt,
        lead: LeadParams {
            agent_type: args.agent,
            model: args.model,
            permission_mode: args.mode.map(mode),
        },
        settings: None,
        scenario,
    };
    let team: TeamResponse = client.persist("/api/teams", &params).await?;
    if json {
        output::json(&team)?;
        return Ok(Exit::Success);
    }
    let short: String = team.id.chars().take(8).collect();
    output::line(&format!(
        "{} is there as {short}, and works in {}",
        clean_line(&team.name, 60),
        clean_line(&team.workspace, 300)
    ))?;
    output::line(&format!("write to its lead  aion message send lead \"…\" --team {short}"))?;
    output::line(&format!("follow it          aion attach {short}"))?;
    Ok(Exit::Success)
}

fn absolute(path: &Path) -> Result<String, Failure> {
    let full = std::path::absolute(path).map_err(|error| Failure::io(path.display(), &error))?;
    match full.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(Failure::usage(format!("{} is not written in UTF-8", full.display()))),
    }
}

pub(super) async fn rename(args: RenameTeam, json: bool) -> Outcome {
    let (client, team) = wanted(&args.reach, &args.team).await?;
    let params = EditTeamParams { name: Some(args.name), settings: None };
    let renamed: Option<TeamResponse> =
        client.patch(&format!("/api/teams/{}", team.id), &params).await?;
    if json {
        output::json(&renamed)?;
    } else if let Some(renamed) = renamed {
        let (old, new) = (clean_line(&team.name, 60), clean_line(&renamed.name, 60));
        output::line(&format!("{old} is {new} from now on"))?;
    }
    Ok(Exit::Success)
}

/// Asks something of a team that has no further words.
pub(super) async fn tell(args: &WantedTeam, verb: &str, done: &str, json: bool) -> Outcome {
    let (client, team) = wanted(&args.reach, &args.team).await?;
    let accepted: CommandAcceptedResponse =
        client.tell(&format!("/api/teams/{}/{verb}", team.id)).await?;
    said(&team, &accepted, done, json)
}

pub(super) async fn archive(args: EndTeam, json: bool) -> Outcome {
    let (client, team) = wanted(&args.reach, &args.team).await?;
    let preview = [format!(
        "{} ends: its members leave, and nothing happens in it any more. Its history is kept.",
        clean_line(&team.name, 60)
    )];
    confirm(&preview, "End it?", args.yes, json)?;
    let accepted: CommandAcceptedResponse =
        client.tell(&format!("/api/teams/{}/archive", team.id)).await?;
    said(&team, &accepted, "has ended; its history is kept", json)
}

pub(super) async fn remove(args: EndTeam, json: bool) -> Outcome {
    let (client, team) = wanted(&args.reach, &args.team).await?;
    let name = clean_line(&team.name, 60);
    let preview = [
        format!("{name} ends, and is erased with its {} events and all transcripts.", team.seq),
        format!(
            "The files in {} stay; aion team undo works no longer.",
            clean_line(&team.workspace, 200)
        ),
    ];
    confirm(&preview, &format!("Erase {name}?"), args.yes, json)?;
    client.delete(&format!("/api/teams/{}", team.id)).await?;
    if json {
        output::json(&json!({ "erased": team.id }))?;
    } else {
        output::line(&format!("{name} is erased"))?;
    }
    Ok(Exit::Success)
}

async fn wanted(reach: &crate::args::Reach, team: &str) -> Result<(Client, TeamRow), Failure> {
    let client = connect(reach).await?;
    let team = find_team(&client, Some(team)).await?;
    Ok((client, team))
}

fn said(team: &TeamRow, accepted: &CommandAcceptedResponse, done: &str, json: bool) -> Outcome {
    if json {
        output::json(accepted)?;
    } else {
        output::line(&format!("{} {done}", clean_line(&team.name, 60)))?;
    }
    Ok(Exit::Success)
}
