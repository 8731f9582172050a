//! Rules of permission as they are written, and what they said about a call; how a pattern fits a
//! call is judged outside, never here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::GrantId;

/// The longest rule, in bytes.
const RULE_BYTES: usize = 1_024;
/// The most rules that one team carries itself.
pub(crate) const RULES: usize = 200;

/// One rule: a tool, and where it is narrower than the tool, a pattern of its argument.
///
/// It is written `Bash`, `Bash(cargo test:*)`, `Read(./secrets/**)` or `WebFetch(domain:docs.rs)`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rule {
    tool: String,
    argument: Option<String>,
}

impl Rule {
    /// A rule about every use of a tool.
    #[must_use]
    pub fn tool_alone(tool: &str) -> Self {
        Self { tool: tool.to_owned(), argument: None }
    }

    /// The tool.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Whether it is about a tool. `Edit` is every tool that writes a file, `Read` every tool that
    /// reads one, `mcp__server` and `mcp__server__*` every tool of that server.
    pub fn concerns(&self, tool: &str) -> bool {
        match self.tool.as_str() {
            "Edit" => matches!(tool, "Edit" | "Write"),
            "Read" => matches!(tool, "Read" | "Glob" | "Grep"),
            own if own == tool => true,
            own => {
                own.starts_with("mcp__") && {
                    let server = own.trim_end_matches('*').trim_end_matches("__");
                    let whole = own.ends_with("__*") || own.matches("__").count() == 1;
                    whole && tool.strip_prefix(server).is_some_and(|rest| rest.starts_with("__"))
                }
            }
        }
    }

    /// The pattern of the argument; without one the rule is about every use.
    pub fn argument(&self) -> Option<&str> {
        self.argument.as_deref()
    }
}

/// Why a text is no rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRule {
    /// It names no tool.
    #[error("a rule begins with the name of a tool, for example Bash(cargo test:*)")]
    NoTool,
    /// The tool's name has a character that no tool's name has.
    #[error("a tool's name holds letters, digits, _ and - alone, and {0:?} is none")]
    BadTool(char),
    /// What follows the tool is not in parentheses.
    #[error("what a rule says of a tool's argument stands in parentheses: Tool(pattern)")]
    Parentheses,
    /// There is nothing between the parentheses.
    #[error("there is nothing between the parentheses; leave them out to mean every use")]
    Empty,
    /// It holds a character that cannot be seen.
    #[error("a rule holds only characters that can be seen")]
    Unseen,
    /// It is too long.
    #[error("a rule has at most {RULE_BYTES} bytes")]
    TooLong,
}

impl FromStr for Rule {
    type Err = InvalidRule;

    fn from_str(text: &str) -> Result<Self, InvalidRule> {
        let text = text.trim();
        if text.len() > RULE_BYTES {
            return Err(InvalidRule::TooLong);
        }
        if text.chars().any(crate::text::is_unseen) {
            return Err(InvalidRule::Unseen);
        }
        let (tool, argument) = match text.split_once('(') {
            None => (text, None),
            Some((tool, rest)) => {
                let inner = rest.strip_suffix(')').ok_or(InvalidRule::Parentheses)?.trim();
                if inner.is_empty() {
                    return Err(InvalidRule::Empty);
                }
                (tool, Some(inner))
            }
        };
        if tool.is_empty() {
            return Err(InvalidRule::NoTool);
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*');
        if let Some(bad) = tool.chars().find(|c| !fits(*c)) {
            return Err(if matches!(bad, ')' | ' ') {
                InvalidRule::Parentheses
            } else {
                InvalidRule::BadTool(bad)
            });
        }
        // A star for the whole argument says nothing.
        let argument = argument.filter(|a| *a != "*" && *a != ":*").map(str::to_owned);
        Ok(Self { tool: tool.to_owned(), argument })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.argument {
            Some(argument) => write!(f, "{}({argument})", self.tool),
            None => f.write_str(&self.tool),
        }
    }
}

impl TryFrom<String> for Rule {
    type Error = InvalidRule;

    fn try_from(text: String) -> Result<Self, InvalidRule> {
        text.parse()
    }
}

impl From<Rule> for String {
    fn from(rule: Rule) -> Self {
        rule.to_string()
    }
}

/// What a rule says of the calls it fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleWord {
    /// They run without asking.
    Allow,
    /// They are asked for, whatever the mode.
    Ask,
    /// They do not run.
    Deny,
}

