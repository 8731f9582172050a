//! One turn from its opening to its end, fresh or taken up again; it leaves no item undurable.

use std::collections::BTreeSet;
use std::future::Future;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::time::Duration;

use aion_core::budget::Usage;
use aion_core::message::shorten;
use aion_core::time::{Millis, Timestamp};
use aion_core::transcript::{Content, Item};
use aion_core::turn::{CallId, TurnOutcome, Unavailable};
use futures::{FutureExt, try_join};

use super::compact::{Measure, shown};
use super::images;
use super::model::Answer;
use super::{AgentRuntime, Controls, TurnEnd, TurnInput};
use crate::host::HostError;
use crate::provider::{ModelRequest, ProviderError, StopReason};

/// The most bytes of a turn's last text that its end carries.
const LAST_TEXT_BYTES: usize = 4 * 1024;

/// The least wait for a service that asks for less and does not answer all the same.
const LEAST_WAIT: Duration = Duration::from_secs(5);

/// What the model is told when its answer was cut.
const CUT: &str = "Your answer reached the limit of one step and was cut. Go on where it ended.";

/// Why a turn does not go on.
#[derive(Debug)]
pub(super) enum Halt {
    /// The house refused.
    Host(HostError),
    /// The model did not answer.
    Provider(ProviderError),
    /// Somebody asked for it.
    Interrupted,
    /// The agent is at fault.
    Fault(String),
}

impl From<HostError> for Halt {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

/// Where the transcript says that a turn stands.
enum Position {
    /// Its opening was not given yet.
    Opening,
    /// The model is to answer.
    Model,
    /// The model has answered; its calls may not all have results.
    Tools,
}

/// What follows the tools of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// The model is to see the results.
    GoOn,
    /// There were no calls.
    NoCalls,
    /// A tool ended the turn.
    End,
}

/// A turn in progress.
pub(super) struct Turn<'a> {
    pub(super) runtime: &'a AgentRuntime,
    pub(super) controls: &'a Controls,
    pub(super) input: TurnInput,
    /// The whole transcript, as far as it is durable; and the opening, which may not be.
    pub(super) items: Vec<Item>,
    /// The opening, until it becomes durable together with the first answer: the turn's start has
    /// stored what it is made from, and the model is not kept waiting for the disk once more.
    opening: Option<Item>,
    pub(super) step: u32,
    /// The usage that no reservation has settled.
    pub(super) unsettled: Option<Usage>,
    continuations: u32,
    /// The service has refused a request with images in this run.
    pub(super) blind: bool,
    /// A call was reserved in this run.
    called: bool,
    /// What the last call of this run was counted as.
    pub(super) measure: Option<Measure>,
}

impl<'a> Turn<'a> {
    pub(super) fn new(runtime: &'a AgentRuntime, input: TurnInput, controls: &'a Controls) -> Self {
        let items = Vec::new();
        Self {
            runtime,
            controls,
            input,
            items,
            opening: None,
            step: 0,
            unsettled: None,
            continuations: 0,
            blind: false,
            called: false,
            measure: None,
        }
    }

    pub(super) async fn run(mut self) -> TurnEnd {
        let mut end = match self.drive().await {
            Ok(()) => Some(TurnOutcome::Done { last_text: self.last_text() }),
            Err(halt) => self.outcome(halt),
        };
        if let Some(outcome) = &end
            && let Err(halt) = self.keep_unread(outcome).await
        {
            end = self.outcome(halt);
        }
        match end {
            Some(outcome) => TurnEnd::Ended { outcome, usage: self.unsettled },
            None => TurnEnd::Over,
        }
    }

