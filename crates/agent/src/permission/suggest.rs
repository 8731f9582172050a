//! The rule that would allow calls like one that is asked for, for the person to choose; what would
//! allow too much it does not suggest.

use std::path::Path;

use aion_core::permission::ToolClass;
use aion_core::rule::Rule;

use super::script::{Part, Script};
use super::subject::Subject;
use super::words::Word;

/// Commands whose second word says what they do.
const WITH_A_VERB: [&str; 25] = [
    "cargo",
    "npm",
    "pnpm",
    "yarn",
    "bun",
    "git",
    "go",
    "make",
    "just",
    "pip",
    "uv",
    "poetry",
    "bundle",
    "rake",
    "dotnet",
    "gradle",
    "mvn",
    "terraform",
    "gh",
    "brew",
    "apt",
    "systemctl",
    "kubectl",
    "mix",
    "deno",
];
/// Commands of which only exactly the same call is suggested: they can do anything.
const ANYTHING: [&str; 34] = [
    "rm", "sudo", "doas", "su", "sh", "bash", "dash", "ksh", "zsh", "fish", "python", "python3",
    "node", "perl", "ruby", "php", "lua", "curl", "wget", "ssh", "scp", "dd", "chmod", "chown",
    "kill", "eval", "docker", "podman", "find", "env", "xargs", "awk", "sed", "npx",
];

/// The rule that would allow a call and others like it.
#[must_use]
pub(super) fn suggestion(
    tool: &str,
    subject: &Subject,
    class: ToolClass,
    root: &Path,
) -> Option<Rule> {
    match subject {
        Subject::Command { script, looks } => for_command(script, looks),
        Subject::Path { guarded: true, .. } => None,
        Subject::Path { path, writes, .. } => {
            let tool = if *writes { "Edit" } else { "Read" };
            let inside = matches!(class, ToolClass::Read | ToolClass::Edit);
            if !inside {
                return rule(tool, &path.display().to_string());
            }
            let below = path.strip_prefix(root).ok()?;
            match below.components().next() {
                Some(first) if below.components().count() > 1 => {
                    rule(tool, &format!("{}/**", Path::new(first.as_os_str()).display()))
                }
                _ => Some(Rule::tool_alone(tool)),
            }
        }
        Subject::Host(host) => rule("WebFetch", &format!("domain:{host}")),
        Subject::Other => tool.parse().ok(),
    }
}

fn for_command(script: &Script, looks: &[bool]) -> Option<Rule> {
    if !script.is_known() {
        return None;
    }
    let runs: Vec<&Part> = script
        .parts
        .iter()
        .zip(looks)
        .filter(|(part, looks)| !**looks && !part.only_runs)
        .map(|(part, _)| part)
        .collect();
    // One rule for several commands would be a guess.
    let [part] = runs.as_slice() else { return None };
    if !part.sets.is_empty() || part.opens.iter().any(|opened| opened.writes) {
        return None;
    }
    let name = part.name()?;
    let second = part.words.get(1).and_then(Word::plain);
    if ANYTHING.contains(&name) || name.contains('/') || part.may_run_rest {
        let words: Option<Vec<&str>> = part.words.iter().map(Word::plain).collect();
        return exactly(&words?);
    }
    if !WITH_A_VERB.contains(&name) {
        return rule("Bash", &format!("{name}:*"));
    }
    let verb = second.filter(|word| is_verb(word))?;
    match (name, verb, part.words.get(2).and_then(Word::plain)) {
        ("npm" | "pnpm" | "yarn" | "bun", "run", Some(script)) if is_verb(script) => {
            rule("Bash", &format!("{name} run {script}:*"))
        }
        ("npm" | "pnpm" | "yarn" | "bun", "run" | "exec" | "x", _) => None,
        _ => rule("Bash", &format!("{name} {verb}:*")),
    }
}

/// A rule for exactly this call, where it is written as its words are.
fn exactly(words: &[&str]) -> Option<Rule> {
    let odd = |c: char| c.is_whitespace() || matches!(c, '*' | '"' | '\'' | '\\');
    if words.iter().any(|word| word.is_empty() || word.contains(odd)) {
        return None;
    }
    rule("Bash", &words.join(" "))
}

fn is_verb(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b':'))
}

fn rule(tool: &str, pattern: &str) -> Option<Rule> {
    let rule: Rule = format!("{tool}({pattern})").parse().ok()?;
    super::Rulebook::check(&rule).is_ok().then_some(rule)
}
