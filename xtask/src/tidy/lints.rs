//! The compiler holds part of the laws; this checks that it is asked to, in every crate.

use super::{CRATES, Law, Tree, Violation};

const ROOT: &str = "Cargo.toml";

/// Lints with the levels that are strong enough.
const REQUIRED: [(&str, &str, &[&str]); 9] = [
    ("rust", "missing_docs", &["warn", "deny"]),
    ("rust", "unused_must_use", &["deny"]),
    ("clippy", "pedantic", &["warn", "deny"]),
    ("clippy", "unwrap_used", &["warn", "deny"]),
    ("clippy", "expect_used", &["warn", "deny"]),
    ("clippy", "allow_attributes", &["warn", "deny"]),
    ("clippy", "todo", &["warn", "deny"]),
    ("clippy", "unimplemented", &["warn", "deny"]),
    ("clippy", "dbg_macro", &["warn", "deny"]),
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    let require = |found: &mut Vec<_>, law, group, lint, levels: &[&str]| {
        if !level(tree, group, lint).is_some_and(|level| levels.contains(&level)) {
            let instead =
                format!("[workspace.lints.{group}] has to set {lint} = \"{}\"", levels[0]);
            found.push(Violation::new(law, ROOT, tree.line_of(ROOT, lint), instead));
        }
    };
    for (group, lint, levels) in REQUIRED {
        require(&mut found, Law::Lints, group, lint, levels);
    }
    require(&mut found, Law::ForbidUnsafe, "rust", "unsafe_code", &["forbid"]);
    require(&mut found, Law::LockAcrossAwait, "clippy", "await_holding_lock", &["deny"]);

    for member in &CRATES {
        let path = member.manifest();
        let Some(manifest) = tree.manifest(&path) else {
            continue;
        };
        let inherits = manifest
            .get("lints")
            .and_then(|lints| lints.get("workspace"))
            .and_then(toml::Value::as_bool);
        if inherits != Some(true) {
            let instead = "add `[lints] workspace = true`: unsafe code is forbidden in every crate";
            found.push(Violation::new(Law::ForbidUnsafe, &path, 1, instead));
        }
    }
    found
}

/// A lint's level in the workspace's table.
fn level<'a>(tree: &'a Tree, group: &str, lint: &str) -> Option<&'a str> {
    let value = tree.manifest(ROOT)?.get("workspace")?.get("lints")?.get(group)?.get(lint)?;
    value.as_str().or_else(|| value.get("level")?.as_str())
}
