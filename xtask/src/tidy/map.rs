//! ARCHITECTURE.md keeps step with the code: short, and with a row for every effect and crate.

use super::scan::closing;
use super::{CRATES, Law, Tree, Violation};

const MAP: &str = "ARCHITECTURE.md";
const LONGEST: usize = 299;
const EFFECTS: &str = "crates/core/src/effect.rs";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let text = tree.text(MAP).unwrap_or_default();
    let mut found = Vec::new();
    let length = text.lines().count();
    if length > LONGEST {
        let instead = format!("{length} lines: a map has under 300, move detail to docs/");
        found.push(Violation::new(Law::Map, MAP, length, instead));
    }
    let mut need_row = |begin: &str, what: &str| {
        if !text.lines().any(|line| line.starts_with(begin)) {
            let instead = format!("has no row for {what}: add one that begins `{begin}`");
            found.push(Violation::new(Law::Map, MAP, 1, instead));
        }
    };
    for member in &CRATES {
        need_row(&format!("| `{}` |", member.directory), "this crate");
    }
    for effect in effects(tree) {
        need_row(&format!("| `{effect}` |"), "this effect");
    }
    found
}

/// The variants of `Effect`.
fn effects(tree: &Tree) -> Vec<String> {
    let Some(source) = tree.sources().iter().find(|s| s.path == EFFECTS) else { return Vec::new() };
    let head = "pub enum Effect {";
    let Some(at) = source.code.find(head) else { return Vec::new() };
    let end = closing(&source.code, at + head.len() - 1).unwrap_or(source.code.len());
    // Variants stand one step in, their fields two.
    source.code[at + head.len()..end]
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()))
        .map(|line| line.chars().take_while(|c| c.is_alphanumeric()).collect())
        .collect()
}
