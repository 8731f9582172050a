//! Tries to get out of the sandbox, and holds the table in the documentation to what came of it; the
//! attempts are a program of testkit's.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::python::target;
use crate::steps::{self, Done, Step};

const PAGE: &str = "docs/security.md";
const BEGIN: &str = "<!-- made by cargo xtask sandbox-check -->\n";
const END: &str = "<!-- end -->";

/// Runs the attempts behind every wall that there is; `write` makes the table anew.
pub fn check(root: &Path, write: bool) -> Result<Done> {
    let name = "aion-sandbox-check";
    let build = ["build", "--locked", "-p", "aion-testkit", "--bin", name];
    steps::run(root, &Step::cargo("sandbox binary", &build))?;
    steps::tell("\n==> sandbox: cargo xtask sandbox-check");
    let begun = Instant::now();
    let program = target(root).join("debug").join(name);
    let output = Command::new(&program).output().with_context(|| program.display().to_string())?;
    steps::tell(String::from_utf8_lossy(&output.stderr).trim_end());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (table, summary) = text.trim_end().rsplit_once('\n').context("it said nothing")?;
    steps::say(summary);
    if !output.status.success() {
        bail!("the sandbox did not hold; to repeat it: cargo xtask sandbox-check");
    }
    let path = root.join(PAGE);
    let page = fs::read_to_string(&path).with_context(|| format!("read {PAGE}"))?;
    let (before, rest) = page.split_once(BEGIN).context("the table has no beginning")?;
    let (shown, after) = rest.split_once(END).context("the table has no end")?;
    let whole = ["bubblewrap", "landlock"].iter().all(|wall| summary.contains(wall));
    if write {
        ensure!(whole, "the table is made where both walls work");
        fs::write(&path, format!("{before}{BEGIN}{table}\n{END}{after}"))?;
    } else if whole {
        // How a refusal shows may differ from machine to machine; what is tried and held may not.
        let (shown, made) = (rows(shown), rows(table));
        ensure!(
            shown == made,
            "{PAGE} shows another table; cargo xtask sandbox-check --write makes it anew"
        );
    } else {
        steps::tell("not both walls work here: the table in the documentation is not compared");
    }
    Ok(Done { name: "sandbox", took: begun.elapsed(), lines: vec![summary.to_owned()] })
}

fn rows(table: &str) -> Vec<(&str, bool)> {
    table.lines().filter_map(row).collect()
}

/// A row of the table: what is tried, and whether something is open.
fn row(line: &str) -> Option<(&str, bool)> {
    let line = line.strip_prefix("| ")?;
    let (tried, _) = line.rsplit_once(" | ")?.0.rsplit_once(" | ")?;
    Some((tried, line.contains("**open**")))
}
