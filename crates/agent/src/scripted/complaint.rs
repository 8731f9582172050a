//! What is said when a scenario does not go on: what came, what was expected, which rules are open.

use std::fmt::Write;

use aion_core::message::shorten;

use super::matcher::Progress;
use super::scenario::{Kind, Rule};
use super::tape::From;

/// Bytes of each received piece that an error shows.
const SHOWN_BYTES: usize = 600;

impl Progress {
    /// An error with everything that helps to find the mistake.
    pub(super) fn complaint(&self, rules: &[Rule], problem: &str) -> String {
        let mut out = problem.to_owned();
        out.push_str("\nreceived since its last answer:");
        // Writing to a string cannot fail.
        for piece in &self.fresh {
            let text = shorten(&piece.text, SHOWN_BYTES);
            let _ = match &piece.from {
                From::Given => write!(out, "\n  given: {text:?}"),
                From::Result { tool, ok, .. } => {
                    write!(
                        out,
                        "\n  result of {tool} ({}): {text:?}",
                        if *ok { "ok" } else { "failed" }
                    )
                }
            };
        }
        out.push_str("\nopen rules, and what they wait for:");
        let mut none = true;
        for (place, rule) in rules.iter().enumerate().filter(|(p, r)| self.is_open(r, *p)) {
            none = false;
            let otherwise = if rule.kind == Kind::Otherwise { "otherwise, " } else { "" };
            let _ = write!(out, "\n  {}: {otherwise}", rule.label);
            let mut waits: Vec<String> = rule
                .when
                .iter()
                .zip(&self.found[place])
                .filter(|(condition, found)| found.len() < condition.times)
                .map(|(condition, found)| match condition.times {
                    1 => condition.text.clone(),
                    times => format!("{} ({} of {times} times)", condition.text, found.len()),
                })
                .collect();
            waits.extend(
                rule.after
                    .iter()
                    .filter(|other| self.fired[**other] == 0)
                    .map(|other| format!("rule {}", rules[*other].label)),
            );
            out.push_str(&waits.join(" and "));
        }
        if none {
            out.push_str(" none");
        }
        let fired: Vec<&str> = rules
            .iter()
            .zip(&self.fired)
            .filter(|(_, count)| **count > 0)
            .map(|(rule, _)| rule.label.as_str())
            .collect();
        let _ = write!(
            out,
            "\nfired: {}",
            if fired.is_empty() { "none".to_owned() } else { fired.join(", ") }
        );
        out
    }
}
