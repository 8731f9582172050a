//! Reads the layers of settings, and says of each value where it came from; it writes nothing.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use aion_api::Exit;
use toml::{Table, Value};

use super::keys::{Key, find, keys, nearest};
use super::rules::TABLE;
use crate::agents::TABLE as AGENTS;
use crate::exit::Failure;
use crate::servers::{FILE as SERVERS_FILE, TABLE as SERVERS};
use crate::terminal::clean_line;

/// The file of who administers the machine.
const MANAGED: &str = if cfg!(target_os = "macos") {
    "/Library/Application Support/aion/config.toml"
} else {
    "/etc/aion/config.toml"
};

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The program.
    BuiltIn,
    /// A file.
    File(PathBuf),
    /// A variable.
    Variable(&'static str),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built in"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable(name) => f.write_str(name),
        }
    }
}

/// The files that are read, whether they are there or not; the nearest last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Paths {
    /// Of who administers the machine: rules of permission alone.
    pub(crate) managed: PathBuf,
    /// The user's own.
    pub(crate) user: PathBuf,
    /// The project's, which others have too.
    pub(crate) project: Option<PathBuf>,
    /// The project's, which nobody else has.
    pub(crate) local: Option<PathBuf>,
}

impl Paths {
    /// For the directory that the program was started in.
    pub(crate) fn here() -> Result<Self, Failure> {
        let directory =
            env::current_dir().map_err(|error| Failure::io("find the directory", &error))?;
        Self::of_workspace(&directory)
    }

    /// For a directory that a team works in.
    pub(crate) fn of_workspace(directory: &Path) -> Result<Self, Failure> {
        let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
        let user = user_file(|name| env::var_os(name).map(PathBuf::from)).ok_or_else(|| {
            Failure::usage("there is no home directory to keep settings in")
                .with_hint("AION_CONFIG names a file")
        })?;
        Ok(Self::of(user, &directory))
    }

    fn of(user: PathBuf, directory: &Path) -> Self {
        let project = directory.ancestors().map(|at| at.join(".aion")).find(|at| at.is_dir());
        Self {
            managed: PathBuf::from(MANAGED),
            user,
            project: project.as_ref().map(|at| at.join("config.toml")),
            local: project.as_ref().map(|at| at.join("local/config.toml")),
        }
    }
}

fn user_file(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|path| !path.as_os_str().is_empty());
    set("AION_CONFIG")
        .or_else(|| {
            set("XDG_CONFIG_HOME").filter(|p| p.is_absolute()).map(|p| p.join("aion/config.toml"))
        })
        .or_else(|| set("HOME").map(|home| home.join(".config/aion/config.toml")))
}

/// All settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    values: BTreeMap<&'static str, (String, Origin)>,
    /// What was found that means nothing.
    pub(crate) warnings: Vec<String>,
}

impl Settings {
    /// Those that count here. What means nothing is said on standard error.
    pub(crate) fn load() -> Result<Self, Failure> {
        let settings = Self::read(&Paths::here()?, |name| env::var(name).ok())?;
        for warning in &settings.warnings {
            use std::io::Write;
            // Where standard error is gone there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "aion: {warning}");
        }
        Ok(settings)
    }

    /// Those that count here, where all can be read.
    pub(crate) fn read_quietly() -> Option<Self> {
        Self::read(&Paths::here().ok()?, |name| env::var(name).ok()).ok()
    }

    /// From some files and variables.
    pub(crate) fn read(
        paths: &Paths,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Failure> {
        let mut settings = Self { values: BTreeMap::new(), warnings: Vec::new() };
        for key in keys() {
            if let Some(text) = key.built_in {
                settings.values.insert(key.name, (text.to_owned(), Origin::BuiltIn));
            }
        }
        settings.file(&paths.user, false)?;
        for path in [&paths.project, &paths.local].into_iter().flatten() {
            settings.file(path, true)?;
        }
        for key in keys() {
            let Some(name) = key.variable else { continue };
            let Some(text) = variable(name).filter(|text| !text.is_empty()) else { continue };
            key.check(&text).map_err(|why| invalid(name, &why))?;
            settings.values.insert(key.name, (text, Origin::Variable(name)));
        }
        Ok(settings)
    }

    /// A value with its origin.
    pub(crate) fn get(&self, key: &Key) -> Option<(&str, &Origin)> {
        self.values.get(key.name).map(|(text, origin)| (text.as_str(), origin))
    }

    /// A value by its name.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|(text, _)| text.as_str())
    }

