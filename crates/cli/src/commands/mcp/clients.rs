//! What each client wants to be told, and in which file; it writes nothing.

use std::env;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::args::McpClient;

/// How a client keeps its servers.
pub(super) struct Home {
    /// Its file, where it is known.
    pub(super) file: Option<PathBuf>,
    /// In which form.
    pub(super) form: Form,
    /// Its own command for the same, where it has one.
    pub(super) command: Option<&'static str>,
}

/// The form of a file.
pub(super) enum Form {
    /// JSON: the path to the table of servers, and the entry.
    Json(&'static [&'static str], Value),
    /// TOML: a table of its own, as text.
    Toml(&'static str),
    /// Something that is only shown.
    Shown(String),
}

/// The name under which our server stands.
pub(super) const NAME: &str = "aion";

/// What a client wants.
pub(super) fn home(client: McpClient) -> Home {
    let servers: &[&str] = &["mcpServers"];
    let plain = json!({ "command": "aion", "args": ["mcp", "stdio"] });
    let typed = json!({ "type": "stdio", "command": "aion", "args": ["mcp", "stdio"] });
    let at = |path: &str| user_home().map(|home| home.join(path));
    match client {
        McpClient::Claude => Home {
            file: Some(".mcp.json".into()),
            form: Form::Json(servers, typed),
            command: Some("claude mcp add --scope user --transport stdio aion -- aion mcp stdio"),
        },
        McpClient::Codex => Home {
            file: set("CODEX_HOME")
                .map(|dir| dir.join("config.toml"))
                .or_else(|| at(".codex/config.toml")),
            form: Form::Toml(
                "[mcp_servers.aion]\ncommand = \"aion\"\nargs = [\"mcp\", \"stdio\"]\n\
                 startup_timeout_sec = 20\n",
            ),
            command: Some("codex mcp add aion -- aion mcp stdio"),
        },
        McpClient::Gemini => Home {
            file: at(".gemini/settings.json"),
            form: Form::Json(servers, plain),
            command: Some("gemini mcp add -s user aion aion mcp stdio"),
        },
        McpClient::Opencode => Home {
            file: at(".config/opencode/opencode.json"),
            form: Form::Json(
                &["mcp"],
                json!({ "type": "local", "command": ["aion", "mcp", "stdio"], "enabled": true }),
            ),
            command: None,
        },
        McpClient::Goose => Home {
            file: at(".config/goose/config.yaml"),
            form: Form::Shown(
                "extensions:\n  aion:\n    name: aion\n    type: stdio\n    cmd: aion\n    \
                 args: [mcp, stdio]\n    enabled: true\n    timeout: 300\n"
                    .to_owned(),
            ),
            command: Some("goose session --with-extension \"aion mcp stdio\""),
        },
        McpClient::Zed => Home {
            file: at(".config/zed/settings.json"),
            form: Form::Json(
                &["context_servers"],
                json!({ "command": "aion", "args": ["mcp", "stdio"], "env": {} }),
            ),
            command: None,
        },
        McpClient::Vscode => Home {
            file: Some(".vscode/mcp.json".into()),
            form: Form::Json(&["servers"], typed),
            command: None,
        },
        McpClient::Copilot => Home {
            file: set("COPILOT_HOME")
                .map(|dir| dir.join("mcp-config.json"))
                .or_else(|| at(".copilot/mcp-config.json")),
            form: Form::Json(servers, typed),
            command: None,
        },
        McpClient::Cursor => {
            Home { file: at(".cursor/mcp.json"), form: Form::Json(servers, plain), command: None }
        }
        McpClient::Qwen => Home {
            file: at(".qwen/settings.json"),
            form: Form::Json(servers, plain),
            command: Some("qwen mcp add aion aion mcp stdio"),
        },
    }
}

fn user_home() -> Option<PathBuf> {
    set("HOME")
}

fn set(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

impl Form {
    /// The form as a person would type it into an empty file.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Json(path, entry) => {
                let whole = path
                    .iter()
                    .rev()
                    .fold(json!({ NAME: entry }), |inner, name| json!({ *name: inner }));
                format!("{}\n", serde_json::to_string_pretty(&whole).unwrap_or_default())
            }
            Self::Toml(text) => (*text).to_owned(),
            Self::Shown(text) => text.clone(),
        }
    }
}
