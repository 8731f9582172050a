//! Pages of a stand-in for the web, where every name leads to one server.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use aion_agent::network::{Network, NetworkRules, Outside, Rule, Web};
use aion_agent::runtime::AgentRuntime;
use aion_agent::sandbox::Sandbox;
use aion_agent::tools::{ToolConfig, Toolbox};
use aion_core::permission::ToolClass;
use aion_core::transcript::Content;
use aion_testkit::house::{Act, House, Judgement};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::fixture::{input, leash, play, png, runtime, scripted};

/// The web: what a name means, and one server behind all of them.
#[derive(Debug)]
struct Stage(SocketAddr);

impl Outside for Stage {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let inside = host == "inside.example";
        let address = if inside { [127, 0, 0, 1] } else { [93, 184, 216, 34] };
        futures::future::ready(Ok(vec![IpAddr::from(address)])).boxed()
    }

    fn connect(&self, _: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        TcpStream::connect(self.0).boxed()
    }
}

fn page(kind: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn leads(to: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n").into_bytes()
}

fn answer(path: &str) -> Vec<u8> {
    match path {
        "/html" => page(
            "text/html; charset=utf-8",
            "<html><head><title>T</title><script>alert(1)</script></head><body><h1>Head</h1>\
             <p>One &amp; <a href=\"/x\">two</a>.</p></body></html>"
                .as_bytes(),
        ),
        "/deep" => page("text/html", "<div><b>".repeat(400_000).as_bytes()),
        "/json?a=1" => page("application/problem+json", b"{\"a\":1}"),
        "/long" => page("text/plain", "0123456789abcdef".repeat(5_000).as_bytes()),
        "/huge" => page("text/plain", &vec![b'x'; 6 * 1024 * 1024]),
        "/image" => page("image/png", &png(4, 5)),
        "/zip" => page("application/zip", b"PK\0\0"),
        "/there" => leads("/html"),
        "/other" => leads("http://b.example/json?a=1"),
        "/denied" => leads("http://evil.example/html"),
        "/number" => leads("http://0x7f.1/html"),
        "/inside" => leads("http://inside.example/html"),
        "/file" => leads("file:///etc/passwd"),
        "/round" => leads("/round"),
        _ => b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nnone"
            .to_vec(),
    }
}

async fn stage() -> Stage {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let mut first = String::new();
                stream.read_line(&mut first).await.unwrap();
                let path = first.split(' ').nth(1).unwrap().to_owned();
                let mut line = String::new();
                while stream.read_line(&mut line).await.unwrap() > 2 {
                    line.clear();
                }
                // Who has read enough hangs up.
                let _ = stream.write_all(&answer(&path)).await;
            });
        }
    });
    Stage(address)
}

fn tools(stage: Stage, workspace: &Path) -> Toolbox {
    let deny = vec![Rule::parse("evil.example").unwrap()];
    let rules = NetworkRules { deny, ..NetworkRules::default() };
    let network = Arc::new(Network::through(rules, Arc::new(stage)));
    let config = ToolConfig::new(leash(None), Arc::new(Sandbox::off()), std::env::vars_os());
    let web = Web::new(network, || Err("there is no TLS on this stage".to_owned()));
    Toolbox::new(workspace.to_owned(), Arc::new(config.with_web(Arc::new(web))))
}

/// What the agent is answered, what the house heard, and how many images there were.
async fn fetch(url: &str, offset: usize, other: Judgement) -> (String, Vec<Act>, usize) {
    let dir = tempfile::tempdir().unwrap();
    let scenario = format!(
        "[[agent.bob.rule]]\nwhen = [{{ given = \"go\" }}]\n\
         call = [{{ tool = \"WebFetch\", input = {{ url = '{url}', offset = {offset} }} }}]"
    );
    let (house, mut requests) = House::new(|proposal| {
        assert_eq!(proposal.class, ToolClass::Execute);
        Judgement::Run
    });
    house.judge_host("b.example", other);
    house.judge_host("inside.example", Judgement::Run);
    let tools = Arc::new(tools(stage().await, dir.path()));
    let runtime = AgentRuntime { tools, ..runtime(scripted(&scenario), &house, dir.path()) };
    play(&runtime, &mut requests, input(1, "go")).await;
    let got = house.transcript().into_iter().find_map(|item| match item.content {
        Content::Got { output, images, .. } => Some((output, images.len())),
        _ => None,
    });
    let (output, images) = got.unwrap();
    let heard = |act: &Act| matches!(act, Act::Reached(_) | Act::Violated(_));
    (output, house.acts().into_iter().filter(heard).collect(), images)
}

