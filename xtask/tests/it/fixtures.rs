//! Every way to break a law is refused, at its place and by its name.

use std::collections::BTreeSet;

use xtask::tidy::{Law, Tree, check};

use crate::house::{edited, manifest, sound, with, without};

/// A broken house: the law, the place that is named, and the house.
type Fixture = (Law, &'static str, Tree);

#[test]
fn a_sound_house_keeps_every_law() {
    assert_eq!(check(&Tree::of(sound())), []);
}

#[test]
fn every_fixture_is_refused_for_its_one_fault() {
    for (law, place, tree) in fixtures() {
        let found: Vec<_> =
            check(&tree).into_iter().map(|v| (v.law, format!("{}:{}", v.path, v.line))).collect();
        assert_eq!(found, [(law, place.to_owned())]);
    }
}

#[test]
fn every_law_has_a_fixture() {
    let broken: BTreeSet<_> = fixtures().into_iter().map(|(law, _, _)| law).collect();
    assert_eq!(broken, BTreeSet::from(Law::ALL));
}

#[test]
fn a_violation_says_where_which_and_what_to_do() {
    let tree = with("crates/core/src/clock.rs", "//! Time.\nfn a(now: Instant) {}\n");
    let lines: Vec<_> = check(&tree).iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        ["crates/core/src/clock.rs:2: core-purity: core reads no clock: take `now` as an argument"]
    );
}

#[test]
fn comments_and_texts_are_no_code() {
    let text = "//! Time.\n// Instant, HashMap, tokio and async.\nconst A: &str = \"Mutex\";\n\
                /* SystemTime */ const B: &str = r#\"std::fs \"# ;\n";
    assert_eq!(check(&with("crates/core/src/clock.rs", text)), []);
}

fn fixtures() -> Vec<Fixture> {
    let mut all = arrows();
    all.extend(purity());
    all.extend(languages());
    all.extend(composition());
    all.extend(state());
    all.extend(sessions());
    all.extend(lints());
    all.extend(shape());
    all.extend(testing());
    all.extend(pages());
    all
}

fn pages() -> Vec<Fixture> {
    let page = "docs/proofs.md";
    let proofs = |line: &str| with(page, &format!("# Proofs\n{line}\n"));
    vec![
        (Law::Pages, "docs/proofs.md:2", proofs("It is [there](none.md).")),
        (Law::Pages, "docs/proofs.md:2", proofs("It is [there](../../none.md).")),
        (Law::Pages, "README.md:1", with("README.md", "See [docs](docs/none.md).\n")),
        (Law::Pages, "docs/proofs.md:2", proofs("`aion-core::it mail::it_never_was`")),
        (Law::Pages, "docs/proofs.md:2", proofs("`aion-core::it tasks::it_arrives`")),
        (Law::Pages, "docs/proofs.md:2", proofs("`aion-core state::tests::b`")),
        (Law::Pages, "docs/more.md:1", with("docs/more.md", "# More\n")),
    ]
}

fn arrows() -> Vec<Fixture> {
    use Law::{Arrows, CoreManifest, StaleList};
    let store = "crates/store/Cargo.toml";
    vec![
        (
            Arrows,
            "crates/store/Cargo.toml:7",
            with(store, &manifest("aion-store", &["aion-core", "aion-runtime"], "", &[])),
        ),
        (
            Arrows,
            "crates/store/Cargo.toml:7",
            with(store, &manifest("aion-store", &["aion-core", "aion-testkit"], "", &[])),
        ),
        (
            Arrows,
            "crates/store/Cargo.toml:7",
            with(
                store,
                &manifest(
                    "aion-store",
                    &["aion-core"],
                    "r = { path = \"x\", package = \"aion-runtime\" }\n",
                    &[],
                ),
            ),
        ),
        (
            Arrows,
            "crates/core/Cargo.toml:8",
            edited(
                "crates/core/Cargo.toml",
                "proptest = \"1\"\n",
                "aion-testkit.workspace = true\n",
            ),
        ),
        (
            Arrows,
            "xtask/Cargo.toml:6",
            with("xtask/Cargo.toml", &manifest("xtask", &["aion-core"], "", &[])),
        ),
        (
            Arrows,
            "crates/extra/Cargo.toml:1",
            with("crates/extra/Cargo.toml", &manifest("aion-extra", &[], "", &[])),
        ),
        (
            Arrows,
            "crates/testkit/src/faults.rs:2",
            with("crates/testkit/src/faults.rs", "//! Faults.\nuse aion_runtime::Service;\n"),
        ),
        (
            CoreManifest,
            "crates/core/Cargo.toml:6",
            edited(
                "crates/core/Cargo.toml",
                "serde.workspace = true\n",
                "tokio.workspace = true\n",
            ),
        ),
        (
            CoreManifest,
            "crates/core/Cargo.toml:9",
            edited(
                "crates/core/Cargo.toml",
                "proptest = \"1\"\n",
                "proptest = \"1\"\n[target.'cfg(unix)'.dependencies]\nnix = \"0.31\"\n",
            ),
        ),
        (StaleList, "crates/ui/Cargo.toml:1", without("crates/ui/Cargo.toml")),
    ]
}