    /// How a turn ends that does not go on; none where the house has ended it.
    fn outcome(&self, halt: Halt) -> Option<TurnOutcome> {
        Some(match halt {
            Halt::Host(HostError::TurnOver) => return None,
            Halt::Host(HostError::OverBudget) => {
                TurnOutcome::Unavailable { why: Unavailable::Budget, until: None, said: None }
            }
            // Nothing can be stored, so nothing more may happen; the mail goes back uncounted.
            Halt::Host(HostError::Unavailable(_)) => TurnOutcome::Lost,
            // The team could begin the turn anew at once, and it would end here again after another
            // model call: it waits as for a provider that is down.
            Halt::Host(HostError::NoTranscript(error)) => TurnOutcome::Unavailable {
                why: Unavailable::Provider,
                until: Some(self.after(self.runtime.config.unavailable_wait)),
                said: Some(format!("its transcript could not be written: {error}")),
            },
            Halt::Host(error @ HostError::Refused(_)) => {
                TurnOutcome::AgentFault { error: error.to_string() }
            }
            Halt::Interrupted => TurnOutcome::Interrupted,
            Halt::Fault(error) => TurnOutcome::AgentFault { error },
            Halt::Provider(error) => self.provider_outcome(error),
        })
    }

    async fn drive(&mut self) -> Result<(), Halt> {
        self.items = self.runtime.host.history().await?;
        self.runtime.tools.find_lost(&self.items);
        let host = &self.runtime.host;
        let (trusted, wanted) = try_join!(host.trusted(), host.servers())?;
        if trusted {
            self.add_instructions().await?;
        }
        // Who interrupts now interrupts the model's call: the opening has to be kept.
        let _ = self.unless_interrupted(self.runtime.tools.settle_servers(wanted)).await;
        match self.position() {
            Position::Opening => {
                let mut text = std::mem::take(&mut self.input.opening);
                for news in self.runtime.tools.news() {
                    text.push_str("\n\n");
                    text.push_str(&news);
                }
                let content = Content::Given { text };
                let opening = Item { turn: self.input.turn, step: 0, content };
                self.items.push(opening.clone());
                self.opening = Some(opening);
            }
            Position::Model => {}
            Position::Tools => {
                self.settle_journal().await?;
                if !self.after_answer(None).await? {
                    return Ok(());
                }
            }
        }
        loop {
            if self.step >= self.runtime.config.max_steps {
                return Err(Halt::Fault(format!(
                    "the turn reached its limit of {} model steps",
                    self.runtime.config.max_steps
                )));
            }
            let stop = self.ask_model().await?;
            if !self.after_answer(Some(stop)).await? {
                return Ok(());
            }
        }
    }

    /// Adds what the project itself says to the prompt, because the person trusts it.
    async fn add_instructions(&mut self) -> Result<(), Halt> {
        let rules = self.runtime.host.rules().await?;
        if let Some(instructions) = self.runtime.tools.instructions(rules).await {
            self.input.system.push_str("\n\n");
            self.input.system.push_str(&instructions);
        }
        Ok(())
    }

    /// Where the turn stands; sets the step.
    fn position(&mut self) -> Position {
        let turn = self.input.turn;
        let Some(last) = self.items.iter().rev().find(|item| item.turn == turn) else {
            return Position::Opening;
        };
        self.step = last.step;
        match last.content {
            Content::Given { .. } | Content::Summary { .. } => Position::Model,
            Content::Said { .. }
            | Content::Thought { .. }
            | Content::Called { .. }
            | Content::Got { .. } => Position::Tools,
        }
    }

