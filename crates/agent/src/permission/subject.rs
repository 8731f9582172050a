//! What a tool call is about, in the form in which rules meet it.

use std::path::PathBuf;

use aion_core::hash::ActionHash;

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

    /// What it does, part by part and without its dress, so that the same in other words is known
    /// for the same. What only looks, and what is not known, has none.
    #[must_use]
    pub fn kin(&self, cwd: &str) -> Vec<ActionHash> {
        match self {
            Self::Command { script, looks } => {
                let parts = script.parts.iter().zip(looks);
                parts
                    .filter(|(part, looks)| !**looks && !part.only_runs && !part.words.is_empty())
                    .map(|(part, _)| {
                        let words: Vec<&str> =
                            part.words.iter().map(|word| word.text().unwrap_or("\0")).collect();
                        ActionHash::of_text(&format!("runs in {cwd}\0{}", words.join("\0")))
                    })
                    .collect()
            }
            Self::Path { path, writes, .. } => {
                let what = if *writes { "writes" } else { "reads" };
                vec![ActionHash::of_text(&format!("{what}\0{}", path.display()))]
            }
            Self::Host(_) | Self::Other => Vec::new(),
        }
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
