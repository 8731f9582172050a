//! The laws by name, and what a broken one looks like; never how one is checked.

use std::fmt;

use super::{
    Tree, arrows, composition, language, lints, map, pages, purity, session, shape, state, testing,
};

/// A law that this module checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Law {
    /// No arrow between crates but those of the table.
    Arrows,
    /// `core` may use a short list of crates.
    CoreManifest,
    /// `core` does no I/O, reads no clock, draws nothing, spawns, locks, awaits and logs nothing.
    CorePurity,
    /// One translator per language: SQL, HTTP, MCP, ACP, Claude's files, panes.
    OneTranslator,
    /// One file names concrete stores and backends.
    Composition,
    /// State has private fields.
    PrivateState,
    /// The edge and the door never decide.
    NobodyDecides,
    /// No text is compared with a keyword, except the one compatibility rule.
    ProtocolInProse,
    /// No lock lives across an await.
    LockAcrossAwait,
    /// A session has no lock, never awaits a runner, and stays short.
    Session,
    /// Unsafe code is forbidden in every crate.
    ForbidUnsafe,
    /// The lint tables are in force everywhere.
    Lints,
    /// Files stay short.
    FileSize,
    /// A crate begins with its line of the table.
    CrateDoc,
    /// A module begins with a sentence.
    ModuleDoc,
    /// The front of a crate or module holds docs and re-exports only.
    Doors,
    /// The map keeps step with the code.
    Map,
    /// A page of the documentation leads somewhere, and names tests and commands that there are.
    Pages,
    /// Names say what a thing is.
    Names,
    /// No test is ignored.
    IgnoredTest,
    /// No test sleeps.
    SleepingTest,
    /// Nothing unfinished is called done.
    Unfinished,
    /// No path of one person's machine.
    MachinePath,
    /// The lock file is committed.
    Lockfile,
    /// A list of this module names only what exists.
    StaleList,
}

impl Law {
    /// All of them.
    pub const ALL: [Self; 25] = [
        Self::Arrows,
        Self::CoreManifest,
        Self::CorePurity,
        Self::OneTranslator,
        Self::Composition,
        Self::PrivateState,
        Self::NobodyDecides,
        Self::ProtocolInProse,
        Self::LockAcrossAwait,
        Self::Session,
        Self::ForbidUnsafe,
        Self::Lints,
        Self::FileSize,
        Self::CrateDoc,
        Self::ModuleDoc,
        Self::Doors,
        Self::Map,
        Self::Pages,
        Self::Names,
        Self::IgnoredTest,
        Self::SleepingTest,
        Self::Unfinished,
        Self::MachinePath,
        Self::Lockfile,
        Self::StaleList,
    ];

    /// The word in the output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Arrows => "crate-arrows",
            Self::CoreManifest => "core-manifest",
            Self::CorePurity => "core-purity",
            Self::OneTranslator => "one-translator",
            Self::Composition => "composition",
            Self::PrivateState => "private-state",
            Self::NobodyDecides => "nobody-decides",
            Self::ProtocolInProse => "protocol-in-prose",
            Self::LockAcrossAwait => "lock-across-await",
            Self::Session => "session",
            Self::ForbidUnsafe => "forbid-unsafe",
            Self::Lints => "lints",
            Self::FileSize => "file-size",
            Self::CrateDoc => "crate-doc",
            Self::ModuleDoc => "module-doc",
            Self::Doors => "doors",
            Self::Map => "map",
            Self::Pages => "pages",
            Self::Names => "names",
            Self::IgnoredTest => "ignored-test",
            Self::SleepingTest => "sleeping-test",
            Self::Unfinished => "unfinished",
            Self::MachinePath => "machine-path",
            Self::Lockfile => "lockfile",
            Self::StaleList => "stale-list",
        }
    }
}

/// A law broken at a place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The file, relative to the root.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The law.
    pub law: Law,
    /// What to do instead.
    pub instead: String,
}

impl Violation {
    /// A law broken at a place.
    pub fn new(law: Law, path: &str, line: usize, instead: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, law, instead: instead.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.law.name(), self.instead)
    }
}

/// Everything in the tree that breaks a law, by place.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let families: [fn(&Tree) -> Vec<Violation>; 12] = [
        arrows::check,
        purity::check,
        language::check,
        composition::check,
        state::check,
        session::check,
        lints::check,
        map::check,
        pages::check,
        shape::check,
        testing::check,
        tree_laws,
    ];
    let mut found: Vec<_> = families.iter().flat_map(|family| family(tree)).collect();
    found.sort();
    found.dedup();
    found
}

/// Laws about the tree as a whole.
fn tree_laws(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    let ignored = tree
        .text(".gitignore")
        .is_some_and(|text| text.lines().any(|line| line.trim().ends_with("Cargo.lock")));
    if tree.text("Cargo.lock").is_none() || ignored {
        found.push(Violation::new(
            Law::Lockfile,
            "Cargo.lock",
            1,
            "commit Cargo.lock and do not ignore it, so that every build uses the same versions",
        ));
    }
    found
}
