//! Tokens and money: reserved before a model call, settled after it; integers only.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::TurnId;

/// An amount of tokens and of money in millionths of a US dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Tokens of any kind.
    pub tokens: u64,
    /// Millionths of a US dollar.
    pub micro_usd: u64,
}

impl Amount {
    fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            micro_usd: self.micro_usd.saturating_add(other.micro_usd),
        }
    }
}

/// What a model call used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens read, without those from a cache.
    pub input: u64,
    /// Tokens written, reasoning included.
    pub output: u64,
    /// Tokens read from a cache.
    pub cache_read: u64,
    /// Tokens written to a cache.
    pub cache_write: u64,
    /// Of the output: tokens spent on reasoning.
    pub reasoning: u64,
    /// What it cost, in millionths of a US dollar.
    pub micro_usd: u64,
}

impl Usage {
    /// The sum of two.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            reasoning: self.reasoning.saturating_add(other.reasoning),
            micro_usd: self.micro_usd.saturating_add(other.micro_usd),
        }
    }

    /// What counts against a cap.
    #[must_use]
    pub fn amount(self) -> Amount {
        Amount {
            tokens: self
                .input
                .saturating_add(self.output)
                .saturating_add(self.cache_read)
                .saturating_add(self.cache_write),
            micro_usd: self.micro_usd,
        }
    }
}

/// A cap on what a team may use. Zero in a field means "no cap on it".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cap {
    /// The most the team may use.
    pub most: Amount,
    /// What one model call may use at worst; reserved with a turn's first call.
    pub per_call: Amount,
}

impl Cap {
    fn holds(self, sum: Amount) -> bool {
        (self.most.tokens == 0 || sum.tokens <= self.most.tokens)
            && (self.most.micro_usd == 0 || sum.micro_usd <= self.most.micro_usd)
    }
}

/// The team's spending. Invariant while a cap stands: used + reserved ≤ cap, up to what backends
/// that report afterwards add.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    pub(crate) cap: Option<Cap>,
    pub(crate) used: Amount,
    pub(crate) usage: Usage,
    pub(crate) reserved: BTreeMap<TurnId, Amount>,
}

impl Budget {
    /// The cap, if one stands.
    pub fn cap(&self) -> Option<Cap> {
        self.cap
    }
    /// What was used.
    pub fn used(&self) -> Amount {
        self.used
    }
    /// What was used, by kind of token.
    pub fn usage(&self) -> Usage {
        self.usage
    }
    /// What running calls may still use.
    pub fn reserved(&self) -> Amount {
        self.reserved.values().fold(Amount::default(), |sum, a| sum.plus(*a))
    }

    /// Whether `turn` may make a call of `worst`, given that its earlier reservation is settled.
    pub(crate) fn allows(&self, turn: Option<TurnId>, settled: Amount, worst: Amount) -> bool {
        let Some(cap) = self.cap else { return true };
        let others = self
            .reserved
            .iter()
            .filter(|(t, _)| Some(**t) != turn)
            .fold(Amount::default(), |sum, (_, a)| sum.plus(*a));
        cap.holds(self.used.plus(settled).plus(others).plus(worst))
    }

    /// Whether a call of `worst` would fit if nobody else had reserved anything.
    pub(crate) fn has_room(&self, worst: Amount) -> bool {
        self.cap.is_none_or(|cap| cap.holds(self.used.plus(worst)))
    }

    /// What the next call of a turn may use at worst, if a cap stands.
    pub(crate) fn first_call(&self) -> Option<Amount> {
        self.cap.map(|cap| cap.per_call)
    }

    pub(crate) fn reserve(&mut self, turn: TurnId, amount: Amount) {
        self.reserved.insert(turn, amount);
    }

    pub(crate) fn settle(&mut self, turn: TurnId, usage: Usage) {
        self.reserved.remove(&turn);
        self.record(usage);
    }

    pub(crate) fn record(&mut self, usage: Usage) {
        self.used = self.used.plus(usage.amount());
        self.usage = self.usage.plus(usage);
    }
}
