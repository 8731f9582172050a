//! Developer commands: `test`, `check` (= test without simulation, kills and browsers), `bench`, `sim`, `tidy`, code generation; starts binaries, links nothing of ours.

pub mod browser;
pub mod dist;
pub mod empty_root;
pub mod notices;
pub mod pages;
pub mod python;
pub mod sandbox;
pub mod steps;
pub mod suite;
pub mod tidy;
