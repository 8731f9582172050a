//! A team that the daemon hosts: begun or resumed over its API; it goes on when this process ends.

use std::path::Path;
use std::sync::Arc;

use aion_api::{
    CommandAcceptedResponse, CreateTeamParams, LeadParams, MessageAcceptedResponse, MessageParams,
    ScenarioParams, SpawnAgentParams, SpawnAgentResponse, TeamResponse, UrgencyParam,
};
use aion_core::command::Settings;
use aion_core::id::TeamId;
use aion_store::EventStore;
use serde_json::{Map, Value};

use super::{Member, Opened, Plan, Who};
use crate::client::Client;
use crate::exit::Failure;
use crate::git::{Repository, start_ref};
use crate::history::{Folded, fold, last_lead_turn};
use crate::line::{Line, mode_param};
use crate::progress::Beginning;

/// Begins a team; the daemon records the start of its work tree.
pub(super) async fn begin(client: &Client, plan: Plan<'_>) -> Result<Opened, Failure> {
    let Plan { name, workspace, task, lead, scenario, members, mode, settings } = plan;
    let (first, later) = if members.is_empty() { (Some(task), None) } else { (None, Some(task)) };
    let params = CreateTeamParams {
        name: Some(name.to_owned()),
        workspace: Some(workspace.display().to_string()),
        prompt: first,
        lead: LeadParams {
            agent_type: Some(lead.agent_type.clone()),
            model: lead.model.clone(),
            permission_mode: Some(mode_param(mode)),
        },
        settings: differing(&settings),
        scenario: scenario.map(str::to_owned),
    };
    let team: TeamResponse = client.persist("/api/teams", &params).await?;
    if let Some(task) = later
        && let Err(failure) = tell(client, &team.id, members, task).await
    {
        // A team that was never told its task is none; that it is erased is all that can be done.
        let _ = client.delete(&format!("/api/teams/{}", team.id)).await;
        return Err(failure);
    }
    let id = TeamId::new(team.id)?;
    let from = Folded::new();
    let beginning = beginning(&id, team.name, team.workspace, Some(lead));
    let line = Line::there(client.clone(), id.to_string(), from.seq);
    Ok(Opened { id, line, beginning, from, last: None })
}

/// Settings as far as they are not those that every team begins with.
fn differing(settings: &Settings) -> Option<Map<String, Value>> {
    let fields = |settings: &Settings| match serde_json::to_value(settings) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) | Err(_) => Map::new(),
    };
    let usual = fields(&Settings::default());
    let mut own = fields(settings);
    own.retain(|name, value| usual.get(name) != Some(value));
    (!own.is_empty()).then_some(own)
}

async fn tell(
    client: &Client,
    team: &str,
    members: &[Member],
    task: String,
) -> Result<(), Failure> {
    bring_in(client, team, members).await?;
    let message = MessageParams { files: Vec::new(), text: task, urgency: UrgencyParam::Wake };
    let _: MessageAcceptedResponse =
        client.persist(&format!("/api/teams/{team}/messages"), &message).await?;
    Ok(())
}

async fn bring_in(client: &Client, team: &str, members: &[Member]) -> Result<(), Failure> {
    for Member { name, agent_type, model } in members {
        let params = SpawnAgentParams {
            name: name.to_string(),
            prompt: String::new(),
            agent_type: agent_type.clone(),
            model: model.clone(),
            color: None,
            plan_mode_required: false,
        };
        let _: SpawnAgentResponse =
            client.persist(&format!("/api/teams/{team}/agents"), &params).await?;
    }
    Ok(())
}

/// Lets a team go on.
pub(super) async fn resume(
    client: &Client,
    store: &Arc<dyn EventStore>,
    id: &TeamId,
    scenario: Option<&str>,
    members: &[Member],
) -> Result<Opened, Failure> {
    if let Some(scenario) = scenario {
        let params = ScenarioParams { scenario: scenario.to_owned() };
        client.put(&format!("/api/teams/{id}/scenario"), &params).await?;
    }
    let _: CommandAcceptedResponse = client.tell(&format!("/api/teams/{id}/resume")).await?;
    bring_in(client, id.as_str(), members).await?;
    let from = fold(store, id, None).await?;
    let (name, workspace) = (from.team.name().to_owned(), from.team.workspace().to_owned());
    let beginning = beginning(id, name, workspace, None);
    let last = last_lead_turn(store, id, from.seq).await?;
    let line = Line::there(client.clone(), id.to_string(), from.seq);
    Ok(Opened { id: id.clone(), line, beginning, from, last })
}

fn beginning(id: &TeamId, name: String, workspace: String, lead: Option<Who>) -> Beginning {
    let start_ref = Repository::around(Path::new(&workspace))
        .filter(|repository| repository.has_start(id))
        .map(|_| start_ref(id));
    Beginning { team: id.to_string(), name, workspace, start_ref, lead }
}
