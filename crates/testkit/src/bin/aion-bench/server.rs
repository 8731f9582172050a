//! The daemon under load, as its clients meet it: started as a child process and called over raw
//! connections; it shares nothing with the daemon but the machine.

mod bridge;
mod client;
mod daemon;
mod posts;
mod sockets;

use aion_testkit::figures::Report;
use anyhow::Result;

use crate::{Form, crew};

/// Runs the benchmark.
pub(crate) async fn measure(form: &Form) -> Result<Report> {
    let mut report = Report::new("bench server");
    crew::tell_limits(&mut report);
    let directory = tempfile::Builder::new().prefix("aion-bench-").tempdir()?;
    if form.wants("start") {
        posts::start(form, directory.path(), &mut report)?;
    }
    if form.wants("posts") {
        posts::measure(form, directory.path(), &mut report)?;
    }
    if form.wants("bridge") {
        bridge::measure(form, directory.path(), &mut report)?;
    }
    if form.wants("sockets") {
        sockets::measure(form, directory.path(), &mut report).await?;
    }
    Ok(report)
}
