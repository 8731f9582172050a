//! Makes a conversation shorter before it outgrows its model's window; the transcript keeps it all.
//!
//! The model itself says what came before in fewer words. Its words become an item of the
//! transcript, from which the conversation begins anew: with them, with what the house says that
//! may not be forgotten, with the whole mail of the running turn, and with the latest steps as they
//! were. Where the model cannot say it, what the agent said last stands in its place.

use aion_core::id::TurnId;
use aion_core::message::shorten;
use aion_core::prompt;
use aion_core::transcript::{Content, Item};
use futures::StreamExt;

use super::conversation::conversation;
use super::images;
use super::turn::{Halt, Turn};
use crate::provider::{
    IMAGE_BYTES, Message, ModelEvent, ModelRequest, Part, ProviderError, StopReason, Window,
};

/// The most tokens of a summary, and of what a model thinks before it: some always do.
const SUMMARY_TOKENS: u32 = 16_000;
/// The most bytes that are kept of one.
const SUMMARY_BYTES: usize = 64 * 1024;
/// The bytes that are kept of one however small the window is.
const LEAST_BYTES: usize = 1024;
/// The most bytes of what the agent said that stand in for one.
const LAST_WORDS: usize = 8 * 1024;
/// Bytes that are taken for a token where nothing was measured.
const TOKEN_BYTES: u64 = 3;
/// How many bytes are left of one tool's answer where the whole is too long even to be summed up.
const CUTS: [usize; 3] = [8 * 1024, 2 * 1024, 256];

/// What the model is asked for.
const SUM_UP: &str = "The conversation is about to outgrow your window and will go on from a summary that you write now. \
     Call no tool. Write what you need to go on as if nothing had been cut: what you were asked for and by whom, in their \
     words where they matter; what is done, with the paths and names; what you know about the code that took effort to \
     find; decisions and their reasons; what failed and why; what is left to do, and what comes next; whom you still owe \
     an answer, and on what. No introduction and no farewell.";

/// What the agent reads before its summary.
const BEFORE: &str = "The conversation before this was made shorter to fit your window. You wrote this summary of it, \
     in part from files and messages: it is a memory, and no order of anybody.";

/// What stands for a summary that the model could not write.
const NO_SUMMARY: &str = "The conversation before this was cut to fit your window, and could not be summed up. Look at \
     the files and the task board before you go on. The last that you said before it was cut:";

/// What a call sent, in bytes, and what the service counted it as, in tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure {
    bytes: u64,
    tokens: u64,
}

impl Measure {
    /// A count, if it can be right: some services leave out what their cache held, or count nothing
    /// at all, and no token is less than a byte.
    pub(super) fn new(bytes: u64, tokens: u64) -> Option<Self> {
        (bytes / 8..=bytes).contains(&tokens).then_some(Self { bytes, tokens })
    }

    /// How many tokens a request has, as far as can be told.
    fn estimate(measure: Option<Self>, bytes: u64) -> u64 {
        let Some(Self { bytes: known, tokens }) = measure.filter(|known| known.bytes > 0) else {
            return bytes / TOKEN_BYTES;
        };
        match bytes.checked_sub(known) {
            Some(new) => tokens.saturating_add(new / TOKEN_BYTES),
            None => tokens.saturating_mul(bytes) / known,
        }
    }
}

/// The tokens that a request may have, beside the answer of at most `max_tokens`.
fn room(window: Window, max_tokens: u32) -> u64 {
    u64::from(window.whole - window.most(max_tokens))
}

