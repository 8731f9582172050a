//! The rules that count for one team's calls, made ready to be met; it reads no file.

use std::fmt;
use std::path::{Path, PathBuf};

use aion_core::id::GrantId;
use aion_core::permission::ToolClass;
use aion_core::rule::{Finding, Rule, RuleScope, RuleWord};

use super::TOOLS;
use super::paths::{Fit, PathPattern, Places};
use super::patterns::CommandPattern;
use super::script::{Part, Script};
use super::subject::Subject;
use super::suggest::suggestion;
use crate::mcp::Wanted;

/// One rule, with whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// What it says.
    pub word: RuleWord,
    /// The rule.
    pub rule: Rule,
    /// Whose it is.
    pub scope: RuleScope,
    /// The permission of the team that it is, where it is one.
    pub grant: Option<GrantId>,
}

/// Where the rules of the machine, the person and the project come from. They are asked for each
/// call, so that a change counts at once.
pub trait Policy: Send + Sync + fmt::Debug + 'static {
    /// The rules for a workspace. An error means that they cannot be read; everything is asked for
    /// then.
    fn rules(&self, workspace: &Path) -> Result<Vec<Layer>, String>;

    /// Whether the person trusts a workspace: its own rules that allow, and its instructions, count
    /// only then.
    fn trusted(&self, workspace: &Path) -> bool;

    /// The MCP servers that teams may have in a workspace: the person's own, and the project's where
    /// the person trusts them.
    fn servers(&self, _workspace: &Path) -> Wanted {
        Wanted::default()
    }
}

/// Nobody's rules; nothing is trusted.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPolicy;

impl Policy for NoPolicy {
    fn rules(&self, _: &Path) -> Result<Vec<Layer>, String> {
        Ok(Vec::new())
    }

    fn trusted(&self, _: &Path) -> bool {
        false
    }
}

/// What a rule fits, ready to be met.
#[derive(Clone, Debug)]
pub(super) enum Fits {
    Every,
    Command(CommandPattern),
    Path(PathPattern),
    Host(String),
}

/// A rule, ready to be met.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    word: RuleWord,
    pub(super) rule: Rule,
    scope: RuleScope,
    grant: Option<GrantId>,
    pub(super) fits: Fits,
}

/// The rules that count for one team's calls.
#[derive(Clone, Debug)]
pub struct Rulebook {
    entries: Vec<Entry>,
    places: Places,
    /// Why the rules are not all there.
    fault: Option<(String, RuleScope)>,
    /// What no tool opens, whatever is allowed.
    sealed: Vec<PathBuf>,
}

impl Rulebook {
    /// From rules of every scope, for a workspace.
    #[must_use]
    pub fn new(layers: Vec<Layer>, root: PathBuf, home: Option<PathBuf>) -> Self {
        let places = Places { root, home };
        let mut book = Self { entries: Vec::new(), places, fault: None, sealed: Vec::new() };
        for Layer { word, rule, scope, grant } in layers {
            match ready(&rule, word, &book.places) {
                Ok(fits) => book.entries.push(Entry { word, rule, scope, grant, fits }),
                // A rule that denies and is not understood might be about this call.
                Err(why) if word != RuleWord::Allow => {
                    book.fault.get_or_insert((format!("{rule}: {why}"), scope));
                }
                Err(_) => {}
            }
        }
        book
    }

    /// With rules that could not be read: everything is asked for.
    #[must_use]
    pub fn unreadable(mut self, why: &str) -> Self {
        self.fault
            .get_or_insert((format!("the rules, which cannot be read ({why}),"), RuleScope::User));
        self
    }

    /// With places that no tool opens, whatever rules, modes and people allow.
    #[must_use]
    pub fn sealing(mut self, sealed: Vec<PathBuf>) -> Self {
        self.sealed = sealed;
        self
    }

