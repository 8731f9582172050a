//! What is found of one agent: how it is started here, its version, whether somebody has signed in,
//! and why it cannot be used; it reads no key, and nobody's credentials.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aion_backends::acp::{Launchable, Profile};

use super::ground::Ground;
use super::place::{self, Place};
use super::version::{self, Versions};
use super::written::Own;

/// An agent as it is found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    own: Own,
    place: Option<Place>,
    version: Option<String>,
    node: Option<Node>,
    signed_in: Standing,
    problem: Option<Problem>,
}

/// Why an agent cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Why.
    pub(crate) why: String,
    /// The command that helps.
    pub(crate) fix: Option<String>,
}

/// Whether a person has signed in to an agent, as far as that can be told from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// This shows it: a variable, or a file.
    Seen(String),
    /// Nothing shows it. A keychain would not be seen.
    NotSeen,
    /// It cannot be told.
    Unknown,
}

/// The Node that an agent runs with.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    place: PathBuf,
    version: Option<String>,
}

/// Looks at one agent.
pub(super) fn look(own: Own, fetch: bool, ground: &Ground, versions: &Versions) -> Found {
    let profile = Arc::clone(&own.profile);
    let place = place::find(&profile.launch, fetch, ground);
    let node = profile
        .minimum_node
        .and_then(|_| node_of(place.as_ref()?, ground))
        .map(|place| Node { version: versions.said(&place), place });
    let version = place.as_ref().and_then(|place| match place {
        Place::Package { version, .. } => Some(version.clone()),
        Place::Program(program) => by_files(program, &profile).or_else(|| versions.said(program)),
    });
    let signed_in = signed_in(&profile, ground);
    let problem = problem(&own, place.as_ref(), node.as_ref(), ground);
    Found { own, place, version, node, signed_in, problem }
}

fn by_files(program: &Path, profile: &Profile) -> Option<String> {
    let npm = profile.launch.npm.as_ref().map(|package| package.package.as_str());
    let pypi = profile.launch.pypi.as_ref().map(|package| package.package.as_str());
    version::beside(program, npm, pypi)
}

/// The Node that a place is run by: the first on the path that it is handed.
fn node_of(place: &Place, ground: &Ground) -> Option<PathBuf> {
    let beside = first_on_path(place, ground)
        .and_then(|at| at.join("node").to_str().and_then(|node| ground.program(node)));
    beside.or_else(|| ground.on_path("node"))
}

/// The directory that is put before the person's own path: that of its program, or of who fetches it
/// where the path does not lead there.
fn first_on_path<'p>(place: &'p Place, ground: &Ground) -> Option<&'p Path> {
    let there = |name: &std::ffi::OsStr| ground.on_path(name.to_str().unwrap_or_default());
    let own = match place {
        Place::Program(_) => true,
        Place::Package { runner, .. } => {
            runner.file_name().and_then(there).as_deref() != Some(runner.as_path())
        }
    };
    place.program().parent().filter(|_| own)
}

fn signed_in(profile: &Profile, ground: &Ground) -> Standing {
    let shows = &profile.signed_in;
    if shows.variables.is_empty() && shows.files.is_empty() {
        return Standing::Unknown;
    }
    let variable = shows.variables.iter().find(|name| ground.variable(name).is_some());
    let file = || {
        let there = |text: &&String| ground.place(text).is_some_and(|place| place.is_file());
        shows.files.iter().find(there)
    };
    variable.or_else(file).map_or(Standing::NotSeen, |shown| Standing::Seen(shown.clone()))
}

fn problem(
    own: &Own,
    place: Option<&Place>,
    node: Option<&Node>,
    ground: &Ground,
) -> Option<Problem> {
    let profile = &own.profile;
    if let Some(fault) = &own.fault {
        let why = format!("agents.{} of your settings: {fault}", profile.id);
        return Some(Problem { why, fix: Some("aion config path".to_owned()) });
    }
    let unset = own.secrets.iter().find(|(_, variable)| ground.variable(variable).is_none());
    if let Some((_, variable)) = unset {
        let why = format!("{variable} is not set, and your settings name it");
        return Some(Problem { why, fix: Some(format!("export {variable}=…")) });
    }
    let Some(place) = place else {
        let program = &profile.launch.program;
        let why = if Path::new(program).is_absolute() || program.starts_with("~/") {
            format!("there is no program {program}")
        } else {
            format!("{program} is not on the path")
        };
        return Some(Problem { why, fix: place::install(&profile.launch) });
    };
    let least = profile.minimum_node?;
    let fix = || Some(format!("nvm install {least}"));
    match node {
        None => {
            let why = format!(
                "it needs Node {least}, and there is none beside {}",
                place.program().display()
            );
            Some(Problem { why, fix: fix() })
        }
        Some(Node { place, version: Some(version) })
            if version::major(version).is_some_and(|major| major < least) =>
        {
            let why = format!("it needs Node {least} or newer; {} is {version}", place.display());
            Some(Problem { why, fix: fix() })
        }
        Some(_) => None,
    }
}

impl Found {
    /// What is known of it.
    pub(crate) fn profile(&self) -> &Arc<Profile> {
        &self.own.profile
    }

