//! State has private fields, so that only `Team::evolve` sets it.

use super::scan::closing;
use super::{Law, Tree, Violation};

/// The structs of `core` that are state, with the file that owns each.
const STATE: [(&str, &str); 9] = [
    ("Team", "crates/core/src/team"),
    ("Agent", "crates/core/src/agent.rs"),
    ("TokenBucket", "crates/core/src/agent.rs"),
    ("Turn", "crates/core/src/turn.rs"),
    ("Mailbox", "crates/core/src/mailbox.rs"),
    ("Entry", "crates/core/src/mailbox.rs"),
    ("Task", "crates/core/src/task.rs"),
    ("TaskBoard", "crates/core/src/task.rs"),
    ("Budget", "crates/core/src/budget.rs"),
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (name, home) in STATE {
        let head = format!("pub struct {name} {{");
        let mut seen = false;
        for source in tree.sources_in(home) {
            let Some(at) = source.code.find(&head) else {
                continue;
            };
            seen = true;
            let open = at + head.len() - 1;
            let end = closing(&source.code, open).unwrap_or(source.code.len());
            let first = source.line_at(open);
            for (line, text) in (first..).zip(source.code[open..end].lines()) {
                if text.trim_start().starts_with("pub ") {
                    found.push(Violation::new(
                        Law::PrivateState,
                        &source.path,
                        line,
                        format!(
                            "make the field private to core and add a getter: only \
                                 `Team::evolve` sets the state of a {name}"
                        ),
                    ));
                }
            }
        }
        if !seen {
            let instead =
                format!("no `pub struct {name}` there: correct STATE in xtask/src/tidy/state.rs");
            found.push(Violation::new(Law::StaleList, home, 1, instead));
        }
    }
    found
}
