//! The house around one agent: what a running turn asks for becomes a command in the agent's own
//! name; it never takes an identity from an argument.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use aion_agent::host::{Delta, Host, HostError, Permit, Rules, ToolOutput, ToolSpec};
use aion_agent::mcp::Wanted;
use aion_agent::permission::Layer;
use aion_agent::sandbox::Violation;
use aion_core::Rejection;
use aion_core::agent::{Agent, Role};
use aion_core::budget::{Amount, Usage};
use aion_core::command::{Caller, Command, ToolProposal};
use aion_core::event::Event;
use aion_core::id::{ConversationId, RequestId, Seq, SlotId, TurnId};
use aion_core::permission::GrantRule;
use aion_core::prompt;
use aion_core::rule::{Finding, RuleScope, RuleWord};
use aion_core::team::Team;
use aion_core::time::Timestamp;
use aion_core::transcript::Item;
use aion_core::turn::{CallId, ToolVerdict};
use aion_store::{APPEND_LIMIT, INLINE_LIMIT, StoreError};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Serialize;

use crate::handle::{Committed, SubmitError, TeamHandle};
use crate::tools::{CallContext, Ending, ending, leaves};
use aion_store::failpoint;

/// Transcript items read at a time.
const PAGE: usize = 1_000;
/// How often a transcript write is tried: the first may meet an unknown length, the second an
/// unknown commit.
const TRIES: usize = 4;
/// What a transcript's item has around its text, with room to spare.
const ENVELOPE: usize = 512;
/// The length of the transcript is not known yet.
const UNKNOWN: u64 = u64::MAX;

pub(crate) struct TeamHost {
    handle: TeamHandle,
    /// Where the team works, from its first event on.
    workspace: PathBuf,
    slot: SlotId,
    role: Role,
    conversation: ConversationId,
    /// Items in the transcript, as far as this start of the agent knows.
    items: AtomicU64,
    /// The model step that took mail last.
    step: AtomicU32,
}

impl fmt::Debug for TeamHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TeamHost")
            .field("team", self.handle.team())
            .field("slot", &self.slot)
            .finish_non_exhaustive()
    }
}

impl TeamHost {
    pub(crate) fn new(handle: TeamHandle, workspace: PathBuf, agent: &Agent) -> Self {
        Self {
            handle,
            workspace,
            slot: agent.slot(),
            role: agent.role(),
            conversation: agent.conversation().clone(),
            items: AtomicU64::new(UNKNOWN),
            step: AtomicU32::new(0),
        }
    }

    async fn submit(&self, command: Command) -> Result<Committed, SubmitError> {
        self.handle.submit(Caller::Agent(self.slot), None, command).await
    }

    async fn take_mail(&self, turn: TurnId, step: u32) -> Result<Option<String>, HostError> {
        self.step.store(step, Ordering::Relaxed);
        self.submit(Command::TakeMail { turn, step }).await.map_err(host_error)?;
        let (slot, ids) = (self.slot, std::sync::Arc::clone(&self.handle.shared().house.ids));
        self.handle
            .query(move |team| {
                let mail = team.agent(slot)?.turn().filter(|live| live.id() == turn)?.mail();
                let at_step = |(id, read): (&_, &u32)| (*read == step).then_some(*id);
                let mail: Vec<_> = mail.iter().filter_map(at_step).collect();
                (!mail.is_empty())
                    .then(|| prompt::render_mail(team, slot, &mail, &mut || ids.nonce()))
            })
            .await
            .map_err(host_error)
    }

    async fn standing(&self) -> Result<String, HostError> {
        let (slot, ids) = (self.slot, Arc::clone(&self.handle.shared().house.ids));
        self.handle
            .query(move |team| prompt::standing(team, slot, &mut || ids.nonce()))
            .await
            .map_err(host_error)
    }

