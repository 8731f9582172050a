//! A daemon on a free port with clients of every kind; each answer is held to the description of
//! the API.

use std::sync::LazyLock;

use aion_core::agent::{MemberSpec, PermissionMode};
use aion_core::command::{Caller, Settings, ToolProposal};
use aion_core::hash::ActionHash;
use aion_core::id::{AgentName, TurnId};
use aion_core::permission::ToolClass;
use aion_runtime::tools::{AgentKind, Catalogue, CatalogueAgent};
use aion_runtime::{Availability, Backends, House, NewTeam, TeamHandle, TeamService};
use aion_server::{AccessToken, Server, ServerConfig};
use aion_testkit::backend::{Stage, StandIn, StandInAgent};
use aion_testkit::faults::{FaultPlan, FaultyStore};
use aion_testkit::{EventStore, MemoryStore};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The description of the API.
pub(crate) static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(&aion_server::document()).unwrap());

/// A daemon.
pub(crate) struct World {
    pub(crate) port: u16,
    /// Where members reach their team.
    pub(crate) member_port: u16,
    pub(crate) token: AccessToken,
    pub(crate) stage: Stage,
    pub(crate) service: TeamService,
    pub(crate) store: Arc<FaultyStore<MemoryStore>>,
    pub(crate) login_link: String,
    pub(crate) remote: Option<(String, String)>,
    pub(crate) stop: CancellationToken,
    pub(crate) serving: JoinHandle<std::io::Result<()>>,
    client: reqwest::Client,
    _dir: TempDir,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn etag(&self) -> String {
        self.headers["etag"].to_str().unwrap().to_owned()
    }

    /// Checks the status and, for a failure, its code.
    #[track_caller]
    pub(crate) fn is(&self, status: u16, code: &str) -> &Self {
        let found = self.body["code"].as_str().unwrap_or_default();
        assert_eq!((self.status.as_u16(), found), (status, code), "{}", self.body);
        self
    }
}

pub(crate) type Headers<'a> = &'a [(&'a str, &'a str)];

impl World {
    pub(crate) async fn new() -> Self {
        Self::made(false, |_| {}).await
    }

    /// A daemon whose agents are programs of their own.
    pub(crate) async fn connecting() -> Self {
        Self::made(true, |_| {}).await
    }

    /// A daemon that is configured in another way.
    pub(crate) async fn with(change: impl FnOnce(&mut ServerConfig)) -> Self {
        Self::made(false, change).await
    }

