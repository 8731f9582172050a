//! What the child process says to the loop, one line each, written at once; it carries no answers.

use std::fmt;
use std::io::{self, Write};

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// The store is open, and the team is being opened.
    Opening,
    /// The team works again: a fresh message was processed.
    Resumed,
    /// A message with this key is about to be submitted.
    Intent(String),
    /// It was accepted, under this number.
    Accepted(String, u64),
    /// An agent was told that its message with this token was accepted.
    Told(String),
    /// No mail and no turn is left.
    Settled,
    /// The child cannot go on.
    Failed(String),
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opening => f.write_str("opening"),
            Self::Resumed => f.write_str("resumed"),
            Self::Intent(key) => write!(f, "intent {key}"),
            Self::Accepted(key, id) => write!(f, "accepted {key} {id}"),
            Self::Told(token) => write!(f, "told {token}"),
            Self::Settled => f.write_str("settled"),
            Self::Failed(why) => write!(f, "failed {}", why.replace('\n', " ")),
        }
    }
}

impl Word {
    /// Reads a line; none where it was cut off by a kill.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "opening" => Some(Self::Opening),
            "resumed" => Some(Self::Resumed),
            "intent" => Some(Self::Intent(rest.to_owned())),
            "accepted" => {
                let (key, id) = rest.split_once(' ')?;
                Some(Self::Accepted(key.to_owned(), id.parse().ok()?))
            }
            "told" => Some(Self::Told(rest.to_owned())),
            "settled" => Some(Self::Settled),
            "failed" => Some(Self::Failed(rest.to_owned())),
            _ => None,
        }
    }

    /// Says it on standard output, in one write. Without a listener the child has no reason to go
    /// on, and ends.
    pub(crate) fn say(&self) {
        let mut out = io::stdout().lock();
        if out.write_all(format!("{self}\n").as_bytes()).and_then(|()| out.flush()).is_err() {
            std::process::exit(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_were_said() {
        for word in [
            Word::Opening,
            Word::Resumed,
            Word::Intent("m-1-2".to_owned()),
            Word::Accepted("m-1-2".to_owned(), 7),
            Word::Told("a-lead-3-0".to_owned()),
            Word::Settled,
            Word::Failed("open the store".to_owned()),
        ] {
            assert_eq!(Word::parse(&word.to_string()), Some(word));
        }
        assert_eq!(Word::parse("accepted m-1"), None);
    }
}
