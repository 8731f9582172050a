//! MCP servers as real processes: shared, ended, begun again, and not believed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aion_agent::host::ToolOutput;
use aion_agent::mcp::{Hub, ServerConfig, ServerName, Servers, Wanted, Way};
use aion_agent::models::Secret;
use aion_agent::provider::StopReason;
use aion_agent::runtime::AgentRuntime;
use aion_agent::sandbox::{Grounds, Mode, Sandbox};
use aion_agent::tools::{Surroundings, ToolConfig, Toolbox};
use aion_core::id::TeamId;
use aion_core::permission::ToolClass;
use aion_testkit::house::{House, Judgement};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::fixture::{PROBE, done, input, leash, play, png, runtime, scripted};
use crate::turns::{Canned, stop, text};

fn program(program: &str, arguments: &[&str]) -> ServerConfig {
    let way = Way::Program {
        program: program.to_owned(),
        arguments: arguments.iter().map(|&word| word.to_owned()).collect(),
        environment: vec![("PROBE_KEY".to_owned(), Secret::new("a key"))],
        sandbox: false,
    };
    ServerConfig::new(ServerName::parse("probe").unwrap(), way)
}

fn probe() -> ServerConfig {
    program(PROBE, &["mcp"])
}

fn servers(workspace: &Path) -> Arc<Servers> {
    let variables = [("PATH", std::env::var("PATH").unwrap()), ("API_KEY", "secret".to_owned())];
    let variables = variables.map(|(name, value)| (name.into(), value.into()));
    let tools = ToolConfig::new(leash(None), Arc::new(Sandbox::off()), variables);
    let client = || Err("nothing is called here".to_owned());
    Hub::default().of(&TeamId::new("t").unwrap(), workspace.to_owned(), Arc::new(tools), client)
}

fn toolbox(servers: &Arc<Servers>, workspace: &Path) -> Toolbox {
    crate::fixture::toolbox(workspace).with_servers(Some(Arc::clone(servers)))
}

async fn call(tools: &Toolbox, tool: &str, input: Value) -> ToolOutput {
    let prepared = tools.prepare(tool, &input).unwrap();
    assert_eq!(prepared.class, ToolClass::Execute);
    tools.run(prepared, Surroundings::default()).await
}

fn names(tools: &Toolbox) -> Vec<String> {
    let specs = tools.specs();
    let names = specs.iter().map(|spec| spec.name.clone());
    names.filter(|name| name.starts_with("mcp__")).collect()
}

#[tokio::test]
async fn a_server_is_shared_by_a_team_and_sees_what_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let servers = servers(&root);
    let (one, two) = (toolbox(&servers, &root), toolbox(&servers, &root));
    assert!(names(&one).is_empty());
    servers.settle(vec![probe()]).await;
    let offered = names(&one);
    assert_eq!(offered.len(), 8, "{offered:?}");
    assert!(offered.contains(&"mcp__probe__echo".to_owned()));
    let odd = offered.iter().find(|name| name.starts_with("mcp__probe__odd_name__")).unwrap();
    assert!(!offered.iter().any(|name| name.contains("vast")));
    let specs = one.specs();
    let echo = specs.iter().find(|spec| spec.name == "mcp__probe__echo").unwrap();
    assert_eq!(echo.description, "(MCP server probe) Tries echo. &lt;teammate-message>");

    let world = call(&one, "mcp__probe__world", json!({})).await;
    let lines: Vec<&str> = world.text.lines().collect();
    assert_eq!(lines[0], root.to_str().unwrap());
    let seen: Vec<&str> = lines[1].split(' ').collect();
    assert!(seen.contains(&"PROBE_KEY") && seen.contains(&"PATH") && !seen.contains(&"API_KEY"));
    let again = call(&two, "mcp__probe__world", json!({})).await;
    assert_eq!(again.text.lines().last(), Some(lines[2]), "one process for both");

    assert_eq!(call(&two, odd, json!({ "text": "x" })).await.text, "odd name!: x");
    let wrong = call(&one, "mcp__probe__fail", json!({})).await;
    assert_eq!((wrong.ok, wrong.text.as_str()), (false, "it went wrong"));
    let picture = BASE64_STANDARD.encode(png(7, 8));
    let image = call(&one, "mcp__probe__image", json!({ "text": picture })).await;
    assert_eq!(image.images.len(), 1);
    assert_eq!(
        image.text,
        "The answer: a png image, 7 x 8 pixels, 24 bytes.\n[an image, left out: it is of no kind that is shown]"
    );
    let large = call(&one, "mcp__probe__large", json!({})).await;
    assert!(large.text.ends_with("\n[... 137600 bytes left out ...]"), "{}", large.text.len());
    let unknown = call(&one, "mcp__probe__none", json!({})).await;
    assert_eq!(unknown.text, "The MCP server probe: it offers no tool \"mcp__probe__none\".");
    assert_eq!(
        one.prepare("mcp__other__x", &json!({})).unwrap_err(),
        "There is no tool \"mcp__other__x\"."
    );
    // What is wanted no longer is ended.
    servers.settle(Vec::new()).await;
    assert!(names(&one).is_empty());
}

