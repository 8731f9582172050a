//! Whether a host may be reached: by the person's rules, by what was decided, and by where its name
//! leads; it carries nothing.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::address::is_public;
use super::gate::Gate;
use super::host::{HostName, Rule, WEB};
use super::outside::{Internet, Outside};

/// The longest that a connection waits for a decision.
const DECISION: Duration = Duration::from_mins(15);
/// Hosts that one command may ask for.
const HOSTS: usize = 256;

/// The person's rules.
#[derive(Clone, Debug, Default)]
pub struct NetworkRules {
    /// Reached without asking.
    pub allow: Vec<Rule>,
    /// Never reached, and never asked for.
    pub deny: Vec<Rule>,
    /// May lie in the person's own network.
    pub private: Vec<Rule>,
}

/// The way to the network.
#[derive(Debug)]
pub struct Network {
    rules: NetworkRules,
    outside: Arc<dyn Outside>,
}

/// What was decided for one command: each host is asked for once.
#[derive(Clone, Debug)]
pub struct Pass {
    gate: Option<Gate>,
    known: Arc<Mutex<BTreeMap<HostName, Decided>>>,
}

type Decided = Arc<OnceCell<Result<(), String>>>;

impl Pass {
    /// For a command whose unknown hosts are asked for at a gate; without one they are refused.
    pub fn new(gate: Option<Gate>) -> Self {
        Self { gate, known: Arc::default() }
    }

    /// With a host that somebody has allowed already; what the person denies stays denied.
    pub(crate) fn allowing(self, host: &str) -> Self {
        if let Ok(host) = HostName::parse(host) {
            self.known().insert(host, Arc::new(OnceCell::new_with(Some(Ok(())))));
        }
        self
    }

    async fn decide(&self, host: &HostName) -> Result<(), String> {
        let Some(gate) = &self.gate else {
            return Err(format!("{host} is not allowed, and nobody can be asked here"));
        };
        let decided = {
            let mut known = self.known();
            if known.len() >= HOSTS && !known.contains_key(host) {
                return Err(format!("one command may ask for {HOSTS} hosts"));
            }
            Arc::clone(known.entry(host.clone()).or_default())
        };
        let ask = async {
            let asked = timeout(DECISION, gate.ask(host.as_str())).await;
            asked.unwrap_or_else(|_| Err("nobody decided about it in time".to_owned()))
        };
        decided.get_or_init(|| ask).await.clone()
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<HostName, Decided>> {
        // Every change of it is one insertion.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Network {
    /// The internet, by rules.
    pub fn new(rules: NetworkRules) -> Self {
        Self::through(rules, Arc::new(Internet))
    }

    /// Something that stands for the internet, by rules.
    pub fn through(rules: NetworkRules, outside: Arc<dyn Outside>) -> Self {
        Self { rules, outside }
    }

    /// Whether a host may be reached at a port, and by which addresses. It asks and waits where
    /// nobody has decided. Whoever connects uses these addresses and not the name again, which may
    /// lead elsewhere by then.
    pub async fn admit(
        &self,
        pass: &Pass,
        host: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, String> {
        self.addresses(pass, host, port).await.map_err(|refusal| match refusal {
            Refusal::Refused(reason) | Refusal::Failed(reason) => reason,
        })
    }

    /// A connection to a host that may be reached, for this process itself.
    pub(super) async fn reach(
        &self,
        pass: &Pass,
        host: &str,
        port: u16,
    ) -> Result<TcpStream, String> {
        self.connect(pass, host, port).await.map_err(|refusal| match refusal {
            Refusal::Refused(reason) | Refusal::Failed(reason) => reason,
        })
    }

    /// The addresses of a host that may be reached.
    async fn addresses(
        &self,
        pass: &Pass,
        host: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, Refusal> {
        let host = self.judge(pass, host, port).await.map_err(Refusal::Refused)?;
        let found = self.outside.resolve(host.as_str()).await;
        let found =
            found.map_err(|error| Refusal::Failed(format!("{host} is not found: {error}")))?;
        if found.is_empty() {
            return Err(Refusal::Failed(format!("{host} has no address")));
        }
        let private = self.rules.private.iter().any(|rule| rule.is_about(&host));
        let inside = |address: &&IpAddr| {
            let nobodys = address.is_loopback() || address.is_unspecified() || is_linked(**address);
            if private { nobodys } else { !is_public(**address) }
        };
        if let Some(address) = found.iter().find(inside) {
            return Err(Refusal::Refused(format!(
                "{host} leads to {address}, which is this machine or its own network"
            )));
        }
        Ok(found.into_iter().map(|address| SocketAddr::new(address, port)).collect())
    }

    /// Whether the person's rules, or somebody's decision, let a host be reached.
    async fn judge(&self, pass: &Pass, host: &str, port: u16) -> Result<HostName, String> {
        let host = HostName::parse(host)?;
        let about = |rules: &[Rule]| rules.iter().any(|rule| rule.matches(&host, port));
        let denied = |rule: &Rule| match rule.port() {
            // Denied without a port, a host is denied at all of them.
            None => rule.is_about(&host),
            Some(_) => rule.matches(&host, port),
        };
        if self.rules.deny.iter().any(denied) {
            return Err(format!("{host} is denied by your settings"));
        }
        if !about(&self.rules.allow) {
            if !WEB.contains(&port) {
                return Err(format!(
                    "port {port} of {host} is not one of the web's; only a rule that names it \
                     allows it: network.allow = [\"{host}:{port}\"]"
                ));
            }
            pass.decide(&host).await?;
        }
        Ok(host)
    }

    /// A connection to a host that may be reached.
    pub(super) async fn connect(
        &self,
        pass: &Pass,
        host: &str,
        port: u16,
    ) -> Result<TcpStream, Refusal> {
        let addresses = self.addresses(pass, host, port).await?;
        let mut failure = io::Error::other("it has no address");
        for address in addresses {
            match self.outside.connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = error,
            }
        }
        Err(Refusal::Failed(format!("{host} cannot be reached: {failure}")))
    }
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It may not be.
    Refused(String),
    /// It could not be made.
    Failed(String),
}

/// Where clouds keep what a machine may know about itself.
fn is_linked(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => {
            v6.is_unicast_link_local()
                || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_link_local() || v4.is_loopback())
        }
    }
}
