//! The table of crates: what each is, in its own first line, and whom it may use.

/// One crate of the house.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Its directory.
    pub directory: &'static str,
    /// Its package.
    pub package: &'static str,
    /// The first line of its documentation, without the full stop.
    pub doc: &'static str,
    /// The packages of ours that it may use.
    pub may_use: &'static [&'static str],
}

/// The package that is only for tests.
pub(super) const TESTKIT: &str = "aion-testkit";

/// What testkit's binaries may use beyond its library: they drive the real thing (ADR 6).
pub(super) const TESTKIT_BINARIES_USE: &str = "aion-runtime";

/// All crates, from the ground up.
pub const CRATES: [Member; 11] = [
    Member {
        directory: "crates/core",
        package: "aion-core",
        doc: "The rules of a team, as a deterministic state machine without I/O",
        may_use: &[],
    },
    Member {
        directory: "crates/api",
        package: "aion-api",
        doc: "The words spoken over HTTP, WebSocket and the command line",
        may_use: &[],
    },
    Member {
        directory: "crates/store",
        package: "aion-store",
        doc: "Remembers teams: an append-only event log with read models",
        may_use: &["aion-core"],
    },
    Member {
        directory: "crates/agent",
        package: "aion-agent",
        doc: "One coding agent in this process: the model loop, its tools, its sandbox",
        may_use: &["aion-core"],
    },
    Member {
        directory: "crates/backends",
        package: "aion-backends",
        doc: "Runs one agent and reaches it, wherever it lives",
        may_use: &["aion-core", "aion-agent"],
    },
    Member {
        directory: "crates/runtime",
        package: "aion-runtime",
        doc: "Drives the core: sessions, runners, tools, supervision",
        may_use: &["aion-core", "aion-store", "aion-agent", "aion-backends"],
    },
    Member {
        directory: "crates/ui",
        package: "aion-ui",
        doc: "The built web page as bytes",
        may_use: &[],
    },
    Member {
        directory: "crates/server",
        package: "aion-server",
        doc: "The edge: REST, WebSocket, MCP, auth",
        may_use: &["aion-core", "aion-api", "aion-runtime", "aion-ui"],
    },
    Member {
        directory: "crates/cli",
        package: "aion",
        doc: "The binary `aion`",
        may_use: &[
            "aion-core",
            "aion-api",
            "aion-store",
            "aion-agent",
            "aion-backends",
            "aion-runtime",
            "aion-ui",
            "aion-server",
        ],
    },
    Member {
        directory: "crates/testkit",
        package: TESTKIT,
        doc: "Stand-ins for tests of the shells: scripted agents, model server, faulty store; \
              with the binaries that benches and checks start",
        may_use: &["aion-core", "aion-store", "aion-agent", "aion-backends"],
    },
    Member {
        directory: "xtask",
        package: "xtask",
        doc: "Developer commands: `test`, `check` (= test without simulation, kills and \
              browsers), `bench`, `sim`, `tidy`, code generation; starts binaries, links \
              nothing of ours",
        may_use: &[],
    },
];

impl Member {
    /// The path of its manifest.
    pub fn manifest(&self) -> String {
        format!("{}/Cargo.toml", self.directory)
    }
}
