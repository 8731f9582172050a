//! Nothing without a credential, nothing for another Host or Origin, and nobody else's teams.

use aion_server::{ServeError, Server, ServerConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::world::{World, filled, operations};

#[tokio::test]
async fn no_operation_works_without_a_credential() {
    let world = World::new().await;
    let wrong = format!("Bearer aion_{}", "0".repeat(64));
    let bearer = world.token.bearer();
    let token = bearer.split_once(' ').unwrap().1;
    let name = format!("aion_session_{}", world.port);
    let headers: [&[(&str, &str)]; 7] = [
        &[],
        &[("authorization", &wrong)],
        &[("authorization", "Bearer ")],
        &[("authorization", &format!("Basic {token}"))],
        &[("cookie", &format!("{name}="))],
        &[("cookie", &format!("{name}={token}"))],
        &[("authorization", &wrong), ("x-forwarded-for", "127.0.0.1"), ("x-user", "ada")],
    ];
    let mut checked = 0;
    for (method, path, secured) in operations() {
        if !secured {
            continue;
        }
        for headers in headers {
            let path = filled(&path, "abc", "abc.r1");
            world.raw(&method, &path, headers, None).await.is(401, "auth.required");
            checked += 1;
        }
    }
    assert!(checked > 200, "{checked}");
    for path in ["/", "/nothing", "/api", "/api/teams/a/b/c/d", "/metrics/x"] {
        world.raw("GET", path, &[], None).await.is(401, "auth.required");
    }
}

#[tokio::test]
async fn only_logging_in_is_open() {
    let open: Vec<(String, String)> = operations()
        .into_iter()
        .filter(|(_, _, secured)| !secured)
        .map(|(method, path, _)| (method, path))
        .collect();
    let expect = [("POST", "/api/session"), ("GET", "/login")];
    assert_eq!(open, expect.map(|(method, path)| (method.to_owned(), path.to_owned())));
}

#[tokio::test]
async fn no_operation_answers_to_another_host_or_origin() {
    let world = World::new().await;
    let (bearer, port) = (world.token.bearer(), world.port);
    let other = port.wrapping_add(1);
    let foreign = [
        ("host", "evil.example".to_owned(), "auth.host"),
        ("host", format!("evil.example:{port}"), "auth.host"),
        ("host", format!("127.0.0.1.evil.example:{port}"), "auth.host"),
        ("host", "127.0.0.1".to_owned(), "auth.host"),
        ("host", format!("127.0.0.1:{other}"), "auth.host"),
        ("origin", "null".to_owned(), "auth.origin"),
        ("origin", "https://evil.example".to_owned(), "auth.origin"),
        ("origin", format!("http://127.0.0.1:{other}"), "auth.origin"),
        ("origin", format!("https://127.0.0.1:{port}"), "auth.origin"),
        ("origin", format!("http://127.0.0.1:{port}.evil.example"), "auth.origin"),
        ("origin", format!("http://127.0.0.1:{port}/"), "auth.origin"),
    ];
    for (method, path, secured) in operations() {
        let path = filled(&path, "abc", "abc.r1");
        for (name, value, code) in &foreign {
            let headers = [("authorization", bearer.as_str()), (name, value.as_str())];
            let answer = world.raw(&method, &path, &headers, None).await;
            answer.is(403, code);
            assert!(!answer.headers.contains_key("access-control-allow-origin"));
        }
        if secured {
            for site in ["cross-site", "same-site", "x"] {
                let headers = [("authorization", bearer.as_str()), ("sec-fetch-site", site)];
                world.raw(&method, &path, &headers, None).await.is(403, "auth.origin");
            }
        }
    }
    for host in ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"] {
        let host = format!("{host}:{port}");
        let headers = [("authorization", bearer.as_str()), ("host", host.as_str())];
        world.raw("GET", "/api/health", &headers, None).await.is(200, "");
    }
    for origin in ["http://127.0.0.1", "http://localhost"] {
        let origin = format!("{origin}:{port}");
        let headers = [
            ("authorization", bearer.as_str()),
            ("origin", origin.as_str()),
            ("sec-fetch-site", "same-origin"),
        ];
        world.raw("GET", "/api/health", &headers, None).await.is(200, "");
    }
    // What a browser asks before it sends something from another origin gets no permission.
    let origin = [("origin", "https://evil.example"), ("access-control-request-method", "POST")];
    let answer = world.raw("OPTIONS", "/api/teams", &origin, None).await;
    answer.is(403, "auth.origin");
    assert!(!answer.headers.contains_key("access-control-allow-origin"));
}

