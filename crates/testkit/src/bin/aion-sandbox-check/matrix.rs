//! The table of what was tried and what held; it judges nothing.

use std::collections::BTreeSet;

use crate::cases::KNOWN;
use crate::trial::{Results, say, tell};

/// Shows the results; answers how many attempts got through.
pub(crate) fn show(results: &Results, table_alone: bool) -> usize {
    let (mut broken, mut open) = (0, 0);
    for outcome in &results.outcomes {
        if !outcome.held {
            let known =
                KNOWN.iter().any(|(wall, id, _)| *wall == outcome.wall && *id == outcome.id);
            if known {
                open += 1;
                continue;
            }
            broken += 1;
            tell(&format!(
                "NOT HELD  {} {} ({}): {}",
                outcome.wall, outcome.id, outcome.what, outcome.evidence
            ));
        }
    }
    for missing in &results.missing {
        tell(&format!("left out: {missing}"));
    }
    let mut seen = BTreeSet::new();
    let mut rows = Vec::new();
    for outcome in &results.outcomes {
        if !seen.insert(&outcome.id) {
            continue;
        }
        let cell = |wall: &str| {
            let of_wall = |o: &&crate::trial::Outcome| o.id == outcome.id && o.wall == wall;
            let all: Vec<_> = results.outcomes.iter().filter(of_wall).collect();
            if all.is_empty() {
                return "–".to_owned();
            }
            if all.iter().any(|outcome| !outcome.held) {
                return "**open**".to_owned();
            }
            let words: BTreeSet<&str> = all.iter().map(|outcome| &*outcome.how).collect();
            words.into_iter().collect::<Vec<_>>().join(" / ")
        };
        let (one, other) = (cell("bubblewrap"), cell("landlock"));
        rows.push(format!("| {} | {} | {one} | {other} |", outcome.id, outcome.what));
    }
    say("| # | Tried | bubblewrap | Landlock |");
    say("|---|---|---|---|");
    for row in &rows {
        say(row);
    }
    for (wall, id, why) in KNOWN {
        say(&format!("\nOpen behind {wall}, {id}: {why}."));
    }
    if !table_alone {
        say(&format!(
            "sandbox: {} attempts, {broken} got through, {open} more that are known to; walls: {}",
            results.outcomes.len(),
            results.walls.join(", ")
        ));
    }
    broken
}
