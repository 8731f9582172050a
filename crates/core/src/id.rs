//! The identifiers of a team, one type each; it never draws a random one itself.
//!
//! Ids that a decision makes are counters in the team's state and are written as plain numbers.
//! Handles that must not be guessed are drawn by the shell and enter as values.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use unicode_security::confusable_detection::skeleton;

macro_rules! counter_id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The id after this one.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            /// Accepts the number with or without its prefix.
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                text.strip_prefix($prefix)
                    .unwrap_or(text)
                    .parse()
                    .map(Self)
                    .map_err(|_| InvalidId { kind: stringify!($name), given: clip(text) })
            }
        }
    };
}

counter_id! {
    /// A place in a team. It survives renames and restarts and is never reused.
    SlotId(u32), "s"
}
counter_id! {
    /// One accepted message of a team; a broadcast has one id and many recipients.
    MessageId(u64), "m"
}
counter_id! {
    /// One task on a team's board.
    TaskId(u32), "#"
}
counter_id! {
    /// One turn of one agent.
    TurnId(u64), "t"
}
counter_id! {
    /// One request that somebody has to decide.
    RequestId(u64), "r"
}
counter_id! {
    /// One standing permission.
    GrantId(u64), "g"
}
counter_id! {
    /// The place of an event in its team's log; the first is 1, and 0 means "before all".
    Seq(u64), ""
}

impl SlotId {
    /// The lead's slot: a team is born with it.
    pub const LEAD: Self = Self(1);
}

/// A text that is no id of the kind asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a valid {kind}")]
pub struct InvalidId {
    /// The kind of id that was expected.
    pub kind: &'static str,
    /// What was given, shortened.
    pub given: String,
}

fn clip(text: &str) -> String {
    let mut out: String = text.chars().take(40).collect();
    if out.len() < text.len() {
        out.push('…');
    }
    out
}

macro_rules! handle_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Takes a handle that was drawn elsewhere: 1 to 64 of `a-z`, `0-9` and `-`.
            pub fn new(text: impl Into<String>) -> Result<Self, InvalidId> {
                let text = text.into();
                let fits = !text.is_empty()
                    && text.len() <= 64
                    && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
                if fits {
                    Ok(Self(text))
                } else {
                    Err(InvalidId { kind: stringify!($name), given: clip(&text) })
                }
            }

            /// The handle as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(text: String) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
    };
}

handle_id! {
    /// A team. Random, so that it cannot be guessed, and never sufficient for access.
    TeamId
}
handle_id! {
    /// One agent's conversation: where its transcript is kept.
    ConversationId
}
handle_id! {
    /// One submitted command; the store finds it again after an unknown commit.
    CommandId
}

/// A tool call's own id, as the model gave it; unique in its turn.
pub type CallId = String;

/// The longest agent name, in bytes.
pub const MAX_NAME_BYTES: usize = 32;
/// The longest display label, in characters.
pub const MAX_LABEL_CHARS: usize = 64;

/// The name by which members address each other: an ASCII slug, unique in its team.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AgentName(String);

/// Why a text cannot be an agent's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// Nothing was given.
    #[error("a name must not be empty; use letters, digits and '-', for example \"writer\"")]
    Empty,
    /// Longer than [`MAX_NAME_BYTES`].
    #[error("a name has at most {MAX_NAME_BYTES} bytes; this one has {0}")]
    TooLong(usize),
    /// A character outside the slug alphabet.
    #[error(
        "a name may contain only letters a-z, digits and '-'; {0:?} is not allowed (use the display label for anything else)"
    )]
    BadCharacter(char),
    /// Begins or ends with a hyphen.
    #[error("a name begins and ends with a letter or digit")]
    BadEdge,
    /// Reads like a party that everybody trusts.
    #[error("the name {0:?} is reserved, or looks like a reserved one; choose another")]
    Reserved(String),
}

/// Names that no teammate may carry or resemble.
const RESERVED: [&str; 12] = [
    "team-lead",
    "lead",
    "leader",
    "user",
    "human",
    "system",
    "everyone",
    "all",
    "daemon",
    "aion",
    "assistant",
    "me",
];

impl AgentName {
    /// The name of every team's lead.
    #[must_use]
    pub fn lead() -> Self {
        Self("team-lead".to_owned())
    }

