//! What an agent used: the tokens of each prompt, and the cost of the session so far, of which a
//! turn's share is the difference; it guesses nothing.

use aion_core::budget::Usage;
use serde_json::Value;

/// What a session has used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meter {
    /// Since it was reported last.
    unreported: Usage,
    /// The cost of the session so far, in millionths of a US dollar.
    cost: u64,
}

impl Meter {
    /// The session has cost so much so far.
    pub(super) fn cost(&mut self, micro_usd: u64) {
        let share = micro_usd.saturating_sub(self.cost);
        self.cost = self.cost.max(micro_usd);
        self.unreported = self.unreported.plus(Usage { micro_usd: share, ..Usage::default() });
    }

    /// The answer to a prompt. The protocol's text has its tokens add up over a session; the agents
    /// that tell them begin anew with each prompt.
    pub(super) fn answered(&mut self, answer: &Value) {
        let count = |field: &str| answer["usage"][field].as_u64().unwrap_or_default();
        self.unreported = self.unreported.plus(Usage {
            input: count("inputTokens"),
            output: count("outputTokens"),
            cache_read: count("cachedReadTokens"),
            cache_write: count("cachedWriteTokens"),
            reasoning: count("thoughtTokens"),
            micro_usd: 0,
        });
    }

    /// What was used since this was asked last; none where that is nothing.
    pub(super) fn take(&mut self) -> Option<Usage> {
        let unreported = std::mem::take(&mut self.unreported);
        (unreported != Usage::default()).then_some(unreported)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tokens_are_a_prompts_and_the_cost_is_the_sessions() {
        let mut meter = Meter::default();
        let usage =
            json!({ "usage": { "inputTokens": 10, "outputTokens": 5, "thoughtTokens": null } });
        meter.answered(&usage);
        meter.cost(300);
        let share = |micro_usd| Some(Usage { input: 10, output: 5, micro_usd, ..Usage::default() });
        assert_eq!(meter.take(), share(300));
        meter.answered(&usage);
        meter.cost(450);
        // What costs less than before is no session of ours.
        meter.cost(100);
        assert_eq!(meter.take(), share(150));
        meter.answered(&json!({ "stopReason": "end_turn", "usage": null }));
        assert_eq!(meter.take(), None);
    }
}
