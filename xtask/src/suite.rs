//! What `check` and `test` consist of, and what they need; runs nothing itself but tools' installers.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::steps::{self, Done, Failed, Step};
use crate::tidy;
use crate::{browser, pages, python, sandbox};

/// A set of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// What has to hold before a change is handed over, quick.
    Check,
    /// Everything that has to hold.
    Test,
}

/// The simulation of the rules.
pub fn sim(arguments: &[String]) -> Step {
    let mut step =
        Step::cargo("simulation", &["test", "--locked", "-p", "aion-core", "--test", "sim", "--"]);
    step.arguments.extend_from_slice(arguments);
    step
}

/// The loop that kills a running team and looks at what is left.
pub fn kill_loop(arguments: &[String]) -> Step {
    // The points at which the process kills itself are in no other build.
    binary("kill loop", "aion-kill-loop", &["--features", "failpoints"], arguments)
}

/// The product's binary, which a benchmark starts as a user would.
pub fn product() -> Step {
    Step::cargo("product", &["build", "--release", "--locked", "-p", "aion"])
}

/// A benchmark.
pub fn bench(arguments: &[String]) -> Step {
    binary("benchmark", "aion-bench", &[], arguments)
}

/// A program of testkit, as the product is built.
fn binary(name: &'static str, binary: &str, options: &[&str], arguments: &[String]) -> Step {
    let fixed = ["run", "--release", "--locked", "-p", "aion-testkit", "--bin", binary];
    let mut step = Step::cargo(name, &[&fixed, options, &["--"]].concat());
    step.arguments.extend_from_slice(arguments);
    step
}

/// The laws of the house. Prints each violation.
pub fn tidy(root: &Path) -> Result<Done, Failed> {
    let again = "cargo xtask tidy".to_owned();
    let begun = Instant::now();
    let tree = tidy::Tree::read(root).map_err(|e| Failed {
        name: "tidy",
        what: format!("the repository cannot be read: {e}"),
        again: again.clone(),
    })?;
    let violations = tidy::check(&tree);
    for violation in &violations {
        steps::say(&violation.to_string());
    }
    if violations.is_empty() {
        let line = format!("tidy: {} files, no law is broken", tree.texts().count());
        steps::say(&line);
        Ok(Done { name: "tidy", took: begun.elapsed(), lines: vec![line] })
    } else {
        let count = violations.len();
        let what =
            format!("{count} place{} break{} a law", s(count), if count == 1 { "s" } else { "" });
        Err(Failed { name: "tidy", what, again })
    }
}

