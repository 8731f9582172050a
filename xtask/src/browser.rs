//! Checks in a real browser, driven by a program that is not ours; both stay outside the repository.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::steps::{self, Done, Step};

/// Where the check is, and what it needs.
const CHECK: &str = "crates/cli/tests/browser_origins";
/// What Chromium is called by those who package it.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// The browser that is installed.
pub fn chromium() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let places: Vec<PathBuf> = env::split_paths(&path).collect();
    NAMES
        .iter()
        .flat_map(|name| places.iter().map(move |place| place.join(name)))
        .find(|at| at.is_file())
}

/// Lets pages of other origins try everything on the real daemon, in a browser that is signed in.
pub fn origins(root: &Path) -> Result<Done> {
    let Some(chromium) = chromium() else {
        bail!("Chromium is missing; install it: apt-get install chromium");
    };
    if !steps::answers(root, "npm", &["--version"]) {
        bail!("npm is missing; install it: apt-get install nodejs npm");
    }
    let target =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |set| root.join(set));
    let modules = packages(root, &target)?;
    steps::run(root, &Step::cargo("binary", &["build", "--locked", "-p", "aion"]))?;
    let aion = target.join("debug").join("aion").display().to_string();
    let (check, chromium) = (format!("{CHECK}/run.mjs"), chromium.display().to_string());
    let step = Step::new("origins", "node", &[&check, &aion, &chromium, &modules]);
    Ok(steps::run(root, &step.repeating(&["origins:"]))?)
}

/// The packages of the check, installed once, and again when its list changes.
fn packages(root: &Path, target: &Path) -> Result<String> {
    let directory = target.join("node").join("browser-origins");
    let modules = directory.join("node_modules").display().to_string();
    let wanted = fs::read_to_string(root.join(CHECK).join("package.json"))
        .with_context(|| format!("{CHECK}/package.json cannot be read"))?;
    let installed = directory.join("installed.json");
    if fs::read_to_string(&installed).is_ok_and(|text| text == wanted) {
        return Ok(modules);
    }
    fs::create_dir_all(&directory).context("make a place for packages")?;
    fs::write(directory.join("package.json"), &wanted).context("say which packages are wanted")?;
    let place = directory.display().to_string();
    // No package runs anything when it is installed.
    let options =
        ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", "--prefix"];
    steps::run(root, &Step::new("packages", "npm", &[&options[..], &[&place]].concat()))
        .context("what package.json names is installed from the npm registry, once")?;
    fs::write(&installed, wanted).context("note what is installed")?;
    Ok(modules)
}
