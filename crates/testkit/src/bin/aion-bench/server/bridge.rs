//! A member's client at the other side of `aion mcp bridge`: how soon the bridge is there, what it
//! takes, and what a tool call costs through it; the client does as little as it can.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use aion_testkit::figures::{Report, Target, quantile};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::client::Client;
use super::daemon::{Daemon, aion, team};
use crate::baseline::DiskBaseline;
use crate::{Form, tell};

/// The length of a slice.
const SLICE: Duration = Duration::from_millis(500);
/// The length of a slice of the disk alone.
const DISK_SLICE: Duration = Duration::from_millis(250);

/// Runs it.
pub(crate) fn measure(form: &Form, directory: &Path, report: &mut Report) -> Result<()> {
    let daemon = Daemon::start(&directory.join("bridge"))?;
    let mut disk = DiskBaseline::new(directory)?;
    let mut admin = daemon.client()?;
    let path = team(&mut admin, "one")?;
    let mut ready = Vec::new();
    for run in 0..form.scale(50, 5) {
        tell(&format!("bridge, start {run}"));
        let environment = credential(&mut admin, &path)?;
        let begun = Instant::now();
        let bridge = Bridge::start(&environment)?;
        ready.push(begun.elapsed().as_secs_f64() * 1_000.0);
        drop(bridge);
    }
    let environment = credential(&mut admin, &path)?;
    let mut bridge = Bridge::start(&environment)?;
    let (mut fsync, mut reads, mut sends) = (vec![], vec![], vec![]);
    for slice in 0..form.scale(20, 1) {
        tell(&format!("bridge, slice {slice}"));
        fsync.extend(disk.slice(DISK_SLICE)?);
        bridge.slice("team_whoami", &json!({}), &mut reads)?;
        fsync.extend(disk.slice(DISK_SLICE)?);
        let message = json!({ "to": "user", "message": "How far is it?" });
        bridge.slice("team_send_message", &message, &mut sends)?;
    }
    let ms = |list: &mut Vec<f64>, at: f64| quantile(list, at) * 1_000.0;
    let fsync = ms(&mut fsync, 0.5);
    let send = ms(&mut sends, 0.5);
    report.add("bridge_fsync", "4 KiB append + fdatasync, p50", fsync, "ms", Target::None);
    // One millisecond beyond its commit.
    let most = Target::AtMost(fsync + 1.0);
    report.add("bridge_send", "send through the bridge, p50", send, "ms", most);
    report.add("bridge_send_p99", "  p99", ms(&mut sends, 0.99), "ms", Target::None);
    let read = ms(&mut reads, 0.5);
    report.add("bridge_read", "a call that commits nothing, p50", read, "ms", Target::AtMost(1.0));
    report.add("bridge_read_p99", "  p99", ms(&mut reads, 0.99), "ms", Target::None);
    let median = quantile(&mut ready, 0.5);
    let what = "start of the bridge → its handshake is answered, median";
    report.add("bridge_ready", what, median, "ms", Target::AtMost(20.0));
    let worst = quantile(&mut ready, 1.0);
    report.add("bridge_ready_worst", "  the slowest", worst, "ms", Target::None);
    let resident = bridge.resident()?;
    report.add("bridge_resident", "the bridge's memory", resident, "MiB", Target::AtMost(8.0));
    Ok(())
}

/// The environment of a member's process.
fn credential(admin: &mut Client, team: &str) -> Result<[(&'static str, String); 3]> {
    let made = admin.call("POST", &format!("{team}/agents/1/credential"), "")?;
    ensure!(made.status == 201, "a credential was answered with {}", made.status);
    let made: Value = serde_json::from_slice(made.body)?;
    let token = made["token"].as_str().context("a credential has a token")?;
    Ok([
        ("TEAM_MCP_PORT", made["port"].to_string()),
        ("TEAM_MCP_TOKEN", token.to_owned()),
        ("TEAM_AGENT_SLOT_ID", "1".to_owned()),
    ])
}

/// A bridge that runs.
struct Bridge {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: String,
    next: u64,
}

impl Bridge {
    /// Starts it, and shakes hands as a client of MCP does.
    fn start(environment: &[(&str, String)]) -> Result<Self> {
        let mut child = Command::new(aion()?)
            .args(["mcp", "bridge"])
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start the bridge")?;
        let input = child.stdin.take().context("its input is a pipe")?;
        let output = BufReader::new(child.stdout.take().context("its output is a pipe")?);
        let mut bridge = Self { child, input, output, line: String::new(), next: 0 };
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "bench", "version": "1" },
        });
        let hello = bridge.ask("initialize", &params)?;
        ensure!(hello.contains("\"result\""), "the handshake was answered with {hello}");
        writeln!(bridge.input, r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#)?;
        Ok(bridge)
    }

    /// Calls a tool for one slice, each call as soon as the last is answered.
    fn slice(&mut self, tool: &str, arguments: &Value, took: &mut Vec<f64>) -> Result<()> {
        let params = json!({ "name": tool, "arguments": arguments });
        let end = Instant::now() + SLICE;
        loop {
            let begun = Instant::now();
            if begun >= end {
                return Ok(());
            }
            let answer = self.ask("tools/call", &params)?;
            took.push(begun.elapsed().as_secs_f64());
            ensure!(!answer.contains("\"isError\":true"), "{tool} was answered with {answer}");
        }
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<&str> {
        self.next += 1;
        let id = self.next;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let mut request = request.to_string();
        request.push('\n');
        self.input.write_all(request.as_bytes())?;
        self.line.clear();
        ensure!(self.output.read_line(&mut self.line)? > 0, "the bridge ended");
        Ok(&self.line)
    }

    /// Its memory that is in RAM, in MiB.
    fn resident(&self) -> Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/statm", self.child.id()))?;
        let pages: u32 = text.split(' ').nth(1).context("statm has two fields")?.parse()?;
        // The page size of every machine that this is measured on.
        Ok(f64::from(pages) * 4_096.0 / 1_048_576.0)
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // One that is gone already needs no end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
