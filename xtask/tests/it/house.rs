//! A small house that keeps every law; fixtures change one file of it.

use std::collections::BTreeMap;

use xtask::tidy::{CRATES, Tree};

/// The files of a house that keeps every law.
pub(crate) fn sound() -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut put = |path: &str, text: &str| {
        files.insert(path.to_owned(), text.to_owned());
    };
    put("Cargo.toml", ROOT_MANIFEST);
    put("Cargo.lock", "version = 4\n");
    put(".gitignore", "/target\n");
    for member in &CRATES {
        let lib = if member.package == "aion" { "main.rs" } else { "lib.rs" };
        put(&format!("{}/src/{lib}", member.directory), &format!("//! {}.\n", member.doc));
        put(&member.manifest(), &manifest(member.package, member.may_use, "", &[]));
    }
    put(
        "crates/core/Cargo.toml",
        "[package]\nname = \"aion-core\"\n[lints]\nworkspace = true\n[dependencies]\n\
         serde.workspace = true\n[dev-dependencies]\nproptest = \"1\"\n",
    );
    put(
        "crates/runtime/Cargo.toml",
        &manifest("aion-runtime", &["aion-core", "aion-store"], "", &["aion-testkit"]),
    );
    put("crates/core/clippy.toml", include_str!("../../../crates/core/clippy.toml"));
    put("crates/core/src/team.rs", "//! A team.\npub struct Team {\n    pub(crate) id: u8,\n}\n");
    put(
        "crates/core/src/agent.rs",
        "//! A member.\npub struct Agent {\n    /// Never `pub `.\n    state: u8,\n}\n\
         pub struct TokenBucket {\n    used: u64,\n}\n",
    );
    put(
        "crates/core/src/state.rs",
        "//! Words.\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn a() {}\n}\n",
    );
    put("crates/core/src/turn.rs", "//! A turn.\npub struct Turn {\n    id: u8,\n}\n");
    put(
        "crates/core/src/mailbox.rs",
        "//! Mail.\npub struct Mailbox {\n    a: u8,\n}\npub struct Entry {\n    a: u8,\n}\n",
    );
    put(
        "crates/core/src/task.rs",
        "//! Tasks.\npub struct Task {\n    a: u8,\n}\npub struct TaskBoard {\n    a: u8,\n}\n",
    );
    put("crates/core/src/budget.rs", "//! Money.\npub struct Budget {\n    a: u8,\n}\n");
    put(
        "crates/core/src/shutdown.rs",
        "//! The one rule.\nfn a(body: &str) -> bool {\n    body == \"shutdown_approved\"\n}\n",
    );
    put(
        "crates/store/src/sqlite.rs",
        "//! SQL.\npub struct SqliteStore;\nconst Q: &str = \"SELECT 1\";\n",
    );
    put("crates/backends/src/in_process.rs", "//! Here.\npub struct InProcessBackend;\n");
    put(
        "crates/runtime/src/session.rs",
        "//! The loop; never a lock, says this comment about a Mutex.\nasync fn a() {\n    \
         reply.send(1);\n    wait().await;\n}\n",
    );
    put("crates/runtime/tests/it/main.rs", "//! Tests.\nuse aion_store::MemoryStore;\n");
    put("crates/testkit/src/bin/kill.rs", "//! Kills.\nuse aion_runtime::Service;\n");
    put(
        "crates/testkit/Cargo.toml",
        &manifest("aion-testkit", &["aion-core", "aion-runtime"], "", &[]),
    );
    put("crates/cli/src/follow.rs", "//! Follows.\nfn a() { self.decide(request, decision); }\n");
    put("crates/cli/src/daemon.rs", "//! Puts it together.\nuse aion_store::SqliteStore;\n");
    put("crates/core/src/effect.rs", EFFECTS);
    let rows = CRATES.iter().map(|m| format!("| `{}` | it |\n", m.directory));
    let map =
        rows.fold("| `RunTurn` | key |\n| `Stop` | key |\n".to_owned(), |map, row| map + &row);
    put("ARCHITECTURE.md", &map);
    put("docs/SUMMARY.md", "# Contents\n\n- [Proofs](proofs.md)\n");
    put("docs/proofs.md", PROOFS);
    put("docs/config.schema.json", "{}");
    put("docs/adr/0001-one.md", "# One\n");
    put("crates/core/tests/it/mail.rs", "//! Mail.\n#[test]\nfn it_arrives() {}\n");
    put("README.md", concat!("Open /ho", "me/you/project.\n"));
    files
}

/// The sound house with one file changed.
pub(crate) fn with(path: &str, text: &str) -> Tree {
    let mut files = sound();
    files.insert(path.to_owned(), text.to_owned());
    Tree::of(files)
}

/// The sound house without one file.
pub(crate) fn without(path: &str) -> Tree {
    let mut files = sound();
    assert!(files.remove(path).is_some(), "the house has no {path}");
    Tree::of(files)
}

/// The sound house with a part of one file replaced.
pub(crate) fn edited(path: &str, from: &str, to: &str) -> Tree {
    let text = sound().remove(path).unwrap();
    assert!(text.contains(from), "{path} has no {from}");
    with(path, &text.replace(from, to))
}

/// A crate's manifest.
pub(crate) fn manifest(package: &str, uses: &[&str], foreign: &str, dev: &[&str]) -> String {
    let list = |names: &[&str]| {
        names.iter().fold(String::new(), |list, name| list + name + ".workspace = true\n")
    };
    format!(
        "[package]\nname = \"{package}\"\n[lints]\nworkspace = true\n[dependencies]\n{}{foreign}\
         [dev-dependencies]\n{}",
        list(uses),
        list(dev)
    )
}

const ROOT_MANIFEST: &str = r#"
[workspace]
members = ["crates/*", "xtask"]
[workspace.lints.rust]
unsafe_code = "forbid"
missing_docs = "warn"
unused_must_use = "deny"
[workspace.lints.clippy]
pedantic = { level = "warn", priority = -1 }
unwrap_used = "warn"
expect_used = "warn"
allow_attributes = "warn"
todo = "warn"
unimplemented = "warn"
dbg_macro = "warn"
await_holding_lock = "deny"
"#;

const PROOFS: &str = "# Proofs

[Here](#proofs), [the schema](config.schema.json), [the map](../ARCHITECTURE.md#core),
[decisions](adr/), [elsewhere](https://example.org/none.md).
`aion-core::it mail::it_arrives`, `aion-core state::tests::a`, `aion team ls`.

```
[no link](none.md)
```
";

const EFFECTS: &str = "//! Effects.
pub enum Effect {
    /// One.
    RunTurn {
        /// A field.
        turn: TurnId,
    },
    /// Two.
    Stop(SlotId),
}
";