    fn seal_on(&self, path: &Path) -> Option<&PathBuf> {
        self.sealed.iter().find(|sealed| path.starts_with(sealed))
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    pub(super) fn places(&self) -> &Places {
        &self.places
    }

    /// Why a rule cannot be used, if it cannot.
    pub fn check(rule: &Rule) -> Result<(), String> {
        let tool = rule.tool();
        if !(TOOLS.contains(&tool) || tool.starts_with("mcp__")) {
            return Err(format!("there is no tool {tool}; the tools are {}", TOOLS.join(", ")));
        }
        let places = Places { root: PathBuf::from("/w"), home: Some(PathBuf::from("/h")) };
        ready(rule, RuleWord::Deny, &places).map(|_| ())
    }

    /// What the rules say of a call. Nothing means that no rule is about it.
    #[must_use]
    pub fn judge(&self, tool: &str, subject: &Subject, class: ToolClass) -> Option<Finding> {
        if let Subject::Path { path, .. } = subject
            && let Some(sealed) = self.seal_on(path)
        {
            let what = format!("{tool}({}), which holds keys or data of aion,", sealed.display());
            return Some(said(RuleWord::Deny, what, RuleScope::Managed, None));
        }
        for word in [RuleWord::Deny, RuleWord::Ask] {
            let met = self.entries().filter(|entry| entry.word == word);
            if let Some(entry) =
                met.into_iter().find(|entry| self.meets(entry, tool, subject) == Fit::Yes)
            {
                return Some(entry.finding(word));
            }
            if word == RuleWord::Deny
                && let Some(finding) = self.past_a_limit(tool, subject)
            {
                return Some(finding);
            }
        }
        if let Some((why, scope)) = &self.fault {
            return Some(said(RuleWord::Ask, why.clone(), *scope, None));
        }
        let may = |entry: &&Entry| {
            entry.word != RuleWord::Allow && self.meets(entry, tool, subject) == Fit::Maybe
        };
        if let Some(entry) = self.entries().find(may) {
            // What may be denied is not allowed by a rule or a mode.
            let text = format!("{} {}", entry.word.as_str(), entry.rule);
            return Some(said(RuleWord::Ask, text, entry.scope, None));
        }
        self.allowing_call(tool, subject, class)
    }

    /// A command that cannot be looked through is denied where a rule denies commands.
    fn past_a_limit(&self, tool: &str, subject: &Subject) -> Option<Finding> {
        let Subject::Command { script: Script { limit: Some(limit), .. }, .. } = subject else {
            return None;
        };
        let denies = self.entries().find(|e| e.word == RuleWord::Deny && e.rule.concerns(tool))?;
        let why = format!("{} (this command may do it: {})", denies.rule, limit.0);
        Some(said(RuleWord::Deny, why, denies.scope, None))
    }

    fn allowing_call(&self, tool: &str, subject: &Subject, class: ToolClass) -> Option<Finding> {
        let by = match subject {
            Subject::Command { script, looks } => {
                // The team looks whether what is cited still stands: its own rules come first.
                let mut cited = self.cover(script, looks)?;
                cited.sort_by_key(|entry| {
                    (entry.grant.is_none(), entry.scope != RuleScope::Session)
                });
                cited.into_iter().next()
            }
            Subject::Path { guarded: true, .. } => None,
            Subject::Path { path, .. } => {
                let inside = matches!(class, ToolClass::Read | ToolClass::Edit);
                self.allowing_path(tool, path, inside)
            }
            Subject::Host(host) => self.allowing(tool).find(|entry| match &entry.fits {
                Fits::Every => true,
                Fits::Host(pattern) => fits_host(pattern, host, false),
                Fits::Command(_) | Fits::Path(_) => false,
            }),
            Subject::Other => self.allowing(tool).find(|entry| matches!(entry.fits, Fits::Every)),
        }?;
        Some(by.finding(RuleWord::Allow))
    }

    /// The rules that allow something of a tool.
    pub(super) fn allowing(&self, tool: &str) -> impl Iterator<Item = &Entry> {
        self.entries().filter(move |e| e.word == RuleWord::Allow && e.rule.concerns(tool))
    }

    /// The rule that lets a tool open a file. One without a pattern reaches no further than the
    /// workspace.
    pub(super) fn allowing_path(&self, tool: &str, path: &Path, inside: bool) -> Option<&Entry> {
        self.allowing(tool).find(|entry| match &entry.fits {
            Fits::Every => inside,
            Fits::Path(pattern) => pattern.fits(path),
            Fits::Command(_) | Fits::Host(_) => false,
        })
    }

    /// Whether a rule that asks or denies is about a call.
    fn meets(&self, entry: &Entry, tool: &str, subject: &Subject) -> Fit {
        let concerned = entry.rule.concerns(tool);
        match (subject, &entry.fits) {
            (_, Fits::Every) if concerned => Fit::Yes,
            (Subject::Command { script, .. }, Fits::Command(pattern)) if concerned => script
                .parts
                .iter()
                .map(|part| pattern.meets(part))
                .max()
                .unwrap_or(Fit::No)
                .max(if script.computed.is_some() { Fit::Maybe } else { Fit::No }),
            // A rule about files is about the files that a command names, too.
            (Subject::Command { script, looks }, Fits::Path(pattern)) => {
                let only_writes = !entry.rule.concerns("Read");
                let parts = script.parts.iter().zip(looks);
                let fit = |(part, looks): (&Part, &bool)| {
                    let words = part.words.iter().filter(|_| !(only_writes && *looks));
                    let opens = part.opens.iter().filter(|opened| opened.writes || !only_writes);
                    words
                        .chain(opens.map(|opened| &opened.path))
                        .map(|word| pattern.fits_word(word, &self.places))
                        .max()
                        .unwrap_or(Fit::No)
                };
                parts.map(fit).max().unwrap_or(Fit::No)
            }
            (Subject::Path { path, given, .. }, Fits::Path(pattern)) if concerned => {
                let as_written = self.places.full(given).is_some_and(|full| pattern.fits(&full));
                if as_written || pattern.fits(path) { Fit::Yes } else { Fit::No }
            }
            (Subject::Host(host), Fits::Host(pattern)) if concerned => {
                if fits_host(pattern, host, true) { Fit::Yes } else { Fit::No }
            }
            _ => Fit::No,
        }
    }

    /// The rule that would allow calls like this one.
    #[must_use]
    pub fn suggestion(&self, tool: &str, subject: &Subject, class: ToolClass) -> Option<Rule> {
        suggestion(tool, subject, class, &self.places.root)
    }

    /// Whether a rule keeps a file from being read: for tools that look at many.
    #[must_use]
    pub fn hides(&self, path: &Path) -> bool {
        self.seal_on(path).is_some()
            || self.entries().any(|entry| {
                entry.word == RuleWord::Deny
                    && entry.rule.tool() == "Read"
                    && match &entry.fits {
                        Fits::Path(pattern) => pattern.fits(path),
                        Fits::Every | Fits::Command(_) | Fits::Host(_) => false,
                    }
            })
    }

    /// Whether a rule keeps any file from being read.
    #[must_use]
    pub fn hides_some(&self) -> bool {
        !self.sealed.is_empty()
            || self
                .entries()
                .any(|entry| entry.word == RuleWord::Deny && matches!(entry.fits, Fits::Path(_)))
    }
}

impl Entry {
    fn finding(&self, says: RuleWord) -> Finding {
        said(says, self.rule.to_string(), self.scope, self.grant)
    }
}

fn said(says: RuleWord, rule: String, scope: RuleScope, grant: Option<GrantId>) -> Finding {
    Finding { says, rule, scope, grant }
}

/// Makes a rule ready.
fn ready(rule: &Rule, word: RuleWord, places: &Places) -> Result<Fits, String> {
    let Some(argument) = rule.argument() else { return Ok(Fits::Every) };
    match rule.tool() {
        "Bash" => Ok(Fits::Command(CommandPattern::new(argument))),
        "Read" | "Edit" | "Write" | "Glob" | "Grep" => {
            PathPattern::new(argument, places, word != RuleWord::Allow).map(Fits::Path)
        }
        "WebFetch" => match argument.strip_prefix("domain:").map(str::trim) {
            Some(host) if is_host(host) => Ok(Fits::Host(host.to_ascii_lowercase())),
            Some(_) | None => Err("it says domain:example.org".to_owned()),
        },
        tool => Err(format!("a rule about {tool} has no pattern")),
    }
}

fn is_host(host: &str) -> bool {
    let name = host.strip_prefix("*.").unwrap_or(host);
    !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':'))
}

/// Whether a pattern fits a host, label by label. One that denies fits what is below it, too.
fn fits_host(pattern: &str, host: &str, below: bool) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let under = |name: &str| host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
    match pattern.strip_prefix("*.") {
        Some(name) => under(name),
        None => host == pattern || (below && under(pattern)),
    }
}
