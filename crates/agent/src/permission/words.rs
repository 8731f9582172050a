//! The words of a shell command as far as they are known before it runs; it expands nothing.

use brush_parser::ParserOptions;
use brush_parser::word::{
    Parameter, ParameterExpr, TildeExpr, WordPiece, WordPieceWithSource, parse, parse_heredoc,
};

use super::script::Reader;

/// One word of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    text: Option<String>,
    wild: bool,
    home: bool,
}

/// A word that opens more expansions is not read.
const MOST_OPENED: usize = 6;

/// Stands for the home directory until it is known.
pub(super) const HOME: &str = "~";

impl Word {
    /// A word that is known.
    #[must_use]
    pub fn known(text: &str) -> Self {
        Self { text: Some(text.to_owned()), ..Self::default() }
    }

    /// A word that only the shell will know.
    #[must_use]
    pub fn computed() -> Self {
        Self::default()
    }

    /// What it is, without quotes, if that is known before the command runs. Wildcards are in it as
    /// they are written, and `~` stands for the home directory.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// What it is, where it is that alone: no wildcard, no home directory.
    pub fn plain(&self) -> Option<&str> {
        self.text().filter(|_| !self.wild && !self.home)
    }

    /// Whether the shell replaces it by the names of files that fit.
    pub fn is_wild(&self) -> bool {
        self.wild
    }

    fn push(&mut self, text: &str) {
        if let Some(known) = &mut self.text {
            known.push_str(text);
        }
    }
}

impl Reader<'_> {
    /// Reads a word; commands in it are read too.
    pub(super) fn word(&mut self, raw: &str) -> Word {
        if opened(raw) > MOST_OPENED {
            self.unreadable("a word of it has more expansions than are looked through");
            return Word::computed();
        }
        if let Ok(pieces) = parse(raw, &options()) {
            self.pieces(&pieces)
        } else {
            self.unreadable("a word of it cannot be read");
            Word::computed()
        }
    }

    /// Reads the text of a here-document, in which quotes mean nothing.
    pub(super) fn here_document(&mut self, raw: &str) {
        if opened(raw) > MOST_OPENED {
            self.unreadable("a here-document of it has more expansions than are looked through");
            return;
        }
        match parse_heredoc(raw, &options()) {
            Ok(pieces) => {
                self.pieces(&pieces);
            }
            Err(_) => self.unreadable("a here-document of it cannot be read"),
        }
    }

    fn pieces(&mut self, pieces: &[WordPieceWithSource]) -> Word {
        let mut word = Word::known("");
        self.add(pieces, false, &mut word);
        if word.text() == Some("[") {
            // It is a command's name.
            word.wild = false;
        }
        word
    }

    fn add(&mut self, pieces: &[WordPieceWithSource], quoted: bool, word: &mut Word) {
        for WordPieceWithSource { piece, .. } in pieces {
            match piece {
                WordPiece::Text(text) if quoted => word.push(text),
                WordPiece::Text(text) => {
                    if is_brace_expansion(text) {
                        word.text = None;
                    }
                    word.wild |= text.contains(['*', '?', '[']) || is_extended_glob(text);
                    word.push(text);
                }
                WordPiece::SingleQuotedText(text) => word.push(text),
                WordPiece::AnsiCQuotedText(text) if !text.contains('\\') => word.push(text),
                WordPiece::DoubleQuotedSequence(inner) => self.add(inner, true, word),
                WordPiece::GettextDoubleQuotedSequence(inner) => {
                    self.add(inner, true, word);
                    word.text = None;
                }
                WordPiece::TildeExpansion(TildeExpr::Home) => {
                    word.home = true;
                    word.push(HOME);
                }
                WordPiece::AnsiCQuotedText(_) | WordPiece::TildeExpansion(_) => word.text = None,
                WordPiece::EscapeSequence(text) => match text.strip_prefix('\\') {
                    Some("\n") => {}
                    Some(rest) => word.push(rest),
                    None => word.text = None,
                },
                WordPiece::ParameterExpansion(expression) => {
                    self.parameter(expression, word);
                }
                WordPiece::CommandSubstitution(text)
                | WordPiece::BackquotedCommandSubstitution(text) => {
                    self.substituted += 1;
                    self.nested(text);
                    word.text = None;
                }
                WordPiece::ArithmeticExpression(expression) => {
                    self.arithmetic(&expression.value);
                    word.text = None;
                }
            }
        }
    }

    fn parameter(&mut self, expression: &ParameterExpr, word: &mut Word) {
        match expression {
            ParameterExpr::Parameter { parameter: Parameter::Named(name), indirect: false }
                if name == "HOME" && word.text() == Some("") =>
            {
                word.home = true;
                word.push(HOME);
                return;
            }
            ParameterExpr::Parameter {
                parameter: Parameter::Named(_) | Parameter::Positional(_) | Parameter::Special(_),
                indirect: false,
            }
            | ParameterExpr::ParameterLength { indirect: false, .. } => {}
            ParameterExpr::Transform { .. } | ParameterExpr::Substring { .. } => {
                self.computed("an expansion in it may run more than is written");
            }
            other => {
                // What stands inside is shown by the grammar's own words for it.
                let shown = format!("{other:?}");
                let hides = ["$(", "`", "<(", ">(", "indirect: true", "NamedWithIndex"];
                if hides.iter().any(|hiding| shown.contains(hiding)) {
                    self.computed("an expansion in it may run more than is written");
                }
            }
        }
        word.text = None;
    }

    /// Arithmetic looks names up, and what a name holds can run commands.
    pub(super) fn arithmetic(&mut self, text: &str) {
        let plain = |c: char| {
            c.is_ascii_digit() || c.is_ascii_whitespace() || "+-*/%()<>=&|^!~?:,".contains(c)
        };
        if !text.chars().all(plain) {
            self.computed("its arithmetic has more than numbers in it");
        }
    }
}

/// How many expansions a text opens. For those that are not closed the grammar looks at everything
/// again and again.
fn opened(text: &str) -> usize {
    ["$(", "${", "$[", "`"].iter().map(|opening| text.matches(opening).count()).sum()
}

/// The grammar's options; commands are run by bash.
pub(super) fn options() -> ParserOptions {
    ParserOptions::default()
}

/// Whether unquoted text has braces that the shell unfolds.
fn is_brace_expansion(text: &str) -> bool {
    text.split('{').skip(1).any(|after| after.contains(',') || after.contains(".."))
        && text.contains('}')
        || (text.contains('{') && !text.contains('}') && text != "{")
}

fn is_extended_glob(text: &str) -> bool {
    ["@(", "+(", "!(", "?(", "*("].iter().any(|opening| text.contains(opening))
}
