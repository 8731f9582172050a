//! What is known of one coding agent that speaks ACP, as plain data; it looks for nothing, starts
//! nothing, and never reads the environment itself.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aion_core::agent::PermissionMode;
use serde::Deserialize;
use serde_json::Value;

/// The name under which an agent meets the tools of its team.
pub const TEAM_SERVER: &str = "team";

/// Variables that every program needs to find its way on this machine; they hold no secret of a
/// service. A name that ends in `*` stands for all that begin so.
const EVERYBODYS: [&str; 28] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TERM",
    "COLORTERM",
    "TZ",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
];

/// One agent of the catalogue.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its key in the catalogue, an agent's type: `claude`, `codex`.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// How it is started.
    pub launch: Launch,
    /// Variables that are set for it, over those of the person.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Variables of the person's environment that it may be handed: keys, base URLs, places of its
    /// settings. A name that ends in `*` stands for all that begin so. Nothing else is inherited but
    /// what every program needs.
    #[serde(default)]
    pub inherit: Vec<String>,
    /// The oldest major version of Node that it runs with, where it needs Node.
    #[serde(default)]
    pub minimum_node: Option<u32>,
    /// How it reaches the tools of the team.
    #[serde(default)]
    pub mcp: McpTransport,
    /// When it begins the server of the team's tools.
    #[serde(default)]
    pub mcp_start: McpStart,
    /// Its names for our permission modes.
    #[serde(default)]
    pub modes: Modes,
    /// How a request for permission proves that it is about a tool of the team: any of these does.
    /// Where none is given the person is asked.
    #[serde(default)]
    pub team_tools: Vec<ToolProof>,
    /// Arguments that choose a model when it is started; `{model}` stands for its id. Without them
    /// the model is chosen by the protocol.
    #[serde(default)]
    pub model_args: Vec<String>,
    /// The way of authentication that is tried once, where it asks for one; without it one is tried
    /// where it offers exactly one that needs no terminal.
    #[serde(default)]
    pub authenticate: Option<String>,
    /// The command that signs a person in, shown where a login is missing.
    #[serde(default)]
    pub login: Option<String>,
    /// What shows that a person has signed in to it.
    #[serde(default)]
    pub signed_in: SignedIn,
    /// What is known to be odd about it.
    #[serde(default)]
    pub quirks: BTreeSet<Quirk>,
}

/// What shows that a person has signed in to an agent. What it cannot show, such as a keychain, it
/// leaves open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedIn {
    /// Variables that hold a key of its.
    #[serde(default)]
    pub variables: Vec<String>,
    /// Files that a login leaves, which are looked for and never read. One begins with `~/`, or with
    /// a variable that names a directory: `$CODEX_HOME/auth.json`.
    #[serde(default)]
    pub files: Vec<String>,
}

/// How an agent is started: by its program where that is on the path, else out of its package.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// The program, by its name or as an absolute path.
    pub program: String,
    /// The arguments that make it speak ACP, however it is started.
    #[serde(default)]
    pub args: Vec<String>,
    /// The package of npm that `npx` starts it from without installing it.
    #[serde(default)]
    pub npm: Option<NpmPackage>,
    /// The package of `PyPI` that `uvx` starts it from without installing it.
    #[serde(default)]
    pub pypi: Option<PypiPackage>,
}

/// A package of npm at one version.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NpmPackage {
    /// Its name.
    pub package: String,
    /// The version that was tried.
    pub version: String,
    /// Which of its programs.
    pub bin: String,
}

/// A package of `PyPI` at one version.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PypiPackage {
    /// Its name.
    pub package: String,
    /// The version that was tried.
    pub version: String,
    /// Which of its programs.
    pub bin: String,
}

/// How an agent reaches an MCP server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum McpTransport {
    /// It starts a program and speaks over its input and output.
    #[default]
    Stdio,
    /// It calls a URL, and refuses programs.
    Http,
}

/// When an agent begins an MCP server that it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum McpStart {
    /// With the session: its first turn waits for the tools.
    Eager,
    /// When it first needs one: a session that was opened is ready.
    #[default]
    Lazy,
}

