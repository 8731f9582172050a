//! Names of hosts, and rules about them; an address in whatever disguise is no name.

use std::fmt;

/// The longest name that there is.
const LONGEST: usize = 253;
/// Ports of a rule that names none: the web's.
pub(super) const WEB: [u16; 2] = [443, 80];

/// A name in lower case, checked letter by letter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostName(String);

impl HostName {
    /// Reads a name as a program gave it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let shown: String = text.chars().take(80).flat_map(char::escape_debug).collect();
        let name = text.strip_suffix('.').unwrap_or(text);
        if name.is_empty() || name.len() > LONGEST {
            return Err(format!("\"{shown}\" is no name of a host"));
        }
        let letters = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_' || c == b'.';
        if !name.bytes().all(letters) {
            let address = name.contains(':') || name.starts_with('[');
            let why = if address { "is an address" } else { "holds characters that no name has" };
            return Err(format!("\"{shown}\" {why}; hosts are reached by name"));
        }
        let labels: Vec<&str> = name.split('.').collect();
        if labels.iter().any(|label| label.is_empty() || label.len() > 63) {
            return Err(format!("\"{shown}\" is no name of a host"));
        }
        // As programs read addresses: up to four numbers, decimal, octal or hexadecimal.
        let last = labels.last().copied().unwrap_or_default();
        if is_number(last) {
            return Err(format!("\"{shown}\" is an address; hosts are reached by name"));
        }
        let name = name.to_ascii_lowercase();
        let top = last.to_ascii_lowercase();
        if labels.len() == 1 || matches!(&*top, "localhost" | "local" | "localdomain" | "internal")
        {
            return Err(format!("\"{shown}\" is a name of this machine or of its own network"));
        }
        Ok(Self(name))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_number(label: &str) -> bool {
    let digits = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    match digits {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

/// A rule of the person's settings: `example.org`, `*.example.org` or `example.org:8443`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    name: HostName,
    below: bool,
    port: Option<u16>,
}

impl Rule {
    /// Reads a rule.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) => {
                let port = port.parse().map_err(|_| format!("{text:?}: {port:?} is no port"))?;
                (name, Some(port))
            }
            None => (text, None),
        };
        let (name, below) = name.strip_prefix("*.").map_or((name, false), |name| (name, true));
        Ok(Self { name: HostName::parse(name)?, below, port })
    }

    /// Whether it is about a host and port. One without a port is about the web's.
    pub(super) fn matches(&self, host: &HostName, port: u16) -> bool {
        self.is_about(host) && self.port.map_or(WEB.contains(&port), |own| own == port)
    }

    /// Whether it is about a host, at whatever port.
    pub(super) fn is_about(&self, host: &HostName) -> bool {
        let own = self.name.as_str();
        if self.below {
            // Label by label: `*.good.org` is not about `evilgood.org`.
            host.as_str().strip_suffix(own).is_some_and(|rest| rest.ends_with('.'))
        } else {
            host.as_str() == own
        }
    }

    /// Whether it names a port.
    pub(super) fn port(&self) -> Option<u16> {
        self.port
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_disguise_are_no_names() {
        for name in
            ["example.org", "a-b.c_d.example.org.", "XN--bcher-kva.example", "1.example.org"]
        {
            assert!(HostName::parse(name).is_ok(), "{name}");
        }
        let disguised = [
            "127.0.0.1",
            "127.1",
            "0",
            "0.0.0.0",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "017700000001",
            "0177.0.0.1",
            "127.0.0.1.",
            "[::1]",
            "::1",
            "::ffff:127.0.0.1",
            "[::ffff:7f00:1]",
            "example.0x7f",
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "router.local",
            "metadata.google.internal",
            "printer",
            "",
            ".",
            "a..b",
            "evil\0.good.org",
            "evil.org/x",
            "user@host.org",
            "ex ample.org",
            "exämple.org",
            "１２７.0.0.1",
            "a%2eb.org",
        ];
        for name in disguised {
            assert!(HostName::parse(name).is_err(), "{name:?}");
        }
        assert!(HostName::parse(&format!("{}.org", "a".repeat(64))).is_err());
        assert!(HostName::parse(&"a.".repeat(130)).is_err());
    }

    #[test]
    fn rules_compare_labels_and_ports() {
        let check = |rule: &str, host: &str, port: u16, expect: bool| {
            let rule = Rule::parse(rule).unwrap();
            assert_eq!(
                rule.matches(&HostName::parse(host).unwrap(), port),
                expect,
                "{host}:{port}"
            );
        };
        check("good.org", "good.org", 443, true);
        check("good.org", "good.org", 22, false);
        check("good.org:22", "good.org", 22, true);
        check("good.org:22", "good.org", 443, false);
        check("good.org", "good.org.evil.com", 443, false);
        check("good.org", "www.good.org", 443, false);
        check("*.good.org", "www.good.org", 80, true);
        check("*.good.org", "good.org", 443, false);
        check("*.good.org", "evilgood.org", 443, false);
        assert!(Rule::parse("*").is_err() && Rule::parse("10.0.0.1").is_err());
        assert!(Rule::parse("good.org:x").is_err());
    }
}
