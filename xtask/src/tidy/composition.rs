//! Where things are put together, and who never decides.

use super::{Law, Tree, Violation};

/// Concrete stores with the crate that makes them.
const CONCRETE: [(&str, &str); 9] = [
    ("SqliteStore", "crates/store/"),
    ("MemoryStore", "crates/store/"),
    ("PostgresStore", "crates/store/"),
    ("InProcessBackend", "crates/backends/"),
    ("AcpBackend", "crates/backends/"),
    ("PaneBackend", "crates/backends/"),
    ("TmuxBackend", "crates/backends/"),
    ("ITerm2Backend", "crates/backends/"),
    ("ClaudeInbox", "crates/backends/"),
];
const ROOT: &str = "crates/cli/src/daemon.rs";

/// Calls that decide a command. What a team is called when its own rules are meant.
const DECIDES: [&str; 8] = [
    "Team::decide",
    "Team::handle",
    "Team::react",
    "team.decide(",
    "team.handle(",
    "team.react(",
    "state.decide(",
    "state.handle(",
];
const TRANSLATORS: [&str; 2] = ["crates/server/src/", "crates/cli/src/"];

/// The one place that may compare a text with a keyword (DESIGN 5.4), and where the words come from.
const KEYWORDS: [&str; 2] = ["shutdown_approved", "shutdown_rejected:"];
const KEYWORD_HOME: &str = "crates/core/src/shutdown.rs";
/// Comparisons of a text with a literal.
const COMPARISONS: [&str; 5] = ["==", "!=", "starts_with", "strip_prefix", "contains("];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in tree.sources() {
        if source.path.starts_with("xtask/") {
            continue;
        }
        let is_root = source.path == ROOT || source.path.starts_with("crates/testkit/");
        for (name, home) in CONCRETE {
            if is_root || source.path.starts_with(home) {
                continue;
            }
            found.extend(source.lines_with(name).filter(|line| !source.is_test(*line)).map(
                |line| {
                    let instead = format!(
                        "take the trait: only {ROOT} and tests name `{name}`, the concrete one"
                    );
                    Violation::new(Law::Composition, &source.path, line, instead)
                },
            ));
        }
        if TRANSLATORS.iter().any(|directory| source.path.starts_with(directory)) {
            for call in DECIDES {
                found.extend(source.lines_with(call).filter(|line| !source.is_test(*line)).map(
                    |line| {
                        let instead = "server and cli only translate: submit a command to the \
                                       team's handle";
                        Violation::new(Law::NobodyDecides, &source.path, line, instead)
                    },
                ));
            }
        }
        if source.path != KEYWORD_HOME {
            for literal in &source.literals {
                let keyword = KEYWORDS.iter().any(|word| literal.text.starts_with(word));
                let line = source.code.lines().nth(literal.line - 1).unwrap_or_default();
                let compared = COMPARISONS.iter().any(|c| line.contains(c));
                if keyword && compared && !source.is_test(literal.line) {
                    found.push(Violation::new(
                        Law::ProtocolInProse,
                        &source.path,
                        literal.line,
                        "a text is never compared with a keyword: match on `ProtocolMessage`; \
                         the one exception stands in crates/core/src/shutdown.rs",
                    ));
                }
            }
        }
    }
    found
}
