//! The loop of a team: short, without a lock, and never waiting for a runner; with the lock rules of all.

use super::scan::closing;
use super::{Law, Source, Tree, Violation};

const SESSION: &str = "crates/runtime/src/session.rs";
const LONGEST: usize = 399;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    if let Some(source) = tree.sources().iter().find(|s| s.path == SESSION) {
        check_session(source, &mut found);
    } else if tree.sources_in("crates/runtime/src/").count() > 1 {
        let instead = "the loop of a team lives here: correct SESSION in xtask/src/tidy/session.rs";
        found.push(Violation::new(Law::StaleList, SESSION, 1, instead));
    }
    for source in tree.sources().iter().filter(|s| !s.path.starts_with("xtask/")) {
        check_async_locks(source, &mut found);
    }
    found
}

fn check_session(source: &Source, found: &mut Vec<Violation>) {
    let length = source.text.lines().count();
    if length > LONGEST {
        let instead = format!(
            "{length} lines: move what is not the loop into its own file, the loop stays under 400"
        );
        found.push(Violation::new(Law::Session, &source.path, length, instead));
    }
    for lock in ["Mutex", "RwLock", "Semaphore"] {
        found.extend(source.lines_with(lock).map(|line| {
            let instead = "a session owns its state: no lock; others hold a handle";
            Violation::new(Law::Session, &source.path, line, instead)
        }));
    }
    for (at, call) in source.code.match_indices(".send(") {
        let open = at + call.len() - 1;
        let Some(end) = closing(&source.code, open) else {
            continue;
        };
        if source.code[end..].trim_start().starts_with(".await") {
            let instead =
                "a session never awaits a runner: use `try_send`; full means the runner failed";
            found.push(Violation::new(Law::Session, &source.path, source.line_at(at), instead));
        }
    }
}

/// Locks that are made to be held across an await. Clippy holds the others to it.
fn check_async_locks(source: &Source, found: &mut Vec<Violation>) {
    for (number, line) in source.lines() {
        let imports = line.contains("tokio::sync::") || line.contains("futures::lock");
        let locks = ["Mutex", "RwLock"].iter().any(|l| super::scan::holds_word(line, l));
        if imports && locks {
            let instead =
                "no lock across an await: let one task own the state and send it messages";
            found.push(Violation::new(Law::LockAcrossAwait, &source.path, number, instead));
        }
    }
}
