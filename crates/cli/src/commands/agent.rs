//! `aion agent`: members brought in, shown and steered through the daemon; the rules decide.

mod detect;
mod test;

use aion_api::{
    AgentListResponse, AgentResponse, AgentRow, CommandAcceptedResponse, CredentialResponse,
    EditAgentParams, Exit, ModeParams, ModelParams, PermissionModeParam, SpawnAgentParams,
    SpawnAgentResponse, StopAgentParams, TeamRow,
};
use serde_json::json;

use super::team::print_members;
use crate::args::{AddAgent, Agent, KillAgent, Mode, OfTeam, RenameAgent};
use crate::client::{Client, connect, find_member, find_team};
use crate::confirm::confirm;
use crate::exit::{Failure, Outcome};
use crate::output;
use crate::terminal::clean_line;

pub(super) async fn run(command: Agent, json: bool) -> Outcome {
    match command {
        Agent::Detect(args) => detect::run(&args, json).await,
        Agent::Test(args) => test::run(&args, json).await,
        Agent::Add(args) => add(args, json).await,
        Agent::Ls(of) => list(&of, json).await,
        Agent::Show(one) => show(&one.of, &one.member, json).await,
        Agent::Rename(args) => rename(args, json).await,
        Agent::Model(args) => {
            let params = ModelParams { model: args.model };
            let done = match &params.model {
                Some(model) => format!("uses {} from its next turn on", clean_line(model, 60)),
                None => "uses the model of its own choice from its next turn on".to_owned(),
            };
            let member = Member::find(&args.of, &args.member).await?;
            member.post("model", &params, &done, json).await
        }
        Agent::Mode(args) => {
            let params = ModeParams { mode: mode(args.mode) };
            let member = Member::find(&args.of, &args.member).await?;
            let done = format!("is in mode {}", crate::view::word(&params.mode));
            member.post("mode", &params, &done, json).await
        }
        Agent::Interrupt(one) => {
            let member = Member::find(&one.of, &one.member).await?;
            member.tell("interrupt", "ends its turn, and reads its mail next", json).await
        }
        Agent::Restart(one) => {
            let member = Member::find(&one.of, &one.member).await?;
            member.tell("restart", "is started again", json).await
        }
        Agent::Pause(one) => {
            let member = Member::find(&one.of, &one.member).await?;
            member.tell("pause", "starts no more turns", json).await
        }
        Agent::Resume(one) => {
            let member = Member::find(&one.of, &one.member).await?;
            member.tell("resume", "starts turns again", json).await
        }
        Agent::Connect(one) => connect_program(&one.of, &one.member, json).await,
        Agent::Shutdown(args) => {
            let member = Member::find(&args.of, &args.member).await?;
            let params = StopAgentParams { reason: args.reason };
            member.post("stop", &params, "is asked to leave", json).await
        }
        Agent::Kill(args) => kill(args, json).await,
    }
}

/// A member at its daemon.
struct Member {
    client: Client,
    team: TeamRow,
    row: AgentRow,
}

impl Member {
    async fn find(of: &OfTeam, wanted: &str) -> Result<Self, Failure> {
        let client = connect(&of.reach).await?;
        let team = find_team(&client, of.team.as_deref()).await?;
        let row = find_member(&client, &team.id, wanted).await?;
        Ok(Self { client, team, row })
    }

    fn path(&self, verb: &str) -> String {
        format!("/api/teams/{}/agents/{}{verb}", self.team.id, self.row.slot_id)
    }

    async fn tell(&self, verb: &str, done: &str, json: bool) -> Outcome {
        let accepted = self.client.tell(&self.path(&format!("/{verb}"))).await?;
        self.said(&accepted, done, json)
    }

    async fn post(
        &self,
        verb: &str,
        params: &impl serde::Serialize,
        done: &str,
        json: bool,
    ) -> Outcome {
        let accepted = self.client.post(&self.path(&format!("/{verb}")), params).await?;
        self.said(&accepted, done, json)
    }

    fn said(&self, accepted: &CommandAcceptedResponse, done: &str, json: bool) -> Outcome {
        if json {
            output::json(accepted)?;
        } else {
            let team = clean_line(&self.team.name, 60);
            output::line(&format!("{} of {team} {done}", self.row.agent_name))?;
        }
        Ok(Exit::Success)
    }
}

