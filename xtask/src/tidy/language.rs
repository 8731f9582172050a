//! One translator per language: who may name a foreign format's crates, and who its words.

use super::arrows::{Kind, dependencies};
use super::{CRATES, Law, Source, Tree, Violation};

/// A crate that speaks a language, and the places that may name it.
struct Speaker {
    package: &'static str,
    places: &'static [&'static str],
    language: &'static str,
}

const SQL: &[&str] = &["crates/store/"];
const HTTP_SERVED: &[&str] = &["crates/server/", "crates/testkit/"];
const HTTP: &[&str] = &["crates/server/", "crates/agent/", "crates/cli/", "crates/testkit/"];
/// The words of HTTP describe themselves; they are spoken elsewhere.
const HTTP_DESCRIBED: &[&str] = &["crates/api/", "crates/server/", "crates/testkit/"];
const HTTP_CALLED: &[&str] = &["crates/agent/", "crates/cli/", "crates/testkit/"];
// The last is a stand-in for the tests of the one before it.
const MCP: &[&str] = &["crates/server/src/mcp", "crates/agent/src/mcp", "crates/agent/probe"];
const ACP: &[&str] = &["crates/backends/src/acp"];

const SPEAKERS: [Speaker; 15] = [
    Speaker { package: "rusqlite", places: SQL, language: "SQL" },
    Speaker { package: "libsqlite3-sys", places: SQL, language: "SQL" },
    Speaker { package: "sqlx", places: SQL, language: "SQL" },
    Speaker { package: "tokio-postgres", places: SQL, language: "SQL" },
    Speaker { package: "axum", places: HTTP_SERVED, language: "HTTP" },
    Speaker { package: "tower-http", places: HTTP_SERVED, language: "HTTP" },
    Speaker { package: "utoipa", places: HTTP_DESCRIBED, language: "HTTP" },
    Speaker { package: "hyper", places: HTTP, language: "HTTP" },
    Speaker { package: "hyper-util", places: HTTP, language: "HTTP" },
    Speaker { package: "tokio-tungstenite", places: HTTP, language: "HTTP" },
    Speaker { package: "reqwest", places: HTTP_CALLED, language: "HTTP" },
    Speaker { package: "genai", places: &["crates/agent/"], language: "a model provider" },
    Speaker { package: "rmcp", places: MCP, language: "MCP" },
    Speaker { package: "agent-client-protocol", places: ACP, language: "ACP" },
    Speaker { package: "agent-client-protocol-schema", places: ACP, language: "ACP" },
];

/// Beginnings of SQL statements, as they stand in string literals.
const STATEMENTS: [(&str, &str); 8] = [
    ("SELECT ", ""),
    ("INSERT ", " INTO "),
    ("INSERT INTO ", ""),
    ("UPDATE ", " SET "),
    ("DELETE FROM ", ""),
    ("CREATE TABLE ", ""),
    ("CREATE INDEX ", ""),
    ("PRAGMA ", ""),
];

/// Claude's files and the panes' programs, as they stand in string literals.
const CLAUDE: [&str; 3] = [".claude/teams", ".claude/tasks", "inboxes/"];
const PANES: [&str; 3] = ["tmux", "it2", "osascript"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    check_manifests(tree, &mut found);
    for source in tree.sources() {
        // This module names every language.
        if source.path.starts_with("xtask/") {
            continue;
        }
        check_crates(source, &mut found);
        check_words(source, &mut found);
    }
    found
}

fn check_manifests(tree: &Tree, found: &mut Vec<Violation>) {
    for member in &CRATES {
        let path = member.manifest();
        let Some(manifest) = tree.manifest(&path) else {
            continue;
        };
        for (kind, name) in dependencies(manifest) {
            let Some(speaker) = SPEAKERS.iter().find(|s| s.package == name) else {
                continue;
            };
            let directory = format!("{}/", member.directory);
            let home = speaker.places.iter().any(|place| place.starts_with(&directory));
            if !home && kind != Kind::Dev {
                found.push(broken(
                    &path,
                    tree.line_of(&path, &name),
                    speaker.language,
                    speaker.places,
                ));
            }
        }
    }
}

fn check_crates(source: &Source, found: &mut Vec<Violation>) {
    for speaker in &SPEAKERS {
        if lies_in(source, speaker.places) {
            continue;
        }
        let name = format!("{}::", speaker.package.replace('-', "_"));
        for line in source.lines_with(&name) {
            if !source.is_test(line) {
                found.push(broken(&source.path, line, speaker.language, speaker.places));
            }
        }
    }
}

fn check_words(source: &Source, found: &mut Vec<Violation>) {
    for literal in &source.literals {
        if source.is_test(literal.line) {
            continue;
        }
        let text = literal.text.trim_start();
        let statement = |(begin, then): &(&str, &str)| {
            text.starts_with(begin) && text[begin.len() - 1..].contains(then)
        };
        if STATEMENTS.iter().any(statement) && !lies_in(source, SQL) {
            found.push(broken(&source.path, literal.line, "SQL", SQL));
        }
        let places = &["crates/backends/src/claude_inbox"];
        if CLAUDE.iter().any(|word| text.contains(word)) && !lies_in(source, places) {
            found.push(broken(&source.path, literal.line, "Claude's files", places));
        }
        let places = &["crates/backends/src/pane"];
        if PANES.contains(&text) && !lies_in(source, places) {
            found.push(broken(&source.path, literal.line, "tmux and iTerm2", places));
        }
    }
}

fn lies_in(source: &Source, places: &[&str]) -> bool {
    places.iter().any(|place| source.path.starts_with(place))
}

fn broken(path: &str, line: usize, language: &str, places: &[&str]) -> Violation {
    let instead = format!("only {} may speak {language}: translate there", places.join(", "));
    Violation::new(Law::OneTranslator, path, line, instead)
}
