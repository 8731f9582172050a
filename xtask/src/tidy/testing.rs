//! What tests never do, and what finished code never holds.

use super::{Law, Tree, Violation};

/// Words of unfinished code. In two parts, so that this file has none.
const UNFINISHED: [(&str, &str); 2] = [("todo", "!("), ("unimplemented", "!(")];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in tree.sources() {
        for (number, line) in source.lines() {
            if line.contains("#[ignore") {
                let instead = "run the test or delete it: an ignored test proves nothing";
                found.push(Violation::new(Law::IgnoredTest, &source.path, number, instead));
            }
            if source.is_test(number) && super::scan::holds_word(line, "sleep(") {
                let instead = "wait for the event itself, or advance virtual time";
                found.push(Violation::new(Law::SleepingTest, &source.path, number, instead));
            }
            for (name, call) in UNFINISHED {
                if super::scan::holds_word(line, &format!("{name}{call}")) {
                    let instead = "write it, or leave it out: nothing pretends to be done";
                    found.push(Violation::new(Law::Unfinished, &source.path, number, instead));
                }
            }
        }
    }
    found
}
