//! The line to a team that is followed: in this process, or at a daemon. It carries, and decides
//! nothing.

use aion_api::{
    CommandAcceptedResponse, DecisionParams, PermissionModeParam, ProgressResponse, ProgressState,
    ScopeParam,
};
use aion_core::agent::{Agent, PermissionMode};
use aion_core::command::{Caller, Command};
use aion_core::event::Recorded;
use aion_core::id::{RequestId, Seq, SlotId};
use aion_core::permission::GrantScope;
use aion_core::request::Decision;
use aion_core::team::{Progress, Team};
use aion_runtime::{SubmitError, Subscription, SubscriptionEnd, TeamHandle};

use crate::answer::Answer;
use crate::client::{Client, Heard, Listening};
use crate::exit::Failure;

/// The body of what has no further words.
const NOTHING_MORE: () = ();

/// A line to a team.
pub(crate) enum Line {
    /// This process hosts it.
    Here(Here),
    /// A daemon hosts it.
    There(There),
}

/// A team of this process.
pub(crate) struct Here {
    handle: TeamHandle,
    events: Subscription,
}

/// A team of a daemon.
pub(crate) struct There {
    client: Client,
    team: String,
    listening: Listening,
}

/// What comes over a line.
pub(crate) enum News {
    /// Something happened.
    Event(Box<Recorded>),
    /// Something about the line itself, for the person.
    Note(String),
}

/// What the rules say of a team, and who is in a turn.
pub(crate) struct Standing {
    /// Whether it goes on by itself.
    pub(crate) progress: Progress,
    /// Who is in a turn.
    pub(crate) busy: Vec<SlotId>,
}

impl Line {
    /// To a team of this process, from an event on.
    pub(crate) fn here(handle: TeamHandle, from: Seq) -> Self {
        let events = handle.subscribe(from);
        Self::Here(Here { handle, events })
    }

    /// To a team of a daemon, from an event on.
    pub(crate) fn there(client: Client, team: String, from: Seq) -> Self {
        let listening = Listening::new(client.clone(), team.clone(), from, false);
        Self::There(There { client, team, listening })
    }

    /// Whether the team goes on when this process ends.
    pub(crate) fn is_there(&self) -> bool {
        match self {
            Self::Here(_) => false,
            Self::There(_) => true,
        }
    }

    /// The next event after those that came. Dropping the wait loses nothing. `seen` is the last
    /// one that was taken.
    pub(crate) async fn next(&mut self, seen: Seq) -> Result<News, Failure> {
        match self {
            Self::Here(here) => loop {
                match here.events.next().await {
                    Ok(Some(recorded)) => return Ok(News::Event(Box::new(recorded))),
                    Ok(None) => return Err(closed()),
                    Err(SubscriptionEnd::TooSlow { .. }) => {
                        here.events = here.handle.subscribe(seen);
                    }
                    Err(SubscriptionEnd::Store(error)) => return Err(error.into()),
                }
            },
            Self::There(there) => loop {
                match there.listening.next().await {
                    Heard::Event(recorded) => return Ok(News::Event(recorded)),
                    Heard::Note(note) => return Ok(News::Note(note)),
                    Heard::Piece(_) => {}
                    Heard::Over(failure) => return Err(failure),
                }
            },
        }
    }

    /// How the team stands. `known` is the state after the events that came: where that goes on by
    /// itself, more events will come, and a daemon need not be asked.
    pub(crate) async fn standing(&self, known: &Team) -> Result<Standing, Failure> {
        match self {
            Self::Here(here) => {
                let read = |team: &Team| Standing { progress: team.progress(), busy: busy(team) };
                here.handle.query(read).await.map_err(|error| lost(&error))
            }
            Self::There(there) => {
                let (progress, busy) = (known.progress(), busy(known));
                if progress == Progress::Working && !busy.is_empty() {
                    return Ok(Standing { progress, busy });
                }
                Ok(standing(&there.progress().await?))
            }
        }
    }

    /// The last event of the log.
    pub(crate) async fn end(&self) -> Result<Seq, Failure> {
        match self {
            Self::Here(here) => {
                let tick = here.handle.submit(Caller::System, None, Command::Tick).await;
                Ok(tick.map_err(|error| lost(&error))?.seq)
            }
            Self::There(there) => Ok(Seq(there.progress().await?.seq)),
        }
    }

    /// Hands an answer over. Answers why it was refused, if it was.
    pub(crate) async fn answer(
        &self,
        request: RequestId,
        answer: Answer,
    ) -> Result<Option<String>, Failure> {
        match self {
            Self::Here(here) => here.submit(answer.command(request)).await,
            Self::There(there) => {
                let path = format!("/api/approvals/{}.{request}", there.team);
                let params = decision(answer);
                refusal(there.client.persist(&path, &params).await)
            }
        }
    }

