//! What is answered: the scenario's player over the whole conversation, though the client cut it;
//! it knows no format.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use aion_agent::provider::{
    Message, ModelEvent, ModelRequest, Part, Provider, ProviderError, StopReason,
};
use aion_agent::scripted::{Scenario, Scripted};
use aion_core::budget::Usage;
use aion_core::id::{AgentName, TurnId};
use futures::StreamExt;

use super::wire::Asked;

/// What a request for a summary has in it.
const SUM_UP: &str = "outgrow your window";
/// What a client says whose answer was cut.
const CUT: &str = "reached the limit of one step and was cut";
/// What a summary of ours has in it, before its number.
const MEMORY: &str = "memory of the model server, number ";

/// An answer, whatever the format.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    pub(super) parts: Vec<Part>,
    pub(super) usage: Usage,
    pub(super) stop: Option<StopReason>,
}

/// What was cut away, and how long the conversation was when it went on.
#[derive(Debug)]
struct Memory {
    whole: Vec<Message>,
    resumed_at: Option<usize>,
}

/// Plays a scenario for all who ask.
#[derive(Debug)]
pub(super) struct Brain {
    player: Scripted,
    memories: Mutex<Vec<Memory>>,
    /// Tokens that the last call of an agent sent: a cache holds them.
    cached: Mutex<BTreeMap<String, u64>>,
}

impl Brain {
    pub(super) fn new(scenario: Scenario) -> Self {
        let player = Scripted::new(scenario);
        Self { player, memories: Mutex::default(), cached: Mutex::default() }
    }

    /// Answers, or says why the scenario has no answer.
    pub(super) async fn answer(&self, asked: &Asked, cut: bool) -> Result<Answer, ProviderError> {
        let last = asked.messages.last().and_then(given).unwrap_or_default();
        let mut answer = if last.contains(SUM_UP) {
            Answer { parts: vec![self.remember(asked)], ..Answer::default() }
        } else {
            self.play(asked).await?
        };
        answer.stop.get_or_insert(StopReason::EndTurn);
        if cut {
            cut_short(&mut answer);
        }
        if answer.usage == Usage::default() {
            answer.usage = self.count(asked, &answer);
        }
        Ok(answer)
    }

    async fn play(&self, asked: &Asked) -> Result<Answer, ProviderError> {
        let mut messages = self.unfold(&asked.messages);
        let said = join_cut(&mut messages);
        let agent = if asked.agent == AgentName::lead().as_str() {
            AgentName::lead()
        } else {
            AgentName::parse(&asked.agent)
                .map_err(|error| ProviderError::Fatal(error.to_string()))?
        };
        let step = messages.iter().filter(|m| matches!(m, Message::Answer { .. })).count();
        let request = ModelRequest {
            agent,
            model: Some(asked.model.clone()),
            turn: TurnId(1),
            step: u32::try_from(step).unwrap_or(u32::MAX),
            system: asked.system.clone(),
            messages: number(messages),
            tools: Vec::new(),
            max_tokens: u32::MAX,
        };
        let mut answer = Answer::default();
        let mut events = self.player.stream(request);
        while let Some(event) = events.next().await {
            match event? {
                ModelEvent::Text(text) if text.is_empty() => {}
                ModelEvent::Text(text) => answer.parts.push(Part::Text { text }),
                ModelEvent::Thought { text, signature } => {
                    answer.parts.push(Part::Thought { text, signature });
                }
                ModelEvent::ToolCall { call, tool, input } => {
                    answer.parts.push(Part::Call { call, tool, input });
                }
                ModelEvent::Usage(usage) => answer.usage = usage,
                ModelEvent::Stop(stop) => answer.stop = Some(stop),
            }
        }
        if !said.is_empty() {
            go_on(&mut answer.parts, &said);
        }
        Ok(answer)
    }

