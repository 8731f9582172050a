//! The connection to one server: begun, and known to be there; it calls no tool.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation};
use rmcp::service::{NotificationContext, Peer, RoleClient, RunningServiceCancellationToken};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, ServiceExt};
use tokio::io::AsyncReadExt;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::config::{ServerConfig, Way};
use super::hub::Ground;
use crate::identity::{current, spawn_as};
use crate::leash::{self, LeashedCommand, Talk};
use crate::sandbox::Walled;

/// The longest message of a server.
const MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of a server's last words that are kept.
const LAST_WORDS: usize = 1024;

/// A connection that stands. Dropping it ends the server where it is a program.
pub(super) struct Connection {
    pub(super) peer: Peer<RoleClient>,
    /// Ends when the connection does.
    pub(super) ended: BoxFuture<'static, ()>,
    pub(super) words: LastWords,
    end: Option<RunningServiceCancellationToken>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.end.take().into_iter().for_each(RunningServiceCancellationToken::cancel);
    }
}

/// What a program has written to its standard error, the last of it.
#[derive(Clone, Debug, Default)]
pub(super) struct LastWords(Arc<Mutex<VecDeque<u8>>>);

impl LastWords {
    fn keep(&self, bytes: &[u8]) {
        // Every change of it leaves bytes.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(bytes);
        let over = kept.len().saturating_sub(LAST_WORDS);
        kept.drain(..over);
    }

    /// In one line, for a sentence; nothing where there are none.
    pub(super) fn told(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if line.is_empty() { line } else { format!("; its last words: {line}") }
    }
}

/// Our side, which offers a server nothing.
struct Client {
    changed: Arc<Notify>,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("aion", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), own)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}

/// Begins a connection. `changed` is told where the server's tools become others.
pub(super) async fn connect(
    config: &ServerConfig,
    ground: &Ground,
    changed: Arc<Notify>,
) -> Result<Connection, String> {
    let words = LastWords::default();
    let client = Client { changed };
    let begun = match &config.way {
        Way::Program { .. } => {
            let Talk { input, output } = start(config, ground, &words).await?;
            let transport =
                AsyncRwTransport::new_client(output, input).with_max_line_length(MESSAGE_BYTES);
            timeout(config.start, client.serve(transport)).await
        }
        Way::Http { url, headers } => {
            let mut all = HashMap::new();
            for (name, value) in headers {
                let bad = || format!("the header {name:?} cannot be sent");
                let name = HeaderName::try_from(name).map_err(|_| bad())?;
                let mut value = HeaderValue::from_str(value.expose()).map_err(|_| bad())?;
                value.set_sensitive(true);
                all.insert(name, value);
            }
            let mut way = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                .custom_headers(all)
                .max_sse_event_size(MESSAGE_BYTES)
                .max_json_response_size(MESSAGE_BYTES);
            // A call is made once; what has ended is begun anew here.
            way.reinit_on_expired_session = false;
            let http = ground.http()?;
            let transport = StreamableHttpClientTransport::with_client(http, way);
            timeout(config.start, client.serve(transport)).await
        }
    };
    let running = begun
        .map_err(|_| format!("it was not ready within {} seconds", config.start.as_secs()))
        .and_then(|begun| begun.map_err(|error| error.to_string()))
        .map_err(|why| why + &words.told())?;
    let (peer, end) = (running.peer().clone(), Some(running.cancellation_token()));
    let ended = running.waiting().map(drop).boxed();
    Ok(Connection { peer, ended, words, end })
}

/// Starts the program, with a task that hears its last words.
async fn start(config: &ServerConfig, ground: &Ground, words: &LastWords) -> Result<Talk, String> {
    let Way::Program { program, arguments, environment, sandbox } = &config.way else {
        return Err("it is no program".to_owned());
    };
    let own = environment.iter().map(|(name, value)| (name.into(), value.expose().into()));
    let command = LeashedCommand {
        program: program.into(),
        arguments: arguments.iter().map(Into::into).collect(),
        directory: ground.workspace.clone(),
        environment: ground.tools.environment.iter().cloned().chain(own).collect(),
    };
    let failed = |error: std::io::Error| format!("{program} cannot be started: {error}");
    let tools = &ground.tools;
    let workspace: &Path = &ground.workspace;
    let words = words.clone();
    if *sandbox {
        let walled = tools.sandbox.spawn_talking(&tools.leash, workspace, command).await;
        let (walled, talk) = walled.map_err(failed)?;
        follow(hear_walled(walled, words));
        return Ok(talk);
    }
    let (leashed, talk) = leash::spawn_talking(&tools.leash, command).await.map_err(failed)?;
    follow(async move {
        let mut leashed = leashed;
        hear(leashed.output(), &words).await;
        // How it ended the connection tells.
        let _ = leashed.wait().await;
    });
    Ok(talk)
}

async fn hear_walled(mut walled: Walled, words: LastWords) {
    hear(walled.output(), &words).await;
    let _ = walled.wait().await;
}

async fn hear(errors: &mut leash::Heard, words: &LastWords) {
    let mut chunk = [0; 1024];
    while let Ok(read @ 1..) = errors.read(&mut chunk).await {
        words.keep(&chunk[..read]);
    }
}

fn follow(future: impl Future<Output = ()> + Send + 'static) {
    match current() {
        Some(identity) => drop(spawn_as(identity, future)),
        None => drop(tokio::spawn(future)),
    }
}
