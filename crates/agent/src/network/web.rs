//! One page of the web over an admitted connection: asked for and read within limits; it follows
//! nothing, and sends nothing but the question.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, LOCATION};
use hyper::{Request, Response, StatusCode, body::Incoming};
use hyper_util::rt::TokioIo;
use reqwest::Url;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::{HostName, Network, Pass};

/// How long a page may take, from the connection to its last byte.
const PATIENCE: Duration = Duration::from_secs(30);
/// The largest page.
pub(crate) const MAX_BYTES: usize = 5 * 1024 * 1024;
/// What is asked for; a page that is packed could grow without end.
const HEADERS: [(&str, &str); 4] = [
    ("user-agent", concat!("aion/", env!("CARGO_PKG_VERSION"))),
    ("accept", "text/html, text/plain, text/markdown, application/json, */*;q=0.5"),
    ("accept-language", "en, *;q=0.5"),
    ("accept-encoding", "identity"),
];

/// Reads which authorities are trusted, when they are needed first.
pub type ReadAuthorities = fn() -> Result<Arc<ClientConfig>, String>;

/// The way of agents to pages of the web.
pub struct Web {
    network: Arc<Network>,
    authorities: ReadAuthorities,
    tls: OnceLock<TlsConnector>,
}

/// Where a page is, as far as it may be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    url: Url,
    host: String,
    port: u16,
}

impl Address {
    /// Reads an address; an error says why it is none that is fetched.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text.trim()).map_err(|error| format!("it is no URL: {error}"))?;
        Self::of(url)
    }

    fn of(mut url: Url) -> Result<Self, String> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err("only http and https are fetched".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("a URL with a login is not fetched".to_owned());
        }
        url.set_fragment(None);
        // Numbers in disguise have become an address here, which is no name.
        let host = HostName::parse(url.host_str().unwrap_or_default())?.as_str().to_owned();
        let port = url.port_or_known_default().unwrap_or(443);
        Ok(Self { url, host, port })
    }

    /// Where a page leads from here.
    pub(crate) fn lead(&self, to: &str) -> Result<Self, String> {
        let next = self.url.join(to).map_err(|error| format!("it leads to no URL: {error}"))?;
        let next = Self::of(next)?;
        if self.tls() && !next.tls() {
            return Err("it leads from https to http".to_owned());
        }
        Ok(next)
    }

    /// The host's name.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// The URL.
    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    pub(crate) fn as_str(&self) -> &str {
        self.url.as_str()
    }

    fn tls(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// What stands after the host.
    fn path(&self) -> String {
        let query = self.url.query().map(|query| format!("?{query}")).unwrap_or_default();
        self.url.path().to_owned() + &query
    }

    /// The host as the server is told it.
    fn authority(&self) -> String {
        self.url.port().map_or_else(|| self.host.clone(), |port| format!("{}:{port}", self.host))
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: StatusCode,
    pub(crate) kind: String,
    /// Where it leads, where it leads elsewhere.
    pub(crate) leads_to: Option<String>,
    pub(crate) body: Vec<u8>,
    /// The body is longer than what is read of one.
    pub(crate) cut: bool,
}

impl Web {
    /// Through a network, by the authorities that are read when they are needed first.
    pub fn new(network: Arc<Network>, authorities: ReadAuthorities) -> Self {
        Self { network, authorities, tls: OnceLock::new() }
    }

    /// Gets a page. The host is admitted first, which may have to wait for somebody.
    pub(crate) async fn get(&self, pass: &Pass, url: &Address) -> Result<Page, String> {
        let stream = self.network.reach(pass, &url.host, url.port).await?;
        let silent =
            || format!("{} does not answer within {} seconds", url.host, PATIENCE.as_secs());
        timeout(PATIENCE, self.speak(stream, url)).await.unwrap_or_else(|_| Err(silent()))
    }

    async fn speak(&self, stream: TcpStream, url: &Address) -> Result<Page, String> {
        if !url.tls() {
            return ask(stream, url).await;
        }
        let tls = self.connector().await?;
        let name = ServerName::try_from(url.host.clone()).map_err(|error| error.to_string())?;
        let stream = tls.connect(name, stream).await;
        ask(stream.map_err(|error| format!("{}: {error}", url.host))?, url).await
    }

    async fn connector(&self) -> Result<TlsConnector, String> {
        if let Some(tls) = self.tls.get() {
            return Ok(tls.clone());
        }
        let read = self.authorities;
        // They are files.
        let config =
            tokio::task::spawn_blocking(read).await.map_err(|error| error.to_string())??;
        Ok(self.tls.get_or_init(|| TlsConnector::from(config)).clone())
    }
}

impl fmt::Debug for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Web").field("network", &self.network).finish_non_exhaustive()
    }
}

/// The task that carries one connection, which ends with whoever needs it.
struct Carried(JoinHandle<()>);

impl Drop for Carried {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn ask<S>(stream: S, url: &Address) -> Result<Page, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let failed = |error: hyper::Error| format!("{}: {error}", url.host);
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let _carried = Carried(tokio::spawn(async move {
        // What is wrong with it the question hears.
        let _ = connection.await;
    }));
    let mut request = Request::builder().uri(url.path()).header("host", url.authority());
    for (name, value) in HEADERS {
        request = request.header(name, value);
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(|error| error.to_string())?;
    let mut answer = sender.send_request(request).await.map_err(failed)?;
    let (mut body, mut cut) = (Vec::new(), false);
    let leads_to = answer.status().is_redirection().then(|| header(&answer, &LOCATION)).flatten();
    while leads_to.is_none()
        && let Some(frame) = answer.body_mut().frame().await
    {
        let Ok(data) = frame.map_err(failed)?.into_data() else { continue };
        let room = MAX_BYTES - body.len();
        cut = data.len() > room;
        body.extend_from_slice(&data[..data.len().min(room)]);
        if cut {
            break;
        }
    }
    let kind = header(&answer, &CONTENT_TYPE).unwrap_or_default();
    Ok(Page { status: answer.status(), kind, leads_to, body, cut })
}

fn header(answer: &Response<Incoming>, name: &HeaderName) -> Option<String> {
    Some(String::from_utf8_lossy(answer.headers().get(name)?.as_bytes()).into_owned())
}