    /// A summary that leads back to what it stands for.
    fn remember(&self, asked: &Asked) -> Part {
        let mut whole = self.unfold(&asked.messages);
        whole.pop();
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        memories.push(Memory { whole, resumed_at: None });
        Part::Text { text: format!("I go on. ({MEMORY}{})", memories.len()) }
    }

    /// The conversation as if nothing had been cut from it.
    fn unfold(&self, messages: &[Message]) -> Vec<Message> {
        let number = messages.iter().rev().find_map(|message| {
            let (_, rest) = given(message)?.split_once(MEMORY)?;
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<usize>().ok()
        });
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = number.and_then(|number| memories.get_mut(number.checked_sub(1)?));
        let Some(memory) = memory else { return messages.to_vec() };
        let at = *memory.resumed_at.get_or_insert(messages.len());
        memory.whole.iter().chain(messages.get(at..).unwrap_or_default()).cloned().collect()
    }

    /// Counts a token for four bytes; what the last call sent comes from the cache where the client
    /// marked what is to be kept there.
    fn count(&self, asked: &Asked, answer: &Answer) -> Usage {
        let sent = asked.bytes / 4;
        let written = answer.parts.iter().map(|part| match part {
            Part::Text { text } | Part::Thought { text, .. } => text.len(),
            Part::Call { input, .. } => input.to_string().len(),
        });
        let written = written.sum::<usize>() as u64 / 4 + 1;
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let before = cached.insert(asked.agent.clone(), sent).filter(|_| asked.marks_cache);
        let cache_read = before.unwrap_or(0).min(sent);
        Usage { input: sent - cache_read, output: written, cache_read, ..Usage::default() }
    }
}

fn given(message: &Message) -> Option<&str> {
    match message {
        Message::Given { text, .. } => Some(text),
        Message::Answer { .. } | Message::Results { .. } => None,
    }
}

/// Numbers the steps: the wire has no turns.
fn number(mut messages: Vec<Message>) -> Vec<Message> {
    let mut steps = 0;
    for message in &mut messages {
        if let Message::Answer { step, .. } = message {
            *step = steps;
            steps += 1;
        }
    }
    messages
}

/// Makes one answer of each that was cut and gone on with. What the last answer said, if it was cut
/// and is to be gone on with now, is taken away and returned.
fn join_cut(messages: &mut Vec<Message>) -> String {
    let mut joined: Vec<Message> = Vec::new();
    let mut open = String::new();
    for message in std::mem::take(messages) {
        if given(&message).is_some_and(|text| text.contains(CUT)) {
            if let Some(Message::Answer { parts, .. }) = joined.pop() {
                open.push_str(&text_of(&parts));
            }
            continue;
        }
        match message {
            Message::Answer { turn, step, mut parts } if !open.is_empty() => {
                parts.insert(0, Part::Text { text: std::mem::take(&mut open) });
                joined.push(Message::Answer { turn, step, parts });
            }
            other => joined.push(other),
        }
    }
    *messages = joined;
    open
}

fn text_of(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        Part::Thought { .. } | Part::Call { .. } => None,
    });
    texts.collect()
}

/// Takes what was said away from the beginning of an answer.
fn go_on(parts: &mut Vec<Part>, said: &str) {
    parts.retain(|part| !matches!(part, Part::Thought { .. }));
    if let Some(Part::Text { text }) = parts.first_mut()
        && let Some(rest) = text.strip_prefix(said)
    {
        *text = rest.to_owned();
    }
}

/// Cuts an answer in the middle of its text, and everything after it.
fn cut_short(answer: &mut Answer) {
    let Some(at) = answer.parts.iter().position(|part| matches!(part, Part::Text { .. })) else {
        return;
    };
    answer.parts.truncate(at + 1);
    if let Some(Part::Text { text }) = answer.parts.last_mut() {
        let half = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
        text.truncate(half);
    }
    answer.stop = Some(StopReason::MaxTokens);
}
