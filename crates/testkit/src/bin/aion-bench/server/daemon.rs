//! `aion serve` as a child process over a data directory of its own; it is ended with its owner.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use aion_core::command::Settings;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::client::Client;
use crate::crew;

/// Leads that work: a turn takes a fifth of a second, as short as a model's answer gets.
const SCENARIO: &str = r#"
[[agent."*".rule]]
otherwise = true
say = "Noted, and done."
delay_ms = 200
"#;

/// A daemon that runs.
pub(crate) struct Daemon {
    child: Child,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// The value of `Authorization`.
    pub(crate) bearer: String,
    /// From its start until it had answered a first call.
    pub(crate) ready: Duration,
}

impl Daemon {
    /// Starts it, and waits until it answers.
    pub(crate) fn start(directory: &Path) -> Result<Self> {
        let scenario = directory.with_extension("toml");
        fs::write(&scenario, SCENARIO)?;
        let begun = Instant::now();
        let mut child = Command::new(aion()?)
            .args(["serve", "--json", "--port", "0", "--script"])
            .arg(&scenario)
            .arg("--data-dir")
            .arg(directory)
            .stdout(Stdio::piped())
            .spawn()
            .context("start aion")?;
        let mut line = String::new();
        let stdout = child.stdout.take().context("its output is a pipe")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let said: Value = serde_json::from_str(&line).context("aion says where it serves")?;
        let word = |name: &str| said[name].as_str().context("a word of the daemon is missing");
        let address = word("url")?.trim_start_matches("http://").parse()?;
        let token = fs::read_to_string(word("token_file")?)?;
        let bearer = format!("Bearer {token}");
        let mut daemon = Self { child, address, bearer, ready: Duration::ZERO };
        let mut client = daemon.client()?;
        let answer = client.call("GET", "/api/health", "")?;
        daemon.ready = begun.elapsed();
        ensure!(answer.status == 200, "the daemon's health is {}", answer.status);
        Ok(daemon)
    }

    /// A connection to it.
    pub(crate) fn client(&self) -> Result<Client> {
        Client::connect(self.address, &self.bearer)
    }

    /// Its memory that is in RAM, in MiB.
    pub(crate) fn resident(&self) -> Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/statm", self.child.id()))?;
        let pages: u32 = text.split(' ').nth(1).context("statm has two fields")?.parse()?;
        // The page size of every machine that this is measured on.
        Ok(f64::from(pages) * 4_096.0 / 1_048_576.0)
    }

    /// Processor time that it has used, in seconds.
    pub(crate) fn cpu(&self) -> Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let after = text.rsplit(") ").next().unwrap_or_default();
        let ticks: Vec<u32> =
            after.split(' ').skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
        Ok(f64::from(ticks.iter().sum::<u32>()) / 100.0)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // One that is gone already needs no end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes a team and waits until its lead is there; the path of its calls.
pub(crate) fn team(client: &mut Client, name: &str) -> Result<String> {
    let settings: Settings = crew::settings();
    let body = json!({ "name": name, "settings": settings }).to_string();
    let made = client.call("POST", "/api/teams", &body)?;
    ensure!(made.status == 201, "a team was answered with {}: {}", made.status, made.text());
    let made: Value = serde_json::from_slice(made.body)?;
    let path = format!("/api/teams/{}", made["id"].as_str().context("a team has an id")?);
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let shown = client.call("GET", &path, "")?;
        let shown: Value = serde_json::from_slice(shown.body)?;
        if shown["agents"][0]["status"] != "pending" {
            return Ok(path);
        }
        ensure!(Instant::now() < deadline, "the lead of {name} did not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The product's binary, which is built beside this one.
pub(crate) fn aion() -> Result<PathBuf> {
    let aion = std::env::current_exe()?.with_file_name("aion");
    ensure!(aion.is_file(), "build the product first: cargo build --release -p aion");
    Ok(aion)
}
