//! What the person's own settings say of agents: changes to those that are known, and agents of the
//! person's own; a project names none.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use aion_agent::models::Service;
use aion_backends::acp::{Launch, McpStart, McpTransport, Modes, Profile, SignedIn, profiles};
use serde::Deserialize;

use crate::config::{Paths, Settings, is_secret, reference};
use crate::daemon::SCRIPTED;

/// The table that they stand in, in the person's own file.
pub(crate) const TABLE: &str = "agents";

/// An agent as it stands in the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    like: Option<String>,
    name: Option<String>,
    command: Option<String>,
    args: Option<Vec<String>>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    inherit: Vec<String>,
    mcp: Option<McpTransport>,
    mcp_start: Option<McpStart>,
    model_args: Option<Vec<String>>,
    minimum_node: Option<u32>,
    modes: Option<Modes>,
    login: Option<String>,
    #[serde(default)]
    disabled: bool,
}

/// An agent that is known, as the person wants it.
#[derive(Clone, Debug)]
pub(super) struct Own {
    /// What is known of it.
    pub(super) profile: Arc<Profile>,
    /// Variables that it finds a value of the person's in: its own, and the person's.
    pub(super) secrets: Vec<(String, String)>,
    /// Why what stands of it in the settings cannot be used.
    pub(super) fault: Option<String>,
}

impl Own {
    fn known(profile: &Arc<Profile>) -> Self {
        Self { profile: Arc::clone(profile), secrets: Vec::new(), fault: None }
    }
}

/// The agents that there may be.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// All that are known, with what the person's own file says of them.
    pub(super) agents: Vec<Own>,
    /// Why that file cannot be read, where it cannot.
    pub(super) fault: Option<String>,
    /// Whether packages may be fetched.
    pub(super) fetch: bool,
}

/// Reads them from the person's settings.
pub(super) fn known() -> Known {
    let setting = Settings::read_quietly();
    let which = setting.as_ref().and_then(|settings| settings.text("daemon.agents"));
    if which == Some("none") {
        return Known { agents: Vec::new(), fault: None, fetch: false };
    }
    let fetch = which == Some("fetch");
    let paths = Paths::here().map_err(|failure| failure.message().to_owned());
    match paths.and_then(|paths| of_file(&paths.user)) {
        Ok(written) => Known { agents: merged(written), fault: None, fetch },
        Err(why) => {
            let agents = profiles().iter().map(Own::known).collect();
            Known { agents, fault: Some(why), fetch }
        }
    }
}

fn of_file(path: &Path) -> Result<BTreeMap<String, Written>, String> {
    #[derive(Deserialize)]
    struct File {
        #[serde(default)]
        agents: BTreeMap<String, Written>,
    }
    let shown = path.display();
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(format!("{shown} cannot be read: {error}")),
        Ok(text) => toml::from_str(&text)
            .map(|file: File| file.agents)
            .map_err(|error| format!("{shown}: {}", error.message())),
    }
}

/// Those of the person's own first, then the known ones in their order.
fn merged(mut written: BTreeMap<String, Written>) -> Vec<Own> {
    let mut known = Vec::new();
    for profile in profiles() {
        match written.remove(&profile.id) {
            Some(written) if written.disabled => {}
            Some(written) => known.push(read(&profile.id, &written)),
            None => known.push(Own::known(profile)),
        }
    }
    let own = written.iter().filter(|(_, written)| !written.disabled);
    own.map(|(name, written)| read(name, written)).chain(known).collect()
}

fn read(name: &str, written: &Written) -> Own {
    let like = written.like.as_deref().unwrap_or(name);
    let base = profiles().iter().find(|profile| profile.id == like);
    let mut profile = base.map_or_else(|| blank(name), |base| Profile::clone(base));
    name.clone_into(&mut profile.id);
    let (plain, secrets) = change(&mut profile, written);
    let fault = plain.err().or_else(|| {
        if is_taken(name) {
            Some("the name is taken: it means a service, or a scenario".to_owned())
        } else if base.is_none() && written.like.is_some() {
            let known: Vec<&str> = profiles().iter().map(|known| known.id.as_str()).collect();
            Some(format!("`like` names no known agent; there are: {}", known.join(", ")))
        } else if base.is_none() && written.command.is_none() {
            Some("it needs a command".to_owned())
        } else {
            profile.check().err().map(|error| error.to_string())
        }
    });
    Own { profile: Arc::new(profile), secrets, fault }
}

/// Whether a name means something else than a program.
pub(super) fn is_taken(name: &str) -> bool {
    name == SCRIPTED || Service::from_name(name).is_some()
}

