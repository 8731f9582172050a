//! The members' listener: a free port of 127.0.0.1 for frames and for HTTP; it tells them apart by
//! their first byte and lets nobody in itself.

use std::future::IntoFuture;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use aion_runtime::TeamService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::framed::{self, HELLO_TIME};
use super::http::{self, Connections};
use super::tokens::MemberTokens;
use super::tools::Tools;

/// Connections at a time, of all members together and of nobody.
const CONNECTIONS: usize = 1_024;
/// Connections that may wait to be served over HTTP.
const WAITING: usize = 16;
/// How long calls that have begun may take to end when the daemon stops.
const GRACE: Duration = Duration::from_secs(5);
/// The wait after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// The members' listener.
#[derive(Debug)]
pub(crate) struct Door {
    listener: TcpListener,
    tokens: Arc<MemberTokens>,
}

impl Door {
    /// Begins to listen.
    pub(crate) async fn bind() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let tokens = Arc::new(MemberTokens::new(listener.local_addr()?.port()));
        Ok(Self { listener, tokens })
    }

    /// The members' secrets.
    pub(crate) fn tokens(&self) -> &Arc<MemberTokens> {
        &self.tokens
    }

    /// Serves members until `stop` is cancelled; then calls that have begun may end.
    pub(crate) async fn run(self, service: TeamService, stop: CancellationToken) {
        let Self { listener, tokens } = self;
        let tools = Tools { service, calls: TaskTracker::new() };
        let (to_http, streams) = mpsc::channel(WAITING);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, tokens.port()));
        let router = http::router(Arc::clone(&tokens), tools.clone(), stop.clone());
        let ending = stop.clone();
        let http = axum::serve(Connections { streams, address }, router)
            .with_graceful_shutdown(async move { ending.cancelled().await })
            .into_future();
        let connections = TaskTracker::new();
        let accepting = async {
            let places = Arc::new(Semaphore::new(CONNECTIONS));
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = stop.cancelled() => return,
                };
                let stream = match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        tracing::warn!(%error, "a member's connection was not accepted");
                        tokio::time::sleep(PAUSE).await;
                        continue;
                    }
                };
                // One too many is closed again.
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
                let held = Held { stream, _place: place };
                let (tokens, tools) = (Arc::clone(&tokens), tools.clone());
                connections.spawn(enter(held, tokens, tools, to_http.clone(), stop.clone()));
            }
        };
        let serving = async {
            let ((), served) = tokio::join!(accepting, http);
            served
        };
        let late = async {
            stop.cancelled().await;
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            served = serving => {
                if let Err(error) = served {
                    tracing::error!(%error, "members are not served any more");
                }
            }
            () = late => {}
        }
        connections.close();
        tools.calls.close();
        let over = async { tokio::join!(connections.wait(), tools.calls.wait()) };
        // Who does not end by then is dropped with the runtime.
        let _ = timeout(GRACE, over).await;
    }
}

/// Serves one connection by what it begins with.
async fn enter(
    held: Held,
    tokens: Arc<MemberTokens>,
    tools: Tools,
    to_http: mpsc::Sender<(Held, SocketAddr)>,
    stop: CancellationToken,
) {
    // A frame goes out when it is written: nobody waits for a packet to fill.
    if let Err(error) = held.stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
    let mut first = [0_u8];
    let Ok(Ok(1)) = timeout(HELLO_TIME, held.stream.peek(&mut first)).await else { return };
    // A method of HTTP is a word; the length of a frame begins with a byte that is no letter.
    if first[0].is_ascii_alphabetic() {
        let Ok(address) = held.stream.peer_addr() else { return };
        // Where HTTP is not served any more, nobody is.
        let _ = to_http.send((held, address)).await;
        return;
    }
    let Held { stream, _place } = held;
    framed::serve(stream, &tokens, tools, stop).await;
}

/// A connection with the place that it takes.
#[derive(Debug)]
pub(crate) struct Held {
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
}

impl AsyncRead for Held {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Held {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