fn s(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Runs a suite up to the first failure.
pub fn run(root: &Path, suite: Suite) -> Result<()> {
    need_tools(root)?;
    let (name, profile, whole) = match suite {
        Suite::Check => ("check", "default", false),
        Suite::Test => ("test", "ci", true),
    };
    if whole {
        python::check(root)?;
    }
    let mut done = Vec::new();

    done.push(steps::run(root, &Step::cargo("format", &["fmt", "--all", "--check"]))?);
    let clippy = ["clippy", "--workspace", "--all-targets", "--all-features", "--locked"];
    let clippy = [&clippy[..], &["--", "-D", "warnings"]].concat();
    done.push(steps::run(root, &Step::cargo("clippy", &clippy))?);
    steps::tell("\n==> tidy: cargo xtask tidy");
    done.push(tidy(root)?);
    let nextest = ["nextest", "run", "--workspace", "--locked", "--profile", profile, "-E", RULES];
    // Only with all features do tests kill a process at its named points.
    let features: &[&str] = if whole { &["--all-features"] } else { &[] };
    let nextest = [&nextest[..], features].concat();
    done.push(steps::run(root, &Step::cargo("tests", &nextest).repeating(&["Summary ["]))?);
    done.push(pages::check(root, None, false)?);
    if whole {
        let doc = ["test", "--workspace", "--doc", "--all-features", "--locked"];
        let mut step = steps::run(root, &Step::cargo("doctests", &doc).repeating(&[RESULT]))?;
        step.lines = vec![format!("{} doctests passed", passed(&step.lines))];
        done.push(step);
    }
    if steps::answers(root, "cargo", &["deny", "--version"]) {
        // Advisories need the network; the rest does not.
        let deny = ["deny", "--locked", "check", "licenses", "bans", "sources"];
        done.push(steps::run(root, &Step::cargo("dependencies", &deny))?);
    } else {
        steps::tell(
            "\n==> dependencies: skipped, cargo-deny is not installed (cargo install --locked cargo-deny)",
        );
    }
    if whole {
        done.push(sandbox::check(root, false)?);
        done.push(python::mcp_clients(root)?);
        done.push(python::api_check(root, EXAMPLES)?);
        if browser::chromium().is_some() {
            done.push(browser::origins(root)?);
        } else {
            steps::tell(
                "\n==> origins: skipped, Chromium is not installed (apt-get install chromium)",
            );
        }
        let seeds = SEEDS.map(str::to_owned);
        done.push(steps::run(root, &sim(&seeds).repeating(&SIM_LINES))?);
        let kills = ["--kills".to_owned(), "200".to_owned()];
        done.push(steps::run(root, &kill_loop(&kills).repeating(&KILL_LINES))?);
    }
    report(name, &done);
    Ok(())
}

/// All tests but the simulation, which is a step of its own with more seeds.
const RULES: &str = "not binary_id(aion-core::sim)";
/// What of the simulation is run with everything.
const SEEDS: [&str; 7] =
    ["--seeds", "20000", "--determinism", "50", "--liveness", "500", "--mutants"];

/// Generated calls of each operation that are made with everything.
const EXAMPLES: u64 = 20;

/// The lines of the simulation's report.
const SIM_LINES: [&str; 5] =
    ["operations", "seeds  ", "determinism  ", "liveness  ", "mutants caught"];
/// The lines of the kill loop's report that say what was lost.
const KILL_LINES: [&str; 5] =
    ["kills  ", "while it ran", "messages lost", "acknowledged twice", "processes left"];

/// What a test binary without the runner says at its end.
const RESULT: &str = "test result:";

/// The sum of the tests that passed, over all results.
fn passed(results: &[String]) -> u64 {
    let counts = results.iter().filter_map(|line| {
        let before = line.split(" passed").next()?;
        before.rsplit(' ').next()?.parse::<u64>().ok()
    });
    counts.sum()
}

fn report(suite: &str, done: &[Done]) {
    steps::say(&format!("\n{suite} passed:"));
    for step in done {
        steps::say(&format!("  {:<14} {:>7.1} s", step.name, step.took.as_secs_f64()));
        for line in &step.lines {
            steps::say(&format!("      {line}"));
        }
    }
    let total: Duration = done.iter().map(|step| step.took).sum();
    steps::say(&format!("  {:<14} {:>7.1} s", "in all", total.as_secs_f64()));
}

/// Installs the test runner if it is missing, and says what else is.
fn need_tools(root: &Path) -> Result<()> {
    for (component, probe) in [("rustfmt", "fmt"), ("clippy", "clippy")] {
        if !steps::answers(root, "cargo", &[probe, "--version"]) {
            bail!("{component} is missing; install it: rustup component add {component}");
        }
    }
    if !steps::answers(root, "git", &["--version"]) {
        bail!("git is missing; install it: apt-get install git");
    }
    // A test calls the daemon as a program that knows nothing of ours.
    if !steps::answers(root, "python3", &["--version"]) {
        bail!("python3 is missing; install it: apt-get install python3");
    }
    if !steps::answers(root, "cargo", &["nextest", "--version"]) {
        steps::tell("cargo-nextest, the test runner, is missing; it is installed once:");
        let install = Step::cargo("installation", &["install", "--locked", "cargo-nextest"]);
        steps::run(root, &install).context("install cargo-nextest, then start again")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_summed() {
        let lines = [
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out".to_owned(),
            "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out".to_owned(),
            "test result: ok. 39 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out"
                .to_owned(),
        ];
        assert_eq!(passed(&lines), 42);
    }

    #[test]
    fn binaries_are_started_as_the_product_is_built() {
        assert_eq!(
            kill_loop(&["--kills".to_owned(), "3".to_owned()]).command_line(),
            "cargo run --release --locked -p aion-testkit --bin aion-kill-loop \
             --features failpoints -- --kills 3"
        );
    }
}
