//! A shell command, read by a grammar into the single commands in it; it runs nothing, and what it
//! is not sure of it says.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use brush_parser::ast::{
    AndOr, AndOrList, AssignmentName, AssignmentValue, Command, CommandPrefixOrSuffixItem,
    CompoundCommand, CompoundList, ExtendedTestExpr, IoFileRedirectKind, IoFileRedirectTarget,
    IoRedirect, Pipeline, Program, RedirectList, SimpleCommand,
};
use brush_parser::ast::{BinaryPredicate, UnaryPredicate};
use brush_parser::{Parser, ast};

use super::words::{Word, options};

/// More single commands than this are not looked through.
const MOST_PARTS: usize = 50;
/// A longer text is not read.
const MOST_BYTES: usize = 32 * 1024;
/// Scripts in scripts (`sh -c`, `$(…)`) are read this deep.
const MOST_DEPTH: usize = 8;
/// With more nested constructs than this a text is read on a stack of its own.
const NESTED: usize = 24;
/// With more it is not read.
const MOST_NESTED: usize = 400;
/// With more parentheses that follow on another one it is not read.
const MOST_DOUBLED: usize = 8;
/// Bytes of that stack.
const STACK: usize = 64 * 1024 * 1024;

/// Why a text that is no command is not looked through.
const UNREADABLE: &str = "it cannot be read as a shell command";

/// A shell command, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// The single commands, in the order in which they stand.
    pub parts: Vec<Part>,
    /// Why what it does is not known before it runs, where it is not.
    pub computed: Option<&'static str>,
    /// Why it could not be looked through, where it could not.
    pub limit: Option<Limit>,
}

/// Why a command could not be looked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(pub &'static str);

/// One single command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Its words; the first is its name.
    pub words: Vec<Word>,
    /// The variables that it sets before it runs.
    pub sets: Vec<String>,
    /// The files that the shell opens for it.
    pub opens: Vec<Opened>,
    /// Whether it only runs another part, which is judged for itself.
    pub only_runs: bool,
    /// Whether its later words are a command too, for all that is known.
    pub may_run_rest: bool,
}

/// A file that the shell opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Which.
    pub path: Word,
    /// Whether it is written.
    pub writes: bool,
}

impl Part {
    /// Its name, where that is known.
    pub fn name(&self) -> Option<&str> {
        self.words.first().and_then(Word::plain)
    }
}

impl Script {
    /// Reads a command. Whatever it is, this ends, and never fails.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let nested = nesting(text);
        if nested > MOST_NESTED || doubled(text) > MOST_DOUBLED {
            return Self::limited("it is nested deeper than is looked");
        }
        let read = || catch_unwind(AssertUnwindSafe(|| Self::read_here(text)));
        // What is nested deeper than this thread's stack allows gets a stack of its own.
        let script = if nested <= NESTED {
            read().ok()
        } else {
            thread::scope(|scope| {
                let reader = thread::Builder::new().stack_size(STACK);
                reader.spawn_scoped(scope, || read().ok()).ok()?.join().ok()?
            })
        };
        script.unwrap_or_else(|| Self::limited(UNREADABLE))
    }

    fn limited(why: &'static str) -> Self {
        Self { limit: Some(Limit(why)), ..Self::default() }
    }

    fn read_here(text: &str) -> Self {
        let mut script = Self::default();
        let mut reader = Reader { script: &mut script, substituted: 0, depth: 0 };
        reader.text(text);
        let substituted = reader.substituted;
        // A second look, of another kind: every opening of a command in a command was met.
        if script.limit.is_none() && openings(text) > substituted {
            script.computed.get_or_insert("a part of it may be a command of its own");
        }
        script
    }

    /// Whether all that it does is known.
    pub fn is_known(&self) -> bool {
        self.computed.is_none() && self.limit.is_none()
    }

    /// Why it is not known what it does, where it is not.
    pub fn unknown(&self) -> Option<&'static str> {
        self.limit.map(|Limit(why)| why).or(self.computed)
    }
}

/// How many commands in commands a text opens at most, its here-documents and quotes aside.
fn openings(text: &str) -> usize {
    let dollar =
        text.match_indices("$(").filter(|(at, _)| !text[at + 2..].starts_with('(')).count();
    let process = text.matches("<(").count() + text.matches(">(").count();
    dollar + process + text.matches('`').count().div_ceil(2)
}

/// Reads into a script.
pub(super) struct Reader<'s> {
    pub(super) script: &'s mut Script,
    /// The commands in words that were met.
    pub(super) substituted: usize,
    depth: usize,
}

