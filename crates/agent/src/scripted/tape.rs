//! What an agent received, piece by piece, and what conditions find on it; it fires no rule.

use std::ops::Range;

use super::scenario::{Condition, LookAt};

/// A match on the tape.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) piece: usize,
    pub(super) range: Range<usize>,
    pub(super) groups: Vec<(String, String)>,
}

/// One piece of the tape.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) number: usize,
    pub(super) text: String,
    pub(super) from: From,
}

#[derive(Clone, Debug)]
pub(super) enum From {
    Given,
    Result { tool: String, ok: bool, call: Option<(usize, usize)>, problem: Option<String> },
}

impl Found {
    pub(super) fn overlaps(&self, (piece, range): &(usize, Range<usize>)) -> bool {
        self.piece == *piece && self.range.start < range.end && range.start < self.range.end
    }
}

impl Condition {
    pub(super) fn looks_at(&self, from: &From) -> bool {
        match (&self.look_at, from) {
            (LookAt::Seen, _) | (LookAt::Given, From::Given) => true,
            (LookAt::Result { tool: wanted, ok: wanted_ok }, From::Result { tool, ok, .. }) => {
                wanted.as_ref().is_none_or(|wanted| wanted == tool)
                    && wanted_ok.is_none_or(|wanted| wanted == *ok)
            }
            (LookAt::Given, From::Result { .. }) | (LookAt::Result { .. }, From::Given) => false,
        }
    }
}

/// Everything that a condition finds in a text. An empty match is none.
pub(super) fn matches(condition: &Condition, piece: usize, text: &str) -> Vec<Found> {
    condition
        .pattern
        .captures_iter(text)
        .filter_map(|captures| {
            let range = captures.get(0)?.range();
            let groups = groups(&condition.pattern, &captures);
            (!range.is_empty()).then_some(Found { piece, range, groups })
        })
        .collect()
}

pub(super) fn groups(
    pattern: &regex::Regex,
    captures: &regex::Captures<'_>,
) -> Vec<(String, String)> {
    pattern
        .capture_names()
        .flatten()
        .filter_map(|name| Some((name.to_owned(), captures.name(name)?.as_str().to_owned())))
        .collect()
}