#[tokio::test]
async fn requests_with_two_hosts_or_none_are_refused() {
    let world = World::new().await;
    let bearer = world.token.bearer();
    let own = format!("127.0.0.1:{}", world.port);
    let check = async |lines: String, expect: &str| {
        let mut stream = TcpStream::connect(&own).await.unwrap();
        let request = format!("{lines}Authorization: {bearer}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with(expect), "{lines}: {answer}");
    };
    check(format!("GET /api/health HTTP/1.1\r\nHost: {own}\r\n"), "HTTP/1.1 200").await;
    check("GET /api/health HTTP/1.1\r\n".to_owned(), "HTTP/1.1 403").await;
    check("GET /api/health HTTP/1.0\r\n".to_owned(), "HTTP/1.0 403").await;
    let twice = format!("GET /api/health HTTP/1.1\r\nHost: {own}\r\nHost: {own}\r\n");
    check(twice, "HTTP/1.1 403").await;
    let absolute = format!("GET http://evil.example/api/health HTTP/1.1\r\nHost: {own}\r\n");
    check(absolute, "HTTP/1.1 403").await;
}

#[tokio::test]
async fn a_browser_signs_in_once_by_a_link_and_changes_things_with_its_csrf_token() {
    let world = World::new().await;
    let path = world.login_link.strip_prefix(&format!("http://127.0.0.1:{}", world.port)).unwrap();
    let page = world.raw("GET", path, &[], None).await;
    page.is(200, "");
    let set = page.headers["set-cookie"].to_str().unwrap();
    assert!(set.starts_with(&format!("aion_session_{}=", world.port)), "{set}");
    assert!(set.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{set}");
    assert!(!page.body.to_string().contains(set.split(['=', ';']).nth(1).unwrap()));
    world.raw("GET", path, &[], None).await.is(401, "auth.code");

    let cookie = set.split(';').next().unwrap();
    let session = world.raw("GET", "/api/session", &[("cookie", cookie)], None).await;
    let csrf = session.is(200, "").body["csrf_token"].as_str().unwrap().to_owned();
    world.raw("GET", "/api/teams", &[("cookie", cookie)], None).await.is(200, "");
    let json_type = ("content-type", "application/json");
    let other = "0".repeat(64);
    for headers in [
        &[("cookie", cookie), json_type][..],
        &[("cookie", cookie), json_type, ("x-csrf-token", "")],
        &[("cookie", cookie), json_type, ("x-csrf-token", &other)],
    ] {
        world.raw("POST", "/api/teams", headers, Some("{}")).await.is(403, "auth.csrf");
    }
    let right = [("cookie", cookie), json_type, ("x-csrf-token", csrf.as_str())];
    world.raw("POST", "/api/teams", &right, Some("{}")).await.is(201, "");
    // A browser cannot make links for others.
    world.raw("POST", "/api/login-links", &right, None).await.is(403, "auth.token_needed");
    // One that is wrong in the header is not saved by a cookie.
    let both = [("cookie", cookie), ("authorization", "Bearer aion_x")];
    world.raw("GET", "/api/teams", &both, None).await.is(401, "auth.required");
    world.raw("DELETE", "/api/session", &right, None).await.is(204, "");
    world.raw("GET", "/api/teams", &[("cookie", cookie)], None).await.is(401, "auth.required");
}

#[tokio::test]
async fn changes_are_json_and_nothing_else() {
    let world = World::new().await;
    let bearer = world.token.bearer();
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let headers = [("authorization", bearer.as_str()), ("content-type", kind)];
        world.raw("POST", "/api/teams", &headers, Some("{}")).await.is(415, "body.content_type");
    }
    let headers = [("authorization", bearer.as_str())];
    world.raw("POST", "/api/teams", &headers, Some("{}")).await.is(415, "body.content_type");
    assert_eq!(world.get("/api/teams").await, json!({ "teams": [] }));
}

#[tokio::test]
async fn the_team_of_somebody_else_is_no_team() {
    let mut world = World::new().await;
    let theirs = world.foreign_team().await;
    let id = theirs.team().to_string();
    let send = aion_core::command::SendMessage {
        to: aion_core::message::Recipient::Lead,
        text: "begin".to_owned(),
        summary: None,
        urgency: aion_core::message::Urgency::Wake,
        files: Vec::new(),
        key: None,
    };
    let send = aion_core::command::Command::SendMessage(Box::new(send));
    theirs.submit(aion_core::command::Caller::User, None, send).await.unwrap();
    let (agent, turn) = world.stage.turn().await;
    World::ask(&agent, turn.turn, "make").await;

    let before = theirs.query(Clone::clone).await.unwrap();
    let body = |path: &str, method: &str| -> Option<Value> {
        if method == "GET" {
            return None;
        }
        Some(match path.rsplit('/').next().unwrap() {
            "messages" => json!({ "text": "hello" }),
            "agents" => json!({ "name": "bob", "prompt": "work" }),
            "mode" => json!({ "mode": "bypassPermissions" }),
            "model" => json!({ "model": "m" }),
            "tasks" => json!({ "subject": "s" }),
            "scenario" => json!({ "scenario": "" }),
            "{request_id}" => json!({ "decision": "allow" }),
            "{slot_id}" if method == "PATCH" => json!({ "name": "bob" }),
            _ => json!({}),
        })
    };
    let mut checked = 0;
    for (method, template, _) in operations() {
        if !template.contains("{team_id}") && !template.contains("{request_id}") {
            continue;
        }
        let path = filled(&template, &id, &format!("{id}.r1"));
        let answer = world.call(&method, &path, body(&template, &method)).await;
        let nobody = filled(&template, "nobody", "nobody.r1");
        let none = world.call(&method, &nobody, body(&template, &method)).await;
        assert_eq!(answer.status, 404, "{method} {path}: {}", answer.body);
        // Not even the words tell whether there is such a team.
        assert_eq!(answer.body, none.body, "{method} {path}");
        checked += 1;
    }
    assert!(checked >= 25, "{checked}");
    assert_eq!(world.get("/api/teams").await, json!({ "teams": [] }));
    assert_eq!(world.get("/api/approvals").await, json!({ "approvals": [] }));
    assert_eq!(world.get("/api/health").await["teams"], 0);
    assert_eq!(theirs.query(Clone::clone).await.unwrap(), before);
}

#[tokio::test]
async fn only_this_machine_is_served() {
    let world = World::new().await;
    let config = |listen: &str| {
        let listen = listen.parse().unwrap();
        ServerConfig::local(listen, "ada".to_owned(), world.token.clone(), "/nowhere".into())
    };
    for listen in ["0.0.0.0:0", "192.0.2.1:0", "[::]:0"] {
        let refused = Server::bind(world.service.clone(), config(listen)).await;
        assert!(matches!(refused, Err(ServeError::NotLoopback(_))), "{listen}");
    }
    let taken = format!("127.0.0.1:{}", world.port);
    let taken = Server::bind(world.service.clone(), config(&taken)).await;
    assert!(matches!(taken, Err(ServeError::Listen { .. })));
}

#[tokio::test]
async fn the_persons_tools_take_a_token_and_no_session() {
    let world = World::new().await;
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"aion_list_teams","arguments":{}}}"#;
    let host = format!("127.0.0.1:{}", world.port);
    let bearer = world.token.bearer();
    let (cookie, csrf) = world.login().await;
    let call = |credential: Vec<(&'static str, String)>| {
        let (client, host) = (reqwest_client(), host.clone());
        async move {
            let mut request = client
                .post(format!("http://{host}/mcp"))
                .header("content-type", "application/json")
                .header("accept", "application/json, text/event-stream")
                .body(body);
            for (name, value) in credential {
                request = request.header(name, value);
            }
            let answer = request.send().await.unwrap();
            (answer.status().as_u16(), answer.text().await.unwrap())
        }
    };
    assert_eq!(call(vec![]).await.0, 401);
    let (status, text) = call(vec![("authorization", bearer)]).await;
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("\"result\"") && !text.contains("isError\":true"), "{text}");
    assert_eq!(call(vec![("cookie", cookie.clone())]).await.0, 403);
    let (_, text) = call(vec![("cookie", cookie), ("x-csrf-token", csrf)]).await;
    assert!(text.contains("a token is needed"), "{text}");
}

fn reqwest_client() -> reqwest::Client {
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}
