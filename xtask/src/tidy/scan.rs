//! Rust text with comments and string contents told apart from code; a scanner, never a parser.

/// One Rust file.
#[derive(Debug)]
pub struct Source {
    /// Its path, relative to the root.
    pub path: String,
    /// Its text.
    pub text: String,
    /// Its text with comments and the contents of literals turned into blanks, line by line.
    pub code: String,
    /// Its string literals.
    pub literals: Vec<Literal>,
    test_lines: Vec<bool>,
}

/// One string literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    /// The line it begins on, from 1.
    pub line: usize,
    /// What stands between the quotes, escapes as written.
    pub text: String,
}

impl Source {
    /// Scans a file.
    pub fn scan(path: &str, text: &str) -> Self {
        let (code, literals) = Scanner::new(text).run();
        let test_lines = test_lines(path, &code);
        Self { path: path.to_owned(), text: text.to_owned(), code, literals, test_lines }
    }

    /// Whether a line, from 1, belongs to a test.
    pub fn is_test(&self, line: usize) -> bool {
        self.test_lines.get(line - 1).copied().unwrap_or(false)
    }

    /// The lines of code, numbered from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// The lines whose code holds `word` as a whole word. A word may hold `::`, `.`, `(`, `!`.
    pub fn lines_with<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        self.lines().filter(move |(_, line)| holds_word(line, word)).map(|(number, _)| number)
    }

    /// The line on which the byte `offset` of the code lies.
    pub fn line_at(&self, offset: usize) -> usize {
        self.code[..offset].matches('\n').count() + 1
    }
}

/// Whether `text` holds `word` with no identifier character touching its identifier ends.
pub(super) fn holds_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let open = word.starts_with(part);
    let close = word.ends_with(part);
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_some_and(part);
        let after = text[at + word.len()..].chars().next().is_some_and(part);
        !(open && before || close && after)
    })
}

/// The offset behind the bracket that closes the one at `open`.
pub(super) fn closing(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (offset, c) in code[open..].char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(open + offset + 1);
                }
            }
            _ => {}
        }
    }
    None
}

fn test_lines(path: &str, code: &str) -> Vec<bool> {
    let count = code.lines().count();
    let whole = path.starts_with("tests/")
        || path.contains("/tests/")
        || path.contains("/benches/")
        || path.ends_with("/tests.rs");
    let mut lines = vec![whole; count];
    if whole {
        return lines;
    }
    for (at, _) in code.match_indices("cfg(test)") {
        let rest = &code[at..];
        let Some(open) = rest.find(['{', ';']).filter(|i| rest.as_bytes()[*i] == b'{') else {
            continue;
        };
        let end = closing(code, at + open).unwrap_or(code.len());
        let first = code[..at].matches('\n').count();
        let last = code[..end].matches('\n').count();
        for line in lines.iter_mut().take(last + 1).skip(first) {
            *line = true;
        }
    }
    lines
}

/// Walks over the characters once.
struct Scanner {
    chars: Vec<char>,
    at: usize,
    line: usize,
    code: String,
    literals: Vec<Literal>,
}

impl Scanner {
    fn new(text: &str) -> Self {
        let code = String::with_capacity(text.len());
        Self { chars: text.chars().collect(), at: 0, line: 1, code, literals: Vec::new() }
    }

    fn run(mut self) -> (String, Vec<Literal>) {
        while let Some(c) = self.peek(0) {
            match (c, self.peek(1)) {
                ('/', Some('/')) => self.line_comment(),
                ('/', Some('*')) => self.block_comment(),
                ('"', _) => self.string(0, false),
                ('r' | 'b' | 'c', _) if !self.after_identifier() => self.prefixed(),
                ('\'', _) => self.quote(),
                _ => self.keep(),
            }
        }
        (self.code, self.literals)
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn after_identifier(&self) -> bool {
        self.at > 0 && {
            let before = self.chars[self.at - 1];
            before.is_alphanumeric() || before == '_'
        }
    }

    /// Takes one character over as code.
    fn keep(&mut self) {
        let c = self.chars[self.at];
        self.line += usize::from(c == '\n');
        self.code.push(c);
        self.at += 1;
    }

    /// Turns one character into a blank.
    fn blank(&mut self) -> char {
        let c = self.chars[self.at];
        self.line += usize::from(c == '\n');
        self.code.push(if c == '\n' { '\n' } else { ' ' });
        self.at += 1;
        c
    }

    fn line_comment(&mut self) {
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.blank();
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0usize;
        while self.peek(0).is_some() {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => {
                    depth += 1;
                    self.blank();
                    self.blank();
                }
                (Some('*'), Some('/')) => {
                    depth -= 1;
                    self.blank();
                    self.blank();
                    if depth == 0 {
                        return;
                    }
                }
                _ => {
                    self.blank();
                }
            }
        }
    }