fn purity() -> Vec<Fixture> {
    let words = [
        "async fn a() {}",
        "fn a() { b().await; }",
        "type A = Box<dyn Future<Output = ()>>;",
        "struct A(Mutex<u8>);",
        "struct A(RwLock<u8>);",
        "struct A(RefCell<u8>);",
        "static A: OnceLock<u8> = OnceLock::new();",
        "static A: LazyLock<u8> = LazyLock::new(b);",
        "thread_local! {}",
        "use std::fs;",
        "use std::io::Write;",
        "use std::net::TcpStream;",
        "use std::process;",
        "fn a() { std::thread::yield_now(); }",
        "fn a() { std::env::var(B); }",
        "fn a() { tokio::spawn(b); }",
        "fn a() { Instant::now(); }",
        "fn a() -> SystemTime { b() }",
        "fn a() -> HashMap<u8, u8> { b() }",
        "fn a() -> HashSet<u8> { b() }",
        "fn a() { rand::random(); }",
        "fn a() { getrandom::fill(b); }",
        "fn a() { println!(); }",
        "fn a() { eprintln!(); }",
        "fn a() { dbg!(b); }",
        "fn a() { tracing::info!(); }",
        "fn a() -> f64 { b() }",
    ];
    let mut all: Vec<Fixture> = words
        .iter()
        .map(|word| {
            let text = format!("//! A rule.\n\n{word}\n");
            (Law::CorePurity, "crates/core/src/rule.rs:3", with("crates/core/src/rule.rs", &text))
        })
        .collect();
    all.push((
        Law::CorePurity,
        "crates/core/clippy.toml:1",
        edited(
            "crates/core/clippy.toml",
            "std::time::SystemTime::now",
            "std::time::SystemTime::elapsed",
        ),
    ));
    all
}

fn languages() -> Vec<Fixture> {
    let one = |place, path, line: &str| {
        (Law::OneTranslator, place, with(path, &format!("//! A file.\n{line}\n")))
    };
    vec![
        one(
            "crates/runtime/src/a.rs:2",
            "crates/runtime/src/a.rs",
            "const A: &str = \"SELECT id FROM teams\";",
        ),
        one(
            "crates/cli/src/a.rs:2",
            "crates/cli/src/a.rs",
            "const A: &str = r\"\nUPDATE teams SET name = 1\";",
        ),
        one("crates/cli/src/a.rs:2", "crates/cli/src/a.rs", "use rusqlite::Connection;"),
        one("crates/runtime/src/a.rs:2", "crates/runtime/src/a.rs", "use axum::Router;"),
        one("crates/agent/src/a.rs:2", "crates/agent/src/a.rs", "use axum::Router;"),
        one("crates/runtime/src/a.rs:2", "crates/runtime/src/a.rs", "use reqwest::Client;"),
        one("crates/runtime/src/a.rs:2", "crates/runtime/src/a.rs", "use hyper::Request;"),
        one("crates/server/src/http.rs:2", "crates/server/src/http.rs", "use rmcp::Service;"),
        one(
            "crates/backends/src/a.rs:2",
            "crates/backends/src/a.rs",
            "use agent_client_protocol::Agent;",
        ),
        one("crates/cli/src/a.rs:2", "crates/cli/src/a.rs", "const A: &str = \".claude/teams\";"),
        one("crates/cli/src/a.rs:2", "crates/cli/src/a.rs", "fn a() { Command::new(\"tmux\"); }"),
        (
            Law::OneTranslator,
            "crates/runtime/Cargo.toml:6",
            with(
                "crates/runtime/Cargo.toml",
                &manifest("aion-runtime", &[], "rusqlite = \"0.43\"\n", &[]),
            ),
        ),
    ]
}

