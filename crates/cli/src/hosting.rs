//! A team that this process hosts: begun or opened again; what it does then is the runtime's.

use std::path::Path;

use aion_api::Exit;
use aion_core::agent::{MemberSpec, PermissionMode};
use aion_core::command::{Caller, Command, Settings};
use aion_core::id::{AgentName, TeamId};
use aion_core::turn::TurnOutcome;
use aion_runtime::{CreateError, NewTeam, OpenError, SubmitError, TeamHandle};

use crate::daemon::{Daemon, SCRIPTED};
use crate::exit::Failure;
use crate::git::{Repository, start_ref};
use crate::history::{Folded, fold, last_lead_turn};
use crate::progress::Beginning;

/// The user who owns what is made on this machine.
pub(crate) const OWNER: &str = "local";

/// A team that is open in this process.
pub(crate) struct Opened {
    /// How to reach it.
    pub(crate) handle: TeamHandle,
    /// What is known of it.
    pub(crate) beginning: Beginning,
    /// The state from which to follow it.
    pub(crate) from: Folded,
    /// How the lead's last turn before that ended.
    pub(crate) last: Option<TurnOutcome>,
}

/// Records the start of the work tree, then begins a team.
pub(crate) async fn begin(
    daemon: &Daemon,
    name: &str,
    workspace: &Path,
    task: String,
    mode: PermissionMode,
) -> Result<Opened, Failure> {
    let house = daemon.service.house();
    let id = house.ids.team();
    let repository = Repository::around(workspace);
    let start_ref = match &repository {
        Some(repository) => Some(repository.record_start(&id)?),
        None => None,
    };
    let shown = workspace.display().to_string();
    let new = NewTeam {
        name: name.to_owned(),
        owner: OWNER.to_owned(),
        workspace: shown.clone(),
        solo: false,
        lead: member(daemon, AgentName::lead(), None, task, mode),
        settings: Settings::default(),
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
    let beginning =
        Beginning { team: id.to_string(), name: name.to_owned(), workspace: shown, start_ref };
    Ok(Opened { handle, beginning, from: Folded::new(), last: None })
}

/// Opens a team again, and lets it go on.
pub(crate) async fn resume(daemon: &Daemon, id: &TeamId, dir: &Path) -> Result<Opened, Failure> {
    let known = fold(&daemon.store, id, None).await?;
    Repository::refuse_data_inside(Path::new(known.team.workspace()), dir)?;
    let handle = daemon.service.open(id).await.map_err(open_failure)?;
    handle.submit(Caller::User, None, Command::ResumeTeam).await.map_err(submit_failure)?;
    let from = fold(&daemon.store, id, None).await?;
    let start_ref = Repository::around(Path::new(from.team.workspace()))
        .filter(|repository| repository.has_start(id))
        .map(|_| start_ref(id));
    let beginning = Beginning {
        team: id.to_string(),
        name: from.team.name().to_owned(),
        workspace: from.team.workspace().to_owned(),
        start_ref,
    };
    let last = last_lead_turn(&daemon.store, id, from.seq).await?;
    Ok(Opened { handle, beginning, from, last })
}

/// What a new member is made from.
pub(crate) fn member(
    daemon: &Daemon,
    name: AgentName,
    model: Option<String>,
    prompt: String,
    mode: PermissionMode,
) -> MemberSpec {
    MemberSpec {
        name,
        label: None,
        agent_type: SCRIPTED.to_owned(),
        model,
        color: None,
        prompt,
        mode,
        conversation: daemon.service.house().ids.conversation(),
        parent_call: None,
        parent_conversation: None,
    }
}

/// Why a command was not accepted.
pub(crate) fn submit_failure(error: SubmitError) -> Failure {
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
pub(crate) fn open_failure(error: OpenError) -> Failure {
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