    /// Ends a member's running turn. That there is none is no failure.
    pub(crate) async fn interrupt(&self, slot: SlotId) -> Result<(), Failure> {
        match self {
            Self::Here(here) => here.submit(Command::Interrupt { slot }).await.map(|_| ()),
            Self::There(there) => {
                let path = format!("/api/teams/{}/agents/{}/interrupt", there.team, slot.0);
                refusal(there.client.persist(&path, &NOTHING_MORE).await).map(|_| ())
            }
        }
    }

    /// Asks all to stop.
    pub(crate) async fn stop(&self) -> Result<(), Failure> {
        match self {
            Self::Here(here) => here.submit(Command::StopTeam).await.map(|_| ()),
            Self::There(there) => {
                let path = format!("/api/teams/{}/stop", there.team);
                refusal(there.client.persist(&path, &NOTHING_MORE).await).map(|_| ())
            }
        }
    }
}

impl Here {
    async fn submit(&self, command: Command) -> Result<Option<String>, Failure> {
        match self.handle.submit(Caller::User, None, command).await {
            Ok(_) => Ok(None),
            Err(SubmitError::Rejected(why)) => Ok(Some(why.to_string())),
            Err(error) => Err(lost(&error)),
        }
    }
}

impl There {
    async fn progress(&self) -> Result<ProgressResponse, Failure> {
        self.client.get_patiently(&format!("/api/teams/{}/progress", self.team)).await
    }
}

fn busy(team: &Team) -> Vec<SlotId> {
    team.agents().filter(|agent| agent.turn().is_some()).map(Agent::slot).collect()
}

fn standing(said: &ProgressResponse) -> Standing {
    let slot = |number: &u64| SlotId(u32::try_from(*number).unwrap_or(u32::MAX));
    let progress = match said.state {
        ProgressState::Working => Progress::Working,
        ProgressState::Settled => {
            Progress::Settled { all_tasks_completed: said.all_tasks_completed }
        }
        ProgressState::Waiting => Progress::Waiting {
            requests: said.requests.iter().copied().map(RequestId).collect(),
            held: said.held.iter().map(slot).collect(),
        },
    };
    Standing { progress, busy: said.busy.iter().map(slot).collect() }
}

/// A refusal by the rules is told to the person; everything else is a failure.
fn refusal(said: Result<CommandAcceptedResponse, Failure>) -> Result<Option<String>, Failure> {
    match said {
        Ok(_) => Ok(None),
        Err(failure) if failure.code().starts_with("team.") && !failure.is_unavailable() => {
            Ok(Some(failure.message().to_owned()))
        }
        Err(failure) => Err(failure),
    }
}

/// An answer in the words of the wire.
fn decision(answer: Answer) -> DecisionParams {
    let decision = match answer {
        Answer::Decide(decision) => decision,
        Answer::TakeBack => return DecisionParams::Withdraw {},
    };
    match decision {
        Decision::Allow { scope, rule } => DecisionParams::Allow {
            rule: rule.map(String::from),
            scope: match scope {
                GrantScope::Once => ScopeParam::Once,
                GrantScope::Action => ScopeParam::Action,
                GrantScope::Member => ScopeParam::Member,
                GrantScope::Team => ScopeParam::Team,
            },
        },
        Decision::Deny { reason } => DecisionParams::Deny { reason },
        Decision::ApprovePlan { mode } => {
            DecisionParams::ApprovePlan { mode: mode.map(mode_param) }
        }
        Decision::ReturnPlan { feedback } => DecisionParams::ReturnPlan { feedback },
        Decision::ApproveShutdown => DecisionParams::ApproveShutdown {},
        Decision::RejectShutdown { reason } => DecisionParams::RejectShutdown { reason },
        Decision::ForceShutdown => DecisionParams::ForceShutdown {},
        Decision::Consent => DecisionParams::Consent {},
        Decision::Decline { reason } => DecisionParams::Decline { reason },
        Decision::Answer { text } => DecisionParams::Answer { text },
    }
}

/// A mode in the words of the wire.
pub(crate) fn mode_param(mode: PermissionMode) -> PermissionModeParam {
    match mode {
        PermissionMode::Plan => PermissionModeParam::Plan,
        PermissionMode::DontAsk => PermissionModeParam::DontAsk,
        PermissionMode::Default => PermissionModeParam::Default,
        PermissionMode::AcceptEdits => PermissionModeParam::AcceptEdits,
        PermissionMode::BypassPermissions => PermissionModeParam::BypassPermissions,
    }
}

fn lost(error: &SubmitError) -> Failure {
    Failure::new(aion_api::Exit::Failure, "team.unavailable", error.to_string())
}

fn closed() -> Failure {
    Failure::new(aion_api::Exit::Failure, "team.closed", "the team's session has ended")
}
