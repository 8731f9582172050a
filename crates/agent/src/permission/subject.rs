//! What a tool call is about, in the form in which rules meet it.

use std::path::PathBuf;

use super::script::Script;

/// What a tool call is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A shell command.
    Command {
        /// What is in it.
        script: Script,
        /// Which of its parts only look, inside the workspace.
        looks: Vec<bool>,
    },
    /// A file or a directory.
    Path {
        /// Where it leads, links followed.
        path: PathBuf,
        /// How the model wrote it.
        given: String,
        /// Whether it is written.
        writes: bool,
        /// Whether it is one that no rule lets be written: git's own files, settings of agents.
        guarded: bool,
    },
    /// A host.
    Host(String),
    /// Whatever else.
    Other,
}

impl Subject {
    /// A shell command. `inside` says whether a path, links followed, leads to somewhere inside the
    /// workspace.
    #[must_use]
    pub fn of_command(script: Script, inside: &dyn Fn(&str) -> bool) -> Self {
        let looks = super::free::looks(&script, inside);
        Self::Command { script, looks }
    }

    /// Whether it is a command that only looks, inside the workspace.
    pub fn only_looks(&self) -> bool {
        match self {
            Self::Command { script, looks } => {
                script.is_known() && !looks.is_empty() && looks.iter().all(|looks| *looks)
            }
            Self::Path { .. } | Self::Host(_) | Self::Other => false,
        }
    }
}
