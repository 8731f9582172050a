//! What an agent says and does in a turn, put together for our own transcript; it writes nothing
//! itself.

use aion_core::id::TurnId;
use aion_core::message::shorten;
use aion_core::transcript::{Content, Item};
use serde_json::Value;

/// The most bytes of one item of text; more becomes another item.
const ITEM_BYTES: usize = 512 * 1024;
/// The most bytes of a turn's last text that its end carries.
const LAST_TEXT_BYTES: usize = 4 * 1024;

/// What happened in a turn and is not durable yet.
#[derive(Debug)]
pub(super) struct Log {
    turn: TurnId,
    step: u32,
    items: Vec<Item>,
    /// Text that may still go on.
    open: Option<Content>,
    /// What it said since the last call.
    last_text: String,
    /// A call of this step was answered: what follows is another step.
    answered: bool,
    /// Bytes of text so far, and those of them that are not durable.
    bytes: usize,
    waiting: usize,
    silent: bool,
}

impl Log {
    pub(super) fn new(turn: TurnId) -> Self {
        Self {
            turn,
            step: 0,
            items: Vec::new(),
            open: None,
            last_text: String::new(),
            answered: false,
            bytes: 0,
            waiting: 0,
            silent: true,
        }
    }

    /// The model step, as far as that can be seen from outside.
    pub(super) fn step(&self) -> u32 {
        self.step
    }

    /// Begins a step for mail.
    pub(super) fn next_step(&mut self) -> u32 {
        self.close();
        self.answered = false;
        self.step += 1;
        self.step
    }

    /// Bytes of text so far.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of text that may still go on or are not durable yet.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether it neither said nor did anything.
    pub(super) fn is_silent(&self) -> bool {
        self.silent
    }

    /// The last text, for the end of the turn.
    pub(super) fn last_text(&self) -> Option<String> {
        let text = self.last_text.trim();
        (!text.is_empty()).then(|| shorten(text, LAST_TEXT_BYTES))
    }

    /// What the agent was given.
    pub(super) fn given(&mut self, text: String) {
        self.last_text.clear();
        self.push(Content::Given { text });
    }

    pub(super) fn said(&mut self, text: &str) {
        self.begin();
        if self.last_text.len() < ITEM_BYTES {
            self.last_text.push_str(text);
        }
        match &mut self.open {
            Some(Content::Said { text: open }) if open.len() < ITEM_BYTES => open.push_str(text),
            _ => self.reopen(Content::Said { text: text.to_owned() }),
        }
        self.count(text);
    }

    pub(super) fn thought(&mut self, text: &str) {
        self.begin();
        match &mut self.open {
            Some(Content::Thought { text: open, .. }) if open.len() < ITEM_BYTES => {
                open.push_str(text);
            }
            _ => self.reopen(Content::Thought { text: text.to_owned(), signature: None }),
        }
        self.count(text);
    }

    pub(super) fn called(&mut self, call: &str, tool: &str, input: Value) {
        self.begin();
        self.silent = false;
        self.last_text.clear();
        self.push(Content::Called { call: call.to_owned(), tool: tool.to_owned(), input });
    }

    pub(super) fn got(&mut self, call: &str, output: String, ok: bool) {
        self.close();
        self.answered = true;
        self.push(Content::Got { call: call.to_owned(), output, ok, images: Vec::new() });
    }

    /// Takes what is to be made durable; with text that may still go on where `all` is wanted.
    pub(super) fn take(&mut self, all: bool) -> Vec<Item> {
        if all {
            self.close();
        }
        let open = match &self.open {
            Some(Content::Said { text } | Content::Thought { text, .. }) => text.len(),
            Some(_) | None => 0,
        };
        self.waiting = open;
        std::mem::take(&mut self.items)
    }

    fn count(&mut self, text: &str) {
        self.silent &= text.trim().is_empty();
        self.bytes += text.len();
        self.waiting += text.len();
    }

    fn begin(&mut self) {
        if std::mem::take(&mut self.answered) {
            self.close();
            self.step += 1;
        }
    }

    fn reopen(&mut self, content: Content) {
        self.close();
        self.open = Some(content);
    }

    fn close(&mut self) {
        if let Some(content) = self.open.take() {
            self.items.push(Item { turn: self.turn, step: self.step, content });
        }
    }

    fn push(&mut self, content: Content) {
        self.close();
        self.items.push(Item { turn: self.turn, step: self.step, content });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_items_and_answers_begin_steps() {
        let mut log = Log::new(TurnId(7));
        log.given("mail".to_owned());
        log.thought("let me ");
        log.thought("see");
        log.said("I ");
        log.said("look");
        log.called("c1", "Read", Value::Null);
        log.got("c1", "text".to_owned(), true);
        assert_eq!(log.last_text(), None);
        log.said("done");
        assert_eq!((log.last_text().as_deref(), log.step()), (Some("done"), 1));
        let all: Vec<String> = log
            .take(true)
            .into_iter()
            .map(|Item { turn, step, content }| match content {
                Content::Given { text } => format!("{turn} {step} given {text}"),
                Content::Said { text } => format!("{turn} {step} said {text}"),
                Content::Thought { text, .. } => format!("{turn} {step} thought {text}"),
                Content::Called { tool, .. } => format!("{turn} {step} called {tool}"),
                Content::Got { output, .. } => format!("{turn} {step} got {output}"),
                Content::Summary { .. } => "summary".to_owned(),
            })
            .collect();
        assert_eq!(
            all,
            [
                "t7 0 given mail",
                "t7 0 thought let me see",
                "t7 0 said I look",
                "t7 0 called Read",
                "t7 0 got text",
                "t7 1 said done",
            ]
        );
        assert!(log.take(true).is_empty() && !log.is_silent());
    }

    #[test]
    fn white_space_is_no_answer() {
        let mut log = Log::new(TurnId(1));
        log.said("\n ");
        assert!(log.is_silent() && log.last_text().is_none());
    }
}
