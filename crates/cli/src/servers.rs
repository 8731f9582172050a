//! The MCP servers that the person's own settings and a trusted project name; it starts none.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aion_agent::mcp::{ServerConfig, ServerName, Wanted, Way};
use aion_agent::models::Secret;
use aion_agent::sandbox::is_held_empty;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::config::{Paths, is_secret, reference};
use crate::terminal::clean_line;
use crate::trust::{Trust, place};

/// The table that they stand in, in the person's own file.
pub(crate) const TABLE: &str = "mcp_servers";
/// The file that a project names them in.
pub(crate) const FILE: &str = ".mcp.json";
/// The largest such file.
const FILE_BYTES: u64 = 256 * 1024;
/// The longest time that a call may be given, in seconds.
const LONGEST: u64 = 3600;

/// A server as it stands in a file.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Written {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    sandbox: bool,
    #[serde(default)]
    disabled: bool,
    #[serde(default)]
    start_seconds: Option<u64>,
    #[serde(default)]
    call_seconds: Option<u64>,
}

/// What a project names, with the hash of the file.
#[derive(Debug)]
pub(crate) struct Project {
    pub(crate) hash: String,
    servers: BTreeMap<String, Written>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProjectFile {
    #[serde(default)]
    mcp_servers: BTreeMap<String, Written>,
}

impl Project {
    /// What the project of a workspace names; none where it names none.
    pub(crate) fn of(workspace: &Path) -> Result<Option<Self>, String> {
        let path = place(workspace).join(FILE);
        let shown = path.display();
        let bytes = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{shown} cannot be read: {error}")),
            Ok(_) if is_held_empty(&path) => return Ok(None),
            Ok(meta) if !meta.is_file() => return Err(format!("{shown} is no regular file")),
            Ok(meta) if meta.len() > FILE_BYTES => {
                return Err(format!("{shown} has more than {FILE_BYTES} bytes"));
            }
            Ok(_) => fs::read(&path).map_err(|error| format!("{shown} cannot be read: {error}"))?,
        };
        let file: ProjectFile =
            serde_json::from_slice(&bytes).map_err(|error| format!("{shown}: {error}"))?;
        if file.mcp_servers.is_empty() {
            return Ok(None);
        }
        let digest = Sha256::digest(&bytes);
        let hash = digest.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
        Ok(Some(Self { hash, servers: file.mcp_servers }))
    }

    /// What each would do, in a line.
    pub(crate) fn told(&self) -> Vec<String> {
        let line = |(name, written): (&String, &Written)| {
            let what = match (&written.command, &written.url) {
                (Some(command), _) => {
                    let words = std::iter::once(command).chain(&written.args);
                    format!("start {}", words.cloned().collect::<Vec<_>>().join(" "))
                }
                (None, Some(url)) => format!("call {url}"),
                (None, None) => "nothing".to_owned(),
            };
            clean_line(&format!("MCP server {name}: {what}"), 300)
        };
        self.servers.iter().map(line).collect()
    }
}

/// The servers for a workspace: the person's own, and the project's where they are trusted as they
/// are. Of two that have one name the person's counts.
pub(crate) fn wanted(workspace: &Path, trust: &Trust) -> Wanted {
    let mut faults = Vec::new();
    let mut servers = Vec::new();
    let mut all: Vec<(String, Written, bool)> = Vec::new();
    match own() {
        Ok(own) => all.extend(own.into_iter().map(|(name, written)| (name, written, false))),
        Err(why) => faults.push(why),
    }
    match Project::of(workspace) {
        Ok(Some(project)) if trust.trusts_servers(workspace, &project.hash) => {
            all.extend(project.servers.into_iter().map(|(name, written)| (name, written, true)));
        }
        Ok(_) => {}
        Err(why) => faults.push(why),
    }
    for (name, written, of_a_project) in all {
        if written.disabled
            || servers.iter().any(|known: &ServerConfig| known.name.as_str() == name)
        {
            continue;
        }
        let variable = |name: &str| env::var(name).ok();
        match server(&name, &written, of_a_project, &variable) {
            Ok(server) => servers.push(server),
            Err(why) => faults.push(format!("the MCP server {name}: {why}")),
        }
    }
    let fault = (!faults.is_empty()).then(|| faults.join("; "));
    Wanted { servers, fault }
}

/// The servers of the person's own file, and of the machine's.
fn own() -> Result<BTreeMap<String, Written>, String> {
    let paths = Paths::here().map_err(|failure| failure.message().to_owned())?;
    let mut all = BTreeMap::new();
    for path in [paths.managed, paths.user] {
        all.extend(of_file(&path)?);
    }
    Ok(all)
}

fn of_file(path: &PathBuf) -> Result<BTreeMap<String, Written>, String> {
    #[derive(Deserialize)]
    struct File {
        #[serde(default)]
        mcp_servers: BTreeMap<String, Written>,
    }
    let shown = path.display();
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(format!("{shown} cannot be read: {error}")),
        Ok(text) => toml::from_str(&text)
            .map(|file: File| file.mcp_servers)
            .map_err(|error| format!("{shown}: {}", error.message())),
    }
}