fn blank(name: &str) -> Profile {
    Profile {
        id: name.to_owned(),
        name: name.to_owned(),
        launch: Launch { program: String::new(), args: Vec::new(), npm: None, pypi: None },
        environment: BTreeMap::new(),
        inherit: Vec::new(),
        minimum_node: None,
        mcp: McpTransport::default(),
        mcp_start: McpStart::default(),
        modes: Modes::default(),
        team_tools: Vec::new(),
        model_args: Vec::new(),
        authenticate: None,
        login: None,
        signed_in: SignedIn::default(),
        quirks: std::collections::BTreeSet::default(),
    }
}

/// Puts what is written over a profile; answers which variables have values of the person's.
fn change(profile: &mut Profile, written: &Written) -> (Result<(), String>, Vec<(String, String)>) {
    let Written { name, command, args, env, inherit, .. } = written;
    if let Some(name) = name {
        profile.name.clone_from(name);
    }
    if let Some(program) = command {
        // Its own command is what is started, and no package instead of it.
        let args = profile.launch.args.clone();
        profile.launch = Launch { program: program.clone(), args, npm: None, pypi: None };
    }
    if let Some(args) = args {
        profile.launch.args.clone_from(args);
    }
    profile.inherit.extend(inherit.iter().cloned());
    profile.mcp = written.mcp.unwrap_or(profile.mcp);
    profile.mcp_start = written.mcp_start.unwrap_or(profile.mcp_start);
    profile.minimum_node = written.minimum_node.or(profile.minimum_node);
    if let Some(args) = &written.model_args {
        profile.model_args.clone_from(args);
    }
    if let Some(modes) = &written.modes {
        profile.modes.clone_from(modes);
    }
    if let Some(login) = &written.login {
        profile.login = Some(login.clone());
    }
    let mut secrets = Vec::new();
    for (name, text) in env {
        match reference(text) {
            Some(variable) => secrets.push((name.clone(), variable.to_owned())),
            None if is_secret(name, &toml::Value::String(text.clone())) => {
                let why = format!(
                    "{name} looks like a secret; write env:NAME, the name of a variable that holds it"
                );
                return (Err(why), secrets);
            }
            None => {
                profile.environment.insert(name.clone(), text.clone());
            }
        }
    }
    (Ok(()), secrets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<Own> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        fs::write(&path, text).unwrap();
        merged(of_file(&path).unwrap())
    }

    #[test]
    fn a_known_agent_is_changed_and_one_of_the_persons_own_is_added() {
        let text = r#"
            [agents.codex]
            inherit = ["WORK_KEY"]
            env = { CODEX_HOME = "/srv/codex", TOKEN = "env:WORK_KEY" }
            [agents.goose]
            disabled = true
            [agents.mine]
            command = "~/bin/mine"
            args = ["acp"]
            mcp = "http"
            [agents.old-claude]
            like = "claude"
            command = "/opt/claude-agent-acp"
        "#;
        let all = all(text);
        let of = |id: &str| all.iter().find(|own| own.profile.id == id);
        let codex = of("codex").unwrap();
        assert_eq!(codex.profile.environment["CODEX_HOME"], "/srv/codex");
        assert_eq!(codex.secrets, [("TOKEN".to_owned(), "WORK_KEY".to_owned())]);
        assert!(codex.profile.inherit.contains(&"WORK_KEY".to_owned()));
        assert!(codex.profile.launch.npm.is_some());
        assert!(of("goose").is_none());
        let mine = of("mine").unwrap();
        assert_eq!((&mine.fault, mine.profile.mcp), (&None, McpTransport::Http));
        let old = &of("old-claude").unwrap().profile;
        assert_eq!(
            (old.launch.program.as_str(), old.launch.npm.is_some()),
            ("/opt/claude-agent-acp", false)
        );
        assert_eq!(old.team_tools.len(), 1);
        assert_eq!(all[0].profile.id, "mine", "the person's own come first");
    }

    #[test]
    fn no_known_agent_has_a_name_that_means_something_else() {
        assert!(profiles().iter().all(|profile| !is_taken(&profile.id)));
    }

    #[test]
    fn what_cannot_be_used_says_why() {
        for (text, why) in [
            ("[agents.mine]\nargs = []", "it needs a command"),
            ("[agents.mine]\nlike = \"x\"\ncommand = \"y\"", "`like` names no known agent"),
            ("[agents.openai]\ncommand = \"x\"", "the name is taken"),
            (
                "[agents.mine]\ncommand = \"x\"\nenv = { A_TOKEN = \"canary\" }",
                "looks like a secret",
            ),
            ("[agents.\"a b\"]\ncommand = \"x\"", "is not a word"),
        ] {
            let all = all(text);
            let fault = all.iter().find_map(|own| own.fault.clone()).unwrap();
            assert!(fault.contains(why) && !fault.contains("canary"), "{text}: {fault}");
        }
    }
}
