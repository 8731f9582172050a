//! The laws of the house as checks on its text; reads the repository, never changes or builds it.
//!
//! Each file holds one family of laws as plain functions from a [`Tree`] to [`Violation`]s. Every
//! [`Law`] has a fixture in `tests/it/fixtures.rs` that breaks it.

mod arrows;
mod composition;
mod house;
mod language;
mod law;
mod lints;
mod map;
mod pages;
mod purity;
mod scan;
mod session;
mod shape;
mod state;
mod testing;
mod tree;

pub use house::{CRATES, Member};
pub use law::{Law, Violation, check};
pub use scan::{Literal, Source};
pub use tree::Tree;
