//! What never occurs in `core`'s sources: the world.

use super::{Law, Tree, Violation};

const DIRECTORY: &str = "crates/core/src/";
const LINTS: &str = "crates/core/clippy.toml";

/// Words of the world, each with the way to do without.
const WORDS: [(&str, &str); 31] = [
    ("async", "core never waits: return events, and let runtime do the waiting"),
    (".await", "core never waits: return events, and let runtime do the waiting"),
    ("Future", "core never waits: return events, and let runtime do the waiting"),
    ("Mutex", "core shares nothing: take `&self` or `&mut self`"),
    ("RwLock", "core shares nothing: take `&self` or `&mut self`"),
    ("RefCell", "core shares nothing: take `&self` or `&mut self`"),
    ("OnceLock", "core has no statics: take the value as an argument"),
    ("LazyLock", "core has no statics: take the value as an argument"),
    ("thread_local", "core has no statics: take the value as an argument"),
    ("static mut", "core has no statics: take the value as an argument"),
    ("std::fs", "core does no I/O: return an effect"),
    ("std::io", "core does no I/O: return an effect"),
    ("std::net", "core does no I/O: return an effect"),
    ("std::process", "core does no I/O: return an effect"),
    ("std::thread", "core spawns nothing: return an effect"),
    ("std::env", "core reads no environment: take the value as an argument"),
    ("tokio", "core spawns nothing: return an effect"),
    ("Instant", "core reads no clock: take `now` as an argument"),
    ("SystemTime", "core reads no clock: take `now` as an argument"),
    ("HashMap", "core's maps are ordered: use `BTreeMap`"),
    ("HashSet", "core's sets are ordered: use `BTreeSet`"),
    ("rand", "core draws nothing: what is random enters in a command"),
    ("getrandom", "core draws nothing: what is random enters in a command"),
    ("println!", "core logs nothing: return an event"),
    ("eprintln!", "core logs nothing: return an event"),
    ("print!", "core logs nothing: return an event"),
    ("eprint!", "core logs nothing: return an event"),
    ("dbg!", "core logs nothing: return an event"),
    ("tracing", "core logs nothing: return an event"),
    ("f32", "core computes in integers: use micro-units"),
    ("f64", "core computes in integers: use micro-units"),
];

/// What `crates/core/clippy.toml` has to name, so that the compiler holds it too.
const BANNED_BY_CLIPPY: [&str; 12] = [
    "allow-unwrap-in-tests = true",
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "std::thread::spawn",
    "std::thread::sleep",
    "std::env::var",
    "std::fs::read",
    "std::fs::write",
    "std::collections::HashMap",
    "std::collections::HashSet",
    "std::sync::Mutex",
    "std::sync::RwLock",
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in tree.sources_in(DIRECTORY) {
        for (word, instead) in WORDS {
            found.extend(
                source
                    .lines_with(word)
                    .map(|line| Violation::new(Law::CorePurity, &source.path, line, instead)),
            );
        }
    }
    let lints = tree.text(LINTS).unwrap_or_default();
    for entry in BANNED_BY_CLIPPY {
        if !lints.contains(entry) {
            let instead = format!("{LINTS} has to name `{entry}`");
            found.push(Violation::new(Law::CorePurity, LINTS, 1, instead));
        }
    }
    found
}