#[tokio::test]
async fn a_server_that_ends_is_begun_again_a_few_times() {
    let dir = tempfile::tempdir().unwrap();
    let servers = servers(dir.path());
    let tools = toolbox(&servers, dir.path());
    servers.settle(vec![ServerConfig { call: Duration::from_millis(100), ..probe() }]).await;
    let hang = call(&tools, "mcp__probe__hang", json!({})).await;
    assert_eq!(
        hang.text,
        "The MCP server probe: the call did not end within 0 seconds. It may have done its work."
    );
    servers.settle(vec![probe()]).await;
    for _ in 0..5 {
        let dead = call(&tools, "mcp__probe__die", json!({})).await;
        assert!(dead.text.ends_with("The call may have done its work."), "{}", dead.text);
    }
    let given_up = loop {
        // The word of the last end may still be on its way.
        let output = call(&tools, "mcp__probe__echo", json!({})).await;
        if !output.text.contains("may have done") {
            break output.text;
        }
    };
    assert_eq!(
        given_up,
        "The MCP server probe: it has ended; its last words: so long, and thanks; it is not started again for some minutes."
    );
}

#[tokio::test]
async fn an_agent_works_with_a_server_and_is_told_of_one_that_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let (house, mut requests) = House::new(|_| Judgement::Run);
    let provider = scripted(
        r#"
        [[agent.bob.rule]]
        when = [{ given = 'begin' }]
        call = [{ tool = "mcp__probe__echo", input = { text = "hi" }, outcome = "ok", expect = "echo: hi" }]
        then = "It works."
        "#,
    );
    house.want(Wanted { servers: vec![probe()], fault: None });
    let servers = servers(dir.path());
    let tools = Arc::new(toolbox(&servers, dir.path()));
    let runtime = AgentRuntime { tools, ..runtime(provider, &house, dir.path()) };
    assert_eq!(play(&runtime, &mut requests, input(1, "begin")).await, done("It works."));

    let answer = || vec![Ok(text("I see.")), Ok(stop(StopReason::EndTurn))];
    let canned = Canned::new(vec![answer(), answer()]);
    let missing = program("/nowhere/aion-none", &[]);
    let fault = Some("a file cannot be read".to_owned());
    house.want(Wanted { servers: vec![missing], fault });
    let runtime = AgentRuntime { provider: Arc::clone(&canned) as _, ..runtime };
    for turn in 2..4 {
        assert_eq!(play(&runtime, &mut requests, input(turn, "go on")).await, done("I see."));
    }
    let told: Vec<bool> = canned
        .requests()
        .iter()
        .map(|request| format!("{:?}", request.messages.last()).contains("[The MCP server probe: "))
        .collect();
    assert_eq!(told, [true, false]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_be_put_behind_the_wall() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let sandbox =
        Sandbox::new(Mode::Required, vec![PROBE.into(), "sandbox".into()], Grounds::default());
    let tools = ToolConfig::new(leash(None), Arc::new(sandbox), std::env::vars_os());
    let client = || Err("nothing is called here".to_owned());
    let servers = Arc::new(Servers::new(root.clone(), Arc::new(tools), client));
    let tools = toolbox(&servers, &root);
    // Behind the wall is another temporary directory, and this checkout may lie in the real one.
    let program = root.join("probe");
    std::fs::copy(PROBE, &program).unwrap();
    let way = Way::Program {
        program: program.to_str().unwrap().to_owned(),
        arguments: vec!["mcp".to_owned()],
        environment: Vec::new(),
        sandbox: true,
    };
    servers.settle(vec![ServerConfig::new(ServerName::parse("probe").unwrap(), way)]).await;
    assert_eq!(names(&tools).len(), 8, "{:?}", servers.faults());
    let world = call(&tools, "mcp__probe__world", json!({})).await;
    // It has a temporary directory of its own, as every command behind the wall.
    assert!(world.text.lines().nth(1).unwrap().contains("TMPDIR"), "{}", world.text);
}
