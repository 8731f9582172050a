//! What the rules of the machine, the person, the project and the team say about a tool call; it
//! decides nothing: what it finds goes with the call to the team, which decides.
//!
//! A shell command is read by a real grammar ([`Script`]), so that a rule meets every command in it.
//! What cannot be known before it runs is never allowed by a rule.

mod books;
mod covers;
mod free;
mod paths;
mod patterns;
mod script;
mod subject;
mod suggest;
mod words;
mod wrappers;

pub use self::books::{Layer, NoPolicy, Policy, Rulebook};
pub use self::script::{Limit, Opened, Part, Script};
pub use self::subject::Subject;
pub use self::words::Word;

/// The coding tools that rules may be about, beside the tools of MCP servers.
pub const TOOLS: [&str; 10] = [
    "Bash",
    "Read",
    "Edit",
    "Write",
    "Glob",
    "Grep",
    "BashOutput",
    "KillShell",
    "WebFetch",
    "mcp__server__tool",
];