    async fn history(&self) -> Result<Vec<Item>, HostError> {
        let mut items = Vec::new();
        loop {
            let page = self.read(items.len() as u64).await?;
            let last = page.len() < PAGE;
            items.extend(page);
            if last {
                self.items.store(items.len() as u64, Ordering::Release);
                return Ok(items);
            }
        }
    }

    async fn read(&self, after: u64) -> Result<Vec<Item>, HostError> {
        let store = &self.handle.shared().house.store;
        store.items(&self.conversation, after, PAGE).await.map_err(transcript_error)
    }

    /// Appends to the transcript, in as many writes as the store needs: a turn that is taken up
    /// again copes with a part of a step.
    async fn record(&self, items: Vec<Item>) -> Result<(), HostError> {
        failpoint::hit("host.before_record");
        for part in parts(items) {
            self.record_part(part).await?;
        }
        Ok(())
    }

    /// What the store cannot tell is looked up there.
    async fn record_part(&self, items: Vec<Item>) -> Result<(), HostError> {
        let shared = self.handle.shared();
        let count = items.len() as u64;
        let mut failure = String::new();
        for _ in 0..TRIES {
            let known = self.items.load(Ordering::Acquire);
            let expected = if known == UNKNOWN { 0 } else { known };
            let appended = shared
                .house
                .store
                .append_items(&shared.team, &self.conversation, expected, items.clone())
                .await;
            match appended {
                Ok(()) => {
                    self.items.store(expected + count, Ordering::Release);
                    return Ok(());
                }
                Err(StoreError::Conflict { actual: Seq(actual), .. }) => {
                    // The first write learns the length this way. Later it can only mean that an
                    // earlier try was stored after all.
                    if known != UNKNOWN && self.is_stored(expected, &items).await? {
                        self.items.store(expected + count, Ordering::Release);
                        return Ok(());
                    }
                    self.items.store(actual, Ordering::Release);
                }
                Err(error @ StoreError::Unknown(_)) => {
                    failure = error.to_string();
                    // Had the length been another one, the store had said so.
                    self.items.store(expected, Ordering::Release);
                    if self.is_stored(expected, &items).await? {
                        self.items.store(expected + count, Ordering::Release);
                        return Ok(());
                    }
                }
                Err(error) => return Err(transcript_error(error)),
            }
        }
        Err(HostError::NoTranscript(failure))
    }

    async fn is_stored(&self, at: u64, items: &[Item]) -> Result<bool, HostError> {
        let stored = self.read(at).await?;
        Ok(stored.get(..items.len()).is_some_and(|stored| stored == items))
    }