    fn file(&mut self, path: &Path, of_a_project: bool) -> Result<(), Failure> {
        let shown = path.display().to_string();
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Failure::io(format!("read {shown}"), &error)),
        };
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            Failure::new(Exit::Usage, "config.unreadable", format!("{shown}: {error}"))
        })?;
        let mut found = Vec::new();
        flatten("", &table, &mut found);
        // Rules are read for themselves: those of all files count together.
        found.retain(|(name, _)| !name.starts_with(&format!("{TABLE}.")));
        // So are MCP servers and agents, of the person's own file alone: they are commands.
        let all = found.len();
        found.retain(|(name, _)| !name.starts_with(&format!("{AGENTS}.")));
        if of_a_project && found.len() < all {
            self.warnings.push(format!("{shown}: {AGENTS} counts in your own file alone"));
        }
        let all = found.len();
        found.retain(|(name, _)| !name.starts_with(&format!("{SERVERS}.")));
        if of_a_project && found.len() < all {
            self.warnings.push(format!(
                "{shown}: {SERVERS} counts in your own file alone; a project names its servers in {SERVERS_FILE}"
            ));
        }
        for (name, value) in found {
            if is_secret(&name, value) {
                let message = format!("{shown}: {} looks like a secret", clean_line(&name, 60));
                return Err(Failure::new(Exit::Usage, "config.secret", message).with_hint(
                    "files of settings are copied and shown; aion auth login keeps a key for you, \
                     or keep it in the environment",
                ));
            }
            let Some(key) = find(&name) else {
                let name = clean_line(&name, 60);
                let nearest =
                    nearest(&name).map_or(String::new(), |near| format!("; is it {near}?"));
                self.warnings.push(format!("{shown}: there is no setting {name}{nearest}"));
                continue;
            };
            if of_a_project && key.name.starts_with("providers.") {
                let message = format!(
                    "{shown}: {name} may be set in your own file alone; a project must not say \
                     where your keys and your work are sent"
                );
                return Err(Failure::new(Exit::Usage, "config.not_in_projects", message)
                    .with_hint(format!(
                        "take {name} out of {shown}; aion config path names your own file"
                    )));
            }
            if of_a_project && !key.in_projects {
                self.warnings.push(format!("{shown}: only your own file may set {name}"));
                continue;
            }
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            key.check(&text).map_err(|why| invalid(&format!("{shown}: {name}"), &why))?;
            self.values.insert(key.name, (text, Origin::File(path.to_owned())));
        }
        Ok(())
    }
}

fn invalid(place: &str, why: &str) -> Failure {
    Failure::new(Exit::Usage, "config.invalid", format!("{place}: {why}"))
}

/// Every value of a table with its full name.
fn flatten<'t>(prefix: &str, table: &'t Table, found: &mut Vec<(String, &'t Value)>) {
    for (name, value) in table {
        let full = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match value {
            Value::Table(table) => flatten(&full, table, found),
            other => found.push((full, other)),
        }
    }
}