/// An agent's names for our permission modes. The house judges every call that the agent asks about,
/// so that the mode that asks most is right for all of them; another name is a comfort.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Modes {
    /// Changes are asked for. Also the mode of whoever asks too little otherwise.
    #[serde(default)]
    pub default: Option<String>,
    /// File edits run.
    #[serde(default)]
    pub accept_edits: Option<String>,
    /// Reads only.
    #[serde(default)]
    pub plan: Option<String>,
    /// Nothing is asked for.
    #[serde(default)]
    pub bypass: Option<String>,
    /// The mode that the agent itself starts in, which is set only where no other fits.
    #[serde(default)]
    pub start: Option<String>,
}

impl Modes {
    /// The agent's name for a mode: the mode's own, else the next tighter one that has a name.
    pub fn of(&self, mode: PermissionMode) -> Option<&str> {
        let asking = || self.default.as_deref();
        let named = match mode {
            PermissionMode::Plan => self.plan.as_deref().or_else(asking),
            PermissionMode::DontAsk | PermissionMode::Default => asking(),
            PermissionMode::AcceptEdits => self.accept_edits.as_deref().or_else(asking),
            PermissionMode::BypassPermissions => self.bypass.as_deref().or_else(asking),
        };
        named.or(self.start.as_deref())
    }
}

/// One way to prove that a request for permission is about a tool of the team: all of its patterns
/// hold, for the same tool.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolProof {
    /// The patterns.
    pub all: Vec<FieldPattern>,
}

/// What one field of a request holds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldPattern {
    /// The field, as a JSON pointer. `/request/…` is in the parameters of the request for
    /// permission, `/call/…` in what was told of the call before it, by the id of the call.
    pub at: String,
    /// What it holds: a text in which `{server}` is the name of the team's server and `{tool}` one
    /// of the team's tools, or another JSON value as it is.
    pub is: Value,
}

/// What is odd about an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quirk {
    /// It hides tools behind a search: the prompt tells it to search for those of the team.
    HidesTools,
    /// It says that it can load or resume a session, and cannot be relied on: a new one is opened
    /// and told what was said.
    ForgetsSessions,
    /// It says with an end of a turn that nothing is wrong where its model could not be reached.
    HidesFailures,
}

/// Where agents come from: the catalogue of this machine.
pub trait AgentSource: Send + Sync + fmt::Debug + 'static {
    /// Whether it knows an agent of this type, also one that cannot be started at present. Asked for
    /// every start of every agent: it waits for nothing.
    fn knows(&self, agent_type: &str) -> bool;
    /// How an agent is started here at this moment, or why it cannot be and what to do. It may look
    /// at files, and never waits for a network.
    fn agent(&self, agent_type: &str) -> Result<Launchable, String>;
    /// Hears how a start of an agent went: which models it offers, its own choice first, or why it is
    /// of no use.
    fn heard(&self, _agent_type: &str, _went: Result<Vec<String>, &str>) {}
}

/// An agent that can be started here.
#[derive(Clone)]
pub struct Launchable {
    /// What is known of it.
    pub profile: Arc<Profile>,
    /// The program to start, as an absolute path.
    pub program: PathBuf,
    /// Its arguments, complete but for those that choose a model.
    pub args: Vec<OsString>,
    /// Its environment, complete: see [`Profile::environment`].
    pub environment: Vec<(OsString, OsString)>,
}

/// Without the environment, which holds keys.
impl fmt::Debug for Launchable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launchable")
            .field("profile", &self.profile.id)
            .field("program", &self.program)
            .field("args", &self.args)
            .finish_non_exhaustive()
    }
}

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// It has no id, or one that is no word.
    #[error("the id {0:?} is not a word of small letters, digits and hyphens")]
    Id(String),
    /// It names no program.
    #[error("{0}: launch.program is empty")]
    NoProgram(String),
    /// A model is chosen by arguments, and none of them holds its id.
    #[error("{0}: model_args has no {{model}}")]
    NoModel(String),
    /// A proof would believe what a model can write.
    #[error("{id}: a proof of team_tools rests on the title alone, which a model can write: {why}")]
    WeakProof {
        /// The profile.
        id: String,
        /// What is missing.
        why: &'static str,
    },
}

