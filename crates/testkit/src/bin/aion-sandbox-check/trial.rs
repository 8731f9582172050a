//! Runs the attempts behind each wall, and judges by what came of them and not by what they say.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use aion_agent::leash::{LeashConfig, LeashedCommand};
use aion_agent::sandbox::{Grounds, Limits, Mode, Sandbox, Violation, Wall, in_words};
use aion_core::id::TeamId;
use aion_core::sandbox::ViolationKind;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use crate::cases::{CARRIES, CASES, Case, Start};
use crate::ground::{CANARY, Ground};
use crate::network;

/// No attempt takes longer.
const PATIENCE: Duration = Duration::from_mins(1);
/// The user without rights, as which everything is tried again.
const NOBODY: u32 = 65_534;

/// How one attempt went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// The attempt.
    pub(crate) id: String,
    /// What it tried.
    pub(crate) what: String,
    /// Behind which wall.
    pub(crate) wall: String,
    /// Whether the wall held.
    pub(crate) held: bool,
    /// How it is known: the words of the table.
    pub(crate) how: String,
    /// What there is to be seen where it did not hold.
    pub(crate) evidence: String,
}

/// Everything that was tried.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Results {
    /// The walls that there are.
    pub(crate) walls: Vec<String>,
    /// Why others are not there.
    pub(crate) missing: Vec<String>,
    /// How it went.
    pub(crate) outcomes: Vec<Outcome>,
}

/// Tries everything, as this user, and where that is the superuser as nobody, too.
pub(crate) fn all(place: &Path, only: Option<&str>, raw: bool) -> Result<Results> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut results = runtime.block_on(as_this_user(place, only))?;
    if is_superuser() && !raw {
        let place = place.join("nobody");
        std::fs::create_dir_all(&place)?;
        std::os::unix::fs::chown(&place, Some(NOBODY), Some(NOBODY))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--raw").arg("--place").arg(&place).uid(NOBODY).gid(NOBODY);
        command.env("HOME", "/nonexistent").current_dir("/");
        if let Some(only) = only {
            command.args(["--only", only]);
        }
        let output = command.output().context("start as nobody")?;
        if !output.status.success() {
            bail!("as nobody: {}", String::from_utf8_lossy(&output.stderr));
        }
        let theirs: Results = serde_json::from_slice(&output.stdout)?;
        results.outcomes.extend(theirs.outcomes.into_iter().map(|outcome| Outcome {
            evidence: format!("as nobody: {}", outcome.evidence),
            ..outcome
        }));
    }
    Ok(results)
}

pub(crate) fn is_superuser() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

/// The program that is both helpers.
pub(crate) fn program(word: &str) -> Result<Vec<OsString>> {
    Ok(vec![std::env::current_exe()?.into(), word.into()])
}

/// A leash by this program.
pub(crate) fn leash() -> Result<LeashConfig> {
    let program = std::env::current_exe()?;
    Ok(LeashConfig { program, arguments: vec!["__leash".into()], ledger: None })
}

/// A sandbox for a machine, behind one wall.
pub(crate) fn sandbox(ground: &Ground, wall: &Wall, limits: Limits) -> Result<Sandbox> {
    let grounds = Grounds {
        home: Some(ground.at("home")),
        closed: vec![ground.at("data")],
        writable: Vec::new(),
    };
    let sandbox = Sandbox::new(Mode::Required, program("__sandbox")?, grounds)
        .with_limits(limits)
        .with_wall(wall.clone());
    for (team, place) in [("one", "ws"), ("two", "other")] {
        let team = TeamId::new(team).map_err(|error| anyhow::anyhow!("{error}"))?;
        sandbox.works_in(&team, &ground.at(place));
    }
    Ok(sandbox)
}

async fn as_this_user(place: &Path, only: Option<&str>) -> Result<Results> {
    let helper = program("__sandbox")?;
    let mut results = Results::default();
    let mut walls = Vec::new();
    for (name, found) in
        [("bubblewrap", Wall::bubblewrap(&helper)), ("landlock", Wall::landlock(&helper))]
    {
        match found {
            Ok(wall) => walls.push(wall),
            Err(reason) => results.missing.push(format!("{name}: {reason}")),
        }
    }
    results.walls = walls.iter().map(|wall| wall.name().to_owned()).collect();
    for wall in &walls {
        results.outcomes.extend(starts(place, wall, only).await?);
        for case in CASES.iter().filter(|case| only.is_none_or(|only| only == case.id)) {
            let mut ground = Ground::new(place)?;
            if case.start == Start::Tmux && !ground.has_tmux() {
                tell(&format!("{}: tmux is not installed; left out", case.id));
                continue;
            }
            results.outcomes.push(attempt(&mut ground, wall, case).await?);
        }
        results.outcomes.extend(network::all(place, wall, only).await?);
    }
    Ok(results)
}

/// What a command says, how it ended, and what was refused.
pub(crate) struct Said {
    /// Its output.
    pub(crate) output: String,
    /// Its exit code.
    pub(crate) code: i32,
    /// What was told.
    pub(crate) told: Vec<Violation>,
}

