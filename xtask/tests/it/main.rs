//! Tests of the laws (a small house that keeps them all, and one fixture per way to break one), and of
//! a release.

#![expect(clippy::unwrap_used, reason = "tests")]

mod fixtures;
mod house;
mod release;
