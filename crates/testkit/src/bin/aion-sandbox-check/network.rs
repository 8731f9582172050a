//! The network behind each wall: hosts that are asked for, denied, disguised, and led elsewhere; no
//! attempt leaves this machine.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use aion_agent::network::{Gate, Network, NetworkRules, Outside, Rule};
use aion_agent::sandbox::{Limits, Wall};
use anyhow::{Result, anyhow};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::ground::Ground;
use crate::trial::{Outcome, judged, outcome, run, sandbox};

/// An address that belongs to somebody out there. Nobody is asked there: it stands for the server here.
const PUBLIC: &str = "93.184.216.34";

/// What stands for the internet: names, and one server behind every public address.
#[derive(Debug)]
struct Stage {
    server: SocketAddr,
    names: BTreeMap<&'static str, Vec<IpAddr>>,
    /// Where connections went.
    reached: Mutex<Vec<SocketAddr>>,
}

impl Outside for Stage {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let found = self.names.get(host).cloned().ok_or_else(|| io::Error::other("no such name"));
        futures::future::ready(found).boxed()
    }

    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner).push(address);
        TcpStream::connect(self.server).boxed()
    }
}

/// A server that answers everything, and sends some elsewhere.
async fn serve(listener: TcpListener, inside: u16) {
    while let Ok((mut stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let mut head = vec![0; 4096];
            let Ok(read) = stream.read(&mut head).await else { return };
            let head = String::from_utf8_lossy(&head[..read]).into_owned();
            let answer = if head.contains("/away") {
                format!(
                    "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{inside}/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                )
            } else {
                "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nSERVED\n"
                    .to_owned()
            };
            let _ = stream.write_all(answer.as_bytes()).await;
        });
    }
}

/// Gets a page by plain HTTP, and opens tunnels.
const TOOLS: &str = include_str!("net.py");

/// How a person decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Person {
    /// Everything is allowed.
    Yes,
    /// Everything is denied.
    No,
}

struct Try {
    id: &'static str,
    what: &'static str,
    script: &'static str,
    allow: &'static [&'static str],
    person: Person,
    /// How often the server answers where there is a network at all.
    served: usize,
}

const TRIES: &[Try] = &[
    Try {
        id: "n1",
        what: "an unknown host is asked for, allowed, and reached",
        script: "get('http://unknown.example/'); tunnel('unknown.example', 443); \
                 socks('unknown.example', 443)",
        allow: &[],
        person: Person::Yes,
        served: 3,
    },
    Try {
        id: "n2",
        what: "an unknown host is asked for, denied, and fails with the reason",
        script: "get('http://unknown.example/'); tunnel('unknown.example', 443)",
        allow: &[],
        person: Person::No,
        served: 0,
    },
    Try {
        id: "n3",
        what: "a host on the list is reached without asking",
        script: "get('http://known.example/'); tunnel('known.example', 443)",
        allow: &["known.example"],
        person: Person::No,
        served: 2,
    },
    Try {
        id: "20b",
        what: "an empty list allows nothing",
        script: "get('http://known.example/')",
        allow: &[],
        person: Person::No,
        served: 0,
    },
    Try {
        id: "22b",
        what: "addresses in disguise, by the proxy",
        script: "[tunnel(h, 443) for h in ('127.0.0.1', '127.1', '0', '0.0.0.0', '2130706433', \
                 '0x7f000001', '017700000001', 'localhost', 'a.localhost', '[::1]', \
                 '[::ffff:127.0.0.1]', '169.254.169.254', 'metadata.google.internal', '10.0.0.1', \
                 'x.0x7f')]; socks('127.0.0.1', 80)",
        allow: &[],
        person: Person::Yes,
        served: 0,
    },
    Try {
        id: "22c",
        what: "a name that leads into this machine, its network or a cloud's inside",
        script: "[tunnel(h, 443) for h in ('inside.example', 'link.example', 'both.example', \
                 'mapped.example')]",
        allow: &["inside.example", "link.example", "both.example"],
        person: Person::Yes,
        served: 0,
    },
    Try {
        id: "24",
        what: "a redirect from an allowed host inside",
        script: "os.environ['NO_PROXY'] = os.environ['no_proxy'] = ''; \
                 get('http://known.example/away')",
        allow: &["known.example"],
        person: Person::Yes,
        served: 0,
    },
    Try {
        id: "25",
        what: "CONNECT to another port",
        script: "[tunnel('known.example', p) for p in (22, 25, 6379, 7717)]",
        allow: &["known.example"],
        person: Person::Yes,
        served: 0,
    },
    Try {
        id: "n4",
        what: "names that only begin or end like an allowed one",
        script: "[tunnel(h, 443) for h in ('known.example.evil.example', 'evilknown.example')]",
        allow: &["known.example"],
        person: Person::No,
        served: 0,
    },
];