/// Whether a value is one that should not stand in a file.
pub(crate) fn is_secret(name: &str, value: &Value) -> bool {
    let name = name.to_lowercase();
    let named = ["token", "secret", "password", "api_key", "apikey", "credential"]
        .iter()
        .any(|word| name.contains(word));
    let looks = value.as_str().is_some_and(|text| {
        ["sk-", "aion_", "aionm_", "ghp_", "xoxb-"].iter().any(|begin| text.starts_with(begin))
    });
    value.is_str() && (named || looks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        files: &[(&str, &str)],
        variables: &[(&str, &str)],
    ) -> Result<Settings, (String, String)> {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().join("work/deep");
        fs::create_dir_all(&work).unwrap();
        fs::create_dir_all(dir.path().join("work/.aion/local")).unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let paths = Paths::of(dir.path().join("user.toml"), &work);
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned())
        };
        Settings::read(&paths, variable)
            .map_err(|failure| (failure.code().to_owned(), failure.message().to_owned()))
    }

    const PROJECT: &str = "work/.aion/config.toml";
    const LOCAL: &str = "work/.aion/local/config.toml";

    #[test]
    fn the_nearest_word_counts() {
        let files = [
            (
                "user.toml",
                "[run]\nmax_time = \"1m\"\nprogress = \"none\"\non_approval = \"wait\"\n",
            ),
            (PROJECT, "run.max_time = \"2m\"\nrun.on_approval = \"deny\"\n"),
            (LOCAL, "[run]\non_approval = \"fail\"\n"),
        ];
        let check = |variables: &[(&str, &str)], name: &str, expect: Option<&str>| {
            let settings = read(&files, variables).unwrap();
            assert_eq!(settings.text(name), expect, "{name}");
        };
        check(&[], "run.max_time", Some("2m"));
        check(&[], "run.on_approval", Some("fail"));
        check(&[], "run.progress", Some("none"));
        check(&[], "daemon.port", Some("7717"));
        check(&[("AION_ON_APPROVAL", "wait")], "run.on_approval", Some("wait"));
        check(&[("AION_ON_APPROVAL", "")], "run.on_approval", Some("fail"));
        let settings = read(&[], &[]).unwrap();
        assert_eq!(settings.text("run.max_time"), None);
        let port = find("daemon.port").unwrap();
        assert_eq!(settings.get(port), Some(("7717", &Origin::BuiltIn)));
    }

    #[test]
    fn what_means_nothing_is_said_and_what_is_wrong_is_refused() {
        let settings = read(&[("user.toml", "[run]\nmaxtime = \"1m\"\n")], &[]).unwrap();
        assert_eq!(settings.warnings.len(), 1);
        assert!(settings.warnings[0].ends_with("no setting run.maxtime; is it run.max_time?"));
        let settings = read(&[(PROJECT, "daemon.port = 1\n")], &[]).unwrap();
        assert!(settings.warnings[0].ends_with("only your own file may set daemon.port"));
        assert_eq!(settings.text("daemon.port"), Some("7717"));
        let own = "[agents.mine]\ncommand = \"x\"\nenv = { A_TOKEN = \"env:B\" }\n";
        assert!(read(&[("user.toml", own)], &[]).unwrap().warnings.is_empty());
        let warnings = read(&[(PROJECT, own)], &[]).unwrap().warnings;
        assert!(warnings[0].ends_with("agents counts in your own file alone"), "{warnings:?}");
        let code = |files: &[(&str, &str)], variables: &[(&str, &str)]| {
            read(files, variables).unwrap_err().0
        };
        assert_eq!(code(&[("user.toml", "daemon.port = \"x\"\n")], &[]), "config.invalid");
        assert_eq!(code(&[], &[("AION_PORT", "x")]), "config.invalid");
        assert_eq!(code(&[("user.toml", "[run\n")], &[]), "config.unreadable");
        assert_eq!(code(&[("user.toml", "anthropic.api_key = \"x\"\n")], &[]), "config.secret");
        assert_eq!(code(&[(PROJECT, "note = \"sk-123\"\n")], &[]), "config.secret");
        let place = "[providers.anthropic]\nbase_url = \"http://127.0.0.1:1\"\n";
        for project in [PROJECT, LOCAL] {
            assert_eq!(code(&[(project, place)], &[]), "config.not_in_projects");
        }
        let settings = read(&[("user.toml", place)], &[]).unwrap();
        assert_eq!(settings.text("providers.anthropic.base_url"), Some("http://127.0.0.1:1"));
        let (refused, message) =
            read(&[("user.toml", "providers.openai.key = \"canary\"\n")], &[]).unwrap_err();
        assert_eq!(refused, "config.invalid");
        assert!(!message.contains("canary") && message.contains("auth login"), "{message}");
        let (_, message) = read(&[("user.toml", "daemon.port = 1\n[run\n")], &[]).unwrap_err();
        assert!(message.contains("line 2"), "{message}");
    }
}
