//! The agents that are known without anybody's settings, as data; it looks for none of them.

use std::sync::{Arc, LazyLock};

use serde::Deserialize;

use super::Profile;

/// The list, as it is in this build.
const BUILT_IN: &str = include_str!("profiles.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    agent: Vec<Arc<Profile>>,
}

/// The agents that are known, those that most people use first.
pub fn profiles() -> &'static [Arc<Profile>] {
    static PROFILES: LazyLock<Vec<Arc<Profile>>> = LazyLock::new(|| {
        // A test of this file reads the same text: a list that cannot be read is in no build.
        toml::from_str::<List>(BUILT_IN).map(|list| list.agent).unwrap_or_default()
    });
    &PROFILES
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_known_agent_can_be_used_as_it_is_written() {
        let list: List = toml::from_str(BUILT_IN).unwrap();
        assert!(list.agent.iter().all(|profile| profile.check() == Ok(())));
        let ids: BTreeSet<&str> = profiles().iter().map(|profile| profile.id.as_str()).collect();
        assert_eq!(ids.len(), list.agent.len(), "each is there once");
        let known = [
            "claude",
            "codex",
            "copilot",
            "cursor",
            "fast-agent",
            "gemini-cli",
            "goose",
            "opencode",
            "qwen",
            "vibe",
        ];
        assert_eq!(ids.into_iter().collect::<Vec<_>>(), known);
    }

    #[test]
    fn packages_are_named_at_one_version() {
        for profile in profiles() {
            let launch = &profile.launch;
            let npm = launch.npm.as_ref().map(|package| &package.version);
            let version = npm.or(launch.pypi.as_ref().map(|package| &package.version));
            let exact = |version: &String| version.chars().all(|c| c.is_ascii_digit() || c == '.');
            assert!(version.is_none_or(exact), "{}", profile.id);
        }
    }
}