impl RuleWord {
    /// The word for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// Whose rule it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleScope {
    /// Set by who administers the machine.
    Managed,
    /// The person's own, for all teams.
    User,
    /// The project's.
    Project,
    /// This team's alone.
    Session,
}

impl RuleScope {
    /// Whose it is, in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Managed => "the machine's managed settings",
            Self::User => "the person's settings",
            Self::Project => "the project's settings",
            Self::Session => "this team's rules",
        }
    }
}

/// What the rules said about one call. It is computed outside, where patterns and grammars are known,
/// and is a fact here: what follows from it, the team's rules decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The word that counts.
    pub says: RuleWord,
    /// The rule that said it, as it is written, or why no rule could be asked.
    pub rule: String,
    /// Whose rule it is.
    pub scope: RuleScope,
    /// The permission of this team that the rule is, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantId>,
}

impl Finding {
    /// Why a call does not run, for the model that made it, and what it may do instead.
    pub(crate) fn refusal(&self) -> String {
        let Self { rule, scope, .. } = self;
        let of = scope.words();
        match self.says {
            RuleWord::Deny => format!(
                "the rule deny {rule} in {of} forbids this; do not look for another way to do the same, and if the work needs it ask with team_ask_user"
            ),
            RuleWord::Ask | RuleWord::Allow => format!(
                "{rule} in {of} has to be asked for, and your mode dontAsk refuses what it would have to ask for"
            ),
        }
    }
}

/// The rules that a team carries itself, beside those of the machine, the person and the project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SessionRules {
    /// What runs without asking.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<Rule>,
    /// What is asked for, whatever the mode.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<Rule>,
    /// What does not run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<Rule>,
}

impl SessionRules {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.allow.len() + self.ask.len() + self.deny.len()
    }

    /// Every rule with its word.
    pub fn all(&self) -> impl Iterator<Item = (RuleWord, &Rule)> {
        self.deny
            .iter()
            .map(|rule| (RuleWord::Deny, rule))
            .chain(self.ask.iter().map(|rule| (RuleWord::Ask, rule)))
            .chain(self.allow.iter().map(|rule| (RuleWord::Allow, rule)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_they_are_written() {
        let check = |text: &str, tool: &str, argument: Option<&str>, written: &str| {
            let rule: Rule = text.parse().unwrap();
            assert_eq!((rule.tool(), rule.argument()), (tool, argument), "{text}");
            assert_eq!(rule.to_string(), written);
        };
        check("Bash", "Bash", None, "Bash");
        check(" Bash(*) ", "Bash", None, "Bash");
        check("Bash(cargo test:*)", "Bash", Some("cargo test:*"), "Bash(cargo test:*)");
        check("Bash(echo (a))", "Bash", Some("echo (a)"), "Bash(echo (a))");
        check("Read(./secrets/**)", "Read", Some("./secrets/**"), "Read(./secrets/**)");
        check("mcp__git__*", "mcp__git__*", None, "mcp__git__*");
        check(
            "WebFetch(domain:docs.rs)",
            "WebFetch",
            Some("domain:docs.rs"),
            "WebFetch(domain:docs.rs)",
        );
    }

    #[test]
    fn what_is_no_rule_says_why() {
        let check = |text: &str, why: InvalidRule| {
            assert_eq!(text.parse::<Rule>(), Err(why), "{text}");
        };
        check("", InvalidRule::NoTool);
        check("(x)", InvalidRule::NoTool);
        check("Bash(", InvalidRule::Parentheses);
        check("Bash)", InvalidRule::Parentheses);
        check("Bash ls", InvalidRule::Parentheses);
        check("Bash(ls) x", InvalidRule::Parentheses);
        check("Bash( )", InvalidRule::Empty);
        check("Bäsh", InvalidRule::BadTool('ä'));
        check("Bash(a\u{202e}b)", InvalidRule::Unseen);
        check("Bash(a\nb)", InvalidRule::Unseen);
        check(&format!("Bash({})", "x".repeat(RULE_BYTES)), InvalidRule::TooLong);
    }
}
