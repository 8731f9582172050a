//! The server: takes requests, keeps them for the test, and sends answers with their faults.

use std::convert::Infallible;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aion_agent::provider::ProviderError;
use aion_agent::scripted::Scenario;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::brain::{Answer, Brain};
use super::fault::{Fault, Plan};
use super::foreign::{self, Foreign, Numbers};
use super::wire::{Asked, Format};

/// The most bytes of a request.
const BODY_BYTES: usize = 64 * 1024 * 1024;

/// Lets clients be built in this process. Whether theirs can speak TLS depends on what else is built
/// along; one that can wants to know by what, though nobody here is called by it.
pub fn allow_clients() {
    // Another one that is there already does as well.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
}

/// What the server does.
#[derive(Clone, Debug)]
pub struct Script {
    /// Who says what.
    pub scenario: Scenario,
    /// What goes wrong.
    pub plan: Plan,
    /// The key that has to come with every request, if one has to.
    pub key: Option<String>,
    /// How many bytes are sent at once; all of a piece if none.
    pub split: Option<usize>,
    /// Whether a piece that says nothing goes before each other.
    pub pings: bool,
    /// How long to wait before each piece, for a watcher's sake.
    pub pace: Duration,
    /// Who calls.
    pub callers: Callers,
}

/// Who calls a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Callers {
    /// Clients of ours, which are held to what the services want.
    #[default]
    Ours,
    /// Coding agents of others.
    Others,
}

impl Script {
    /// Plays a scenario without any fault.
    pub fn new(scenario: Scenario) -> Self {
        Self {
            scenario,
            plan: Plan::default(),
            key: None,
            split: None,
            pings: false,
            pace: Duration::ZERO,
            callers: Callers::default(),
        }
    }
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its number, from 1.
    pub number: usize,
    /// The format.
    pub format: Format,
    /// Who asks.
    pub agent: String,
    /// Its number among those of this agent, from 1.
    pub of_agent: usize,
    /// Its path.
    pub path: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Value,
}

/// A running server. Dropping it ends it.
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl fmt::Debug for ModelServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelServer").field("address", &self.address).finish_non_exhaustive()
    }
}

