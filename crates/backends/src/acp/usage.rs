//! What a session used, as agents tell it: sums that only grow, of which a turn's share is the
//! difference; it guesses nothing.

use aion_core::budget::Usage;
use serde_json::Value;

/// What a session has used so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meter {
    told: Usage,
    /// What of it was reported.
    reported: Usage,
}

impl Meter {
    /// The session has cost so much so far.
    pub(super) fn cost(&mut self, micro_usd: u64) {
        self.told.micro_usd = self.told.micro_usd.max(micro_usd);
    }

    /// The answer to a prompt, which may tell the tokens of the session so far.
    pub(super) fn answered(&mut self, answer: &Value) {
        let usage = &answer["usage"];
        let grown = |known: &mut u64, field: &str| {
            *known = usage[field].as_u64().unwrap_or_default().max(*known);
        };
        grown(&mut self.told.input, "inputTokens");
        grown(&mut self.told.output, "outputTokens");
        grown(&mut self.told.reasoning, "thoughtTokens");
        grown(&mut self.told.cache_read, "cachedReadTokens");
        grown(&mut self.told.cache_write, "cachedWriteTokens");
    }

    /// What was used since this was asked last; none where that is nothing.
    pub(super) fn take(&mut self) -> Option<Usage> {
        let (told, reported) = (self.told, self.reported);
        self.reported = told;
        let share = Usage {
            input: told.input.saturating_sub(reported.input),
            output: told.output.saturating_sub(reported.output),
            cache_read: told.cache_read.saturating_sub(reported.cache_read),
            cache_write: told.cache_write.saturating_sub(reported.cache_write),
            reasoning: told.reasoning.saturating_sub(reported.reasoning),
            micro_usd: told.micro_usd.saturating_sub(reported.micro_usd),
        };
        (share != Usage::default()).then_some(share)
    }
}