    /// Has the model answer, and the answer recorded.
    async fn ask_model(&mut self) -> Result<StopReason, Halt> {
        let mut request = self.request();
        let mut compacted = self.is_full(&request);
        if compacted {
            self.compact(request, false).await?;
            request = self.request();
            if self.is_full(&request) {
                return Err(self.too_long());
            }
        }
        self.reserve(&request).await?;
        let used = self.used_ids();
        let mut attempt = 0;
        let (answer, bytes) = loop {
            let bytes = request.bytes() as u64;
            let mut answer = Answer::default();
            let read = answer.read(self.runtime, request.clone(), &used);
            let read = AssertUnwindSafe(self.unless_interrupted(read)).catch_unwind().await;
            let read = match read {
                Ok(read) => read,
                // The next start of the agent has to see what this one was given.
                Err(panic) => {
                    self.keep_opening().await;
                    resume_unwind(panic);
                }
            };
            match read {
                Ok(Ok(())) => break (answer, bytes),
                Ok(Err(ProviderError::Broken(_))) if attempt < self.runtime.config.retries => {
                    attempt += 1;
                    request = self.request();
                }
                // This model sees no images, or one of them is not what it takes.
                Ok(Err(ProviderError::Fatal(_))) if !self.blind && images::refuse(&mut request) => {
                    self.blind = true;
                }
                // The service counts otherwise than it was guessed.
                Ok(Err(ProviderError::TooLong(_))) if !compacted => {
                    compacted = true;
                    self.compact(request, true).await?;
                    request = self.request();
                    self.reserve(&request).await?;
                }
                Ok(Err(ProviderError::TooLong(_))) => return Err(self.too_long()),
                Ok(Err(error)) => return Err(Halt::Provider(error)),
                Err(halt) => {
                    self.count(answer.usage);
                    let words = answer.words();
                    if !words.is_empty() {
                        self.record(self.step, words).await?;
                    }
                    return Err(halt);
                }
            }
        };
        self.count(answer.usage);
        self.measure = answer.usage.and_then(|usage| {
            let read = usage.input.saturating_add(usage.cache_read);
            Measure::new(bytes, read.saturating_add(usage.cache_write))
        });
        let stop = answer.stop.unwrap_or(StopReason::EndTurn);
        let mut content = answer.content;
        if content.is_empty() {
            // An answer without words is an answer: the transcript has to show that it was given.
            content.push(Content::Said { text: String::new() });
        }
        self.record(self.step, content).await?;
        Ok(stop)
    }

    /// Runs the calls of the step and reads new mail; says whether the model is to answer again.
    async fn after_answer(&mut self, stop: Option<StopReason>) -> Result<bool, Halt> {
        let flow = self.run_calls().await?;
        if flow == Flow::End {
            return Ok(false);
        }
        let next = self.step + 1;
        let mut given = Vec::new();
        if stop == Some(StopReason::MaxTokens) && flow == Flow::NoCalls {
            if self.continuations == self.runtime.config.continuations {
                return Err(Halt::Fault(format!(
                    "the model reached its limit of {} tokens {} times in one turn",
                    self.runtime.config.max_tokens,
                    self.continuations + 1
                )));
            }
            self.continuations += 1;
            given.push(CUT.to_owned());
        }
        given.extend(self.runtime.tools.news());
        given.extend(self.controls.take_delivered());
        // Not given up half-way: what counts as delivered has to be in the transcript.
        given.extend(self.runtime.host.take_mail(self.input.turn, next).await?);
        if given.is_empty() && flow == Flow::NoCalls {
            given = self.controls.take_last();
        }
        if given.is_empty() && flow == Flow::NoCalls {
            return Ok(false);
        }
        self.step = next;
        if !given.is_empty() {
            let text = given.join("\n\n");
            self.record(next, vec![Content::Given { text }]).await?;
        }
        Ok(true)
    }

    /// What the transcript lacks when a turn ends before its first answer; and text that was handed
    /// over and not read, which is part of the conversation where the turn's mail counts as read.
    async fn keep_unread(&mut self, outcome: &TurnOutcome) -> Result<(), Halt> {
        let unread = self.controls.close();
        let content = if unread.is_empty() || !outcome.acknowledges() {
            Vec::new()
        } else {
            vec![Content::Given { text: unread.join("\n\n") }]
        };
        // Lost: nothing can be stored.
        if content.is_empty() && (self.opening.is_none() || *outcome == TurnOutcome::Lost) {
            return Ok(());
        }
        self.record(self.step + 1, content).await
    }

    fn request(&self) -> ModelRequest {
        let mut tools = self.runtime.tools.specs();
        tools.extend(self.runtime.host.team_tools());
        let mut request = ModelRequest {
            agent: self.runtime.agent.clone(),
            model: self.runtime.model.clone(),
            turn: self.input.turn,
            step: self.step,
            system: self.input.system.clone(),
            messages: shown(&self.items),
            tools,
            max_tokens: self.runtime.config.max_tokens,
        };
        if self.blind {
            images::refuse(&mut request);
        }
        request
    }

