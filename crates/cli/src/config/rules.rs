//! Rules of permission from the files of settings, each with where it stands; what counts of them is
//! said elsewhere.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use aion_agent::permission::Rulebook;
use aion_api::Exit;
use aion_core::rule::{InvalidRule, Rule, RuleScope, RuleWord};
use toml::{Table, Value};

use super::layers::Paths;
use crate::exit::Failure;

/// The table that they stand in.
pub(super) const TABLE: &str = "permissions";

/// The words, as they are named in files.
pub(crate) const WORDS: [RuleWord; 3] = [RuleWord::Allow, RuleWord::Ask, RuleWord::Deny];

/// A rule as it stands in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// What it says.
    pub(crate) word: RuleWord,
    /// The rule.
    pub(crate) rule: Rule,
    /// Whose it is.
    pub(crate) scope: RuleScope,
    /// Where it stands.
    pub(crate) file: PathBuf,
}

/// Every rule of some files.
pub(crate) fn written(paths: &Paths) -> Result<Vec<Written>, Failure> {
    let mut rules = Vec::new();
    let project = [&paths.project, &paths.local].into_iter().flatten();
    let files = [(RuleScope::Managed, &paths.managed), (RuleScope::User, &paths.user)]
        .into_iter()
        .chain(project.map(|path| (RuleScope::Project, path)));
    for (scope, path) in files {
        let shown = path.display().to_string();
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(Failure::io(format!("read {shown}"), &error)),
        };
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            Failure::new(Exit::Usage, "config.unreadable", format!("{shown}: {error}"))
        })?;
        of_table(&table, scope, path, &mut rules)?;
    }
    Ok(rules)
}

fn of_table(
    table: &Table,
    scope: RuleScope,
    path: &Path,
    rules: &mut Vec<Written>,
) -> Result<(), Failure> {
    let shown = path.display();
    let invalid = |what: &str, why: &str| {
        Failure::new(Exit::Usage, "config.invalid", format!("{shown}: {TABLE}{what}: {why}"))
    };
    let Some(table) = table.get(TABLE) else { return Ok(()) };
    let table = table.as_table().ok_or_else(|| invalid("", "it is a table"))?;
    for (name, value) in table {
        let Some(word) = WORDS.into_iter().find(|word| word.as_str() == name) else {
            // A rule under a word that is none would be none.
            return Err(invalid(&format!(".{name}"), "it is none of allow, ask, deny"));
        };
        let list = value.as_array().ok_or_else(|| {
            invalid(&format!(".{name}"), "it is a list, for example [\"Bash(cargo test:*)\"]")
        })?;
        for item in list {
            let text = match item {
                Value::String(text) => text,
                other => return Err(invalid(&format!(".{name}"), &format!("{other} is no rule"))),
            };
            let rule = read(text).map_err(|why| invalid(&format!(".{name}"), &why))?;
            rules.push(Written { word, rule, scope, file: path.to_owned() });
        }
    }
    Ok(())
}

/// A rule as a person writes it, if it can be used.
pub(crate) fn read(text: &str) -> Result<Rule, String> {
    let rule: Rule = text.parse().map_err(|why: InvalidRule| format!("{text:?}: {why}"))?;
    Rulebook::check(&rule).map_err(|why| format!("{text:?}: {why}"))?;
    Ok(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_every_file_count_together_and_say_where_they_stand() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let paths = Paths {
            managed: path("managed"),
            user: path("user"),
            project: Some(path("project")),
            local: Some(path("local")),
        };
        assert_eq!(written(&paths).unwrap(), []);
        fs::write(path("managed"), "[permissions]\ndeny = [\"Bash(curl:*)\"]\n").unwrap();
        fs::write(path("user"), "[permissions]\nallow = [\"Bash(cargo test:*)\", \"Edit\"]\n")
            .unwrap();
        fs::write(path("project"), "permissions.ask = [\"Bash(git push:*)\"]\n").unwrap();
        let rules: Vec<_> = written(&paths)
            .unwrap()
            .into_iter()
            .map(|w| (w.word.as_str(), w.rule.to_string(), w.scope))
            .collect();
        let expect = [
            ("deny", "Bash(curl:*)".to_owned(), RuleScope::Managed),
            ("allow", "Bash(cargo test:*)".to_owned(), RuleScope::User),
            ("allow", "Edit".to_owned(), RuleScope::User),
            ("ask", "Bash(git push:*)".to_owned(), RuleScope::Project),
        ];
        assert_eq!(rules, expect);
    }

    #[test]
    fn a_mistake_in_a_rule_is_refused_and_never_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let user = dir.path().join("user");
        let missing = dir.path().join("none");
        let paths = Paths { managed: missing, user: user.clone(), project: None, local: None };
        for (text, expect) in [
            ("permissions.dney = []", "permissions.dney: it is none of allow, ask, deny"),
            ("permissions.deny = \"Bash\"", "permissions.deny: it is a list"),
            ("permissions.deny = [1]", "permissions.deny: 1 is no rule"),
            ("permissions.deny = [\"Bsh(x)\"]", "there is no tool Bsh"),
            ("permissions.deny = [\"Bash(\"]", "stands in parentheses"),
            ("permissions = 1", "permissions: it is a table"),
        ] {
            fs::write(&user, text).unwrap();
            let failure = written(&paths).unwrap_err();
            assert_eq!(failure.code(), "config.invalid", "{text}");
            assert!(failure.message().contains(expect), "{text}: {}", failure.message());
        }
    }
}