async fn text(url: &str) -> String {
    fetch(url, 0, Judgement::Run).await.0
}

#[tokio::test]
async fn pages_become_text_within_limits() {
    let html = "http://a.example/html (200 OK, text/html; charset=utf-8)\n\n";
    let shown = text("http://a.example/html").await;
    assert!(shown.starts_with(html), "{shown}");
    assert!(shown.contains("Head") && shown.contains("One & ") && !shown.contains("alert"));
    assert!(text("http://a.example/there#part").await.starts_with(html));
    assert_eq!(
        text("http://a.example/json?a=1").await,
        "http://a.example/json?a=1 (200 OK, application/problem+json)\n\n{\"a\":1}"
    );
    let (long, _, _) = fetch("http://a.example/long", 0, Judgement::Run).await;
    assert!(
        long.ends_with("[14464 bytes more; go on with offset 65536]"),
        "{}",
        &long[long.len() - 80..]
    );
    let (rest, _, _) = fetch("http://a.example/long", 65_536, Judgement::Run).await;
    assert!(rest.ends_with("cdef") && rest.len() < 14_600);
    let (huge, _, _) = fetch("http://a.example/huge", 5 * 1024 * 1024 - 4, Judgement::Run).await;
    assert!(huge.ends_with("\n\nxxxx\n\n[The page is longer than what is read of one.]"), "{huge}");
    let (image, _, images) = fetch("http://a.example/image", 0, Judgement::Run).await;
    assert_eq!(
        (image.as_str(), images),
        ("http://a.example/image: a png image, 4 x 5 pixels, 24 bytes.", 1)
    );
    assert!(text("http://a.example/deep").await.starts_with("http://a.example/deep (200 OK"));
    assert_eq!(
        text("http://a.example/zip").await,
        "The page was not fetched: it is no text: application/zip, 4 bytes."
    );
    assert_eq!(
        text("http://a.example/none").await,
        "http://a.example/none (404 Not Found, text/plain)\n\nnone"
    );
    assert_eq!(
        text("https://a.example/html").await,
        "The page was not fetched: there is no TLS on this stage."
    );
}

#[tokio::test]
async fn every_host_is_admitted_and_no_address_is_a_name() {
    for (url, why) in [
        ("http://127.0.0.1/html", "hosts are reached by name"),
        ("http://0x7f.1/html", "hosts are reached by name"),
        ("http://[::1]/html", "hosts are reached by name"),
        ("http://2130706433/html", "hosts are reached by name"),
        ("http://localhost/html", "is a name of this machine"),
        ("http://me:secret@a.example/html", "a URL with a login is not fetched"),
        ("ftp://a.example/html", "only http and https are fetched"),
        ("a.example/html", "it is no URL"),
        ("http://evil.example/html", "denied by your settings"),
        ("http://inside.example/html", "which is this machine or its own network"),
        ("http://a.example:8080/html", "port 8080 of a.example is not one of the web's"),
        ("http://a.example/number", "hosts are reached by name"),
        ("http://a.example/inside", "which is this machine or its own network"),
        ("http://a.example/denied", "denied by your settings"),
        ("http://a.example/file", "only http and https are fetched"),
        ("http://a.example/round", "it leads on more than 5 times"),
    ] {
        let shown = text(url).await;
        assert!(shown.contains(why), "{url}: {shown}");
    }
    // Another host than the call was allowed with is asked for.
    let other = "http://a.example/other";
    let (shown, heard, _) = fetch(other, 0, Judgement::Ask(Ok(()))).await;
    assert!(shown.ends_with("{\"a\":1}"), "{shown}");
    assert_eq!(heard, [Act::Reached("b.example".to_owned())]);
    let (shown, _, _) = fetch(other, 0, Judgement::Refuse("not there".to_owned())).await;
    assert!(shown.contains("b.example: not there"), "{shown}");
}
