//! The members' listener: a free port of 127.0.0.1 for frames and for HTTP; it tells them apart by
//! their first byte and lets nobody in itself.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use aion_runtime::TeamService;
use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::framed::{self, HELLO_TIME};
use super::http;
use super::tokens::MemberTokens;
use super::tools::Tools;
use crate::listen::{HEAD, converse};

/// Connections at a time, of all members together and of nobody.
const CONNECTIONS: usize = 1_024;
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
        let router = http::router(Arc::clone(&tokens), tools.clone());
        let connections = TaskTracker::new();
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.cancelled() => break,
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
            let entering =
                enter(stream, Arc::clone(&tokens), tools.clone(), router.clone(), stop.clone());
            connections.spawn(async move {
                let _place = place;
                entering.await;
            });
        }
        drop(listener);
        connections.close();
        tools.calls.close();
        let over = async { tokio::join!(connections.wait(), tools.calls.wait()) };
        // Who does not end by then is dropped with the runtime.
        let _ = timeout(GRACE, over).await;
    }
}

/// Serves one connection by what it begins with.
async fn enter(
    stream: TcpStream,
    tokens: Arc<MemberTokens>,
    tools: Tools,
    router: Router,
    stop: CancellationToken,
) {
    // A frame goes out when it is written: nobody waits for a packet to fill.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
    let mut first = [0_u8];
    let Ok(Ok(1)) = timeout(HELLO_TIME, stream.peek(&mut first)).await else { return };
    // A method of HTTP is a word; the length of a frame begins with a byte that is no letter.
    if first[0].is_ascii_alphabetic() {
        converse(stream, router, stop, HEAD).await;
    } else {
        framed::serve(stream, &tokens, tools, stop).await;
    }
}
