//! Commands of whole turns behind the wall that this machine has; what gets out of one is
//! `cargo xtask sandbox-check`'s.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use aion_agent::network::{Network, NetworkRules, Outside};
use aion_agent::runtime::AgentRuntime;
use aion_agent::sandbox::{Grounds, Mode, Sandbox, Wall};
use aion_agent::tools::{Surroundings, ToolConfig, Toolbox};
use aion_core::sandbox::ViolationKind;
use aion_core::transcript::Content;
use aion_testkit::house::{Act, House, Judgement};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::fixture::{PROBE, input, leash, play, runtime, scripted};

/// One server behind every name.
#[derive(Debug)]
struct Stage(SocketAddr);

impl Outside for Stage {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        futures::future::ready(Ok(vec![IpAddr::from([93, 184, 216, 34])])).boxed()
    }

    fn connect(&self, _: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        TcpStream::connect(self.0).boxed()
    }
}

async fn stage() -> Stage {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 1024];
            let read = stream.read(&mut head).await.unwrap();
            assert!(head[..read].starts_with(b"GET /page HTTP/1.1\r\nHost: a.example\r\n"));
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").await.unwrap();
        }
    });
    Stage(address)
}

fn sandbox(mode: Mode) -> Sandbox {
    Sandbox::new(mode, vec![PROBE.into(), "sandbox".into()], Grounds::default())
}

/// What one command of a turn came to: its output, and what the house heard of it.
async fn command(
    sandbox: Sandbox,
    workspace: &Path,
    script: &str,
    host: Option<Judgement>,
) -> (String, Vec<Act>) {
    let scenario = format!(
        "[[agent.bob.rule]]\nwhen = [{{ given = \"go\" }}]\n\
         call = [{{ tool = \"Bash\", input = {{ command = '''{script}''' }} }}]"
    );
    let provider = scripted(&scenario);
    let (house, mut requests) = House::new(|_| Judgement::Run);
    if let Some(judgement) = host {
        house.judge_host("a.example", judgement);
    }
    let tools = ToolConfig::new(leash(None), Arc::new(sandbox), std::env::vars_os());
    let tools = Arc::new(Toolbox::new(workspace.to_owned(), Arc::new(tools)));
    let runtime = AgentRuntime { tools, ..runtime(provider, &house, workspace) };
    // Nothing says what comes after the command, so how the turn ends is of no account.
    play(&runtime, &mut requests, input(1, "go")).await;
    let output = house.transcript().into_iter().find_map(|item| match item.content {
        Content::Got { output, .. } => Some(output),
        _ => None,
    });
    let heard = |act: &Act| matches!(act, Act::Reached(_) | Act::Violated(_));
    (output.unwrap(), house.acts().into_iter().filter(heard).collect())
}

/// A page by the proxy, without any tool beside bash.
const PAGE: &str = r#"exec 3<>/dev/tcp/127.0.0.1/${HTTP_PROXY##*:} && printf "GET http://a.example/page HTTP/1.1\r\nHost: a.example\r\n\r\n" >&3 && cat <&3"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_waits_for_its_decision() {
    let workspace = tempfile::tempdir().unwrap();
    let network = Arc::new(Network::through(NetworkRules::default(), Arc::new(stage().await)));
    let walled = || sandbox(Mode::Required).with_network(Arc::clone(&network));
    let behind_bubblewrap = matches!(walled().wall(), Wall::Bubblewrap(_));

    let (output, heard) =
        command(walled(), workspace.path(), PAGE, Some(Judgement::Ask(Ok(())))).await;
    if !behind_bubblewrap {
        // This machine's wall has no network, and so no way to the proxy either.
        assert!(!output.contains("hello"), "{output}");
        return;
    }
    assert!(output.ends_with("hello"), "{output}");
    assert_eq!(heard, [Act::Reached("a.example".to_owned())]);

    let refused = Judgement::Refuse("not in this mode".to_owned());
    let (output, heard) = command(walled(), workspace.path(), PAGE, Some(refused)).await;
    assert!(output.contains("HTTP/1.1 403 Forbidden"), "{output}");
    assert!(output.contains("aion: a.example: not in this mode"), "{output}");
    assert!(output.contains("[sandbox: the command was refused a connection:"), "{output}");
    assert!(
        matches!(&heard[..], [Act::Reached(_), Act::Violated(v)] if v.kind == ViolationKind::Network),
        "{heard:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_wall_refuses_is_told_and_the_workspace_is_open() {
    let workspace = tempfile::tempdir().unwrap();
    let script = "echo in > inside.txt; echo out > /etc/aion-outside; ls -A";
    let (output, heard) = command(sandbox(Mode::Required), workspace.path(), script, None).await;
    assert!(output.contains("inside.txt"), "{output}");
    assert!(!Path::new("/etc/aion-outside").exists());
    assert!(
        matches!(&heard[..], [Act::Violated(v)] if v.kind == ViolationKind::Refused),
        "{heard:?}"
    );
    let left: Vec<_> = std::fs::read_dir(workspace.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "only what the command made is left: {left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_wall_no_command_runs_unless_the_person_said_so() {
    let workspace = tempfile::tempdir().unwrap();
    let missing = |ask: bool| Wall::Missing { reason: "none here".to_owned(), ask };
    let script = "echo ran > ran.txt";
    let none = sandbox(Mode::Required).with_wall(missing(false));
    let (output, _) = command(none, workspace.path(), script, None).await;
    assert!(output.contains("no sandbox works on this machine (none here)"), "{output}");
    assert!(output.contains("apt install bubblewrap"), "{output}");
    assert!(!workspace.path().join("ran.txt").exists());
    let (output, _) = command(Sandbox::off(), workspace.path(), script, None).await;
    assert_eq!(output, "(no output)");
    assert!(workspace.path().join("ran.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_command_is_gone_when_its_tools_are_quiet() {
    let workspace = tempfile::tempdir().unwrap();
    let tools =
        ToolConfig::new(leash(None), Arc::new(sandbox(Mode::Required)), std::env::vars_os());
    let tools = Toolbox::new(workspace.path().to_owned(), Arc::new(tools));
    let mark = format!("8{}", std::process::id());
    let lives = || {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let mut lines =
            entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        lines.any(|line| line == format!("sleep\0{mark}\0").as_bytes())
    };
    let prepared =
        tools.prepare("Bash", &serde_json::json!({ "command": format!("sleep {mark}") }));
    let running = tokio::spawn(tools.run(prepared.unwrap(), Surroundings::default()));
    while !lives() {
        tokio::task::yield_now().await;
    }
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    tools.quiet().await;
    assert!(!lives());
}
