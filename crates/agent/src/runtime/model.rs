//! One model call, collected into transcript content; it records nothing.

use std::collections::BTreeSet;

use aion_core::budget::Usage;
use aion_core::transcript::Content;
use aion_core::turn::CallId;
use futures::StreamExt;

use crate::host::Delta;
use crate::provider::{ModelEvent, ModelRequest, ProviderError, StopReason};

use super::AgentRuntime;

/// What a model has answered so far.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// Its parts, in order.
    pub(super) content: Vec<Content>,
    /// What the call used, as far as the provider said.
    pub(super) usage: Option<Usage>,
    /// Why it stopped; none while it is being read.
    pub(super) stop: Option<StopReason>,
}

impl Answer {
    /// Reads one answer. What has arrived stays in `self` if the future is dropped.
    pub(super) async fn read(
        &mut self,
        runtime: &AgentRuntime,
        request: ModelRequest,
        used_ids: &BTreeSet<CallId>,
    ) -> Result<(), ProviderError> {
        let (turn, step) = (request.turn, request.step);
        let mut stream = runtime.provider.stream(request);
        while let Some(event) = stream.next().await {
            match event? {
                ModelEvent::Text(text) if text.is_empty() => {}
                ModelEvent::Text(text) => {
                    runtime.host.delta(turn, Delta::Text { step, text: text.clone() });
                    match self.content.last_mut() {
                        Some(Content::Said { text: said }) => said.push_str(&text),
                        _ => self.content.push(Content::Said { text }),
                    }
                }
                ModelEvent::Thought { text, signature } => {
                    runtime.host.delta(turn, Delta::Thought { step, text: text.clone() });
                    match self.content.last_mut() {
                        // A signature closes its part.
                        Some(Content::Thought { text: thought, signature: open @ None }) => {
                            thought.push_str(&text);
                            *open = signature;
                        }
                        _ => self.content.push(Content::Thought { text, signature }),
                    }
                }
                ModelEvent::ToolCall { call, tool, input } => {
                    let call = self.unique(call, used_ids);
                    self.content.push(Content::Called { call, tool, input });
                }
                ModelEvent::Usage(usage) => self.usage = Some(usage),
                ModelEvent::Stop(reason) => {
                    self.stop = Some(reason);
                    return Ok(());
                }
            }
        }
        Err(ProviderError::Broken("the stream ended without a stop".into()))
    }

    /// What was said and thought, without the calls: for an answer that nobody waits for.
    pub(super) fn words(self) -> Vec<Content> {
        self.content.into_iter().filter(|c| !matches!(c, Content::Called { .. })).collect()
    }

    /// An id is a call's identity in its turn, so one that was used already gets a number.
    fn unique(&self, call: CallId, used: &BTreeSet<CallId>) -> CallId {
        let taken = |id: &str| {
            used.contains(id)
                || self
                    .content
                    .iter()
                    .any(|c| matches!(c, Content::Called { call, .. } if call == id))
        };
        if !call.is_empty() && !taken(&call) {
            return call;
        }
        let base = if call.is_empty() { "call" } else { &call };
        (2..u32::MAX).map(|n| format!("{base}-{n}")).find(|id| !taken(id)).unwrap_or(call)
    }
}
