//! How an agent can be started here: its program, or its package; it starts neither.

use std::fs;
use std::path::{Path, PathBuf};

use aion_backends::acp::{Launch, NpmPackage, PypiPackage};

use super::ground::Ground;

/// The most directories of a cache that are looked into.
const CACHED: usize = 200;

/// How an agent can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Its program is here.
    Program(PathBuf),
    /// Another program fetches its package and starts it.
    Package {
        /// That program: `npx` or `uvx`.
        runner: PathBuf,
        /// What it is told before the agent's own arguments.
        words: Vec<String>,
        /// The package, with its version.
        package: String,
        /// Its version.
        version: String,
        /// Whether it was fetched before.
        kept: bool,
    },
}

/// Looks how an agent can be started; out of its package only where that may be fetched.
pub(super) fn find(launch: &Launch, fetch: bool, ground: &Ground) -> Option<Place> {
    let program = ground.program(&launch.program).map(Place::Program);
    let (npm, pypi) =
        (launch.npm.as_ref().filter(|_| fetch), launch.pypi.as_ref().filter(|_| fetch));
    let npm = || npm.and_then(|package| of_npm(package, ground));
    let pypi = || pypi.and_then(|package| of_pypi(package, ground));
    program.or_else(npm).or_else(pypi)
}

fn of_npm(package: &NpmPackage, ground: &Ground) -> Option<Place> {
    let NpmPackage { package, version, bin } = package;
    let whole = format!("{package}@{version}");
    Some(Place::Package {
        runner: ground.program("npx")?,
        words: vec!["--yes".into(), format!("--package={whole}"), "--".into(), bin.clone()],
        kept: npm_keeps(package, version, ground),
        version: version.clone(),
        package: whole,
    })
}

fn of_pypi(package: &PypiPackage, ground: &Ground) -> Option<Place> {
    let PypiPackage { package, version, bin } = package;
    let whole = format!("{package}=={version}");
    Some(Place::Package {
        runner: ground.program("uvx")?,
        words: vec!["--from".into(), whole.clone(), bin.clone()],
        // What its cache holds is written nowhere that others should read.
        kept: false,
        version: version.clone(),
        package: whole,
    })
}

/// Whether `npx` has fetched a package at a version before.
fn npm_keeps(package: &str, version: &str, ground: &Ground) -> bool {
    let cache = ground.place("$npm_config_cache/_npx").or_else(|| ground.place("~/.npm/_npx"));
    let Some(Ok(entries)) = cache.map(fs::read_dir) else { return false };
    entries.flatten().take(CACHED).any(|entry| {
        let at = entry.path().join("node_modules").join(package).join("package.json");
        super::version::named_by(&at, package).as_deref() == Some(version)
    })
}

/// The command that installs an agent, where one is known.
pub(super) fn install(launch: &Launch) -> Option<String> {
    match (&launch.npm, &launch.pypi) {
        (Some(NpmPackage { package, version, .. }), _) => {
            Some(format!("npm install --global {package}@{version}"))
        }
        (None, Some(PypiPackage { package, version, .. })) => {
            Some(format!("uv tool install {package}=={version}"))
        }
        (None, None) => None,
    }
}

impl Place {
    /// The program that is started.
    pub(super) fn program(&self) -> &Path {
        match self {
            Self::Program(program) => program,
            Self::Package { runner, .. } => runner,
        }
    }

    /// What is fetched from a registry at the first start, if something is.
    pub(super) fn downloads(&self) -> Option<&str> {
        match self {
            Self::Package { package, kept: false, .. } => Some(package),
            Self::Package { .. } | Self::Program(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ground::tests::{ground, put};
    use super::*;

    fn launch() -> Launch {
        Launch {
            program: "one-acp".into(),
            args: vec!["acp".into()],
            npm: Some(NpmPackage {
                package: "@a/one".into(),
                version: "1.2.3".into(),
                bin: "one-acp".into(),
            }),
            pypi: None,
        }
    }

    #[test]
    fn a_program_counts_before_its_package_and_a_package_may_have_been_fetched() {
        let home = tempfile::tempdir().unwrap();
        let (home, launch) = (home.path(), launch());
        let ground = ground(home, &[]);
        assert_eq!(find(&launch, true, &ground), None);
        assert_eq!(install(&launch).as_deref(), Some("npm install --global @a/one@1.2.3"));
        put(&home.join("bin/npx"), "");
        let package = |kept| Place::Package {
            runner: home.join("bin/npx"),
            words: ["--yes", "--package=@a/one@1.2.3", "--", "one-acp"].map(Into::into).to_vec(),
            package: "@a/one@1.2.3".into(),
            version: "1.2.3".into(),
            kept,
        };
        assert_eq!(find(&launch, true, &ground), Some(package(false)));
        assert_eq!(find(&launch, false, &ground), None);
        assert_eq!(package(false).downloads(), Some("@a/one@1.2.3"));
        put(
            &home.join(".npm/_npx/0a/node_modules/@a/one/package.json"),
            r#"{"name": "@a/one", "version": "1.2.3"}"#,
        );
        assert_eq!(find(&launch, true, &ground), Some(package(true)));
        put(&home.join("bin/one-acp"), "");
        assert_eq!(find(&launch, true, &ground), Some(Place::Program(home.join("bin/one-acp"))));
    }
}
