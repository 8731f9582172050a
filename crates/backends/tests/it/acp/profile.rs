//! What is known of an agent, as it is read and used.

use std::ffi::OsString;
use std::path::Path;

use aion_backends::acp::{McpTransport, Profile, ProfileError};
use aion_core::agent::PermissionMode;
use serde_json::json;

const WHOLE: &str = r#"
id = "codex"
name = "Codex"
inherit = ["OPENAI_*", "CODEX_HOME"]
minimum_node = 22
mcp = "stdio"
mcp_start = "eager"
model_args = ["--model={model}"]
authenticate = "api-key"
login = "codex login"
quirks = ["hides-tools"]

[launch]
program = "codex-acp"
args = ["--acp"]
npm = { package = "@agentclientprotocol/codex-acp", version = "2.6.0", bin = "codex-acp" }

[environment]
NO_BROWSER = "1"

[modes]
default = "workspace-write"
plan = "read-only"
start = "agent"

[[team_tools]]
all = [
    { at = "/request/_meta/is_mcp_tool_approval", is = true },
    { at = "/call/title", is = "mcp.{server}.{tool}" },
]
"#;

fn profile() -> Profile {
    toml::from_str(WHOLE).unwrap()
}

#[test]
fn a_profile_is_read_whole_and_a_short_one_has_defaults() {
    let whole = profile();
    assert_eq!(whole.check(), Ok(()));
    assert_eq!(whole.launch.npm.as_ref().unwrap().version, "2.6.0");
    let short = "id = \"one\"\nname = \"One\"\nlaunch = { program = \"one\", args = [\"acp\"] }";
    let short: Profile = toml::from_str(short).unwrap();
    assert_eq!((short.check(), short.mcp), (Ok(()), McpTransport::Stdio));
    let unknown = toml::from_str::<Profile>("id = \"one\"\nspeed = 3").unwrap_err();
    assert!(unknown.to_string().contains("unknown field `speed`"), "{unknown}");
}

#[test]
fn a_mode_without_a_name_is_the_asking_one() {
    let modes = profile().modes;
    assert_eq!(modes.of(PermissionMode::Plan), Some("read-only"));
    assert_eq!(modes.of(PermissionMode::AcceptEdits), Some("workspace-write"));
    assert_eq!(modes.of(PermissionMode::BypassPermissions), Some("workspace-write"));
}

#[test]
fn an_agent_is_handed_what_is_listed_and_nothing_else() {
    let persons = [
        ("PATH", "/usr/bin:/opt/node/bin"),
        ("HOME", "/srv/ada"),
        ("LC_ALL", "C.UTF-8"),
        ("OPENAI_API_KEY", "secret"),
        ("OPENAI_NOTE", "two\nlines"),
        ("ANTHROPIC_API_KEY", "another's"),
        ("NO_BROWSER", "0"),
    ];
    let persons = persons.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let environment = profile().environment(persons, Some(Path::new("/opt/node/bin")));
    let expected = [
        ("HOME", "/srv/ada"),
        ("LC_ALL", "C.UTF-8"),
        ("NO_BROWSER", "1"),
        ("OPENAI_API_KEY", "secret"),
        ("PATH", "/opt/node/bin:/usr/bin"),
    ];
    assert_eq!(environment, expected.map(|(name, value)| (name.into(), value.into())));
}

#[test]
fn a_model_is_chosen_by_its_arguments() {
    assert_eq!(profile().model_arguments(Some("large")), ["--model=large"]);
    assert!(profile().model_arguments(None).is_empty());
}

#[test]
fn a_team_tool_is_proven_by_fields_that_a_model_does_not_write() {
    let proof = &profile().team_tools[0];
    let tools = ["team_members".to_owned(), "team_send_message".to_owned()];
    let evidence = |approval: bool, title: &str| {
        json!({
            "request": { "_meta": { "is_mcp_tool_approval": approval } },
            "call": { "title": title },
        })
    };
    let proven = |approval, title| proof.proven(&evidence(approval, title), &tools);
    assert_eq!(proven(true, "mcp.team.team_send_message"), Some("team_send_message"));
    assert_eq!(proven(false, "mcp.team.team_send_message"), None);
    assert_eq!(proven(true, "mcp.other.team_send_message"), None);
    assert_eq!(proven(true, "mcp.team.team_send_message && rm -rf /"), None);
}

#[test]
fn a_profile_that_cannot_be_used_says_why() {
    let broken = |change: &dyn Fn(&mut Profile)| {
        let mut profile = profile();
        change(&mut profile);
        profile.check().unwrap_err()
    };
    let weak = broken(&|profile| {
        profile.team_tools[0].all.remove(0);
    });
    assert_eq!(
        weak.to_string(),
        "codex: a proof of team_tools rests on the title alone, which a model can write: name \
         another field that only the agent itself writes"
    );
    let id = broken(&|profile| profile.id = "Codex 2".to_owned());
    assert_eq!(id, ProfileError::Id("Codex 2".to_owned()));
    let model = broken(&|profile| profile.model_args = vec!["--fast".to_owned()]);
    assert_eq!(model.to_string(), "codex: model_args has no {model}");
}