    async fn made(connecting: bool, change: impl FnOnce(&mut ServerConfig)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (backend, stage) = StandIn::new();
        backend.connects(connecting);
        let agent = |name: &str, availability| CatalogueAgent {
            agent_type: name.to_owned(),
            description: "for tests".to_owned(),
            availability,
            kind: AgentKind::Scenario,
            models: Vec::new(),
        };
        let missing = Availability::Unavailable { reason: "it is not installed".to_owned() };
        let catalogue = Catalogue {
            agents: vec![agent("absent", missing), agent("stand-in", Availability::Available)],
        };
        let store = Arc::new(FaultyStore::new(MemoryStore::default(), FaultPlan::none()));
        let house = House::new(
            Arc::clone(&store) as Arc<dyn EventStore>,
            Backends::all(backend),
            catalogue,
        );
        let service = TeamService::new(house);
        let token = AccessToken::open(&dir.path().join("token")).unwrap();
        let listen = "127.0.0.1:0".parse().unwrap();
        let workspaces = dir.path().join("workspaces");
        let mut config = ServerConfig::local(listen, "ada".to_owned(), token.clone(), workspaces);
        change(&mut config);
        let server = Server::bind(service.clone(), config).await.unwrap();
        let (port, login_link) = (server.address().port(), server.login_link());
        let remote = server.remote();
        let member_port = server.member_port();
        let stop = CancellationToken::new();
        let serving = tokio::spawn(server.run(stop.clone()));
        // Built together with the command line, the client can speak TLS, and asks who does it. That
        // another test has said so already is as good.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self {
            port,
            member_port,
            token,
            stage,
            service,
            store,
            login_link,
            remote,
            stop,
            serving,
            client,
            _dir: dir,
        }
    }

    /// A call with exactly these headers; its status is one that the description names.
    pub(crate) async fn raw(
        &self,
        method: &str,
        path: &str,
        headers: Headers<'_>,
        body: Option<&str>,
    ) -> Answer {
        let answer = self.send(self.port, method, path, headers, body).await;
        check_described(method, path, &answer);
        answer
    }

    /// The same at the members' port.
    pub(crate) async fn at_members(
        &self,
        method: &str,
        path: &str,
        headers: Headers<'_>,
        body: Option<&str>,
    ) -> Answer {
        self.send(self.member_port, method, path, headers, body).await
    }

    async fn send(
        &self,
        port: u16,
        method: &str,
        path: &str,
        headers: Headers<'_>,
        body: Option<&str>,
    ) -> Answer {
        let url = format!("http://127.0.0.1:{port}{path}");
        let method: Method = method.parse().unwrap();
        let mut request = self.client.request(method, url);
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap();
            request = request.header(name, HeaderValue::from_str(value).unwrap());
        }
        if let Some(body) = body {
            request = request.body(body.to_owned());
        }
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let text = response.text().await.unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Answer { status, headers, body }
    }

    /// A member's credential.
    pub(crate) async fn credential(&self, team: &str, slot: u32) -> String {
        let path = format!("{team}/agents/{slot}/credential");
        let made = self.call("POST", &path, None).await;
        let body = &made.is(201, "").body;
        assert_eq!(body["port"], self.member_port);
        body["token"].as_str().unwrap().to_owned()
    }

    /// A call by the command line.
    pub(crate) async fn call(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        self.call_with(method, path, &[], body).await
    }

    pub(crate) async fn call_with(
        &self,
        method: &str,
        path: &str,
        headers: Headers<'_>,
        body: Option<Value>,
    ) -> Answer {
        let bearer = self.token.bearer();
        let mut all = vec![("authorization", bearer.as_str())];
        if body.is_some() {
            all.push(("content-type", "application/json"));
        }
        all.extend(headers);
        let body = body.map(|body| body.to_string());
        self.raw(method, path, &all, body.as_deref()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let answer = self.call("GET", path, None).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.body);
        answer.body
    }

    /// A team of the user, and its path.
    pub(crate) async fn team(&self) -> String {
        let answer = self.call("POST", "/api/teams", Some(json!({ "name": "web" }))).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.body);
        format!("/api/teams/{}", answer.body["id"].as_str().unwrap())
    }

    /// A team of somebody else in the same store.
    pub(crate) async fn foreign_team(&self) -> TeamHandle {
        let lead = MemberSpec {
            name: AgentName::lead(),
            label: None,
            agent_type: "stand-in".to_owned(),
            model: None,
            color: None,
            prompt: String::new(),
            mode: PermissionMode::default(),
            conversation: self.service.house().ids.conversation(),
            parent_call: None,
            parent_conversation: None,
        };
        let new = NewTeam {
            name: "theirs".to_owned(),
            owner: "eve".to_owned(),
            workspace: "/".to_owned(),
            solo: false,
            lead,
            settings: Settings::default(),
        };
        self.service.create(Caller::User, None, new).await.unwrap()
    }

    /// Lets an agent in a turn ask whether it may run a command.
    pub(crate) async fn ask(agent: &StandInAgent, turn: TurnId, call: &str) {
        let proposal = ToolProposal {
            turn,
            call: call.to_owned(),
            tool: "bash".to_owned(),
            class: ToolClass::Execute,
            action: ActionHash::of_text(call),
            description: format!("run {call}"),
            input: "{}".to_owned(),
            cwd: "/".to_owned(),
            kin: Vec::new(),
            finding: None,
            suggestion: None,
        };
        agent.host.propose(proposal).await.unwrap();
    }

    /// A session as a browser has it: its cookie and its CSRF token.
    pub(crate) async fn login(&self) -> (String, String) {
        let link = self.call("POST", "/api/login-links", None).await;
        let url = link.body["url"].as_str().unwrap().to_owned();
        let code = url.split_once("code=").unwrap().1;
        let body = json!({ "code": code }).to_string();
        let json_type = [("content-type", "application/json")];
        let answer = self.raw("POST", "/api/session", &json_type, Some(&body)).await;
        answer.is(201, "");
        let cookie = answer.headers["set-cookie"].to_str().unwrap();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        (cookie, answer.body["csrf_token"].as_str().unwrap().to_owned())
    }
}

/// Every operation: method, path template, and whether it needs a credential.
pub(crate) fn operations() -> Vec<(String, String, bool)> {
    let mut all = Vec::new();
    for (path, methods) in DOCUMENT["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let open = operation["security"] == json!([{}]);
            all.push((method.to_uppercase(), path.clone(), !open));
        }
    }
    all
}

/// A path with its variables filled in.
pub(crate) fn filled(template: &str, team: &str, request: &str) -> String {
    template
        .replace("{team_id}", team)
        .replace("{conversation_id}", team)
        .replace("{sha256}", &"0".repeat(64))
        .replace("{slot_id}", "1")
        .replace("{task_id}", "1")
        .replace("{rule_id}", "1")
        .replace("{request_id}", request)
}

/// The template that a path was made from.
fn template(path: &str) -> Option<&'static String> {
    let path = path.split('?').next().unwrap();
    let parts: Vec<&str> = path.split('/').collect();
    let paths = DOCUMENT["paths"].as_object().unwrap();
    paths.get_key_value(path).map(|(path, _)| path).or_else(|| {
        paths.keys().find(|template| {
            let wanted: Vec<&str> = template.split('/').collect();
            wanted.len() == parts.len()
                && wanted
                    .iter()
                    .zip(&parts)
                    .all(|(want, part)| want.starts_with('{') || want == part)
        })
    })
}

fn check_described(method: &str, path: &str, answer: &Answer) {
    let status = answer.status.as_str();
    for header in ["x-request-id", "x-content-type-options", "content-security-policy"] {
        assert!(answer.headers.contains_key(header), "{method} {path}: no {header}");
    }
    if answer.status.is_client_error() || answer.status.is_server_error() {
        assert_eq!(answer.headers["content-type"], "application/problem+json", "{method} {path}");
        assert_eq!(answer.body["status"], answer.status.as_u16(), "{method} {path}");
        assert!(answer.body["code"].as_str().is_some_and(|code| code.contains('.')));
    }
    let Some(template) = template(path) else { return };
    let operation = &DOCUMENT["paths"][template][method.to_lowercase()];
    if operation.is_null() {
        return;
    }
    assert!(
        !operation["responses"][status].is_null(),
        "{method} {path}: {status} is not described: {}",
        answer.body
    );
}
