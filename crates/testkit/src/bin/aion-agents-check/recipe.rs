//! How each agent is set up so that it talks to our model server and to nobody else; it starts none.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::Ground;

/// The model that all of them think with.
pub(crate) const MODEL: &str = "stand-in";
/// The variable that holds the key of those who want to be told its name.
pub(crate) const KEY: &str = "STAND_IN_KEY";

/// How an agent is set up.
pub(crate) struct Recipe {
    /// Its key in the catalogue, and its folder.
    pub(crate) name: &'static str,
    /// The programs in its folder, by where they are.
    bin: &'static str,
    /// The variables that the daemon has for it.
    pub(crate) variables: fn(&Place) -> Vec<(&'static str, String)>,
    /// The files in its home directory.
    pub(crate) files: fn(&Place) -> Vec<(&'static str, String)>,
    /// What the person's settings say of it.
    pub(crate) settings: fn(&Place) -> String,
    /// The model that it is asked to think with, where it has to be named.
    pub(crate) model: Option<&'static str>,
    /// Its own tool that runs a command, with what it is given; none where it has none.
    pub(crate) shell: Option<Shell>,
    /// Checks that it is known not to pass, with the reason.
    pub(crate) gaps: &'static [(&'static str, &'static str)],
}

/// What an agent calls to run a command: its tool, and what that is given.
type Shell = fn(&str) -> (&'static str, Value);

/// Where an agent finds things.
pub(crate) struct Place {
    /// The model server: what comes before the paths of a service.
    pub(crate) model: String,
    /// The home directory.
    pub(crate) home: PathBuf,
}

impl Recipe {
    /// Whether it is in the folder of the installed.
    pub(crate) fn is_installed(&self, ground: &Ground) -> bool {
        self.bin(&ground.installed).is_dir()
    }

    /// The directory of its programs.
    pub(crate) fn bin(&self, installed: &Path) -> PathBuf {
        installed.join(self.name).join(self.bin)
    }
}

const NPM: &str = "node_modules/.bin";

fn nothing(_: &Place) -> Vec<(&'static str, String)> {
    Vec::new()
}

fn no_settings(_: &Place) -> String {
    String::new()
}

/// All recipes, in the order of the catalogue.
pub(crate) fn recipes() -> Vec<Recipe> {
    vec![claude(), codex(), gemini(), opencode(), qwen(), copilot(), vibe(), fast_agent()]
}

fn claude() -> Recipe {
    Recipe {
        name: "claude",
        bin: NPM,
        variables: |place| {
            vec![
                ("ANTHROPIC_API_KEY", "sk-ant-none".to_owned()),
                ("ANTHROPIC_BASE_URL", place.model.clone()),
                ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
                ("DISABLE_AUTOUPDATER", "1".to_owned()),
            ]
        },
        files: nothing,
        settings: no_settings,
        model: None,
        shell: Some(|command| {
            ("Bash", json!({ "command": command, "description": "Make a file" }))
        }),
        gaps: &[],
    }
}

fn codex() -> Recipe {
    Recipe {
        name: "codex",
        bin: NPM,
        variables: |_| vec![(KEY, "none".to_owned())],
        files: |place| {
            let text = format!(
                "model = \"{MODEL}\"\nmodel_provider = \"stand-in\"\n\n\
                 [model_providers.stand-in]\nname = \"stand-in\"\nbase_url = \"{}/v1\"\n\
                 env_key = \"{KEY}\"\nwire_api = \"responses\"\n",
                place.model
            );
            vec![(".codex/config.toml", text)]
        },
        settings: |_| format!("[agents.codex]\ninherit = [\"{KEY}\"]\n"),
        model: None,
        shell: Some(|command| {
            let why = "May a file be made?";
            let input = json!({
                "cmd": command, "sandbox_permissions": "require_escalated", "justification": why,
            });
            ("exec_command", input)
        }),
        gaps: &[],
    }
}

fn gemini() -> Recipe {
    Recipe {
        name: "gemini-cli",
        bin: NPM,
        variables: |place| {
            vec![
                ("GEMINI_API_KEY", "none".to_owned()),
                ("GOOGLE_GEMINI_BASE_URL", place.model.clone()),
            ]
        },
        files: |_| {
            let auth = json!({ "security": { "auth": { "selectedType": "gemini-api-key" } } });
            vec![(".gemini/settings.json", auth.to_string())]
        },
        settings: no_settings,
        // Left to itself it asks a second model which one to take.
        model: Some("gemini-2.5-flash"),
        shell: Some(|command| {
            let input = json!({ "command": command, "description": "Makes a file." });
            ("run_shell_command", input)
        }),
        gaps: &[],
    }
}

fn opencode() -> Recipe {
    Recipe {
        name: "opencode",
        bin: NPM,
        variables: |_| {
            ["OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_LSP_DOWNLOAD"]
                .map(|name| (name, "1".to_owned()))
                .into()
        },
        files: |place| {
            let model = json!({
                "tool_call": true, "limit": { "context": 100_000, "output": 4_096 },
            });
            let provider = json!({
                "npm": "@ai-sdk/openai-compatible",
                "options": { "baseURL": format!("{}/v1", place.model), "apiKey": "none" },
                "models": { MODEL: model },
            });
            let whole = format!("stand-in/{MODEL}");
            let config = json!({
                "autoupdate": false, "share": "disabled", "model": whole, "small_model": whole,
                "provider": { "stand-in": provider },
            });
            vec![(".config/opencode/opencode.json", config.to_string())]
        },
        settings: no_settings,
        model: None,
        shell: Some(|command| ("bash", json!({ "command": command }))),
        gaps: &[],
    }
}

fn qwen() -> Recipe {
    Recipe {
        name: "qwen",
        bin: NPM,
        variables: |place| {
            vec![
                ("OPENAI_API_KEY", "none".to_owned()),
                ("OPENAI_BASE_URL", format!("{}/v1", place.model)),
                ("OPENAI_MODEL", MODEL.to_owned()),
            ]
        },
        files: |_| {
            // It would hide the team's tools behind a search; the scenario searches for nothing.
            let settings = json!({
                "tools": { "toolSearch": { "enabled": false } },
                "security": { "auth": { "selectedType": "openai" } },
            });
            vec![(".qwen/settings.json", settings.to_string())]
        },
        settings: no_settings,
        model: None,
        shell: Some(|command| {
            let input = json!({ "command": command, "is_background": false });
            ("run_shell_command", input)
        }),
        gaps: &[],
    }
}

fn copilot() -> Recipe {
    Recipe {
        name: "copilot",
        bin: NPM,
        variables: |place| {
            vec![
                ("COPILOT_OFFLINE", "true".to_owned()),
                ("COPILOT_PROVIDER_TYPE", "openai".to_owned()),
                ("COPILOT_PROVIDER_BASE_URL", format!("{}/v1", place.model)),
                ("COPILOT_PROVIDER_API_KEY", "none".to_owned()),
                ("COPILOT_MODEL", MODEL.to_owned()),
            ]
        },
        files: nothing,
        settings: no_settings,
        model: None,
        shell: Some(|command| {
            ("bash", json!({ "command": command, "description": "Make a file" }))
        }),
        gaps: &[],
    }
}

fn vibe() -> Recipe {
    Recipe {
        name: "vibe",
        bin: "bin",
        variables: |_| vec![(KEY, "none".to_owned()), ("MISTRAL_API_KEY", "none".to_owned())],
        files: |place| {
            let text = format!(
                "active_model = \"stand-in\"\nenable_update_checks = false\n\
                 enable_telemetry = false\nenable_auto_update = false\n\n\
                 [[providers]]\nname = \"stand-in\"\napi_base = \"{}/v1\"\n\
                 api_key_env_var = \"{KEY}\"\napi_style = \"openai\"\nbackend = \"generic\"\n\n\
                 [[models]]\nname = \"{MODEL}\"\nprovider = \"stand-in\"\nalias = \"stand-in\"\n",
                place.model
            );
            vec![(".vibe/config.toml", text)]
        },
        settings: |_| format!("[agents.vibe]\ninherit = [\"{KEY}\"]\n"),
        model: None,
        shell: Some(|command| ("bash", json!({ "command": command }))),
        gaps: &[],
    }
}

const NO_TOOLS: &str = "it has no tools but the team's; with --shell it runs commands unasked";

fn fast_agent() -> Recipe {
    Recipe {
        name: "fast-agent",
        bin: "bin",
        variables: nothing,
        files: |place| {
            let text = format!(
                "default_model: \"generic.{MODEL}\"\ngeneric:\n  base_url: \"{}/v1\"\n  \
                 api_key: \"none\"\nlogger:\n  type: \"none\"\n  progress_display: false\n  \
                 show_chat: false\n  show_tools: false\n",
                place.model
            );
            vec![("fast-agent.yaml", text)]
        },
        settings: |place| {
            let file = place.home.join("fast-agent.yaml").display().to_string();
            format!("[agents.fast-agent]\nargs = [\"acp\", \"--config-path\", {file:?}]\n")
        },
        model: Some("generic.stand-in"),
        shell: None,
        gaps: &[("allowed", NO_TOOLS), ("denied", NO_TOOLS)],
    }
}