    /// Settles the call before this one and reserves this one. A turn starts with its first call
    /// reserved.
    pub(super) async fn reserve(&mut self, request: &ModelRequest) -> Result<(), Halt> {
        // The turn's start has reserved its first call.
        if !self.input.budgeted
            || !(self.has_answered() || std::mem::replace(&mut self.called, true))
        {
            return Ok(());
        }
        let worst = self.runtime.provider.worst_case(request);
        // What a call used is lost when the house falls before it is settled: then as much is
        // counted as the next call may use at worst, which sends everything that it sent.
        let lost = Usage { input: worst.tokens, micro_usd: worst.micro_usd, ..Usage::default() };
        let used = *self.unsettled.get_or_insert(lost);
        // Not given up half-way: what is settled here must not be settled by the turn's end again.
        self.runtime.host.reserve(self.input.turn, used, worst).await?;
        self.unsettled = None;
        Ok(())
    }

    pub(super) fn count(&mut self, usage: Option<Usage>) {
        if let Some(usage) = usage {
            self.unsettled = Some(self.unsettled.unwrap_or_default().plus(usage));
        } else if self.input.budgeted {
            // A provider that does not count has nothing to settle; the call is settled with zero.
            self.unsettled.get_or_insert_default();
        }
    }

    fn provider_outcome(&self, error: ProviderError) -> TurnOutcome {
        let config = &self.runtime.config;
        let said = Some(error.to_string());
        let (why, until) = match error {
            ProviderError::Unavailable { retry_after, .. } => {
                let wait = retry_after.map_or(config.unavailable_wait, |wait| wait.max(LEAST_WAIT));
                (Unavailable::Provider, Some(self.after(wait)))
            }
            ProviderError::Broken(_) => {
                (Unavailable::Provider, Some(self.after(config.unavailable_wait)))
            }
            ProviderError::RateLimit { retry_after } => {
                let wait = retry_after.map_or(config.rate_limit_wait, |wait| wait.max(LEAST_WAIT));
                (Unavailable::RateLimit, Some(self.after(wait)))
            }
            ProviderError::Login(_) => (Unavailable::Login, None),
            ProviderError::Fatal(error) | ProviderError::TooLong(error) => {
                return TurnOutcome::AgentFault { error };
            }
        };
        TurnOutcome::Unavailable { why, until, said }
    }

    fn after(&self, wait: Duration) -> Timestamp {
        let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self.runtime.host.now() + Millis(wait)
    }

    /// Makes the opening durable where it is not. A transcript that cannot be written is no worse
    /// than what comes after this.
    async fn keep_opening(&mut self) {
        if self.opening.is_some() {
            let _ = self.record(self.step, Vec::new()).await;
        }
    }

    /// Makes items durable, and only then part of the conversation. Never given up half-way.
    pub(super) async fn record(&mut self, step: u32, content: Vec<Content>) -> Result<(), Halt> {
        let turn = self.input.turn;
        let items = content.into_iter().map(|content| Item { turn, step, content });
        let opening = self.opening.clone();
        let known = usize::from(opening.is_some());
        let items: Vec<Item> = opening.into_iter().chain(items).collect();
        self.runtime.host.record(items.clone()).await?;
        self.opening = None;
        self.items.extend(items.into_iter().skip(known));
        Ok(())
    }

    /// Waits for a future, but no longer than until the turn is interrupted.
    pub(super) async fn unless_interrupted<F: Future>(&self, future: F) -> Result<F::Output, Halt> {
        tokio::select! {
            biased;
            () = self.controls.interrupt.cancelled() => Err(Halt::Interrupted),
            output = future => Ok(output),
        }
    }

    /// The turn's own items.
    pub(super) fn own(&self) -> impl DoubleEndedIterator<Item = &Item> {
        self.items.iter().filter(|item| item.turn == self.input.turn)
    }

    fn has_answered(&self) -> bool {
        self.own().any(|item| !matches!(item.content, Content::Given { .. } | Content::Got { .. }))
    }

    fn used_ids(&self) -> BTreeSet<CallId> {
        self.own()
            .filter_map(|item| match &item.content {
                Content::Called { call, .. } => Some(call.clone()),
                _ => None,
            })
            .collect()
    }

    fn last_text(&self) -> Option<String> {
        self.own().rev().find_map(|item| match &item.content {
            Content::Said { text } if !text.trim().is_empty() => {
                Some(shorten(text.trim(), LAST_TEXT_BYTES))
            }
            _ => None,
        })
    }
}
