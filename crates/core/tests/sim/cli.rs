//! The command line of the simulation, and what a test runner asks of a test binary.

use std::process::ExitCode;

use crate::run;

/// What is run without arguments, by name.
const TESTS: [&str; 4] = ["determinism", "liveness", "mutants", "seeds"];

/// What was asked for.
#[derive(Debug, Default)]
struct Asked {
    seeds: Option<u64>,
    seed: Option<u64>,
    determinism: Option<u64>,
    liveness: Option<u64>,
    mutants: bool,
    threads: usize,
    trace: Option<(u64, u64)>,
    first: u64,
}

pub(crate) fn main(args: &[String]) -> ExitCode {
    if args.iter().any(|a| a == "--list") {
        if !args.iter().any(|a| a == "--ignored") {
            for test in TESTS {
                println!("{test}: test");
            }
        }
        return ExitCode::SUCCESS;
    }
    let asked = match read(args) {
        Ok(asked) => asked,
        Err(text) => {
            println!("{text}");
            println!(
                "usage: sim [--seeds N] [--first N] [--determinism N] [--liveness N] [--mutants] [--seed S] [--threads N] [NAME]"
            );
            return ExitCode::from(2);
        }
    };
    let passed = perform(&asked);
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn perform(asked: &Asked) -> bool {
    if let Some((from, count)) = asked.trace {
        run::print_traces(from, count);
        return true;
    }
    if let Some(seed) = asked.seed {
        return run::one(seed, asked.liveness.is_some());
    }
    let mut report = run::Report::default();
    if let Some(seeds) = asked.seeds {
        report.seeds(asked.first, seeds, asked.threads, false);
    }
    if let Some(seeds) = asked.determinism {
        report.determinism(asked.first, seeds);
    }
    if let Some(seeds) = asked.liveness {
        report.seeds(asked.first, seeds, asked.threads, true);
    }
    if asked.mutants {
        report.mutants(asked.threads);
    }
    report.print();
    report.passed()
}

/// Reads our own options, and skips those that a test runner adds.
fn read(args: &[String]) -> Result<Asked, String> {
    let mut asked = Asked { threads: 2, first: 1, ..Asked::default() };
    let mut names = Vec::new();
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let mut number = |name: &str| -> Result<u64, String> {
            let text = words.next().ok_or_else(|| format!("{name} needs a number"))?;
            text.parse().map_err(|_| format!("{name} needs a number, not {text:?}"))
        };
        match word.as_str() {
            "--seeds" => asked.seeds = Some(number(word)?),
            "--seed" => asked.seed = Some(number(word)?),
            "--first" => asked.first = number(word)?,
            "--determinism" => asked.determinism = Some(number(word)?),
            "--liveness" => asked.liveness = Some(number(word)?),
            "--mutants" => asked.mutants = true,
            "--threads" => asked.threads = usize::try_from(number(word)?).unwrap_or(2).max(1),
            "--trace" => asked.trace = Some((number(word)?, number(word)?)),
            "--exact" | "--nocapture" | "--ignored" | "--include-ignored" | "--quiet" | "-q" => {}
            "--format" | "--color" | "--test-threads" | "-Z" => {
                words.next();
            }
            name if !name.starts_with('-') => names.push(name.to_owned()),
            other => return Err(format!("there is no option {other}")),
        }
    }
    let all = names.is_empty()
        && asked.seeds.is_none()
        && asked.determinism.is_none()
        && asked.liveness.is_none()
        && !asked.mutants;
    for test in TESTS {
        if all || names.iter().any(|name| name == test) {
            match test {
                "determinism" => asked.determinism = Some(20),
                "liveness" => asked.liveness = Some(100),
                "mutants" => asked.mutants = true,
                _ => asked.seeds = Some(1_000),
            }
        }
    }
    Ok(asked)
}
