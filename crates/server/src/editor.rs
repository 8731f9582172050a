//! Edits of people, one after another: what a client saw is compared and changed without another
//! edit between the two; it never merges edits.

use aion_core::command::{Caller, Command};
use aion_core::team::Team;
use aion_runtime::TeamHandle;
use tokio::sync::{mpsc, oneshot};

use crate::auth::Principal;
use crate::error::{Answer, Failure};

/// Edits that may wait.
const INBOX: usize = 64;

/// What an edit reads from the state: the commands that it leads to, or why it leads to none.
type Plan = Box<dyn FnOnce(&Team) -> Answer<Vec<Command>> + Send>;

struct Edit {
    team: TeamHandle,
    principal: Principal,
    plan: Plan,
    reply: oneshot::Sender<Answer<()>>,
}

/// Where edits go.
#[derive(Clone, Debug)]
pub(crate) struct Editor {
    edits: mpsc::Sender<Edit>,
}

impl Editor {
    /// Begins to take edits. Needs a tokio runtime around it.
    pub(crate) fn new() -> Self {
        let (edits, inbox) = mpsc::channel(INBOX);
        tokio::spawn(work(inbox));
        Self { edits }
    }

    /// Carries an edit out. `plan` sees the committed state, which no other edit changes before
    /// its commands are committed.
    pub(crate) async fn edit(
        &self,
        team: &TeamHandle,
        principal: &Principal,
        plan: impl FnOnce(&Team) -> Answer<Vec<Command>> + Send + 'static,
    ) -> Answer<()> {
        let (reply, answer) = oneshot::channel();
        let edit =
            Edit { team: team.clone(), principal: principal.clone(), plan: Box::new(plan), reply };
        let stopping = || {
            Failure::new(
                axum::http::StatusCode::SERVICE_UNAVAILABLE,
                "daemon.stopping",
                "the daemon stops",
            )
        };
        self.edits.send(edit).await.map_err(|_| stopping())?;
        answer.await.unwrap_or_else(|_| Err(stopping()))
    }
}

async fn work(mut inbox: mpsc::Receiver<Edit>) {
    while let Some(Edit { team, principal, plan, reply }) = inbox.recv().await {
        // Whoever asked may have gone away; the edit was accepted, and is carried out.
        let _ = reply.send(carry_out(&team, &principal, plan).await);
    }
}

async fn carry_out(team: &TeamHandle, principal: &Principal, plan: Plan) -> Answer<()> {
    let commands = team.query(plan).await??;
    for command in commands {
        team.submit(Caller::User, Some(principal.credential.clone()), command).await?;
    }
    Ok(())
}