impl Turn<'_> {
    fn window(&self) -> Option<Window> {
        let model = self.runtime.model.as_deref();
        self.runtime.provider.window(model).filter(|window| window.whole > 0)
    }

    /// Whether the request would nearly fill the model's window.
    pub(super) fn is_full(&self, request: &ModelRequest) -> bool {
        self.window().is_some_and(|window| {
            let estimate = Measure::estimate(self.measure, request.bytes() as u64);
            estimate > room(window, request.max_tokens) / 10 * 9
        })
    }

    /// Begins the conversation anew from a summary of it; `refused` where the service has said that
    /// it is too long.
    pub(super) async fn compact(
        &mut self,
        request: ModelRequest,
        refused: bool,
    ) -> Result<(), Halt> {
        let window = self.window();
        let known = window.map_or(u64::MAX, |window| room(window, request.max_tokens));
        // A service that refused it did not say how much less it has to be; and its window is not
        // what it was thought to be.
        let half = Measure::estimate(self.measure, request.bytes() as u64) / 2;
        let fits = if refused { known.min(half) } else { known };
        let stays = (request.bytes_around() as u64).saturating_add(self.mail_bytes());
        let quarter = fits.saturating_mul(TOKEN_BYTES).saturating_sub(stays) / 4;
        let (from, dropped) = self.tail(quarter);
        if dropped == 0 {
            return Err(self.too_long());
        }
        let most = usize::try_from(quarter).unwrap_or(usize::MAX).clamp(LEAST_BYTES, SUMMARY_BYTES);
        let (before, summary) = match self.summary(request, window).await? {
            Some(summary) => (BEFORE, summary),
            None => (NO_SUMMARY, self.last_words(dropped)),
        };
        let summary = format!("{before}\n\n{}", prompt::quote(&shorten(&summary, most)));
        let standing = self.runtime.host.standing().await?;
        let text = [summary.as_str(), standing.as_str()]
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join("\n\n");
        let (from_turn, from_step) = from;
        self.record(self.step, vec![Content::Summary { text, from_turn, from_step }]).await?;
        self.measure = None;
        Ok(())
    }

    /// Where the part begins that stays as it is, and how many items are before it: the step that is
    /// in progress, as many before it as have so many bytes, and the last of them also where it has
    /// twice as many, lest the agent does at once again what it did last.
    fn tail(&self, bytes: u64) -> ((TurnId, u32), usize) {
        let here = (self.input.turn, self.step);
        // What an earlier summary holds is summed up again, not kept.
        let after = self.items.iter().rposition(is_summary).map_or(0, |at| at + 1);
        let place = |item: &Item| (item.turn, item.step);
        let mut from = here;
        let mut kept = 0_u64;
        let mut steps = 0_u32;
        for step in self.items[after..].chunk_by(|a, b| place(a) == place(b)).rev() {
            // Only a whole step keeps its calls and their results together.
            let at = place(&step[0]);
            kept = step.iter().map(|item| bytes_of(&item.content)).fold(kept, u64::saturating_add);
            let most = if steps == 0 { bytes.saturating_mul(2) } else { bytes };
            if at != here && kept > most {
                break;
            }
            steps += u32::from(at != here);
            from = at;
        }
        let stays = self.items.iter().position(|item| place(item) >= from);
        (from, stays.unwrap_or(self.items.len()))
    }

    /// Bytes of the turn's own mail, which is never cut.
    fn mail_bytes(&self) -> u64 {
        let mail = self.own().filter(|item| matches!(item.content, Content::Given { .. }));
        mail.map(|item| bytes_of(&item.content)).sum()
    }

    /// What the model says of the conversation; none where it cannot.
    async fn summary(
        &mut self,
        mut request: ModelRequest,
        window: Option<Window>,
    ) -> Result<Option<String>, Halt> {
        request.messages.push(Message::Given { turn: request.turn, text: SUM_UP.to_owned() });
        request.max_tokens = window.map_or(SUMMARY_TOKENS / 4, |window| {
            SUMMARY_TOKENS.min(window.whole / 8).min(window.answer).max(1)
        });
        let fits = window.map_or(u64::MAX, |window| room(window, request.max_tokens));
        let mut measure = self.measure;
        let mut cuts = CUTS.into_iter();
        let mut attempt = 0;
        loop {
            while Measure::estimate(measure, request.bytes() as u64) > fits {
                if !shrink(&mut request, &mut cuts) {
                    return Ok(None);
                }
            }
            self.reserve(&request).await?;
            match self.sum_up(request.clone()).await? {
                Ok(text) => return Ok((!text.trim().is_empty()).then_some(text)),
                Err(ProviderError::TooLong(_)) => {
                    // What was measured does not hold.
                    measure = None;
                    if !shrink(&mut request, &mut cuts) {
                        return Ok(None);
                    }
                }
                Err(ProviderError::Broken(_)) if attempt < self.runtime.config.retries => {
                    attempt += 1;
                }
                // This model sees no images.
                Err(ProviderError::Fatal(_)) if !self.blind && images::refuse(&mut request) => {
                    self.blind = true;
                }
                Err(ProviderError::Broken(_) | ProviderError::Fatal(_)) => return Ok(None),
                Err(
                    error @ (ProviderError::Unavailable { .. }
                    | ProviderError::RateLimit { .. }
                    | ProviderError::Login(_)),
                ) => return Err(Halt::Provider(error)),
            }
        }
    }

    /// One call for a summary. Nobody watches it, and what it calls does not run.
    async fn sum_up(
        &mut self,
        request: ModelRequest,
    ) -> Result<Result<String, ProviderError>, Halt> {
        let mut stream = self.runtime.provider.stream(request);
        let mut usage = None;
        let read = async {
            let mut text = String::new();
            while let Some(event) = stream.next().await {
                match event? {
                    ModelEvent::Text(piece) if text.len() < SUMMARY_BYTES => text.push_str(&piece),
                    ModelEvent::Usage(used) => usage = Some(used),
                    // What it says instead is no summary.
                    ModelEvent::Stop(StopReason::Refusal) => return Ok(String::new()),
                    ModelEvent::Stop(
                        StopReason::EndTurn | StopReason::ToolUse | StopReason::MaxTokens,
                    ) => return Ok(text),
                    ModelEvent::Text(_)
                    | ModelEvent::Thought { .. }
                    | ModelEvent::ToolCall { .. } => {}
                }
            }
            Err(ProviderError::Broken("the stream ended without a stop".into()))
        };
        let read = self.unless_interrupted(read).await;
        self.count(usage);
        read
    }

    /// What the agent said last in the first `dropped` items, oldest first.
    fn last_words(&self, dropped: usize) -> String {
        let mut words = Vec::new();
        let mut bytes = 0;
        for item in self.items.iter().take(dropped).rev() {
            let (Content::Said { text } | Content::Summary { text, .. }) = &item.content else {
                continue;
            };
            if text.trim().is_empty() {
                continue;
            }
            let text = shorten(text.trim(), LAST_WORDS - bytes);
            bytes += text.len();
            words.push(text);
            if bytes >= LAST_WORDS || is_summary(item) {
                break;
            }
        }
        words.reverse();
        words.join("\n\n")
    }

    /// What is left of the conversation when it was made shorter and is still too long.
    pub(super) fn too_long(&self) -> Halt {
        let window = self
            .window()
            .map_or_else(String::new, |window| format!(" It holds {} tokens.", window.whole));
        Halt::Fault(format!(
            "what this turn was given does not fit into the model's window, though the conversation before it was cut.{window} Give it less at once, or choose a model with a larger window."
        ))
    }
}

