//! A team that this process hosts: begun or opened again, and closed with the process.

use std::path::Path;

use aion_api::Exit;
use aion_core::agent::{MemberSpec, PermissionMode};
use aion_core::command::{Caller, Command, SendMessage, Settings};
use aion_core::id::{AgentName, TeamId};
use aion_core::message::{Recipient, Urgency};
use aion_runtime::{CreateError, NewTeam, OpenError, SubmitError, TeamHandle};

use super::{Member, OWNER, Opened, Plan, Who};
use crate::daemon::Daemon;
use crate::exit::Failure;
use crate::git::{Repository, start_ref};
use crate::history::{Folded, fold, last_lead_turn};
use crate::line::Line;
use crate::progress::Beginning;
use crate::scenarios;

/// Records the start of the work tree, then begins a team. With members of the person's own the
/// task follows once they are there: the lead's first prompt names them.
pub(super) async fn begin(daemon: &Daemon, dir: &Path, plan: Plan<'_>) -> Result<Opened, Failure> {
    let Plan { name, workspace, task, lead, scenario, members, mode, settings } = plan;
    check(daemon, &lead, members, &settings)?;
    let house = daemon.service.house();
    let id = house.ids.team();
    let repository = Repository::around(workspace);
    let start_ref = match &repository {
        Some(repository) => Some(repository.record_start(&id)?),
        None => None,
    };
    let shown = workspace.display().to_string();
    let (first, later) =
        if members.is_empty() { (task, None) } else { (String::new(), Some(task)) };
    let new = NewTeam {
        name: name.to_owned(),
        owner: OWNER.to_owned(),
        workspace: shown.clone(),
        solo: false,
        lead: member(daemon, AgentName::lead(), lead.clone(), first, mode),
        settings,
    };
    let made = daemon.service.create_as(id.clone(), Caller::User, None, new).await;
    let handle = made.map_err(|error| {
        // A team that is not there has no start either.
        if let Some(repository) = &repository {
            repository.forget(&id);
        }
        match error {
            CreateError::Submit(error) => submit_failure(error),
            CreateError::Open(error) => open_failure(error),
        }
    })?;
    if let Some(task) = later
        && let Err(failure) = tell(daemon, &handle, &lead, members, task).await
    {
        // A team that was never told its task is none; that it ends is all that can be done.
        let _ = handle.submit(Caller::User, None, Command::EndTeam).await;
        return Err(failure);
    }
    if let Some(scenario) = scenario {
        scenarios::keep(dir, &id, scenario)?;
    }
    let beginning = Beginning {
        team: id.to_string(),
        name: name.to_owned(),
        workspace: shown,
        start_ref,
        lead: Some(lead),
    };
    let from = Folded::new();
    Ok(Opened { id, line: Line::here(handle, from.seq), beginning, from, last: None })
}

async fn tell(
    daemon: &Daemon,
    handle: &TeamHandle,
    lead: &Who,
    members: &[Member],
    task: String,
) -> Result<(), Failure> {
    bring_in(daemon, handle, lead, members).await?;
    let message = SendMessage {
        to: Recipient::Lead,
        text: task,
        summary: None,
        urgency: Urgency::Wake,
        files: Vec::new(),
        key: None,
    };
    let message = Command::SendMessage(Box::new(message));
    handle.submit(Caller::User, None, message).await.map_err(submit_failure)?;
    Ok(())
}

async fn bring_in(
    daemon: &Daemon,
    handle: &TeamHandle,
    lead: &Who,
    members: &[Member],
) -> Result<(), Failure> {
    for wanted in members {
        let mode = PermissionMode::Default;
        let who = wanted.after(lead);
        let member = member(daemon, wanted.name.clone(), who, String::new(), mode);
        let spawn = Command::SpawnAgent { member: Box::new(member) };
        handle.submit(Caller::User, None, spawn).await.map_err(submit_failure)?;
    }
    Ok(())
}

/// Opens a team again, and lets it go on.
pub(super) async fn resume(
    daemon: &Daemon,
    id: &TeamId,
    dir: &Path,
    scenario: Option<&str>,
    members: &[Member],
) -> Result<Opened, Failure> {
    let known = fold(&daemon.store, id, None).await?;
    Repository::refuse_data_inside(Path::new(known.team.workspace()), dir)?;
    let handle = daemon.service.open(id).await.map_err(open_failure)?;
    handle.submit(Caller::User, None, Command::ResumeTeam).await.map_err(submit_failure)?;
    if let Some(scenario) = scenario {
        scenarios::keep(dir, id, scenario)?;
    }
    if let Some(lead) = known.team.lead() {
        let model = lead.model().map(str::to_owned);
        let lead = Who { agent_type: lead.agent_type().to_owned(), model };
        bring_in(daemon, &handle, &lead, members).await?;
    }
    let from = fold(&daemon.store, id, None).await?;
    let start_ref = Repository::around(Path::new(from.team.workspace()))
        .filter(|repository| repository.has_start(id))
        .map(|_| start_ref(id));
    let beginning = Beginning {
        team: id.to_string(),
        name: from.team.name().to_owned(),
        workspace: from.team.workspace().to_owned(),
        start_ref,
        lead: None,
    };
    let last = last_lead_turn(&daemon.store, id, from.seq).await?;
    Ok(Opened { id: id.clone(), line: Line::here(handle, from.seq), beginning, from, last })
}

/// Refuses an agent or a model that is not there, and a budget that could not be kept.
fn check(
    daemon: &Daemon,
    lead: &Who,
    members: &[Member],
    settings: &Settings,
) -> Result<(), Failure> {
    let catalogue = daemon.service.house().catalogue.catalogue();
    let capped = settings.cap.is_some_and(|cap| cap.most.micro_usd > 0);
    let everybody = members.iter().map(|member| member.after(lead));
    for Who { agent_type, model } in everybody.chain([lead.clone()]) {
        let model = model.as_deref();
        catalogue.check(&agent_type, model).map_err(Failure::usage)?;
        if capped {
            catalogue
                .check_price(&agent_type, model)
                .map_err(|why| Failure::new(Exit::Usage, "budget.price_unknown", why))?;
        }
    }
    Ok(())
}

/// What a new member is made from.
fn member(
    daemon: &Daemon,
    name: AgentName,
    who: Who,
    prompt: String,
    mode: PermissionMode,
) -> MemberSpec {
    MemberSpec {
        name,
        label: None,
        agent_type: who.agent_type,
        model: who.model,
        color: None,
        prompt,
        mode,
        conversation: daemon.service.house().ids.conversation(),
        parent_call: None,
        parent_conversation: None,
    }
}

/// Why a command was not accepted.
fn submit_failure(error: SubmitError) -> Failure {
    match error {
        SubmitError::Rejected(why) => {
            Failure::new(Exit::Usage, &format!("team.{}", why.code()), why.to_string())
        }
        other @ (SubmitError::Unavailable(_) | SubmitError::Closed) => {
            Failure::new(Exit::Failure, "team.unavailable", other.to_string())
        }
    }
}

/// Why a team was not opened.
fn open_failure(error: OpenError) -> Failure {
    match error {
        OpenError::Store(error) => error.into(),
        OpenError::NoTeam(team) => {
            Failure::new(Exit::NotFound, "team.not_found", format!("there is no team {team}"))
        }
        other @ OpenError::Fallen(_) => {
            Failure::new(Exit::Failure, "team.unavailable", other.to_string())
        }
    }
}