impl Profile {
    /// Whether the profile can be used.
    pub fn check(&self) -> Result<(), ProfileError> {
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if self.id.is_empty() || !self.id.chars().all(word) {
            return Err(ProfileError::Id(self.id.clone()));
        }
        if self.launch.program.is_empty() {
            return Err(ProfileError::NoProgram(self.id.clone()));
        }
        if !self.model_args.is_empty() && !self.model_args.iter().any(|arg| arg.contains("{model}"))
        {
            return Err(ProfileError::NoModel(self.id.clone()));
        }
        self.team_tools.iter().try_for_each(|proof| {
            proof.check().map_err(|why| ProfileError::WeakProof { id: self.id.clone(), why })
        })
    }

    /// The environment of the agent, out of the person's. `bin` is the directory of its program,
    /// which comes first on its path. Values of several lines are left out: some agents start
    /// nothing with them.
    pub fn environment(
        &self,
        persons: impl IntoIterator<Item = (OsString, OsString)>,
        bin: Option<&Path>,
    ) -> Vec<(OsString, OsString)> {
        let allowed = |name: &OsStr| {
            let listed = self.inherit.iter().map(String::as_str).chain(EVERYBODYS);
            name.to_str().is_some_and(|name| listed.into_iter().any(|all| covers(all, name)))
        };
        let one_line = |value: &OsStr| !value.as_encoded_bytes().contains(&b'\n');
        let mut all: BTreeMap<OsString, OsString> =
            persons.into_iter().filter(|(name, value)| allowed(name) && one_line(value)).collect();
        all.extend(self.environment.iter().map(|(name, value)| (name.into(), value.into())));
        if let Some(bin) = bin {
            let path = all.entry("PATH".into()).or_default();
            let rest: Vec<PathBuf> = std::env::split_paths(path).filter(|dir| dir != bin).collect();
            // A directory with a colon in its name cannot stand on a path at all.
            if let Ok(joined) = std::env::join_paths([bin.to_path_buf()].into_iter().chain(rest)) {
                *path = joined;
            }
        }
        all.into_iter().collect()
    }

    /// The arguments that choose a model.
    pub fn model_arguments(&self, model: Option<&str>) -> Vec<OsString> {
        let filled = |model: &str| -> Vec<OsString> {
            self.model_args.iter().map(|arg| arg.replace("{model}", model).into()).collect()
        };
        model.map(filled).unwrap_or_default()
    }
}

fn covers(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => pattern == name,
    }
}

impl ToolProof {
    fn check(&self) -> Result<(), &'static str> {
        let names = |pattern: &FieldPattern| {
            pattern.is.as_str().is_some_and(|text| text.contains("{tool}"))
        };
        if !self.all.iter().any(names) {
            return Err("no pattern names the {tool}");
        }
        let own_field = |pattern: &FieldPattern| !pattern.at.ends_with("/title");
        if !self.all.iter().any(own_field) {
            return Err("name another field that only the agent itself writes");
        }
        Ok(())
    }

    /// Which of the team's tools the request is about, if all patterns hold. `evidence` has the
    /// fields `request` and `call`.
    pub fn proven<'a>(&self, evidence: &Value, tools: &'a [String]) -> Option<&'a str> {
        let holds = |pattern: &FieldPattern, tool: &str| {
            let Some(found) = evidence.pointer(&pattern.at) else { return false };
            match &pattern.is {
                Value::String(text) => {
                    let text = text.replace("{server}", TEAM_SERVER).replace("{tool}", tool);
                    found.as_str() == Some(&text)
                }
                other => found == other,
            }
        };
        let whole = |tool: &&String| self.all.iter().all(|pattern| holds(pattern, tool));
        tools.iter().find(whole).map(String::as_str)
    }
}
