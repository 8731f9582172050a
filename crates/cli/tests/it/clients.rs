//! A person's own MCP clients: what they are told, and what they get.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::binary::{Going, Home};

const IDLE: &str = r#"
[[agent.team-lead.rule]]
when = [{ given = "." }]
say = "Done."
"#;

#[test]
fn a_client_looks_at_teams_and_writes_to_them_and_decides_nothing() {
    let home = Home::served();
    let script = home.scenario(IDLE);
    let create = ["team", "create", "web", "--script", script.to_str().unwrap(), "--json"];
    let team = home.aion(create).code(0).json()["id"].as_str().unwrap().to_owned();
    let mut command = home.command(["mcp", "stdio"]);
    command.stdin(Stdio::piped());
    let mut going = Going::start(command);
    let mut stdin = going.stdin();
    let mut id = 0;
    let mut ask = |going: &mut Going, method: &str, params: Value| {
        id += 1;
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(stdin, "{line}").unwrap();
        going.until(|line| line["id"] == id)
    };
    let hello = json!({
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    });
    let hello = ask(&mut going, "initialize", hello);
    assert_eq!(hello["result"]["serverInfo"]["name"], "aion", "{hello}");
    let listed = ask(&mut going, "tools/list", json!({}));
    let names: Vec<&str> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["aion_list_teams", "aion_show_team", "aion_list_requests", "aion_send_message"]
    );
    let mut call = |going: &mut Going, name: &str, arguments: Value| {
        let answer = ask(going, "tools/call", json!({ "name": name, "arguments": arguments }));
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str();
        let text = text.unwrap_or_else(|| panic!("{answer}")).to_owned();
        (result["isError"].as_bool().unwrap_or(false), text)
    };
    let (_, teams) = call(&mut going, "aion_list_teams", json!({}));
    assert!(teams.contains(&team), "{teams}");
    let message = json!({ "team": team, "message": "hello" });
    let (failed, said) = call(&mut going, "aion_send_message", message);
    assert!(!failed, "{said}");
    let sent = home.aion(["message", "ls", "--json"]).code(0).json();
    assert_eq!(sent[0]["text"], "hello");
    // A daemon that is gone is started again, and the client goes on.
    home.kill_daemon();
    let (failed, shown) = call(&mut going, "aion_show_team", json!({ "team": team }));
    assert!(!failed && shown.contains("team-lead"), "{shown}");
    for (name, arguments, expect) in [
        ("aion_show_team", json!({ "team": "nobody" }), "team.not_found"),
        ("aion_send_message", json!({ "team": team, "to": "ann", "message": "x" }), "team-lead"),
        ("aion_send_message", json!({ "team": team, "message": "x", "from": "y" }), "from"),
        ("aion_decide", json!({}), "aion_list_teams"),
    ] {
        let (failed, text) = call(&mut going, name, arguments);
        assert!(failed && text.contains(expect), "{name}: {text}");
    }
    drop(stdin);
    going.end().code(0);
    home.aion(["stop"]).code(0);
}

#[test]
fn clients_are_told_in_their_own_files_and_words() {
    let home = Home::new();
    let install =
        |client: &str| home.aion(["mcp", "install", client, "--yes", "--json"]).code(0).json();
    for (client, file, place) in [
        ("claude", "work/.mcp.json", "/mcpServers/aion/command"),
        ("gemini", ".gemini/settings.json", "/mcpServers/aion/command"),
        ("opencode", ".config/opencode/opencode.json", "/mcp/aion/command/0"),
        ("zed", ".config/zed/settings.json", "/context_servers/aion/command"),
        ("vscode", "work/.vscode/mcp.json", "/servers/aion/command"),
        ("copilot", ".copilot/mcp-config.json", "/mcpServers/aion/command"),
        ("cursor", ".cursor/mcp.json", "/mcpServers/aion/command"),
        ("qwen", ".qwen/settings.json", "/mcpServers/aion/command"),
    ] {
        assert_eq!(install(client)["changed"], true, "{client}");
        let text = fs::read_to_string(home.path(file)).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value.pointer(place), Some(&json!("aion")), "{client}: {text}");
        assert_eq!(install(client)["changed"], false, "{client}");
        let printed = home.aion(["mcp", "print", client]).code(0).stdout;
        assert!(printed.contains(text.trim_end()), "{client}: {printed}");
    }
    assert_eq!(install("codex")["changed"], true);
    let codex = fs::read_to_string(home.path(".codex/config.toml")).unwrap();
    assert!(codex.starts_with("[mcp_servers.aion]\ncommand = \"aion\"\n"), "{codex}");
    assert!(home.aion(["mcp", "print", "goose"]).code(0).stdout.contains("cmd: aion"));
    home.aion(["mcp", "install", "goose", "--yes"]).code(1);
    let listed = home.aion(["mcp", "ls", "--json"]).code(0).json();
    let entered = listed.as_array().unwrap().iter().filter(|row| row["state"] == "entered").count();
    assert_eq!(entered, 9);

    // What is there stays, is kept, and is asked about.
    let file = home.path(".cursor/mcp.json");
    let before = "{\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" }\n  }\n}\n";
    fs::write(&file, before).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let unasked = home.aion(["mcp", "install", "cursor", "--json"]).code(5);
    assert_eq!(unasked.error_code(), "unconfirmed");
    assert!(unasked.stderr.contains("+     \\\"aion\\\": {"), "{unasked:#?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    let kept = install("cursor")["kept_at"].as_str().unwrap().to_owned();
    assert_eq!(fs::read_to_string(kept).unwrap(), before);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(
        fs::read_to_string(&file).unwrap().ends_with("\"other\": { \"command\": \"x\" }\n  }\n}\n")
    );
    let taken = home.aion(["mcp", "uninstall", "cursor", "--yes", "--json"]).code(0).json();
    assert_eq!(taken["changed"], true);
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    let again = home.aion(["mcp", "uninstall", "cursor", "--yes", "--json"]).code(0).json();
    assert_eq!(again["changed"], false);
    fs::write(&file, "{ // mine\n}\n").unwrap();
    let refused = home.aion(["mcp", "install", "cursor", "--yes", "--json"]).code(1);
    assert_eq!(refused.error_code(), "mcp.unreadable");
    assert_eq!(fs::read_to_string(&file).unwrap(), "{ // mine\n}\n");
}

#[test]
fn links_that_a_repository_brings_along_are_not_written_through() {
    let home = Home::new();
    let (outside, file) = (home.path("outside"), home.path("work/.mcp.json"));
    fs::write(&outside, "mine").unwrap();
    for name in ["work/.mcp.json.before-aion", "work/.mcp.json.new"] {
        symlink(&outside, home.path(name)).unwrap();
    }
    fs::write(&file, "{\n  \"x\": \"theirs\"\n}\n").unwrap();
    let install = ["mcp", "install", "claude", "--yes", "--json"];
    let kept = home.aion(install).code(0).json()["kept_at"].as_str().unwrap().to_owned();
    assert_eq!(kept, ".mcp.json.before-aion-2");
    assert!(fs::read_to_string(&file).unwrap().contains("mcpServers"));
    fs::remove_file(&file).unwrap();
    symlink(home.path("absent"), &file).unwrap();
    assert_eq!(home.aion(install).code(1).error_code(), "io");
    fs::remove_file(&file).unwrap();
    symlink(&outside, &file).unwrap();
    assert_eq!(home.aion(install).code(1).error_code(), "io");
    assert!(!home.path("absent").exists());
    assert_eq!(fs::read_to_string(&outside).unwrap(), "mine");
}
