//! Python programs that are not ours, each in an environment of its own under the target directory;
//! it leaves the machine's own Python as it is.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::steps::{self, Done, Step};

/// Says what is missing for environments, if anything is.
pub fn check(root: &Path) -> Result<()> {
    if !steps::answers(root, "python3", &["-c", "import ensurepip, venv"]) {
        bail!(
            "python3 with venv and pip is missing; install it: apt-get install python3 python3-venv"
        );
    }
    Ok(())
}

/// The Python of an environment with what a file of requirements names. It is made once, and again
/// when the file changes.
pub fn environment(root: &Path, name: &str, requirements: &str) -> Result<String> {
    let directory = target(root).join("python").join(name);
    let python = directory.join("bin").join("python").display().to_string();
    let wanted = fs::read_to_string(root.join(requirements))
        .with_context(|| format!("{requirements} cannot be read"))?;
    let installed = directory.join("requirements.txt");
    if fs::read_to_string(&installed).is_ok_and(|text| text == wanted) {
        return Ok(python);
    }
    check(root)?;
    let place = directory.display().to_string();
    let make = Step::new("python", "python3", &["-m", "venv", "--clear", &place]);
    steps::run(root, &make)?;
    let options = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
    let install = Step::new("packages", &python, &[&options[..], &[requirements]].concat());
    steps::run(root, &install)
        .with_context(|| format!("what {requirements} names is installed from PyPI, once"))?;
    fs::write(&installed, wanted).context("note what is installed")?;
    Ok(python)
}

/// Lets clients of MCP that are not ours act as members of a team of the real daemon, and agents
/// call servers that are not ours.
pub fn mcp_clients(root: &Path) -> Result<Done> {
    let python = environment(root, "mcp", "crates/cli/tests/mcp_clients/requirements.txt")?;
    steps::run(root, &Step::cargo("binary", &["build", "--locked", "-p", "aion"]))?;
    let aion = target(root).join("debug").join("aion").display().to_string();
    let step = Step::new("MCP clients", &python, &["crates/cli/tests/mcp_clients/run.py", &aion]);
    steps::run(root, &step.repeating(&["lead and teammate"]))?;
    let step = Step::new("MCP servers", &python, &["crates/cli/tests/mcp_servers/run.py", &aion]);
    Ok(steps::run(root, &step.repeating(&["servers over"]))?)
}

/// Holds the real daemon to its own OpenAPI, with so many examples an operation.
pub fn api_check(root: &Path, examples: u64) -> Result<Done> {
    let python = environment(root, "api", "crates/cli/tests/api_check/requirements.txt")?;
    steps::run(root, &Step::cargo("binary", &["build", "--locked", "-p", "aion"]))?;
    let aion = target(root).join("debug").join("aion").display().to_string();
    let examples = examples.to_string();
    let step =
        Step::new("API check", &python, &["crates/cli/tests/api_check/run.py", &aion, &examples]);
    Ok(steps::run(root, &step.repeating(&["without a credential", "generated", "answers of"]))?)
}

/// Where cargo builds.
pub(crate) fn target(root: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |set| root.join(set))
}