/// A credential for a program of the person's own.
async fn connect_program(of: &OfTeam, wanted: &str, json: bool) -> Outcome {
    let member = Member::find(of, wanted).await?;
    let made: CredentialResponse = member.client.tell(&member.path("/credential")).await?;
    if json {
        output::json(&made)?;
        return Ok(Exit::Success);
    }
    let (name, team) = (&member.row.agent_name, clean_line(&member.team.name, 60));
    let CredentialResponse { slot_id, url, port, token } = made;
    output::line(&format!(
        "A program of yours can act as {name} of {team}. The token is shown this once; another call\n\
         of this command, the member's end or its next start, and the daemon's end make it void.\n\n\
         for a program that starts MCP servers: aion mcp bridge, with the environment\n  \
         TEAM_MCP_PORT={port}\n  TEAM_MCP_TOKEN={token}\n  TEAM_AGENT_SLOT_ID={slot_id}\n\
         for a program that speaks MCP over HTTP: {url}, with the header\n  \
         Authorization: Bearer {token}"
    ))?;
    Ok(Exit::Success)
}

async fn add(args: AddAgent, json: bool) -> Outcome {
    let client = connect(&args.of.reach).await?;
    let team = find_team(&client, args.of.team.as_deref()).await?;
    let params = SpawnAgentParams {
        name: args.name,
        prompt: args.prompt,
        agent_type: args.agent,
        model: args.model,
        color: args.color,
        plan_mode_required: args.plan,
    };
    let path = format!("/api/teams/{}/agents", team.id);
    let spawned: SpawnAgentResponse = client.persist(&path, &params).await?;
    if json {
        output::json(&spawned)?;
    } else {
        let (name, team) = (clean_line(&params.name, 60), clean_line(&team.name, 60));
        output::line(&format!("{name} joins {team} as s{}; it is starting", spawned.slot_id))?;
    }
    Ok(Exit::Success)
}

async fn list(of: &OfTeam, json: bool) -> Outcome {
    let client = connect(&of.reach).await?;
    let team = find_team(&client, of.team.as_deref()).await?;
    let path = format!("/api/teams/{}/agents", team.id);
    let list: AgentListResponse = client.get(&path).await?;
    if json {
        output::json(&list.agents)?;
    } else {
        let rows: Vec<AgentRow> = list.agents.into_iter().map(|agent| agent.row).collect();
        print_members(&rows)?;
    }
    Ok(Exit::Success)
}

async fn show(of: &OfTeam, wanted: &str, json: bool) -> Outcome {
    let member = Member::find(of, wanted).await?;
    let agent: AgentResponse = member.client.get(&member.path("")).await?;
    if json {
        output::json(&agent)?;
        return Ok(Exit::Success);
    }
    let row = &agent.row;
    print_members(std::slice::from_ref(row))?;
    output::line("")?;
    output::line(&format!("id        {}", agent.agent_id))?;
    if row.label != row.agent_name {
        output::line(&format!("label     {}", clean_line(&row.label, 100)))?;
    }
    output::line(&format!("slot      s{}", row.slot_id))?;
    output::line(&format!(
        "model     {}",
        row.model.as_deref().unwrap_or("the agent's own choice")
    ))?;
    output::line(&format!("mode      {}", row.permission_mode))?;
    output::line(&format!(
        "follow it with  aion attach {}/{}",
        member.team.id.chars().take(8).collect::<String>(),
        row.agent_name
    ))?;
    Ok(Exit::Success)
}

async fn rename(args: RenameAgent, json: bool) -> Outcome {
    let member = Member::find(&args.of, &args.member).await?;
    let params = EditAgentParams { name: args.name, label: args.label };
    let agent: Option<AgentResponse> = member.client.patch(&member.path(""), &params).await?;
    if json {
        output::json(&agent)?;
    } else if let Some(agent) = agent {
        output::line(&format!(
            "{} is {} from now on",
            member.row.agent_name, agent.row.agent_name
        ))?;
    }
    Ok(Exit::Success)
}

async fn kill(args: KillAgent, json: bool) -> Outcome {
    let member = Member::find(&args.of, &args.member).await?;
    let (name, team) = (&member.row.agent_name, clean_line(&member.team.name, 60));
    let preview = [
        format!("{name} of {team} is ended at once, and leaves the team."),
        "Its mail is returned to those who wrote it; its tasks are free.".to_owned(),
    ];
    confirm(&preview, &format!("End {name}?"), args.yes, json)?;
    member.client.delete(&member.path("")).await?;
    if json {
        output::json(&json!({ "ended": name }))?;
    } else {
        output::line(&format!("{name} of {team} is ended"))?;
    }
    Ok(Exit::Success)
}

/// The mode as the wire has it.
pub(super) fn mode(mode: Mode) -> PermissionModeParam {
    match mode {
        Mode::Plan => PermissionModeParam::Plan,
        Mode::DontAsk => PermissionModeParam::DontAsk,
        Mode::Ask => PermissionModeParam::Default,
        Mode::Edits => PermissionModeParam::AcceptEdits,
        Mode::Bypass => PermissionModeParam::BypassPermissions,
    }
}
