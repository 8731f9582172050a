//! Creates, opens, lists and erases teams, and keeps their sessions alive; it never decides for one.

use std::collections::{BTreeMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aion_backends::panic_text;
use aion_core::Rejection;
use aion_core::agent::{MemberSpec, PermissionMode};
use aion_core::command::{Caller, Command, SendMessage, Settings};
use aion_core::id::{AgentName, RequestId, TeamId};
use aion_core::message::{Recipient, Urgency};
use aion_core::request::RequestKind;
use aion_core::time::Millis;
use aion_store::{StoreError, TeamRow};
use futures::FutureExt;
use tokio::sync::{mpsc, watch};

use crate::handle::{Input, SubmitError, TeamHandle};
use crate::load::OpenError;
use crate::session::{Ended, Session, Start};
use crate::world::{House, Shared, Upward};
use aion_store::failpoint;

/// Commands that may wait for a session.
const INBOX: usize = 1_024;
/// Falls of one session within [`FALL_WINDOW`] after which it is not opened again.
const FALLS: usize = 3;
const FALL_WINDOW: Millis = Millis(60_000);
/// The wait after a fallen session could not be opened.
const REOPEN: Millis = Millis(1_000);
/// The wait after a granted team could not be made; it doubles up to the longest.
const RETRY: Millis = Millis(1_000);
const LONGEST_RETRY: Millis = Millis(60_000);

/// What a team is created from.
#[derive(Clone, Debug)]
pub struct NewTeam {
    /// Its name.
    pub name: String,
    /// The user who owns it.
    pub owner: String,
    /// Its directory.
    pub workspace: String,
    /// A conversation: a team of one.
    pub solo: bool,
    /// Its lead.
    pub lead: MemberSpec,
    /// Its settings.
    pub settings: Settings,
}

/// Why a team was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The rules or the store refused it.
    #[error("create the team: {0}")]
    Submit(#[from] SubmitError),
    /// Its log could not be opened.
    #[error("create the team")]
    Open(#[from] OpenError),
}

/// All teams of one house. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TeamService {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    house: Arc<House>,
    up: mpsc::UnboundedSender<Upward>,
    /// Open teams, with when each was opened: they are closed the other way round.
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    teams: BTreeMap<TeamId, Entry>,
    opened: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    order: u64,
    handle: TeamHandle,
    state: watch::Receiver<Opening>,
}

/// How far the opening of a team is.
#[derive(Clone, Debug)]
enum Opening {
    Pending,
    Open,
    Failed(Arc<Mutex<Option<OpenError>>>, String),
}

impl TeamService {
    /// The service of a house. Needs a tokio runtime around it.
    #[must_use]
    pub fn new(house: House) -> Self {
        let (up, orders) = mpsc::unbounded_channel();
        let inner = Arc::new(Inner { house: Arc::new(house), up, open: Mutex::default() });
        tokio::spawn(serve(Arc::downgrade(&inner), orders));
        Self { inner }
    }

    /// What this house is made of.
    pub fn house(&self) -> &House {
        &self.inner.house
    }

    /// Creates a team under a fresh handle. It is durable, and its lead is starting.
    pub async fn create(
        &self,
        caller: Caller,
        credential: Option<String>,
        new: NewTeam,
    ) -> Result<TeamHandle, CreateError> {
        let team = self.inner.house.ids.team();
        self.create_as(team, caller, credential, new).await
    }

    /// The same under a given handle; twice is refused by the rules.
    pub async fn create_as(
        &self,
        team: TeamId,
        caller: Caller,
        credential: Option<String>,
        new: NewTeam,
    ) -> Result<TeamHandle, CreateError> {
        let handle = self.enter(&team, Start::Create).await?;
        let command = Command::CreateTeam {
            team: team.clone(),
            name: new.name,
            owner: new.owner,
            workspace: new.workspace,
            solo: new.solo,
            lead: Box::new(new.lead),
            settings: Box::new(new.settings),
        };
        match handle.submit(caller, credential, command).await {
            Ok(_) => Ok(handle),
            Err(error) => {
                // A log that stayed empty needs no session.
                if matches!(handle.query(|team| team.id().is_none()).await, Ok(true)) {
                    self.close(&team).await;
                }
                Err(error.into())
            }
        }
    }

    /// Opens a team, or answers the handle of one that is open.
    pub async fn open(&self, team: &TeamId) -> Result<TeamHandle, OpenError> {
        self.enter(team, Start::Open).await
    }

    /// The handle of a team that is open already.
    pub fn opened(&self, team: &TeamId) -> Option<TeamHandle> {
        self.lock().teams.get(team).map(|entry| entry.handle.clone())
    }

    /// All teams, open or not.
    pub async fn list(&self) -> Result<Vec<TeamRow>, StoreError> {
        self.inner.house.store.teams().await
    }

    /// Closes a team and erases its log with its transcripts.
    pub async fn erase(&self, team: &TeamId) -> Result<(), StoreError> {
        self.close(team).await;
        self.inner.house.store.erase(team).await
    }

    /// Ends a team's session and its agents' processes; its state stays, and running turns are
    /// taken up or requeued at the next opening.
    pub async fn close(&self, team: &TeamId) {
        let entry = self.lock().teams.remove(team);
        if let Some(entry) = entry {
            entry.handle.close().await;
        }
    }

    /// Closes every team, the last opened first.
    pub async fn stop_all(&self) {
        loop {
            let last = {
                let open = self.lock();
                open.teams.iter().max_by_key(|(_, entry)| entry.order).map(|(team, _)| team.clone())
            };
            match last {
                Some(team) => self.close(&team).await,
                None => return,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // Nothing in here can be half-done: a poisoned lock holds valid data.
        self.inner.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn enter(&self, team: &TeamId, start: Start) -> Result<TeamHandle, OpenError> {
        let mut entry = self.entry(team, start);
        let state = entry.state.wait_for(|state| !matches!(state, Opening::Pending)).await;
        let failed = match state.as_deref() {
            Ok(Opening::Open) => return Ok(entry.handle.clone()),
            Ok(Opening::Failed(error, text)) => {
                let first = error.lock().unwrap_or_else(PoisonError::into_inner).take();
                first.unwrap_or_else(|| OpenError::Fallen(text.clone()))
            }
            Ok(Opening::Pending) | Err(_) => OpenError::Fallen("its session ended".to_owned()),
        };
        drop(state);
        self.forget(team, entry.order);
        Err(failed)
    }

    fn entry(&self, team: &TeamId, start: Start) -> Entry {
        let mut open = self.lock();
        if let Some(entry) = open.teams.get(team) {
            return entry.clone();
        }
        open.opened += 1;
        let (inbox, commands) = mpsc::channel(INBOX);
        let (report, state) = watch::channel(Opening::Pending);
        let shared = Arc::new(Shared::new(
            team.clone(),
            Arc::clone(&self.inner.house),
            self.inner.up.clone(),
        ));
        let handle = TeamHandle::new(inbox, Arc::clone(&shared));
        tokio::spawn(supervise(shared, handle.clone(), commands, start, report));
        let entry = Entry { order: open.opened, handle, state };
        open.teams.insert(team.clone(), entry.clone());
        entry
    }

    /// Takes out an entry that never came to life, unless another took its place.
    fn forget(&self, team: &TeamId, order: u64) {
        let mut open = self.lock();
        if open.teams.get(team).is_some_and(|entry| entry.order == order) {
            open.teams.remove(team);
        }
    }

    /// Makes a granted team, however often the store fails, while its conversation is open. What the
    /// rules refuse they would refuse again: the conversation is told instead.
    async fn make_granted(&self, from: &TeamId, request: RequestId) {
        let mut wait = RETRY;
        while let Some(conversation) = self.opened(from) {
            match self.create_from(&conversation, request).await {
                Ok(()) => return,
                Err(CreateError::Submit(SubmitError::Rejected(rejection))) => {
                    tracing::warn!(%from, %request, %rejection, "a granted team was refused");
                    if tell_refused(&conversation, request, &rejection).await.is_ok() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(%from, %request, %error, "a granted team could not be made");
                }
            }
            pause(conversation.shared(), wait).await;
            wait = Millis((wait.0 * 2).min(LONGEST_RETRY.0));
        }
    }

    /// Makes the team that the person agreed to in a conversation. Its handle is derived from the
    /// consent, so that doing it twice makes one team.
    async fn create_from(
        &self,
        conversation: &TeamHandle,
        request: RequestId,
    ) -> Result<(), CreateError> {
        let granted = conversation
            .query(move |team| {
                let (request, _) = team.request(request)?;
                let RequestKind::CreateTeam(proposal) = &request.kind else { return None };
                let lead = team.lead()?;
                let line_up: String = proposal.members.iter().fold(String::new(), |mut all, m| {
                    all.push_str("\n- ");
                    all.push_str(&m.name);
                    all.push_str(" (");
                    all.push_str(&m.agent_type);
                    all.push_str("): ");
                    all.push_str(&m.task);
                    all
                });
                let prompt = if line_up.is_empty() {
                    proposal.summary.clone()
                } else {
                    format!("{}\n\nThe line-up that was agreed:{line_up}", proposal.summary)
                };
                Some((
                    proposal.name.clone(),
                    team.owner().to_owned(),
                    team.workspace().to_owned(),
                    lead.agent_type().to_owned(),
                    lead.model().map(str::to_owned),
                    lead.conversation().clone(),
                    prompt,
                    team.settings().clone(),
                ))
            })
            .await?;
        let Some((name, owner, workspace, agent_type, model, parent, prompt, settings)) = granted
        else {
            return Ok(());
        };
        let id = derived(conversation.team(), request);
        let lead = MemberSpec {
            name: AgentName::lead(),
            label: None,
            agent_type,
            model,
            color: None,
            prompt,
            mode: PermissionMode::default(),
            conversation: self.inner.house.ids.conversation(),
            parent_call: None,
            parent_conversation: Some(parent),
        };
        let new = NewTeam { name, owner, workspace, solo: false, lead, settings };
        let made = self.create_as(id.clone(), Caller::System, None, new).await;
        match made {
            Ok(_) | Err(CreateError::Submit(SubmitError::Rejected(Rejection::TeamExists))) => {}
            Err(error) => return Err(error),
        }
        let link = Command::LinkTeam { request, team: id };
        match conversation.submit(Caller::System, None, link).await {
            // A link that is made already needs no second one.
            Ok(_) | Err(SubmitError::Rejected(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Tells a conversation, once, why the team that the person agreed to was not made.
async fn tell_refused(
    conversation: &TeamHandle,
    request: RequestId,
    rejection: &Rejection,
) -> Result<(), SubmitError> {
    let message = SendMessage {
        to: Recipient::Lead,
        text: format!(
            "The team of request {request} was agreed to and could not be made: {rejection}."
        ),
        summary: None,
        urgency: Urgency::Wake,
        files: Vec::new(),
        key: Some(format!("refused:{request}")),
    };
    let command = Command::SendMessage(Box::new(message));
    match conversation.submit(Caller::System, None, command).await {
        // A conversation that takes no mail has nobody to tell.
        Ok(_) | Err(SubmitError::Rejected(_) | SubmitError::Closed) => Ok(()),
        Err(error @ SubmitError::Unavailable(_)) => Err(error),
    }
}

/// The handle of the team that one consent makes.
#[expect(clippy::expect_used, reason = "a handle and a counter are a valid handle")]
fn derived(from: &TeamId, request: RequestId) -> TeamId {
    let mut base = from.as_str().to_owned();
    base.truncate(40);
    // At most 40 + 22 characters of the handle's own alphabet.
    TeamId::new(format!("{base}-{request}")).expect("a handle and a counter are a valid handle")
}

/// Does what teams ask of the service, until the service is gone.
async fn serve(inner: std::sync::Weak<Inner>, mut orders: mpsc::UnboundedReceiver<Upward>) {
    while let Some(order) = orders.recv().await {
        let Some(inner) = inner.upgrade() else { return };
        let service = TeamService { inner };
        match order {
            Upward::CreateTeam { from, request } => {
                tokio::spawn(async move { service.make_granted(&from, request).await });
            }
        }
    }
}

/// Runs a team's session, and opens it again from the store when it falls.
async fn supervise(
    shared: Arc<Shared>,
    handle: TeamHandle,
    mut inbox: mpsc::Receiver<Input>,
    start: Start,
    report: watch::Sender<Opening>,
) {
    let mut falls = VecDeque::new();
    let reason = loop {
        let running = async {
            let session =
                Session::open(Arc::clone(&shared), handle.clone(), &mut inbox, start).await?;
            failpoint::hit("service.opened");
            report.send_replace(Opening::Open);
            Ok::<_, OpenError>(session.run().await)
        };
        match AssertUnwindSafe(running).catch_unwind().await {
            Ok(Ok(Ended::Closed)) => {
                // Whoever still waits in the inbox learns that the team is closed.
                shared.bus.close();
                return;
            }
            Ok(Ok(Ended::Fenced(reason))) => break reason,
            Ok(Err(error)) if matches!(*report.borrow(), Opening::Pending) => {
                let text = error.to_string();
                report.send_replace(Opening::Failed(Arc::new(Mutex::new(Some(error))), text));
                shared.bus.close();
                return;
            }
            Ok(Err(error)) => {
                tracing::error!(team = %shared.team, %error, "a fallen session was not opened");
                if fell_too_often(&mut falls, &shared) {
                    break error.to_string();
                }
                // Whoever asks meanwhile waits in the inbox.
                pause(&shared, REOPEN).await;
            }
            Err(panic) => {
                let text = panic_text(&*panic);
                tracing::error!(team = %shared.team, panic = text, "a session fell");
                if fell_too_often(&mut falls, &shared) {
                    break format!("its session fell {FALLS} times in a minute: {text}");
                }
            }
        }
    };
    report.send_replace(Opening::Open);
    refuse_until_closed(&mut inbox, &reason).await;
    shared.bus.close();
}

async fn pause(shared: &Shared, span: Millis) {
    let clock = &shared.house.clock;
    clock.sleep_until(Millis(clock.monotonic().0 + span.0)).await;
}

fn fell_too_often(falls: &mut VecDeque<Millis>, shared: &Shared) -> bool {
    let now = shared.house.clock.monotonic();
    falls.push_back(now);
    falls.retain(|at| now.0 - at.0 <= FALL_WINDOW.0);
    falls.len() >= FALLS
}

/// Answers everybody why there is no session, until the team is closed.
async fn refuse_until_closed(inbox: &mut mpsc::Receiver<Input>, reason: &str) {
    while let Some(input) = inbox.recv().await {
        match input {
            Input::Submit(submission) => {
                if let Some(reply) = submission.reply {
                    // Whoever asked may have gone away.
                    let _ = reply.send(Err(SubmitError::Unavailable(reason.to_owned())));
                }
            }
            Input::Query(query) => drop(query),
            Input::Own(_) => {}
            Input::Close => return,
        }
    }
}
