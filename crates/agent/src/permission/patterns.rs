//! Patterns of commands: `cargo test:*`, `npm run build`, `git * main`; a pattern fits whole words.

use super::paths::Fit;
use super::script::Part;
use super::words::Word;

/// A pattern of a single command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CommandPattern {
    /// These words, and whatever follows.
    Begins(Vec<String>),
    /// These words alone.
    Is(Vec<String>),
    /// The words in one line, with stars for whatever.
    Like(String),
}

impl CommandPattern {
    pub(super) fn new(text: &str) -> Self {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let open = text.strip_suffix(":*").or_else(|| text.strip_suffix(" *"));
        match open {
            Some(begin) if !begin.contains('*') => Self::Begins(words(begin)),
            Some(begin) => Self::Like(format!("{} *", words(begin).join(" "))),
            None if text.contains('*') => Self::Like(words(text).join(" ")),
            None => Self::Is(words(text)),
        }
    }

    /// Whether it fits a command exactly as it is written. What is computed is fitted only by what
    /// fits everything.
    pub(super) fn allows(&self, part: &Part) -> bool {
        let is = |word: &Word, text: &String| word.plain() == Some(text);
        match self {
            Self::Begins(words) => {
                !words.is_empty()
                    && part.words.len() >= words.len()
                    && part.words.iter().zip(words).all(|(word, text)| is(word, text))
            }
            Self::Is(words) => {
                part.words.len() == words.len()
                    && part.words.iter().zip(words).all(|(word, text)| is(word, text))
            }
            Self::Like(pattern) => {
                let words: Option<Vec<&str>> = part.words.iter().map(Word::plain).collect();
                words.is_some_and(|words| {
                    let line = words.join(" ");
                    wild(pattern, &line)
                        || pattern.strip_suffix(" *").is_some_and(|begin| wild(begin, &line))
                })
            }
        }
    }

    /// Whether it fits a command, however that is dressed up.
    pub(super) fn meets(&self, part: &Part) -> Fit {
        let last = if part.may_run_rest { part.words.len() } else { part.words.len().min(1) };
        let fits = (0..last).map(|from| self.meets_words(&part.words[from..]));
        fits.max().unwrap_or(Fit::No)
    }

    fn meets_words(&self, words: &[Word]) -> Fit {
        let mut shown: Vec<Option<String>> =
            words.iter().map(|word| word.text().map(undressed)).collect();
        let as_named = self.meets_shown(words, &shown);
        // A command may be named by its path.
        if let Some(Some(name)) = shown.first_mut()
            && let Some((_, base)) = name.rsplit_once('/')
        {
            *name = base.to_owned();
            return as_named.max(self.meets_shown(words, &shown));
        }
        as_named
    }

    fn meets_shown(&self, words: &[Word], shown: &[Option<String>]) -> Fit {
        match self {
            Self::Begins(pattern) if shown.len() < pattern.len() => could_grow(shown, pattern),
            Self::Is(pattern) if shown.len() != pattern.len() => could_grow(shown, pattern),
            Self::Begins(pattern) | Self::Is(pattern) => {
                let mut fit = Fit::Yes;
                for ((word, shown), text) in words.iter().zip(shown).zip(pattern) {
                    let text = undressed(text);
                    match shown {
                        None => return Fit::Maybe,
                        Some(shown) if word.is_wild() && wild(shown, &text) => fit = Fit::Maybe,
                        Some(shown) if *shown == text => {}
                        Some(_) => return Fit::No,
                    }
                }
                fit
            }
            Self::Like(pattern) => {
                let pattern: Vec<String> = pattern.split(' ').map(undressed).collect();
                let pattern = pattern.join(" ");
                let computed = shown.iter().any(Option::is_none);
                let line: Vec<&str> =
                    shown.iter().map(|word| word.as_deref().unwrap_or("*")).collect();
                let line = line.join(" ");
                let fits = wild(&pattern, &line)
                    || pattern.strip_suffix(" *").is_some_and(|begin| wild(begin, &line));
                match (fits, computed || words.iter().any(Word::is_wild)) {
                    (true, false) => Fit::Yes,
                    (true, true) => Fit::Maybe,
                    // What is computed may be what is missing.
                    (false, true) => {
                        let known = line.split('*').next().unwrap_or_default();
                        let begin = pattern.split('*').next().unwrap_or_default();
                        if begin.starts_with(known) || known.starts_with(begin) {
                            Fit::Maybe
                        } else {
                            Fit::No
                        }
                    }
                    (false, false) => Fit::No,
                }
            }
        }
    }
}

/// A computed word may become several.
fn could_grow(shown: &[Option<String>], pattern: &[String]) -> Fit {
    for (shown, text) in shown.iter().zip(pattern) {
        match shown {
            None => return Fit::Maybe,
            Some(shown) if *shown == undressed(text) => {}
            Some(_) => return Fit::No,
        }
    }
    Fit::No
}

/// A word without what changes nothing: doubled slashes, `./`, a slash at its end, its case.
fn undressed(text: &str) -> String {
    let text = text.replace("$HOME", "~").replace("${HOME}", "~").to_lowercase();
    if !text.contains('/') || text.contains("://") {
        return text;
    }
    let absolute = text.starts_with('/');
    let parts: Vec<&str> =
        text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let joined = parts.join("/");
    match (absolute, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}

/// Whether a text is like a pattern in which a star stands for whatever.
pub(super) fn wild(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(first) = parts.next() else { return text.is_empty() };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}
