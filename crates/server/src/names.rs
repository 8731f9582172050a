//! The names under which this daemon is called, and its own addresses; it answers to no other.

use std::net::SocketAddr;

/// The daemon's own names, made once.
#[derive(Debug)]
pub(crate) struct Names {
    /// `host:port`, as a `Host` header says them.
    hosts: Vec<String>,
    /// `scheme://host:port`, as an `Origin` header says them.
    origins: Vec<String>,
    port: u16,
    secure: bool,
}

impl Names {
    /// The names of a daemon that listens on an address. `more` are names that people gave it.
    pub(crate) fn new(address: SocketAddr, secure: bool, more: &[String]) -> Self {
        let mut named: Vec<String> = more.to_vec();
        let own = match address {
            SocketAddr::V4(v4) => v4.ip().to_string(),
            SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
        };
        let usual = ["127.0.0.1", "localhost", "[::1]"].map(str::to_owned);
        // The first one is what people are told.
        let own = (!address.ip().is_unspecified()).then_some(own);
        named.extend(own.into_iter().chain(usual));
        let mut seen = std::collections::BTreeSet::new();
        named.retain(|name| seen.insert(name.clone()));
        let (scheme, usual) = if secure { ("https", 443) } else { ("http", 80) };
        let port = address.port();
        let mut hosts: Vec<String> = named.iter().map(|name| format!("{name}:{port}")).collect();
        if port == usual {
            hosts.extend(named);
        }
        let origins = hosts.iter().map(|host| format!("{scheme}://{host}")).collect();
        Self { hosts, origins, port, secure }
    }

    /// Whether a `Host` is one of them.
    pub(crate) fn is_host(&self, given: &str) -> bool {
        self.hosts.iter().any(|host| host.eq_ignore_ascii_case(given))
    }

    /// Whether an `Origin` is one of them.
    pub(crate) fn is_origin(&self, given: &str) -> bool {
        self.origins.iter().any(|origin| origin == given)
    }

    /// The address to give to people: the first name.
    pub(crate) fn origin(&self) -> &str {
        self.origins.first().map(String::as_str).unwrap_or_default()
    }

    /// Where a login code is used.
    pub(crate) fn login_link(&self, code: &str) -> String {
        format!("{}/login?code={code}", self.origin())
    }

    /// The session's cookie. Browsers keep cookies by host and not by port: each daemon has its own.
    pub(crate) fn cookie(&self) -> String {
        format!("aion_session_{}", self.port)
    }

    /// What a cookie has to say so that it never travels in the clear.
    pub(crate) fn cookie_security(&self) -> &'static str {
        if self.secure { "; Secure" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_answers_to_its_own_names_alone() {
        let check = |address: &str, secure, more: &[&str], host: &str, origin: &str, expect| {
            let more: Vec<String> = more.iter().map(|name| (*name).to_owned()).collect();
            let names = Names::new(address.parse().unwrap(), secure, &more);
            assert_eq!((names.is_host(host), names.is_origin(origin)), expect, "{address} {host}");
        };
        let local = "127.0.0.1:7717";
        check(local, false, &[], "LOCALHOST:7717", "http://localhost:7717", (true, true));
        check(local, false, &[], "localhost", "https://localhost:7717", (false, false));
        check(local, false, &[], "evil.test:7717", "http://evil.test:7717", (false, false));
        check(local, false, &[], "127.0.0.1.evil:7717", "null", (false, false));
        let open = "0.0.0.0:443";
        check(open, true, &["team.example"], "team.example", "https://team.example", (true, true));
        check(open, true, &["team.example"], "0.0.0.0:443", "http://team.example", (false, false));
        check("[::1]:80", false, &[], "[::1]", "http://[::1]", (true, true));
    }

    #[test]
    fn a_link_names_what_people_gave_first() {
        let names = Names::new("0.0.0.0:7717".parse().unwrap(), true, &["team.example".to_owned()]);
        assert_eq!(names.login_link("c"), "https://team.example:7717/login?code=c");
        assert_eq!(names.cookie_security(), "; Secure");
    }
}