    /// Reads a teammate's name. Upper case is folded; everything else outside the alphabet is refused.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let text = text.trim_matches(' ');
        if text.is_empty() {
            return Err(InvalidName::Empty);
        }
        if text.len() > MAX_NAME_BYTES {
            return Err(InvalidName::TooLong(text.len()));
        }
        let name = text.to_ascii_lowercase();
        if let Some(bad) =
            name.chars().find(|c| !(c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-'))
        {
            return Err(InvalidName::BadCharacter(bad));
        }
        if name.starts_with('-') || name.ends_with('-') {
            return Err(InvalidName::BadEdge);
        }
        let bare = |s: &str| look_alike(s).replace('-', "");
        if RESERVED.iter().any(|r| bare(r) == bare(&name)) {
            return Err(InvalidName::Reserved(name));
        }
        Ok(Self(name))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What the name looks like at a glance; two names of one team never share it.
    #[must_use]
    pub fn look_alike(&self) -> String {
        look_alike(&self.0)
    }
}

/// Folds the ASCII letters and digits that are taken for one another.
fn look_alike(slug: &str) -> String {
    slug.replace("rn", "m").replace("vv", "w").replace('0', "o").replace(['1', 'i'], "l")
}

/// Whether a display label is fit to be shown: short, printable, and no imitation of a trusted party.
pub fn check_label(label: &str) -> Result<(), InvalidName> {
    if label.trim().is_empty() {
        return Err(InvalidName::Empty);
    }
    if label.chars().count() > MAX_LABEL_CHARS {
        return Err(InvalidName::TooLong(label.len()));
    }
    if let Some(bad) = label.chars().find(|c| c.is_control() || is_invisible(*c)) {
        return Err(InvalidName::BadCharacter(bad));
    }
    let seen: String =
        skeleton(&label.to_lowercase()).filter(char::is_ascii_alphanumeric).collect();
    let plain = |s: &str| -> String { skeleton(s).filter(char::is_ascii_alphanumeric).collect() };
    if RESERVED.iter().any(|r| plain(r) == seen) {
        return Err(InvalidName::Reserved(label.to_owned()));
    }
    Ok(())
}

/// Characters that show nothing or turn the direction of what follows.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for AgentName {
    type Error = InvalidName;
    fn try_from(text: String) -> Result<Self, InvalidName> {
        if text == "team-lead" { Ok(Self::lead()) } else { Self::parse(&text) }
    }
}

impl From<AgentName> for String {
    fn from(name: AgentName) -> String {
        name.0
    }
}

/// The address of an agent across teams: `name@team`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AgentId {
    /// The name inside the team.
    pub name: AgentName,
    /// The team.
    pub team: TeamId,
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.team)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_slugs_and_everything_else_says_why() {
        assert_eq!(AgentName::parse("Bob").unwrap().as_str(), "bob");
        assert_eq!(AgentName::parse(""), Err(InvalidName::Empty));
        assert_eq!(AgentName::parse(".."), Err(InvalidName::BadCharacter('.')));
        assert_eq!(AgentName::parse("a/b"), Err(InvalidName::BadCharacter('/')));
        assert_eq!(AgentName::parse("a\0b"), Err(InvalidName::BadCharacter('\0')));
        assert_eq!(AgentName::parse("bоb"), Err(InvalidName::BadCharacter('о')));
        assert_eq!(AgentName::parse(&"x".repeat(300)), Err(InvalidName::TooLong(300)));
        assert_eq!(AgentName::parse("-x"), Err(InvalidName::BadEdge));
    }

    #[test]
    fn nobody_is_called_like_the_lead_or_the_user() {
        for name in
            ["team-lead", "teamlead", "Team-Lead", "tearn-lead", "leader", "user", "1ead", "aii"]
        {
            assert!(matches!(AgentName::parse(name), Err(InvalidName::Reserved(_))), "{name}");
        }
        for label in ["Team Lead", "Tеam Lеad", "TEAM\u{2d}LEAD", "Usеr"] {
            assert!(matches!(check_label(label), Err(InvalidName::Reserved(_))), "{label}");
        }
        assert_eq!(check_label("a\u{202e}b"), Err(InvalidName::BadCharacter('\u{202e}')));
        assert_eq!(check_label("Писатель № 1 ✍"), Ok(()));
    }

    #[test]
    fn twins_share_a_look() {
        let look = |n: &str| AgentName::parse(n).unwrap().look_alike();
        assert_eq!(look("b0b"), look("bob"));
        assert_eq!(look("mia"), look("rnla"));
        assert_ne!(look("worker-1"), look("worker-2"));
    }
}
