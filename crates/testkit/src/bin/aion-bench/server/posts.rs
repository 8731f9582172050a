//! How soon the daemon is there, what it costs when it rests, and how many messages it accepts; it
//! looks at nothing but the clock, the answers and the process.

use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use aion_testkit::figures::{Report, Target, quantile};
use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::client::Client;
use super::daemon::{Daemon, aion, team};
use crate::baseline::DiskBaseline;
use crate::{Form, crew, tell};

/// Teams that many clients write to.
const TEAMS: usize = 100;
/// The length of a slice: short, because a virtual disk is quick in one second and slow in the next.
const SLICE: Duration = Duration::from_millis(500);
/// The length of a slice of the disk alone.
const DISK_SLICE: Duration = Duration::from_millis(250);
/// Below this a disk counts as quick, in seconds.
const QUICK: f64 = 0.000_5;

/// From the start to the first answer, and what the daemon takes when nothing happens.
pub(crate) fn start(form: &Form, directory: &Path, report: &mut Report) -> Result<()> {
    let (mut ready, mut resident) = (vec![], vec![]);
    for run in 0..form.scale(10, 2) {
        tell(&format!("start, run {run}"));
        let daemon = Daemon::start(&directory.join(format!("new-{run}")))?;
        ready.push(daemon.ready.as_secs_f64() * 1_000.0);
        if run == 0 {
            // Long enough for whatever begins late.
            std::thread::sleep(Duration::from_secs(form.scale(10, 1)));
            resident.push(daemon.resident()?);
        }
    }
    let size = std::fs::metadata(aion()?)?.len().div_ceil(1024) as u32;
    let size = f64::from(size) / 1024.0;
    let median = quantile(&mut ready, 0.5);
    report.add("ready", "start → first answer, median", median, "ms", Target::AtMost(100.0));
    let worst = quantile(&mut ready, 1.0);
    report.add("ready_worst", "  the slowest", worst, "ms", Target::None);
    report.add("idle", "idle daemon", resident[0], "MiB", Target::AtMost(24.0));
    report.add("binary", "the binary, stripped", size, "MiB", Target::AtMost(45.0));
    Ok(())
}

/// Messages that are accepted, by one client, by eight, and by many over many teams.
pub(crate) fn measure(form: &Form, directory: &Path, report: &mut Report) -> Result<()> {
    let daemon = Daemon::start(&directory.join("posts"))?;
    let mut disk = DiskBaseline::new(directory)?;
    let mut admin = daemon.client()?;
    let one = [team(&mut admin, "one")?];
    let eight = [team(&mut admin, "eight")?];
    let many: Vec<String> =
        (0..TEAMS).map(|n| team(&mut admin, &format!("team-{n}"))).collect::<Result<_>>()?;
    let (mut fsync, mut by_one, mut by_eight, mut by_many) =
        (vec![], Load::default(), Load::default(), Load::default());
    for slice in 0..form.scale(20, 1) {
        tell(&format!("posts, slice {slice}"));
        fsync.extend(disk.slice(DISK_SLICE)?);
        by_one.run(&daemon, &one, 1)?;
        fsync.extend(disk.slice(DISK_SLICE)?);
        by_eight.run(&daemon, &eight, 8)?;
        fsync.extend(disk.slice(DISK_SLICE)?);
        by_many.run(&daemon, &many, 64)?;
    }
    let fsync = quantile(&mut fsync, 0.5);
    let ms = |seconds: f64| seconds * 1_000.0;
    report.add("fsync_p50", "4 KiB append + fdatasync, p50", ms(fsync), "ms", Target::None);
    let most = ms(2.0 * fsync + 0.000_2);
    let p50 = ms(quantile(&mut by_one.took, 0.5));
    report.add("one_p50", "1 client, p50", p50, "ms", Target::AtMost(most));
    by_one.tell("one", "1 client", report, Target::None, Target::None);
    let eight = if fsync < QUICK { 5_000.0 } else { 0.7 * 8.0 / fsync };
    by_eight.tell("eight", "8 clients, 1 team", report, Target::AtLeast(eight), Target::None);
    let (rate, tail) = if fsync < QUICK {
        (Target::AtLeast(10_000.0), Target::AtMost(25.0))
    } else {
        (Target::None, Target::None)
    };
    by_many.tell("many", "64 clients, 100 teams", report, rate, tail);
    report.add("resident", "the daemon after all of it", daemon.resident()?, "MiB", Target::None);
    Ok(())
}

/// What a number of clients did.
#[derive(Default)]
struct Load {
    /// How long each message took.
    took: Vec<f64>,
    seconds: f64,
    cpu: f64,
}

impl Load {
    /// Lets so many clients send to teams, each the next message as soon as the last is accepted.
    fn run(&mut self, daemon: &Daemon, teams: &[String], clients: usize) -> Result<()> {
        let body = json!({ "text": crew::TEXT }).to_string();
        let begin = Barrier::new(clients + 1);
        let cpu = daemon.cpu()?;
        let all = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..clients)
                .map(|number| {
                    let (begin, body) = (&begin, &body);
                    let paths: Vec<String> =
                        teams.iter().map(|team| format!("{team}/messages")).collect();
                    scope.spawn(move || {
                        let client = daemon.client();
                        begin.wait();
                        send(client?, &paths, number, body)
                    })
                })
                .collect();
            begin.wait();
            let begun = Instant::now();
            let took: Vec<Result<Vec<f64>>> = threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| anyhow::anyhow!("a client fell"))?)
                .collect();
            self.seconds += begun.elapsed().as_secs_f64();
            took
        });
        for took in all {
            self.took.extend(took?);
        }
        self.cpu += daemon.cpu()? - cpu;
        Ok(())
    }

    fn tell(
        &mut self,
        key: &'static str,
        what: &str,
        report: &mut Report,
        rate: Target,
        tail: Target,
    ) {
        #[expect(clippy::cast_precision_loss, reason = "a count of messages")]
        let count = self.took.len() as f64;
        let ms = |list: &mut Vec<f64>, at: f64| quantile(list, at) * 1_000.0;
        let keys: [&'static str; 4] = match key {
            "one" => ["one_rate", "one_half", "one_p99", "one_cpu"],
            "eight" => ["eight_rate", "eight_p50", "eight_p99", "eight_cpu"],
            _ => ["many_rate", "many_p50", "many_p99", "many_cpu"],
        };
        let per_second = count / self.seconds;
        report.add(keys[0], format!("{what}, accepted"), per_second, "/s", rate);
        report.add(keys[1], "  p50", ms(&mut self.took, 0.5), "ms", Target::None);
        report.add(keys[2], "  p99", ms(&mut self.took, 0.99), "ms", tail);
        let each = self.cpu / count * 1e6;
        report.add(keys[3], "  the daemon's processor time, each", each, "µs", Target::None);
    }
}

/// Sends for one slice; the seconds that each message took.
fn send(mut client: Client, paths: &[String], number: usize, body: &str) -> Result<Vec<f64>> {
    let mut took = Vec::with_capacity(8_192);
    let end = Instant::now() + SLICE;
    let mut next = number;
    loop {
        let begun = Instant::now();
        if begun >= end {
            return Ok(took);
        }
        let path = paths.get(next % paths.len()).context("there is a team")?;
        next = next.wrapping_add(7);
        let answer = client.call("POST", path, body)?;
        ensure!(
            answer.status == 202,
            "a message was answered with {}: {}",
            answer.status,
            answer.text()
        );
        took.push(begun.elapsed().as_secs_f64());
    }
}
