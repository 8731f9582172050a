//! The provider that plays a scenario; what it remembers is a memo and may be forgotten.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};

use super::matcher::{Output, Progress};
use super::scenario::{Failure, Scenario};
use crate::provider::{
    Message, ModelEvent, ModelRequest, Part, Provider, ProviderError, StopReason,
};

/// How many conversations the memo holds. A request adds to a conversation that was followed
/// before, so one place per agent in a turn is enough.
const REMEMBERED: usize = 64;

/// A provider that plays a scenario.
#[derive(Debug)]
pub struct Scripted {
    scenario: Scenario,
    /// Progress by the conversation that led to it. Only spares work: without it every request is
    /// followed from its beginning.
    memo: Mutex<HashMap<u64, Arc<Progress>>>,
}

impl Scripted {
    /// Plays a scenario.
    pub fn new(scenario: Scenario) -> Self {
        Self { scenario, memo: Mutex::default() }
    }

    /// What it plays.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    fn output(&self, request: &ModelRequest) -> Result<Output, ProviderError> {
        let agent = request.agent.as_str();
        let file = &self.scenario.file;
        let fatal = |error: String| {
            ProviderError::Fatal(format!("scenario {file}, agent {agent:?}: {error}"))
        };
        let Some(rules) = self.scenario.rules(agent) else {
            let known: Vec<&str> = self.scenario.agents().collect();
            return Err(fatal(format!("it has no rules (agents: {})", known.join(", "))));
        };
        let prints = fingerprints(agent, &request.messages);
        let (mut done, mut progress) = self
            .recall(&prints)
            .map_or_else(|| (0, Progress::new(agent, rules)), |(n, p)| (n, Progress::clone(&p)));
        while let Some(message) = request.messages.get(done) {
            progress.follow(rules, message).map_err(fatal)?;
            done += 1;
        }
        if let Some(print) = prints.last() {
            self.remember(*print, &progress);
        }
        progress.at(request.turn, request.step);
        progress.answer(rules).map_err(fatal)
    }

    /// The longest known beginning of a conversation: how many entries, and where it led.
    fn recall(&self, prints: &[u64]) -> Option<(usize, Arc<Progress>)> {
        let memo = self.memo.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |(index, print)| memo.get(print).map(|p| (index + 1, Arc::clone(p)));
        prints.iter().enumerate().rev().find_map(known)
    }

    fn remember(&self, print: u64, progress: &Progress) {
        let mut memo = self.memo.lock().unwrap_or_else(PoisonError::into_inner);
        if memo.len() >= REMEMBERED {
            memo.clear();
        }
        memo.insert(print, Arc::new(progress.clone()));
    }
}

impl Provider for Scripted {
    fn stream(
        &self,
        request: ModelRequest,
    ) -> BoxStream<'static, Result<ModelEvent, ProviderError>> {
        let step = request.step;
        let output = match self.output(&request) {
            Ok(output) => output,
            Err(error) => return stream::iter([Err(error)]).boxed(),
        };
        let delay = output.delay;
        let events = match &output.fail {
            Some((rule, failure)) => failing(rule, *failure),
            None => stream::iter(events(step, output).into_iter().map(Ok)).boxed(),
        };
        if delay.is_zero() {
            return events;
        }
        tokio::time::sleep(delay).map(|()| events).flatten_stream().boxed()
    }
}

fn events(step: u32, output: Output) -> Vec<ModelEvent> {
    let mut events = Vec::new();
    for text in output.thoughts {
        // A closing signature keeps the thoughts of two rules apart.
        events.push(ModelEvent::Thought { text, signature: Some(String::new()) });
    }
    events.push(ModelEvent::Text(output.texts.join("\n\n")));
    let stop = if output.calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
    for (number, call) in output.calls.into_iter().enumerate() {
        events.push(ModelEvent::ToolCall {
            call: format!("c{step}-{}", number + 1),
            tool: call.tool,
            input: call.input,
        });
    }
    events.extend(output.usage.map(ModelEvent::Usage));
    events.push(ModelEvent::Stop(stop));
    events
}

fn failing(rule: &str, failure: Failure) -> BoxStream<'static, Result<ModelEvent, ProviderError>> {
    let why = format!("rule {rule} of the scenario says so");
    let error = |retry_after: Option<Duration>| match failure {
        Failure::RateLimit(_) => ProviderError::RateLimit { retry_after },
        _ => ProviderError::Unavailable { text: why.clone(), retry_after },
    };
    let error = match failure {
        Failure::Unavailable(wait) | Failure::RateLimit(wait) => error(wait),
        Failure::Fault => ProviderError::Fatal(why),
        Failure::Login => ProviderError::Login(why),
        Failure::Broken => ProviderError::Broken(why),
        Failure::Hang => return stream::pending().boxed(),
        Failure::Panic => {
            // The crash has to happen where the answer is read: in the agent's own task.
            return stream::once(async move { panic!("scripted crash: {why}") }).boxed();
        }
    };
    stream::iter([Err(error)]).boxed()
}

/// A fingerprint of each beginning of a conversation.
fn fingerprints(agent: &str, messages: &[Message]) -> Vec<u64> {
    let mut hasher = DefaultHasher::new();
    agent.hash(&mut hasher);
    messages
        .iter()
        .map(|message| {
            match message {
                Message::Given { turn, text } => (0, turn, text).hash(&mut hasher),
                Message::Answer { turn, step, parts } => {
                    (1, turn, step).hash(&mut hasher);
                    for part in parts {
                        match part {
                            Part::Text { text } | Part::Thought { text, .. } => {
                                text.hash(&mut hasher);
                            }
                            Part::Call { call, tool, .. } => (call, tool).hash(&mut hasher),
                        }
                    }
                }
                Message::Results { turn, results } => {
                    (2, turn).hash(&mut hasher);
                    for result in results {
                        (&result.call, &result.text, result.ok).hash(&mut hasher);
                    }
                }
            }
            hasher.finish()
        })
        .collect()
}