fn composition() -> Vec<Fixture> {
    let runtime = "crates/runtime/src/a.rs";
    let server = "crates/server/src/a.rs";
    vec![
        (
            Law::Composition,
            "crates/runtime/src/a.rs:2",
            with(runtime, "//! A file.\nuse aion_store::SqliteStore;\n"),
        ),
        (
            Law::Composition,
            "crates/cli/src/run.rs:3",
            with("crates/cli/src/run.rs", "//! A file.\n\nfn a() { InProcessBackend::new(); }\n"),
        ),
        (
            Law::NobodyDecides,
            "crates/server/src/a.rs:2",
            with(server, "//! A file.\nfn a() { team.decide(now, caller, command); }\n"),
        ),
        (
            Law::NobodyDecides,
            "crates/cli/src/a.rs:2",
            with("crates/cli/src/a.rs", "//! A file.\nfn a() { Team::handle(team, command); }\n"),
        ),
        (
            Law::ProtocolInProse,
            "crates/runtime/src/a.rs:3",
            with(runtime, "//! A file.\nfn a() {\n    if text == \"shutdown_approved\" {}\n}\n"),
        ),
        (
            Law::ProtocolInProse,
            "crates/core/src/rule.rs:2",
            with(
                "crates/core/src/rule.rs",
                "//! A rule.\nfn a() { text.strip_prefix(\"shutdown_rejected:\"); }\n",
            ),
        ),
    ]
}

fn state() -> Vec<Fixture> {
    vec![
        (
            Law::PrivateState,
            "crates/core/src/agent.rs:4",
            edited("crates/core/src/agent.rs", "    state: u8", "    pub state: u8"),
        ),
        (
            Law::PrivateState,
            "crates/core/src/team.rs:3",
            edited("crates/core/src/team.rs", "pub(crate) id", "pub id"),
        ),
        (
            Law::StaleList,
            "crates/core/src/turn.rs:1",
            edited("crates/core/src/turn.rs", "struct Turn", "struct Round"),
        ),
    ]
}

fn sessions() -> Vec<Fixture> {
    let path = "crates/runtime/src/session.rs";
    let session = |line: &str| edited(path, "    wait().await;", line);
    let async_lock = "//! A file.\nuse tokio::sync::{Mutex, mpsc};\n";
    vec![
        (Law::Session, "crates/runtime/src/session.rs:4", session("    let a: Mutex<u8>;")),
        (Law::Session, "crates/runtime/src/session.rs:4", session("    runner.send(a(1)).await;")),
        (
            Law::Session,
            "crates/runtime/src/session.rs:4",
            session("    runner.send(\n    a).await;"),
        ),
        (
            Law::Session,
            "crates/runtime/src/session.rs:400",
            with(path, &format!("//! The loop.\n{}", "// One more.\n".repeat(399))),
        ),
        (Law::StaleList, "crates/runtime/src/session.rs:1", {
            let mut files = sound();
            let text = files.remove(path).unwrap();
            files.insert("crates/runtime/src/round.rs".to_owned(), text);
            Tree::of(files)
        }),
        (
            Law::LockAcrossAwait,
            "crates/agent/src/a.rs:2",
            with("crates/agent/src/a.rs", async_lock),
        ),
        (
            Law::LockAcrossAwait,
            "Cargo.toml:16",
            edited("Cargo.toml", "await_holding_lock = \"deny\"", "await_holding_lock = \"warn\""),
        ),
    ]
}

fn lints() -> Vec<Fixture> {
    let root = "Cargo.toml";
    vec![
        (Law::ForbidUnsafe, "Cargo.toml:5", edited(root, "\"forbid\"", "\"deny\"")),
        (
            Law::ForbidUnsafe,
            "crates/api/Cargo.toml:1",
            with("crates/api/Cargo.toml", "[package]\nname = \"aion-api\"\n"),
        ),
        (Law::Lints, "Cargo.toml:1", edited(root, "unwrap_used = \"warn\"\n", "")),
        (Law::Lints, "Cargo.toml:9", edited(root, "level = \"warn\"", "level = \"allow\"")),
    ]
}