    /// The rules of the machine, the person and the project, and those of the team.
    async fn rules(&self) -> Result<Rules, HostError> {
        let slot = self.slot;
        let (workspace, mut layers) = self
            .handle
            .query(move |team| (PathBuf::from(team.workspace()), rules_of(team, slot)))
            .await
            .map_err(host_error)?;
        let policy = Arc::clone(&self.handle.shared().house.policy);
        // They are files, and files may block.
        let read = tokio::task::spawn_blocking(move || policy.rules(&workspace)).await;
        match read.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(others) => {
                layers.extend(others);
                Ok(Rules { layers, fault: None })
            }
            Err(why) => Ok(Rules { layers, fault: Some(why) }),
        }
    }

    async fn servers(&self) -> Result<Wanted, HostError> {
        let workspace = self.workspace.clone();
        let policy = Arc::clone(&self.handle.shared().house.policy);
        let wanted = tokio::task::spawn_blocking(move || policy.servers(&workspace)).await;
        let lost = |error: tokio::task::JoinError| Wanted {
            servers: Vec::new(),
            fault: Some(error.to_string()),
        };
        Ok(wanted.unwrap_or_else(lost))
    }

    async fn trusted(&self) -> Result<bool, HostError> {
        let workspace = self.workspace.clone();
        let policy = Arc::clone(&self.handle.shared().house.policy);
        let trusted = tokio::task::spawn_blocking(move || policy.trusted(&workspace)).await;
        // What cannot be known is not trusted.
        Ok(trusted.unwrap_or(false))
    }

    async fn propose(&self, proposal: ToolProposal) -> Result<Permit, HostError> {
        let call = proposal.call.clone();
        let committed = match self.submit(Command::ProposeTool(Box::new(proposal))).await {
            Ok(committed) => committed,
            Err(error) => return refused_or(error),
        };
        let verdict = committed.events.iter().find_map(|recorded| match &recorded.event {
            Event::ToolProposed { call: proposed, verdict, .. } if *proposed == call => {
                Some(verdict)
            }
            _ => None,
        });
        Ok(match verdict {
            Some(ToolVerdict::Run) => Permit::Run,
            Some(ToolVerdict::Ask { request }) => Permit::Ask(*request),
            Some(ToolVerdict::Refused { reason }) => Permit::Refused(reason.clone()),
            None => Permit::Refused("the call was not judged".to_owned()),
        })
    }

    async fn start(&self, turn: TurnId, call: &CallId) -> Result<Permit, HostError> {
        let command = Command::StartTool { turn, call: call.clone() };
        let committed = match self.submit(command).await {
            Ok(committed) => committed,
            Err(error) => return refused_or(error),
        };
        failpoint::hit("host.after_start_tool");
        let permit = committed.events.iter().find_map(|recorded| match &recorded.event {
            Event::ToolStarted { call: started, .. } if started == call => Some(Permit::Run),
            Event::ToolRefused { call: refused, reason, .. } if refused == call => {
                Some(Permit::Refused(reason.clone()))
            }
            _ => None,
        });
        Ok(permit.unwrap_or_else(|| Permit::Refused("the call was not begun".to_owned())))
    }

    async fn reach(
        &self,
        turn: TurnId,
        call: &CallId,
        host: &str,
        finding: Option<Finding>,
    ) -> Result<Permit, HostError> {
        let (call, host) = (call.clone(), host.to_owned());
        let command = Command::RequestNetwork { turn, call, host, finding };
        let committed = match self.submit(command).await {
            Ok(committed) => committed,
            Err(error) => return refused_or(error),
        };
        let opened = committed.events.iter().find_map(|recorded| match &recorded.event {
            Event::RequestOpened { request } => Some(Permit::Ask(request.id)),
            _ => None,
        });
        Ok(opened.unwrap_or(Permit::Run))
    }

    async fn refused(
        &self,
        turn: TurnId,
        call: &CallId,
        violation: Violation,
    ) -> Result<(), HostError> {
        let Violation { kind, what } = violation;
        let command = Command::ReportViolation { turn, call: call.clone(), kind, what };
        match self.submit(command).await {
            // What cannot be kept is told by the tool's output all the same.
            Ok(_) | Err(SubmitError::Rejected(Rejection::NoSuchCall { .. })) => Ok(()),
            Err(error) => Err(host_error(error)),
        }
    }

    async fn finish(
        &self,
        turn: TurnId,
        call: &CallId,
        ok: bool,
        changed: bool,
    ) -> Result<(), HostError> {
        failpoint::hit("host.before_finish_tool");
        let command = Command::FinishTool { turn, call: call.clone(), ok, changed };
        match self.submit(command).await {
            // A call that the journal does not hold has been finished before.
            Ok(_) | Err(SubmitError::Rejected(Rejection::NoSuchCall { .. })) => Ok(()),
            Err(error) => Err(host_error(error)),
        }
    }
}

impl Host for TeamHost {
    fn now(&self) -> Timestamp {
        self.handle.now()
    }

    fn team_tools(&self) -> Vec<Arc<ToolSpec>> {
        self.handle.shared().house.tools.specs(self.role)
    }