    /// The program that is started.
    pub(crate) fn program(&self) -> Option<&Path> {
        self.place.as_ref().map(Place::program)
    }

    /// What its first start fetches from a registry, if it does.
    pub(crate) fn downloads(&self) -> Option<&str> {
        self.place.as_ref().and_then(Place::downloads)
    }

    /// Whether its own program is here.
    pub(crate) fn is_installed(&self) -> bool {
        matches!(self.place, Some(Place::Program(_)))
    }

    /// Its version, where that is known.
    pub(crate) fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// The version of the Node that it runs with, where it needs one and that is known.
    pub(crate) fn node(&self) -> Option<&str> {
        self.node.as_ref().and_then(|node| node.version.as_deref())
    }

    /// Whether a person has signed in.
    pub(crate) fn signed_in(&self) -> &Standing {
        &self.signed_in
    }

    /// Why it cannot be used.
    pub(crate) fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    /// The programs whose versions no file names.
    pub(super) fn unasked(&self) -> Vec<PathBuf> {
        let own = match &self.place {
            Some(Place::Program(program))
                if self.version.is_none() && self.own.profile.launch.npm.is_none() =>
            {
                Some(program.clone())
            }
            Some(_) | None => None,
        };
        own.into_iter().chain(self.node.iter().map(|node| node.place.clone())).collect()
    }

    /// How it is started.
    pub(super) fn launchable(&self, ground: &Ground) -> Result<Launchable, String> {
        if let Some(Problem { why, fix }) = &self.problem {
            let fix = fix.as_ref().map(|fix| format!("; to fix it: {fix}")).unwrap_or_default();
            return Err(format!("{why}{fix}"));
        }
        let profile = Arc::clone(&self.own.profile);
        let place = self.place.as_ref().ok_or("it is not here")?;
        let program = place.program().to_owned();
        let words = match place {
            Place::Program(_) => [].as_slice(),
            Place::Package { words, .. } => words,
        };
        let args = words.iter().chain(&profile.launch.args).map(OsString::from).collect();
        let first = first_on_path(place, ground);
        let mut environment = profile.environment(ground.variables(), first);
        for (name, variable) in &self.own.secrets {
            environment.retain(|(known, _)| known != name.as_str());
            let value = ground.variable(variable).unwrap_or_default();
            environment.push((name.into(), value.to_owned()));
        }
        Ok(Launchable { profile, program, args, environment })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use aion_backends::acp::profiles;

    use super::super::ground::tests::{ground, put};
    use super::*;

    fn own(id: &str) -> Own {
        let profile = profiles().iter().find(|profile| profile.id == id).unwrap();
        Own { profile: Arc::clone(profile), secrets: Vec::new(), fault: None }
    }

    #[test]
    fn what_is_missing_is_said_with_the_command_that_helps() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        let look = |more: &[(&str, &str)]| {
            look(own("codex"), true, &ground(home, more), &Versions::default())
        };
        let nothing = look(&[]);
        let expect = Problem {
            why: "codex-acp is not on the path".into(),
            fix: Some("npm install --global @agentclientprotocol/codex-acp@2.6.0".into()),
        };
        assert_eq!((nothing.problem(), nothing.signed_in()), (Some(&expect), &Standing::NotSeen));
        put(&home.join("bin/codex-acp"), "");
        let without_node = look(&[]);
        assert!(without_node.problem().unwrap().why.starts_with("it needs Node 20"));
        put(&home.join("bin/node"), "");
        let whole = look(&[("OPENAI_API_KEY", "canary")]);
        assert_eq!((whole.problem(), whole.is_installed()), (None, true));
        assert_eq!(whole.signed_in(), &Standing::Seen("OPENAI_API_KEY".into()));
        assert!(!format!("{whole:?}").contains("canary"));
        fs::create_dir(home.join(".codex")).unwrap();
        fs::write(home.join(".codex/auth.json"), "canary").unwrap();
        assert_eq!(look(&[]).signed_in(), &Standing::Seen("~/.codex/auth.json".into()));
    }

    #[test]
    fn an_agent_is_handed_what_its_profile_and_the_person_say_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        put(&home.join("bin/opencode"), "");
        let mut own = own("opencode");
        own.secrets = vec![("OPENCODE_KEY".into(), "WORK".into())];
        let more = [("WORK", "a key"), ("AWS_SECRET", "another"), ("ANTHROPIC_API_KEY", "b")];
        let ground = ground(home, &more);
        let launchable =
            look(own.clone(), true, &ground, &Versions::default()).launchable(&ground).unwrap();
        let named = |name: &str| {
            let found = launchable.environment.iter().find(|(known, _)| known == name);
            found.and_then(|(_, value)| value.to_str())
        };
        assert_eq!(named("OPENCODE_KEY"), Some("a key"));
        assert_eq!((named("ANTHROPIC_API_KEY"), named("AWS_SECRET")), (Some("b"), None));
        assert_eq!(launchable.args, ["acp"]);
        let bare = super::super::ground::tests::ground(home, &[]);
        let refused = look(own, true, &bare, &Versions::default()).launchable(&bare).unwrap_err();
        assert!(refused.starts_with("WORK is not set"), "{refused}");
    }
}