impl Reader<'_> {
    /// What is done is not known before it runs.
    pub(super) fn computed(&mut self, why: &'static str) {
        self.script.computed.get_or_insert(why);
    }

    /// It cannot be looked through.
    pub(super) fn unreadable(&mut self, why: &'static str) {
        self.script.limit.get_or_insert(Limit(why));
    }

    /// Reads a script that stands in this one.
    pub(super) fn nested(&mut self, text: &str) {
        if self.depth >= MOST_DEPTH {
            self.unreadable("it has commands in commands, deeper than is looked");
            return;
        }
        self.depth += 1;
        self.text(text);
        self.depth -= 1;
    }

    fn text(&mut self, text: &str) {
        if text.len() > MOST_BYTES {
            return self.unreadable("it is longer than is looked through");
        }
        if text.chars().any(is_strange) {
            return self.unreadable("it has characters that do not show or look like others");
        }
        match program(text) {
            Some(program) => self.program(&program),
            None => self.unreadable(UNREADABLE),
        }
    }

    fn program(&mut self, program: &Program) {
        for list in &program.complete_commands {
            self.list(list);
        }
    }

    fn list(&mut self, CompoundList(items): &CompoundList) {
        for ast::CompoundListItem(item, _) in items {
            let AndOrList { first, additional } = item;
            self.pipeline(first);
            for AndOr::And(pipeline) | AndOr::Or(pipeline) in additional {
                self.pipeline(pipeline);
            }
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline) {
        for command in &pipeline.seq {
            self.command(command);
        }
    }

    fn command(&mut self, command: &Command) {
        match command {
            Command::Simple(simple) => self.simple_command(simple),
            Command::Compound(compound, redirects) => {
                self.compound(compound);
                self.redirects(redirects.as_ref());
            }
            Command::Function(function) => {
                let ast::FunctionBody(body, redirects) = &function.body;
                self.word(&function.fname.value);
                self.compound(body);
                self.redirects(redirects.as_ref());
            }
            Command::ExtendedTest(test, redirects) => {
                self.test(&test.expr);
                self.redirects(redirects.as_ref());
            }
        }
    }

    fn compound(&mut self, compound: &CompoundCommand) {
        match compound {
            CompoundCommand::Arithmetic(arithmetic) => {
                // `( (rm x) )` is two subshells for bash, and arithmetic for this grammar.
                self.computed("it may be arithmetic, or commands in parentheses");
                self.nested(&arithmetic.expr.value);
            }
            CompoundCommand::ArithmeticForClause(clause) => {
                for part in [&clause.initializer, &clause.condition, &clause.updater] {
                    self.arithmetic(part.as_ref().map_or("", |part| &part.value));
                }
                self.list(&clause.body.list);
            }
            CompoundCommand::BraceGroup(group) => self.list(&group.list),
            CompoundCommand::Subshell(subshell) => self.list(&subshell.list),
            CompoundCommand::ForClause(clause) => {
                for value in clause.values.iter().flatten() {
                    self.word(&value.value);
                }
                self.sets(&clause.variable_name);
                self.list(&clause.body.list);
            }
            CompoundCommand::CaseClause(clause) => {
                self.word(&clause.value.value);
                for case in &clause.cases {
                    for pattern in &case.patterns {
                        self.word(&pattern.value);
                    }
                    if let Some(list) = &case.cmd {
                        self.list(list);
                    }
                }
            }
            CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition);
                self.list(&clause.then);
                for other in clause.elses.iter().flatten() {
                    if let Some(condition) = &other.condition {
                        self.list(condition);
                    }
                    self.list(&other.body);
                }
            }
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                self.list(&clause.0);
                self.list(&clause.1.list);
            }
            CompoundCommand::Coprocess(coprocess) => {
                self.computed("it begins a coprocess");
                self.command(&coprocess.body);
            }
        }
    }

    /// A loop's variable is set like any other.
    fn sets(&mut self, name: &str) {
        self.part(Part { sets: vec![name.to_owned()], ..Part::default() });
    }

    fn test(&mut self, test: &ExtendedTestExpr) {
        match test {
            ExtendedTestExpr::And(one, other) | ExtendedTestExpr::Or(one, other) => {
                self.test(one);
                self.test(other);
            }
            ExtendedTestExpr::Not(inner) | ExtendedTestExpr::Parenthesized(inner) => {
                self.test(inner);
            }
            ExtendedTestExpr::UnaryTest(predicate, word) => {
                if matches!(
                    predicate,
                    UnaryPredicate::ShellVariableIsSetAndAssigned
                        | UnaryPredicate::ShellVariableIsSetAndNameRef
                ) {
                    self.computed("it looks a variable up by a computed name");
                }
                self.word(&word.value);
            }
            ExtendedTestExpr::BinaryTest(predicate, one, other) => {
                let counts = matches!(
                    predicate,
                    BinaryPredicate::ArithmeticEqualTo
                        | BinaryPredicate::ArithmeticNotEqualTo
                        | BinaryPredicate::ArithmeticLessThan
                        | BinaryPredicate::ArithmeticLessThanOrEqualTo
                        | BinaryPredicate::ArithmeticGreaterThan
                        | BinaryPredicate::ArithmeticGreaterThanOrEqualTo
                );
                for word in [one, other] {
                    let word = self.word(&word.value);
                    if counts {
                        self.arithmetic(word.text().unwrap_or("computed"));
                    }
                }
            }
        }
    }

    fn simple_command(&mut self, command: &SimpleCommand) {
        let mut part = Part::default();
        let before = command.prefix.iter().flat_map(|prefix| &prefix.0);
        for item in before {
            self.item(item, &mut part, true);
        }
        if let Some(name) = &command.word_or_name {
            let name = self.word(&name.value);
            part.words.push(name);
        }
        for item in command.suffix.iter().flat_map(|suffix| &suffix.0) {
            self.item(item, &mut part, false);
        }
        self.simple(part);
    }

    fn item(&mut self, item: &CommandPrefixOrSuffixItem, part: &mut Part, before: bool) {
        match item {
            CommandPrefixOrSuffixItem::IoRedirect(redirect) => self.redirect(redirect, part),
            CommandPrefixOrSuffixItem::Word(word) => {
                let word = self.word(&word.value);
                part.words.push(word);
            }
            CommandPrefixOrSuffixItem::AssignmentWord(assignment, word) => {
                let name = match &assignment.name {
                    AssignmentName::VariableName(name) => name,
                    AssignmentName::ArrayElementName(name, index) => {
                        self.arithmetic(index);
                        name
                    }
                };
                match &assignment.value {
                    AssignmentValue::Scalar(value) => {
                        self.word(&value.value);
                    }
                    AssignmentValue::Array(values) => {
                        for (index, value) in values {
                            if let Some(index) = index {
                                self.arithmetic(&index.value);
                            }
                            self.word(&value.value);
                        }
                    }
                }
                if before {
                    part.sets.push(name.clone());
                } else {
                    // What was met in the value has been met once.
                    let met = self.substituted;
                    let word = self.word(&word.value);
                    self.substituted = met;
                    part.words.push(word);
                }
            }
            CommandPrefixOrSuffixItem::ProcessSubstitution(_, subshell) => {
                self.substituted += 1;
                self.list(&subshell.list);
                part.words.push(Word::computed());
            }
        }
    }

    fn redirects(&mut self, redirects: Option<&RedirectList>) {
        let Some(RedirectList(redirects)) = redirects else { return };
        let mut part = Part::default();
        for redirect in redirects {
            self.redirect(redirect, &mut part);
        }
        self.part(part);
    }

    fn redirect(&mut self, redirect: &IoRedirect, part: &mut Part) {
        match redirect {
            IoRedirect::File(_, kind, target) => {
                let writes = match kind {
                    IoFileRedirectKind::Read | IoFileRedirectKind::DuplicateInput => false,
                    IoFileRedirectKind::Write
                    | IoFileRedirectKind::Append
                    | IoFileRedirectKind::ReadAndWrite
                    | IoFileRedirectKind::Clobber
                    | IoFileRedirectKind::DuplicateOutput => true,
                };
                match target {
                    IoFileRedirectTarget::Fd(_) => {}
                    IoFileRedirectTarget::Filename(word) => {
                        let path = self.word(&word.value);
                        part.opens.push(Opened { path, writes });
                    }
                    IoFileRedirectTarget::Duplicate(word) => {
                        let path = self.word(&word.value);
                        let is_number = path.plain().is_some_and(|text| {
                            let digits = text.trim_end_matches('-');
                            digits.bytes().all(|b| b.is_ascii_digit())
                        });
                        if !is_number {
                            part.opens.push(Opened { path, writes });
                        }
                    }
                    IoFileRedirectTarget::ProcessSubstitution(_, subshell) => {
                        self.substituted += 1;
                        self.list(&subshell.list);
                    }
                }
            }
            IoRedirect::HereDocument(_, document) => {
                if document.requires_expansion {
                    self.here_document(&document.doc.value);
                }
            }
            IoRedirect::HereString(_, word) => {
                self.word(&word.value);
            }
            IoRedirect::OutputAndError(word, _) => {
                let path = self.word(&word.value);
                part.opens.push(Opened { path, writes: true });
            }
        }
    }

    /// Adds a single command as it is.
    pub(super) fn part(&mut self, part: Part) {
        if self.script.parts.len() >= MOST_PARTS {
            self.unreadable("it has more than 50 commands in it");
            return;
        }
        self.script.parts.push(part);
    }
}

/// Characters with which a text reads otherwise for a person than for a shell.
fn is_strange(c: char) -> bool {
    !matches!(c, ' ' | '\n' | '\t') && (c.is_whitespace() || aion_core::text::is_unseen(c))
}

/// Reads a text by the grammar.
fn program(text: &str) -> Option<Program> {
    Parser::new(text.as_bytes(), &options()).parse_program().ok()
}

/// How many parentheses follow on another one. For each the grammar looks at two ways to read it,
/// and at all of what follows for both.
fn doubled(text: &str) -> usize {
    let seen = text.chars().filter(|c| !c.is_whitespace());
    seen.clone().zip(seen.skip(1)).filter(|pair| *pair == ('(', '(')).count()
}

/// How deep a text may be nested at most.
fn nesting(text: &str) -> usize {
    let openings = text.chars().filter(|c| matches!(c, '(' | '{' | '`' | '[')).count();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    openings
        + words
            .filter(|word| {
                matches!(
                    *word,
                    "if" | "while" | "until" | "for" | "case" | "select" | "do" | "coproc"
                )
            })
            .count()
}