/// Runs a script as an agent's command.
pub(crate) async fn run(
    sandbox: &Arc<Sandbox>,
    ground: &Ground,
    directory: &Path,
    script: &str,
    gate: Option<aion_agent::network::Gate>,
) -> Result<Said> {
    let mut environment: Vec<(OsString, OsString)> =
        ground.variables().into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    environment.push(("PATH".into(), "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".into()));
    let command = LeashedCommand {
        program: "bash".into(),
        arguments: vec!["-c".into(), script.into()],
        directory: directory.to_owned(),
        environment,
    };
    let mut child = sandbox.spawn(&leash()?, &ground.at("ws"), command, gate).await?;
    let mut output = Vec::new();
    let read = timeout(PATIENCE, child.output().take(1 << 20).read_to_end(&mut output)).await;
    if read.is_err() {
        child.kill();
        output.extend_from_slice(b"\n(it was killed after its time)\n");
    }
    let ended = child.wait().await?;
    let output = String::from_utf8_lossy(&output).into_owned();
    let told = ended.violations.into_iter().chain(in_words(&output)).collect();
    Ok(Said { output, code: ended.code, told })
}

async fn attempt(ground: &mut Ground, wall: &Wall, case: &Case) -> Result<Outcome> {
    let limits = match case.start {
        Start::Small => Limits {
            processes: 400,
            file_bytes: 64 << 20,
            memory_bytes: 1 << 30,
            ..Limits::default()
        },
        _ => Limits::default(),
    };
    let sandbox = Arc::new(sandbox(ground, wall, limits)?);
    let directory = if case.start == Start::Outside { ground.at("out") } else { ground.at("ws") };
    let before = ground.fingerprint();
    let said = run(&sandbox, ground, &directory, case.script, None).await?;
    if case.start == Start::Leaving {
        tokio::time::sleep(Duration::from_millis(800)).await;
    }
    let after = ground.fingerprint();
    let mut faults = Vec::new();
    if said.output.contains("GOT") || said.output.contains(CANARY) {
        faults.push("it got through".to_owned());
    }
    if before != after {
        let changed: BTreeSet<_> = before.iter().chain(&after).collect::<BTreeSet<_>>();
        let changed: Vec<String> = changed
            .into_iter()
            .filter(|(path, content)| {
                before.get(*path) != Some(content) || after.get(*path) != Some(content)
            })
            .map(|(path, _)| path.display().to_string())
            .collect();
        faults.push(format!("changed: {}", changed.join(", ")));
    }
    if !ground.sibling_lives() {
        faults.push("the sibling was killed".to_owned());
    }
    for trace in ["ws/survivor", "escaped", "out/raced"] {
        if ground.at(trace).exists() {
            faults.push(format!("{trace} is there"));
        }
    }
    let seen = format!("/tmp/aion-check-{}", ground.variables()[6].1);
    if Path::new(&seen).exists() {
        faults.push(format!("{seen} is there"));
    }
    let mut outcome = judged(case.id, case.what, wall, &said, &faults);
    if case.start == Start::Leaving {
        "ended".clone_into(&mut outcome.how);
    }
    Ok(outcome)
}

/// An outcome from what came of it.
pub(crate) fn judged(id: &str, what: &str, wall: &Wall, said: &Said, faults: &[String]) -> Outcome {
    let has = |kind: ViolationKind| said.told.iter().any(|violation| violation.kind == kind);
    let how = if has(ViolationKind::PutBack) {
        "put back"
    } else if has(ViolationKind::Network) {
        "refused"
    } else if has(ViolationKind::Limit) {
        "limited"
    } else if has(ViolationKind::Refused) {
        "refused"
    } else {
        "nothing there"
    };
    Outcome {
        id: id.to_owned(),
        what: what.to_owned(),
        wall: wall.name().to_owned(),
        held: faults.is_empty(),
        how: how.to_owned(),
        evidence: format!("{}; code {}\n{}", faults.join("; "), said.code, said.output),
    }
}

/// What has to hold before any command runs.
async fn starts(place: &Path, wall: &Wall, only: Option<&str>) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    let wanted = |id: &str| only.is_none_or(|only| only == id);
    let ground = Ground::new(place)?;
    let ws = ground.at("ws");
    let touch = "touch $WS/ran; echo GOT";
    if wanted("1") {
        // The helper does nothing, so no wall works.
        let none = Wall::find(Mode::Required, &["/bin/true".into()]);
        let sandbox = Arc::new(sandbox(&ground, &none, Limits::default())?);
        let refused = run(&sandbox, &ground, &ws, touch, None).await;
        let held = refused.is_err() && !ws.join("ran").exists();
        outcomes.push(outcome("1", "a machine where no wall works", wall, held, "not run"));
    }
    if wanted("41") {
        // The wall stands, and the helper inside of it falls.
        let grounds = Grounds::default();
        let helper = vec!["/bin/false".into()];
        let sandbox = Sandbox::new(Mode::Required, helper, grounds).with_wall(wall.clone());
        let said = run(&Arc::new(sandbox), &ground, &ws, touch, None).await;
        let ran = said.is_ok_and(|said| said.output.contains("GOT"));
        let held = !ran && !ws.join("ran").exists();
        outcomes.push(outcome(
            "41",
            "a helper that falls before the command",
            wall,
            held,
            "not run",
        ));
    }
    if wanted("32") {
        let sandbox = Arc::new(sandbox(&ground, wall, Limits::default())?);
        run(&sandbox, &ground, &ws, CARRIES.0, None).await?;
        let said = run(&sandbox, &ground, &ws, CARRIES.1, None).await?;
        let held = !said.output.contains("GOT");
        let what = "leave something in the shell for the next command";
        let mut outcome = outcome("32", what, wall, held, "nothing there");
        outcome.evidence = said.output;
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// An outcome of a plain look.
pub(crate) fn outcome(id: &str, what: &str, wall: &Wall, held: bool, how: &str) -> Outcome {
    Outcome {
        id: id.to_owned(),
        what: what.to_owned(),
        wall: wall.name().to_owned(),
        held,
        how: how.to_owned(),
        evidence: String::new(),
    }
}

/// A line on standard output.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// A line on standard error.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