    /// `r"`, `r#"`, `b"`, `br#"`, `b'`, `c"`, `cr"`, or an identifier that begins so.
    fn prefixed(&mut self) {
        let mut ahead = 1;
        let mut raw = self.peek(0) == Some('r');
        if !raw && self.peek(1) == Some('r') {
            raw = true;
            ahead = 2;
        }
        let mut hashes = 0;
        while raw && self.peek(ahead + hashes) == Some('#') {
            hashes += 1;
        }
        match self.peek(ahead + hashes) {
            Some('"') => {
                for _ in 0..ahead + hashes {
                    self.keep();
                }
                self.string(hashes, raw);
            }
            Some('\'') if self.peek(0) == Some('b') && ahead == 1 && !raw => {
                self.keep();
                self.quote();
            }
            _ => self.keep(),
        }
    }

    /// A string, from its opening quote.
    fn string(&mut self, hashes: usize, raw: bool) {
        let line = self.line;
        let mut text = String::new();
        self.keep();
        while let Some(c) = self.peek(0) {
            if c == '\\' && !raw {
                text.push(self.blank());
                if self.peek(0).is_some() {
                    text.push(self.blank());
                }
            } else if c == '"' && (1..=hashes).all(|ahead| self.peek(ahead) == Some('#')) {
                for _ in 0..=hashes {
                    self.keep();
                }
                break;
            } else {
                text.push(self.blank());
            }
        }
        self.literals.push(Literal { line, text });
    }

    /// A character literal, or a lifetime.
    fn quote(&mut self) {
        let escaped = self.peek(1) == Some('\\');
        if !escaped && self.peek(2) != Some('\'') {
            return self.keep();
        }
        self.keep();
        if escaped {
            self.blank();
        }
        self.blank();
        while self.peek(0).is_some_and(|c| c != '\'' && c != '\n') {
            self.blank();
        }
        if self.peek(0) == Some('\'') {
            self.keep();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, code: &str, literals: &[&str]) {
        let source = Source::scan("a.rs", text);
        assert_eq!(source.code, code);
        let found: Vec<_> = source.literals.iter().map(|l| l.text.as_str()).collect();
        assert_eq!(found, literals);
    }

    #[test]
    fn comments_are_blank() {
        check("a // b\nc /* d /* e */ f */ g", "a     \nc                   g", &[]);
    }

    #[test]
    fn strings_are_blank_and_collected() {
        check(r#"f("a\"b", r"c\")"#, r#"f("    ", r"  ")"#, &[r#"a\"b"#, r"c\"]);
        check("x(r#\"a\"b\"#)", "x(r#\"   \"#)", &["a\"b"]);
        check("b\"x\" br\"y\" bar", "b\" \" br\" \" bar", &["x", "y"]);
    }

    #[test]
    fn characters_are_not_lifetimes() {
        check("'\"' '\\'' b'{' &'a str", "' ' '  ' b' ' &'a str", &[]);
    }

    #[test]
    fn test_modules_are_known() {
        let source = Source::scan(
            "crates/x/src/a.rs",
            "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n",
        );
        let lines: Vec<_> = (1..=6).map(|line| source.is_test(line)).collect();
        assert_eq!(lines, [false, true, true, true, true, false]);
    }

    #[test]
    fn words_are_whole() {
        assert!(holds_word("a: Mutex<u8>", "Mutex"));
        assert!(!holds_word("a: MutexGuard<u8>", "Mutex"));
        assert!(holds_word("x.await?", ".await"));
        assert!(!holds_word("x.awaited", ".await"));
    }
}
