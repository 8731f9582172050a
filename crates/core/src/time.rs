//! Points and spans of a team's running time; it never reads a clock.
//!
//! `now` is a running clock per team: it starts at the last recorded event and advances by the
//! machine's monotonic clock, so that downtime and suspended laptops expire nothing.

use std::fmt;
use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

/// A point of a team's running time, in milliseconds since the Unix epoch at the team's creation.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

/// A span of running time in milliseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// So many seconds.
    #[must_use]
    pub const fn seconds(n: u64) -> Self {
        Self(n * 1_000)
    }

    /// So many minutes.
    #[must_use]
    pub const fn minutes(n: u64) -> Self {
        Self(n * 60_000)
    }

    /// So many hours.
    #[must_use]
    pub const fn hours(n: u64) -> Self {
        Self(n * 3_600_000)
    }
}

impl Add<Millis> for Timestamp {
    type Output = Self;
    fn add(self, span: Millis) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub for Timestamp {
    type Output = Millis;
    /// The span from `earlier` to `self`; zero if the order is the other way round.
    fn sub(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}