fn shape() -> Vec<Fixture> {
    let long = |lines: usize| format!("//! A file.\n{}", "// One more.\n".repeat(lines));
    let named = |path: &'static str, line: &str| with(path, &format!("//! A file.\n{line}\n"));
    let runtime = "crates/runtime/src/a.rs";
    vec![
        (Law::FileSize, "crates/runtime/src/a.rs:601", with(runtime, &long(600))),
        (
            Law::CrateDoc,
            "crates/store/src/lib.rs:1",
            with("crates/store/src/lib.rs", "//! Keeps things.\n"),
        ),
        (Law::ModuleDoc, "crates/runtime/src/a.rs:1", with(runtime, "fn a() {}\n")),
        (
            Law::Doors,
            "crates/store/src/lib.rs:2",
            edited(
                "crates/store/src/lib.rs",
                "read models.\n",
                "read models.\npub struct Store;\n",
            ),
        ),
        (
            Law::Doors,
            "crates/runtime/src/tools/mod.rs:2",
            named("crates/runtime/src/tools/mod.rs", "pub(crate) fn a() {}"),
        ),
        (Law::Map, "ARCHITECTURE.md:1", edited("ARCHITECTURE.md", "| `Stop` |", "| Stop |")),
        (Law::Map, "ARCHITECTURE.md:1", edited("ARCHITECTURE.md", "| `crates/ui` |", "| ui |")),
        (
            Law::Map,
            "ARCHITECTURE.md:313",
            edited(
                "ARCHITECTURE.md",
                "| `Stop` |",
                &format!("{}| `Stop` |", "More.\n".repeat(300)),
            ),
        ),
        (Law::Names, "crates/runtime/src/utils.rs:1", named("crates/runtime/src/utils.rs", "")),
        (
            Law::Names,
            "crates/runtime/src/helpers/a.rs:1",
            named("crates/runtime/src/helpers/a.rs", ""),
        ),
        (Law::Names, "crates/runtime/src/a.rs:2", named(runtime, "pub struct TeamManager;")),
        (Law::Names, "crates/runtime/src/a.rs:2", named(runtime, "pub(crate) trait PathUtil {}")),
        (Law::Names, "crates/runtime/src/a.rs:2", named(runtime, "enum StoreImpl {}")),
        (
            Law::MachinePath,
            "crates/runtime/src/a.rs:2",
            named(runtime, concat!("const A: &str = \"/ho", "me/ann/project\";")),
        ),
        (
            Law::MachinePath,
            "README.md:2",
            with("README.md", concat!("Read this.\nOpen /wo", "rk/project.\n")),
        ),
        (Law::Lockfile, "Cargo.lock:1", without("Cargo.lock")),
        (Law::Lockfile, "Cargo.lock:1", with(".gitignore", "/target\nCargo.lock\n")),
    ]
}

fn testing() -> Vec<Fixture> {
    let test = "crates/runtime/tests/it/a.rs";
    let file = |line: &str| format!("//! Tests.\n{line}\n");
    vec![
        (
            Law::IgnoredTest,
            "crates/runtime/tests/it/a.rs:2",
            with(test, &file("#[ignore = \"slow\"]")),
        ),
        (
            Law::SleepingTest,
            "crates/runtime/tests/it/a.rs:2",
            with(test, &file("fn a() { tokio::time::sleep(b); }")),
        ),
        (
            Law::SleepingTest,
            "crates/runtime/src/a.rs:4",
            with(
                "crates/runtime/src/a.rs",
                &file("#[cfg(test)]\nmod tests {\n    fn a() { thread::sleep(b); }\n}"),
            ),
        ),
        (
            Law::Unfinished,
            "crates/runtime/src/a.rs:2",
            with("crates/runtime/src/a.rs", &file(concat!("fn a() { to", "do!() }"))),
        ),
        (
            Law::Unfinished,
            "crates/runtime/src/a.rs:2",
            with("crates/runtime/src/a.rs", &file(concat!("fn a() { unimple", "mented!() }"))),
        ),
    ]
}