fn server(
    name: &str,
    written: &Written,
    of_a_project: bool,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<ServerConfig, String> {
    let name = ServerName::parse(name)?;
    let plain = |text: &str| {
        if of_a_project { expand(text, variable) } else { Ok(text.to_owned()) }
    };
    let secret = |(key, text): (&String, &String)| {
        let value = match reference(text) {
            Some(name) => {
                variable(name).ok_or_else(|| format!("the variable {name} is not set"))?
            }
            None if !of_a_project && is_secret(key, &toml::Value::String(text.clone())) => {
                return Err(format!(
                    "{key} looks like a secret; write env:NAME, the name of a variable that holds it"
                ));
            }
            None => plain(text)?,
        };
        Ok::<_, String>((key.clone(), Secret::new(value)))
    };
    let way = match (&written.command, &written.url) {
        (Some(program), None) => Way::Program {
            program: plain(program)?,
            arguments: written.args.iter().map(|text| plain(text)).collect::<Result<_, _>>()?,
            environment: written.env.iter().map(secret).collect::<Result<_, _>>()?,
            sandbox: written.sandbox,
        },
        (None, Some(url)) => {
            if written.kind.as_deref() == Some("sse") {
                return Err("the old way of events (sse) is not spoken; it needs http".to_owned());
            }
            let url = plain(url)?;
            let parsed = reqwest::Url::parse(&url).map_err(|error| error.to_string())?;
            if !matches!(parsed.scheme(), "http" | "https") || parsed.password().is_some() {
                return Err("its url is http or https, without a login".to_owned());
            }
            Way::Http {
                url,
                headers: written.headers.iter().map(secret).collect::<Result<_, _>>()?,
            }
        }
        (Some(_), Some(_)) | (None, None) => {
            return Err("it has either a command or a url".to_owned());
        }
    };
    let seconds = |given: Option<u64>, usual: Duration| match given {
        None => Ok(usual),
        Some(seconds @ 1..=LONGEST) => Ok(Duration::from_secs(seconds)),
        Some(_) => Err(format!("a time is from 1 to {LONGEST} seconds")),
    };
    let start = seconds(written.start_seconds, ServerConfig::START)?;
    let call = seconds(written.call_seconds, ServerConfig::CALL)?;
    Ok(ServerConfig { start, call, ..ServerConfig::new(name, way) })
}

/// A text with its `${NAME}` and `${NAME:-otherwise}` replaced.
fn expand(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        out.push_str(&rest[..at]);
        let inner = &rest[at + 2..];
        let end = inner
            .find('}')
            .ok_or_else(|| format!("{text:?} opens a name and does not close it"))?;
        let (name, otherwise) = match inner[..end].split_once(":-") {
            Some((name, otherwise)) => (name, Some(otherwise.to_owned())),
            None => (&inner[..end], None),
        };
        let value = variable(name).or(otherwise);
        out.push_str(&value.ok_or_else(|| format!("the variable {name} is not set"))?);
        rest = &inner[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str) -> Option<String> {
        (name == "KEY").then(|| "a key".to_owned())
    }

    fn read(json: &str, of_a_project: bool) -> Result<ServerConfig, String> {
        server("one", &serde_json::from_str(json).unwrap(), of_a_project, &variable)
    }

    #[test]
    fn a_server_is_a_program_or_a_place() {
        let json = r#"{ "command": "npx", "args": ["-y", "x"], "env": { "A": "env:KEY", "B": "${KEY}" } }"#;
        let environment = |b: &str| {
            vec![("A".to_owned(), Secret::new("a key")), ("B".to_owned(), Secret::new(b))]
        };
        for (of_a_project, b) in [(false, "${KEY}"), (true, "a key")] {
            assert_eq!(
                read(json, of_a_project).unwrap().way,
                Way::Program {
                    program: "npx".into(),
                    arguments: vec!["-y".into(), "x".into()],
                    environment: environment(b),
                    sandbox: false,
                }
            );
        }
        let place = r#"{ "type": "http", "url": "https://${HOST:-a.example}/mcp", "headers": { "Authorization": "Bearer ${KEY}" } }"#;
        assert_eq!(
            read(place, true).unwrap().way,
            Way::Http {
                url: "https://a.example/mcp".into(),
                headers: vec![("Authorization".into(), Secret::new("Bearer a key"))],
            }
        );
        for (json, why) in [
            ("{}", "it has either a command or a url"),
            (r#"{ "command": "a", "env": { "A": "env:NONE" } }"#, "the variable NONE is not set"),
            (r#"{ "command": "${NONE}" }"#, "the variable NONE is not set"),
            (
                r#"{ "type": "sse", "url": "https://a.example" }"#,
                "the old way of events (sse) is not spoken; it needs http",
            ),
            (r#"{ "url": "file:///x" }"#, "its url is http or https, without a login"),
            (r#"{ "command": "a", "call_seconds": 0 }"#, "a time is from 1 to 3600 seconds"),
        ] {
            assert_eq!(read(json, true).unwrap_err(), why, "{json}");
        }
    }

    #[test]
    fn a_project_is_trusted_with_the_servers_that_it_names() {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().join("work");
        fs::create_dir(&work).unwrap();
        let trust = Trust::of(dir.path());
        assert!(Project::of(&work).unwrap().is_none());
        let write = |command: &str| {
            let text = format!(r#"{{ "mcpServers": {{ "one": {{ "command": "{command}" }} }} }}"#);
            fs::write(work.join(FILE), text).unwrap();
        };
        let names = || {
            let wanted = wanted(&work, &trust);
            wanted.servers.into_iter().any(|server| server.name.as_str() == "one")
        };
        write("a");
        assert_eq!(Project::of(&work).unwrap().unwrap().told(), ["MCP server one: start a"]);
        assert!(!names());
        trust.add(&work, &[]).unwrap();
        assert!(names());
        write("b");
        assert!(!names() && trust.trusts(&work));
        trust.add(&work, &[]).unwrap();
        assert!(names());
        fs::write(work.join(FILE), "{").unwrap();
        assert!(wanted(&work, &trust).fault.unwrap().contains(FILE));
        assert!(trust.add(&work, &[]).is_ok());
    }
}