struct Shared {
    script: Script,
    brain: Brain,
    numbers: Numbers,
    seen: Mutex<Vec<Seen>>,
    violations: Mutex<Vec<String>>,
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ModelServer {
    /// Starts on a free port of this machine.
    pub async fn start(script: Script) -> std::io::Result<Self> {
        Self::listen(script, 0).await
    }

    /// Starts on a port of this machine.
    pub async fn listen(script: Script, port: u16) -> std::io::Result<Self> {
        allow_clients();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            brain: Brain::new(script.scenario.clone()),
            script,
            numbers: Numbers::default(),
            seen: Mutex::default(),
            violations: Mutex::default(),
        });
        let router = Router::new()
            .fallback(answer)
            .layer(DefaultBodyLimit::max(BODY_BYTES))
            .with_state(Arc::clone(&shared));
        let task = tokio::spawn(async move {
            // It ends with the task.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { address, shared, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL of a format: what comes before the service's own paths.
    pub fn base_url(&self, format: Format) -> String {
        match format {
            Format::Chat | Format::Responses => format!("http://{}/v1", self.address),
            Format::Anthropic | Format::Gemini | Format::Ollama => {
                format!("http://{}", self.address)
            }
        }
    }

    /// The requests for answers so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen().clone()
    }

    /// What a real service would not have taken, so far.
    pub fn violations(&self) -> Vec<String> {
        self.shared.violations().clone()
    }

    /// Serves until the process ends.
    pub async fn forever(mut self) {
        let _ = (&mut self.task).await;
    }
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn violations(&self) -> MutexGuard<'_, Vec<String>> {
        self.violations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the key is there that has to be.
    fn knows(&self, headers: &HeaderMap) -> bool {
        let Some(key) = &self.script.key else { return true };
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        [header("x-api-key"), header("x-goog-api-key"), bearer].contains(&Some(key.as_str()))
    }

    /// Keeps a request, and says which fault its answer has.
    fn keep(
        &self,
        format: Format,
        asked: &Asked,
        uri: &Uri,
        headers: HeaderMap,
        body: Value,
    ) -> Fault {
        let mut all = self.seen();
        let of_agent = all.iter().filter(|seen| seen.agent == asked.agent).count() + 1;
        let seen = Seen {
            number: all.len() + 1,
            format,
            agent: asked.agent.clone(),
            of_agent,
            path: uri.path().to_owned(),
            headers,
            body,
        };
        let fault = self.script.plan.fault(&seen);
        all.push(seen);
        fault
    }

    /// Answers, in the words of whoever asks.
    async fn answer(
        &self,
        asked: &mut Asked,
        foreign: Option<Foreign>,
        cut: bool,
    ) -> Result<Answer, ProviderError> {
        let Some(mut foreign) = foreign else { return self.brain.answer(asked, cut).await };
        if let Some(aside) = foreign.aside() {
            return Ok(aside);
        }
        let mut answer = self.brain.answer(asked, cut).await?;
        let went = foreign.outward(&mut answer, &self.numbers);
        *asked = foreign.asked;
        went.map(|()| answer).map_err(ProviderError::Fatal)
    }

    fn violated(&self, format: Format, why: &str) -> Response {
        self.violations().push(format!("{format:?}: {why}"));
        refused(format, 400, why)
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let path = uri.path();
    let format = if path.ends_with("/messages") || path.ends_with("/count_tokens") {
        Format::Anthropic
    } else if path.ends_with("/chat/completions") {
        Format::Chat
    } else if path.ends_with("/responses") {
        Format::Responses
    } else if path.contains("/v1beta/") {
        Format::Gemini
    } else if path.starts_with("/api/") {
        Format::Ollama
    } else if headers.contains_key("anthropic-version") {
        Format::Anthropic
    } else {
        Format::Chat
    };
    if !shared.knows(&headers) {
        return refused(format, 401, "invalid api key");
    }
    if matches!(method, Method::GET | Method::HEAD) {
        return axum::Json(models()).into_response();
    }
    let Ok(body) = serde_json::from_slice::<Value>(&body) else {
        return shared.violated(format, "the body is no JSON");
    };
    if path.ends_with("/count_tokens") {
        let tokens = body.to_string().len() / 4;
        return axum::Json(json!({ "input_tokens": tokens })).into_response();
    }
    if path.ends_with(":countTokens") {
        return axum::Json(json!({ "totalTokens": body.to_string().len() / 4 })).into_response();
    }
    let read = match shared.script.callers {
        Callers::Ours => format.read(&body, path).map(|asked| (asked, None)),
        Callers::Others => {
            let foreign = foreign::read(format, &body, path);
            Ok((foreign.asked.clone(), Some(foreign)))
        }
    };
    let (mut asked, foreign) = match read {
        Ok(read) => read,
        Err(why) => return shared.violated(format, &why),
    };
    let fault = shared.keep(format, &asked, &uri, headers, body);
    match &fault {
        Fault::Status { status, retry_after } => {
            let mut response = refused(format, *status, "as the script says");
            if let Some(wait) = retry_after.as_deref().and_then(|wait| wait.parse().ok()) {
                response.headers_mut().insert(header::RETRY_AFTER, wait);
            }
            return response;
        }
        Fault::Silent => return std::future::pending().await,
        Fault::None
        | Fault::Cut { .. }
        | Fault::Malformed { .. }
        | Fault::Huge { .. }
        | Fault::MaxTokens => {}
    }
    let answer = match shared.answer(&mut asked, foreign, fault == Fault::MaxTokens).await {
        Ok(answer) => answer,
        Err(ProviderError::RateLimit { .. }) => {
            return refused(format, 429, "the scenario says so");
        }
        Err(ProviderError::Unavailable { text, .. } | ProviderError::Broken(text)) => {
            return refused(format, 503, &text);
        }
        Err(ProviderError::Login(text)) => return refused(format, 401, &text),
        Err(ProviderError::Fatal(text) | ProviderError::TooLong(text)) => {
            return shared.violated(format, &text);
        }
    };
    if !asked.stream {
        return axum::Json(format.whole(&answer, &asked)).into_response();
    }
    let more = if let Fault::Huge { bytes } = fault { bytes } else { 0 };
    let pieces = format.stream(&answer, &asked, more);
    streamed(format, &shared.script, pieces, &fault)
}

/// A list of models as every service gives it.
fn models() -> Value {
    let model = json!({
        "id": "stand-in", "name": "stand-in", "object": "model", "type": "model",
        "display_name": "Stand-in", "created": 0, "owned_by": "aion",
    });
    json!({"object": "list", "data": [model], "models": [model], "has_more": false})
}

fn refused(format: Format, status: u16, why: &str) -> Response {
    let status_code = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status_code, axum::Json(format.refusal(status, why))).into_response()
}

fn streamed(format: Format, script: &Script, pieces: Vec<String>, fault: &Fault) -> Response {
    let mut pieces = pieces;
    let mut breaks = false;
    match *fault {
        Fault::Cut { after } => {
            pieces.truncate(after);
            breaks = true;
        }
        Fault::Malformed { after } => {
            let at = after.min(pieces.len());
            pieces.insert(at, format.malformed());
        }
        Fault::None
        | Fault::Huge { .. }
        | Fault::MaxTokens
        | Fault::Status { .. }
        | Fault::Silent => {}
    }
    if let Some(ping) = format.ping().filter(|_| script.pings) {
        pieces = pieces.into_iter().flat_map(|piece| [ping.clone(), piece]).collect();
    }
    let split = script.split.unwrap_or(usize::MAX).max(1);
    let bytes: Vec<Bytes> = pieces
        .into_iter()
        .flat_map(|piece| {
            piece.into_bytes().chunks(split).map(Bytes::copy_from_slice).collect::<Vec<_>>()
        })
        .collect();
    let pace = script.pace;
    let sent = stream::iter(bytes).then(move |piece| async move {
        if pace.is_zero() {
            // Each piece goes out by itself.
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(pace).await;
        }
        Ok::<_, Infallible>(piece)
    });
    let content_type = match format {
        Format::Ollama => "application/x-ndjson",
        Format::Anthropic | Format::Chat | Format::Responses | Format::Gemini => {
            "text/event-stream"
        }
    };
    let body = if breaks {
        let end = stream::iter([Err(std::io::Error::other("the script cuts it here"))]);
        Body::from_stream(sent.map(|piece| piece.map_err(|never| match never {})).chain(end))
    } else {
        Body::from_stream(sent)
    };
    ([(header::CONTENT_TYPE, content_type)], body).into_response()
}
