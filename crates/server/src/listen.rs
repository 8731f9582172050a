//! Connections: taken, bounded in number and in patience, and ended; it reads no request.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Connections at a time; those that became web sockets are counted by themselves.
pub(crate) const CONNECTIONS: usize = 4_096;
/// How long a client may take to say a request's head, and how long a connection may rest between
/// two requests.
pub(crate) const HEAD: Duration = Duration::from_secs(30);
/// How long TLS may take to begin.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The largest head.
const HEAD_BYTES: usize = 64 * 1024;
/// The wait after a connection could not be taken, which is when there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(50);

/// What a listener is made of.
pub(crate) struct Listening {
    pub(crate) listener: TcpListener,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) router: Router,
    pub(crate) connections: usize,
    /// How long a client may take to say a request's head.
    pub(crate) patience: Duration,
}

impl Listening {
    pub(crate) fn new(listener: TcpListener, tls: Option<TlsAcceptor>, router: Router) -> Self {
        Self { listener, tls, router, connections: CONNECTIONS, patience: HEAD }
    }

    /// Takes connections until `stop` is cancelled; then waits for those that are in a request.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let Self { listener, tls, router, connections, patience } = self;
        let places = Arc::new(Semaphore::new(connections));
        let running = TaskTracker::new();
        loop {
            let taken = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                taken = take(&listener, &places) => taken,
            };
            let (stream, place) = match taken {
                Ok(taken) => taken,
                Err(error) => {
                    tracing::warn!(%error, "a connection was not taken");
                    sleep(PAUSE).await;
                    continue;
                }
            };
            let (router, tls, stop) = (router.clone(), tls.clone(), stop.clone());
            running.spawn(async move {
                // It is given back when the connection ends, or becomes a WebSocket.
                let _place = place;
                match tls {
                    None => converse(stream, router, stop, patience).await,
                    Some(tls) => match timeout(HANDSHAKE, tls.accept(stream)).await {
                        Ok(Ok(stream)) => converse(stream, router, stop, patience).await,
                        Ok(Err(error)) => tracing::debug!(%error, "TLS did not begin"),
                        Err(_) => tracing::debug!("TLS did not begin in time"),
                    },
                }
            });
        }
        drop(listener);
        running.close();
        running.wait().await;
    }
}

type Place = tokio::sync::OwnedSemaphorePermit;

/// The next connection, once there is a place for it. Further ones wait in the system's queue.
async fn take(listener: &TcpListener, places: &Arc<Semaphore>) -> io::Result<(TcpStream, Place)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    // A frame goes out when it is written: nobody waits for a packet to fill.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
    Ok((stream, place))
}

/// Serves one connection over HTTP until it ends, or `stop` is cancelled and its request is answered.
pub(crate) async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    stop: CancellationToken,
    patience: Duration,
) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .with_upgrades();
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

/// Whether an address is reached from this machine alone.
pub(crate) fn is_local(address: SocketAddr) -> bool {
    match address.ip() {
        IpAddr::V4(v4) => v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    struct Running {
        address: SocketAddr,
        stop: CancellationToken,
        serving: tokio::task::JoinHandle<()>,
    }

    async fn listening(connections: usize, patience: Duration) -> Running {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(|| async { "here" });
        let stop = CancellationToken::new();
        let mut listening = Listening::new(listener, None, router);
        (listening.connections, listening.patience) = (connections, patience);
        let serving = tokio::spawn(listening.run(stop.clone()));
        Running { address, stop, serving }
    }

    async fn say(stream: &mut TcpStream, text: &str) {
        stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// All that comes until the end.
    async fn rest(stream: &mut TcpStream) -> String {
        let mut text = String::new();
        // A connection that is reset has ended too.
        let _ = stream.read_to_string(&mut text).await;
        text
    }

    #[tokio::test]
    async fn who_does_not_finish_the_head_is_let_go() {
        let running = listening(8, Duration::from_millis(50)).await;
        let mut slow = TcpStream::connect(running.address).await.unwrap();
        say(&mut slow, "GET / HTTP/1.1\r\nhost: a\r\nx: ").await;
        let ended = rest(&mut slow).await;
        assert!(!ended.contains("here"), "{ended}");
        // One that rests after a request is let go too.
        let mut idle = TcpStream::connect(running.address).await.unwrap();
        say(&mut idle, "GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert!(rest(&mut idle).await.ends_with("here"));
        running.stop.cancel();
        running.serving.await.unwrap();
    }

    #[tokio::test]
    async fn no_more_connections_than_there_are_places() {
        let running = listening(2, Duration::from_mins(10)).await;
        let mut first = TcpStream::connect(running.address).await.unwrap();
        let _second = TcpStream::connect(running.address).await.unwrap();
        let mut third = TcpStream::connect(running.address).await.unwrap();
        say(&mut third, "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
        let waiting = timeout(Duration::from_millis(100), third.readable()).await;
        assert!(waiting.is_err(), "a third connection was served");
        say(&mut first, "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
        assert!(rest(&mut first).await.ends_with("here"));
        assert!(rest(&mut third).await.ends_with("here"));
    }

    #[tokio::test]
    async fn a_head_that_is_too_large_is_refused() {
        let running = listening(8, Duration::from_mins(10)).await;
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        let long = "a".repeat(2 * HEAD_BYTES);
        // The connection may be closed before all of it is written.
        let _ = stream.write_all(format!("GET / HTTP/1.1\r\nx: {long}\r\n\r\n").as_bytes()).await;
        let answer = rest(&mut stream).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    }

    #[tokio::test]
    async fn stopping_waits_for_nobody_who_rests() {
        let running = listening(8, Duration::from_mins(10)).await;
        let mut idle = TcpStream::connect(running.address).await.unwrap();
        say(&mut idle, "GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        idle.readable().await.unwrap();
        running.stop.cancel();
        running.serving.await.unwrap();
        assert!(rest(&mut idle).await.ends_with("here"));
    }
}