    fn call_team_tool<'a>(
        &'a self,
        turn: TurnId,
        call: &'a CallId,
        tool: &'a str,
        input: &'a serde_json::Value,
    ) -> BoxFuture<'a, Result<ToolOutput, HostError>> {
        let context = CallContext {
            caller: Caller::Agent(self.slot),
            credential: None,
            turn: Some(turn),
            step: self.step.load(Ordering::Relaxed),
            key: format!("{turn}:{call}"),
        };
        let tools = &self.handle.shared().house.tools;
        async move { tools.call(&self.handle, &context, tool, input).await }.boxed()
    }

    fn ended_turn<'a>(
        &'a self,
        _: TurnId,
        tool: &'a str,
        input: &'a serde_json::Value,
    ) -> BoxFuture<'a, Result<bool, HostError>> {
        let slot = self.slot;
        async move {
            match ending(tool, input) {
                Ending::Always => Ok(true),
                Ending::Never => Ok(false),
                Ending::WhereItLeaves => {
                    self.handle.query(move |team| leaves(team, slot)).await.map_err(host_error)
                }
            }
        }
        .boxed()
    }

    fn rules(&self) -> BoxFuture<'_, Result<Rules, HostError>> {
        self.rules().boxed()
    }

    fn servers(&self) -> BoxFuture<'_, Result<Wanted, HostError>> {
        self.servers().boxed()
    }

    fn trusted(&self) -> BoxFuture<'_, Result<bool, HostError>> {
        self.trusted().boxed()
    }

    fn propose(&self, proposal: ToolProposal) -> BoxFuture<'_, Result<Permit, HostError>> {
        self.propose(proposal).boxed()
    }

    fn start<'a>(
        &'a self,
        turn: TurnId,
        call: &'a CallId,
    ) -> BoxFuture<'a, Result<Permit, HostError>> {
        self.start(turn, call).boxed()
    }

    fn reach<'a>(
        &'a self,
        turn: TurnId,
        call: &'a CallId,
        host: &'a str,
        finding: Option<Finding>,
    ) -> BoxFuture<'a, Result<Permit, HostError>> {
        self.reach(turn, call, host, finding).boxed()
    }

    fn take_answer(
        &self,
        turn: TurnId,
        request: RequestId,
    ) -> BoxFuture<'_, Result<(), HostError>> {
        let taken = self.submit(Command::TakeAnswer { turn, request });
        async move { taken.await.map(|_| ()).map_err(host_error) }.boxed()
    }

    fn refused<'a>(
        &'a self,
        turn: TurnId,
        call: &'a CallId,
        violation: Violation,
    ) -> BoxFuture<'a, Result<(), HostError>> {
        self.refused(turn, call, violation).boxed()
    }

    fn finish<'a>(
        &'a self,
        turn: TurnId,
        call: &'a CallId,
        ok: bool,
        changed: bool,
    ) -> BoxFuture<'a, Result<(), HostError>> {
        self.finish(turn, call, ok, changed).boxed()
    }

    fn take_mail(
        &self,
        turn: TurnId,
        step: u32,
    ) -> BoxFuture<'_, Result<Option<String>, HostError>> {
        self.take_mail(turn, step).boxed()
    }

    fn standing(&self) -> BoxFuture<'_, Result<String, HostError>> {
        self.standing().boxed()
    }

    fn reserve(
        &self,
        turn: TurnId,
        usage: Usage,
        worst: Amount,
    ) -> BoxFuture<'_, Result<(), HostError>> {
        async move {
            match self.submit(Command::ReserveCall { turn, usage, worst }).await {
                Ok(_) => Ok(()),
                Err(SubmitError::Rejected(Rejection::OverBudget)) => Err(HostError::OverBudget),
                Err(error) => Err(host_error(error)),
            }
        }
        .boxed()
    }

    fn history(&self) -> BoxFuture<'_, Result<Vec<Item>, HostError>> {
        self.history().boxed()
    }

    fn record(&self, items: Vec<Item>) -> BoxFuture<'_, Result<(), HostError>> {
        self.record(items).boxed()
    }

    fn delta(&self, turn: TurnId, delta: Delta) {
        self.handle.shared().bus.delta(self.slot, turn, delta);
    }
}

