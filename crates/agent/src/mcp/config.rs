//! Which server it is and how it is reached; it starts nothing.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use crate::models::Secret;

/// The longest name of a server: a tool's whole name has at most 64 bytes at every model's service.
const LONGEST: usize = 32;

/// A server's name, which is a part of its tools' names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerName(String);

impl ServerName {
    /// Reads a name.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if text.is_empty() || text.len() > LONGEST || !text.bytes().all(fits) {
            return Err(format!(
                "{text:?} is no name of a server: it has up to {LONGEST} letters, digits, - and _"
            ));
        }
        if text.contains("__") || text.ends_with('_') {
            return Err(format!("{text:?} is no name of a server: __ ends a name"));
        }
        Ok(Self(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// A program of this machine, by its standard input and output.
    Program {
        /// The program.
        program: String,
        /// Its arguments.
        arguments: Vec<String>,
        /// What it finds in its environment, beside what every command does.
        environment: Vec<(String, Secret)>,
        /// Whether it runs behind the wall that agents' commands run behind.
        sandbox: bool,
    },
    /// A place that is called by HTTP.
    Http {
        /// The URL.
        url: String,
        /// What is sent with every call.
        headers: Vec<(String, Secret)>,
    },
}

/// The servers that a team may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Them.
    pub servers: Vec<ServerConfig>,
    /// Why some are missing, where they are.
    pub fault: Option<String>,
}

/// A server, as the person's settings have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Its name.
    pub name: ServerName,
    /// How it is reached.
    pub way: Way,
    /// How long it may take to be ready.
    pub start: Duration,
    /// How long a call may take.
    pub call: Duration,
}

impl ServerConfig {
    /// How long a server may take to be ready, unless the person says otherwise.
    pub const START: Duration = Duration::from_mins(1);
    /// How long a call may take, unless the person says otherwise.
    pub const CALL: Duration = Duration::from_mins(2);

    /// A server with the usual times.
    pub fn new(name: ServerName, way: Way) -> Self {
        Self { name, way, start: Self::START, call: Self::CALL }
    }

    /// What tells one configuration from another.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.name.hash(&mut hasher);
        (self.start, self.call).hash(&mut hasher);
        let secrets = match &self.way {
            Way::Program { program, arguments, environment, sandbox } => {
                (program, arguments, sandbox).hash(&mut hasher);
                environment
            }
            Way::Http { url, headers } => {
                url.hash(&mut hasher);
                headers
            }
        };
        for (name, secret) in secrets {
            (name, secret.expose()).hash(&mut hasher);
        }
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_part_of_a_tools_name() {
        for name in ["github", "my-server_2", "A"] {
            assert_eq!(ServerName::parse(name).unwrap().as_str(), name);
        }
        for name in ["", "a b", "a__b", "a_", "ä", "x.y", &"a".repeat(33)] {
            assert!(ServerName::parse(name).is_err(), "{name}");
        }
    }
}