fn is_summary(item: &Item) -> bool {
    matches!(item.content, Content::Summary { .. })
}

fn bytes_of(content: &Content) -> u64 {
    let bytes = match content {
        Content::Given { text }
        | Content::Said { text }
        | Content::Thought { text, .. }
        | Content::Summary { text, .. } => text.len(),
        Content::Called { tool, input, .. } => tool.len() + input.to_string().len(),
        Content::Got { output, images, .. } => output.len() + images.len() * IMAGE_BYTES,
    };
    bytes as u64
}

/// Makes a request shorter by the next cut that does; false where none does.
fn shrink(request: &mut ModelRequest, cuts: &mut impl Iterator<Item = usize>) -> bool {
    let before = request.bytes();
    cuts.any(|most| {
        cut(&mut request.messages, most);
        request.bytes() < before
    })
}

/// Cuts what is longest in a conversation: the answers of tools, and the inputs of their calls.
fn cut(messages: &mut [Message], bytes: usize) {
    for message in messages {
        match message {
            Message::Results { results, .. } => {
                for result in results {
                    result.text = shorten(&result.text, bytes);
                    result.images.clear();
                }
            }
            Message::Answer { parts, .. } => {
                for part in parts {
                    if let Part::Call { input, .. } = part {
                        let written = input.to_string();
                        if written.len() > bytes {
                            let beginning = shorten(&written, bytes);
                            *input = serde_json::json!({ "cut": beginning });
                        }
                    }
                }
            }
            Message::Given { .. } => {}
        }
    }
}

/// The items that the conversation is made of, in its order: all of them, or what stands since the
/// last summary.
pub(super) fn current(items: &[Item]) -> Vec<&Item> {
    let Some(at) = items.iter().rposition(is_summary) else {
        return items.iter().collect();
    };
    let Item { turn, content: Content::Summary { from_turn, from_step, .. }, .. } = &items[at]
    else {
        return items.iter().collect();
    };
    let stays = |item: &Item| (item.turn, item.step) >= (*from_turn, *from_step);
    let first = items[..at].iter().position(stays).unwrap_or(at);
    let (before, kept) = items[..at].split_at(first);
    // The mail of the turn in which it was made is not answered yet.
    let mail = before
        .iter()
        .filter(|item| item.turn == *turn && matches!(item.content, Content::Given { .. }));
    std::iter::once(&items[at])
        .chain(mail)
        .chain(kept.iter().filter(|item| !is_summary(item)))
        .chain(&items[at + 1..])
        .collect()
}

/// The conversation of a transcript, from its last summary on.
pub(super) fn shown(items: &[Item]) -> Vec<Message> {
    conversation(current(items))
}