/// The rules that a team carries itself, as far as they are about a member.
fn rules_of(team: &Team, slot: SlotId) -> Vec<Layer> {
    let own = team.settings().rules.all().map(|(word, rule)| Layer {
        word,
        rule: rule.clone(),
        scope: RuleScope::Session,
        grant: None,
    });
    let granted = team.grants().filter(|grant| grant.slot.is_none_or(|of| of == slot));
    let granted = granted.filter_map(|grant| match &grant.rule {
        GrantRule::Pattern(rule) => Some(Layer {
            word: RuleWord::Allow,
            rule: rule.clone(),
            scope: RuleScope::Session,
            grant: Some(grant.id),
        }),
        GrantRule::Action { .. } | GrantRule::Tool(_) | GrantRule::Host(_) => None,
    });
    own.chain(granted).collect()
}

/// A refusal that is about the call is for the model; one that is about the turn ends it.
fn refused_or(error: SubmitError) -> Result<Permit, HostError> {
    match error {
        SubmitError::Rejected(
            Rejection::NoSuchTurn { .. } | Rejection::TeamEnded | Rejection::UnknownAgent { .. },
        ) => Err(HostError::TurnOver),
        SubmitError::Rejected(rejection) => Ok(Permit::Refused(rejection.to_string())),
        error @ (SubmitError::Unavailable(_) | SubmitError::Closed) => Err(host_error(error)),
    }
}

pub(crate) fn host_error(error: SubmitError) -> HostError {
    match error {
        SubmitError::Rejected(
            Rejection::NoSuchTurn { .. }
            | Rejection::NoTeam
            | Rejection::TeamEnded
            | Rejection::UnknownAgent { .. },
        )
        | SubmitError::Closed => HostError::TurnOver,
        // The turn is still there, and would wait for ever if nobody ended it.
        SubmitError::Rejected(rejection) => HostError::Refused(rejection.to_string()),
        SubmitError::Unavailable(reason) => HostError::Unavailable(reason),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is the end of the error's way")]
fn transcript_error(error: StoreError) -> HostError {
    match error {
        StoreError::TooLarge { .. } => HostError::Refused(error.to_string()),
        StoreError::Conflict { .. }
        | StoreError::StaleEpoch { .. }
        | StoreError::Unavailable(_)
        | StoreError::Unknown(_)
        | StoreError::Corrupt(_)
        | StoreError::Newer(_)
        | StoreError::NoTeam(_)
        | StoreError::Locked { .. } => HostError::NoTranscript(error.to_string()),
    }
}

/// Items in parts that one write of the store holds.
fn parts(items: Vec<Item>) -> Vec<Vec<Item>> {
    let (mut parts, mut bytes) = (vec![Vec::new()], 0);
    for item in items {
        // What is larger is kept beside the log.
        let weight = weight(&item).min(INLINE_LIMIT);
        let full = parts.last().is_some_and(|part| part.len() == PAGE);
        if full || bytes + weight > APPEND_LIMIT {
            parts.push(Vec::new());
            bytes = 0;
        }
        bytes += weight;
        // There is always a last one.
        if let Some(last) = parts.last_mut() {
            last.push(item);
        }
    }
    parts
}

/// Bytes that a transcript's item takes in the store, near enough for a limit.
fn weight(item: &impl Serialize) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(ENVELOPE);
    // An item that cannot be written is refused by the store, which says so better.
    let _ = serde_json::to_writer(&mut count, item);
    count.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_that_is_about_the_turn_ends_it_without_a_word() {
        let rejected = |rejection| host_error(SubmitError::Rejected(rejection));
        assert_eq!(rejected(Rejection::NoSuchTurn { turn: TurnId(1) }), HostError::TurnOver);
        assert_eq!(rejected(Rejection::TeamEnded), HostError::TurnOver);
        assert_eq!(host_error(SubmitError::Closed), HostError::TurnOver);
        let other = Rejection::OwnRequest;
        assert_eq!(rejected(other.clone()), HostError::Refused(other.to_string()));
    }
}