/// Tries all of it behind one wall.
pub(crate) async fn all(place: &Path, wall: &Wall, only: Option<&str>) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for attempt in TRIES.iter().filter(|attempt| only.is_none_or(|only| only == attempt.id)) {
        outcomes.push(one(place, wall, attempt).await?);
    }
    Ok(outcomes)
}

async fn one(place: &Path, wall: &Wall, attempt: &Try) -> Result<Outcome> {
    let ground = Ground::new(place)?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let stage = Arc::new(stage(listener.local_addr()?)?);
    let serving = tokio::spawn(serve(listener, ground.port()));
    let allow = attempt.allow.iter().map(|rule| Rule::parse(rule).map_err(|why| anyhow!(why)));
    let rules = NetworkRules { allow: allow.collect::<Result<_>>()?, ..NetworkRules::default() };
    let network = Arc::new(Network::through(rules, Arc::<Stage>::clone(&stage)));
    let sandbox = Arc::new(sandbox(&ground, wall, Limits::default())?.with_network(network));
    let (gate, mut asked) = Gate::new();
    let person = attempt.person;
    let asking = tokio::spawn(async move {
        let mut hosts = Vec::new();
        while let Some(ask) = asked.recv().await {
            // The connection waits meanwhile.
            tokio::task::yield_now().await;
            let answer = match person {
                Person::Yes => Ok(()),
                Person::No => Err(format!("{} was denied: not this one", ask.host)),
            };
            hosts.push(ask.host);
            let _ = ask.answer.send(answer);
        }
        hosts
    });
    std::fs::write(ground.at("ws/net.py"), TOOLS)?;
    let script = format!("python3 -c \"from net import *; {}\"", attempt.script);
    let said = run(&sandbox, &ground, &ground.at("ws"), &script, Some(gate)).await?;
    let hosts = asking.await?;
    serving.abort();
    let reached = stage.reached.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let served = said.output.matches("SERVED").count();
    let mut faults = Vec::new();
    let inside = |address: &&SocketAddr| address.ip().to_string() != PUBLIC;
    if let Some(address) = reached.iter().find(inside) {
        faults.push(format!("{address} was reached"));
    }
    // This wall has no network at all.
    if wall.name() == "landlock" {
        if served > 0 || !reached.is_empty() {
            faults.push("it was reached".to_owned());
        }
        let held = faults.is_empty();
        let mut told = outcome(attempt.id, attempt.what, wall, held, "no network");
        told.evidence = format!("{}\n{}", faults.join("; "), said.output);
        return Ok(told);
    }
    if served != attempt.served {
        faults.push(format!("it was served {served} times, not {}", attempt.served));
    }
    if attempt.id == "n1" && hosts != ["unknown.example"] {
        faults.push(format!("it was asked for {hosts:?}"));
    }
    if attempt.id == "n3" && !hosts.is_empty() {
        faults.push(format!("it was asked for {hosts:?}"));
    }
    if attempt.id == "n2" && !said.output.contains("not this one") {
        faults.push("the reason is not told".to_owned());
    }
    let mut told = judged(attempt.id, attempt.what, wall, &said, &faults);
    if told.how == "refused" {
        "refused by the proxy".clone_into(&mut told.how);
    }
    if attempt.served > 0 {
        "works".clone_into(&mut told.how);
    }
    Ok(told)
}

fn stage(server: SocketAddr) -> Result<Stage> {
    let address = |text: &str| text.parse::<IpAddr>().map_err(|error| anyhow!("{error}"));
    let public = address(PUBLIC)?;
    let mut names: BTreeMap<&'static str, Vec<IpAddr>> = BTreeMap::new();
    for name in
        ["unknown.example", "known.example", "evilknown.example", "known.example.evil.example"]
    {
        names.insert(name, vec![public]);
    }
    names.insert("inside.example", vec![address("127.0.0.1")?]);
    names.insert("link.example", vec![address("169.254.169.254")?]);
    names.insert("both.example", vec![public, address("10.0.0.1")?]);
    names.insert("mapped.example", vec![address("::ffff:127.0.0.1")?]);
    Ok(Stage { server, names, reached: Mutex::default() })
}
