//! The members' listener: a free port of 127.0.0.1 for frames and for HTTP; it tells them apart by
//! their first byte and lets nobody in itself.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use aion_runtime::TeamService;
use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
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
/// Those of them that have not said yet who they are: they keep nobody out for long.
const STRANGERS: usize = 256;
/// Those of them that speak HTTP, where every request says by itself who it is from.
const HTTP: usize = 512;
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
        let places = Places::new();
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
            let Some((place, stranger)) = places.enter() else { continue };
            let member = Entering {
                tokens: Arc::clone(&tokens),
                tools: tools.clone(),
                router: router.clone(),
                http: Arc::clone(&places.http),
                stop: stop.clone(),
            };
            let entering = member.enter(stream, stranger);
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

/// The places for connections.
struct Places {
    all: Arc<Semaphore>,
    strangers: Arc<Semaphore>,
    http: Arc<Semaphore>,
}

impl Places {
    fn new() -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        Self { all: places(CONNECTIONS), strangers: places(STRANGERS), http: places(HTTP) }
    }

    /// A place, and one among the strangers.
    fn enter(&self) -> Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)> {
        let take = |places: &Arc<Semaphore>| Arc::clone(places).try_acquire_owned().ok();
        take(&self.all).zip(take(&self.strangers))
    }
}

/// What one connection is served with.
struct Entering {
    tokens: Arc<MemberTokens>,
    tools: Tools,
    router: Router,
    http: Arc<Semaphore>,
    stop: CancellationToken,
}

impl Entering {
    /// Serves one connection by what it begins with.
    async fn enter(self, stream: TcpStream, stranger: OwnedSemaphorePermit) {
        // A frame goes out when it is written: nobody waits for a packet to fill.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps its delay");
        }
        let mut first = [0_u8];
        let Ok(Ok(1)) = timeout(HELLO_TIME, stream.peek(&mut first)).await else { return };
        // A method of HTTP is a word; the length of a frame begins with a byte that is no letter.
        if first[0].is_ascii_alphabetic() {
            let Ok(_place) = self.http.try_acquire_owned() else { return };
            drop(stranger);
            converse(stream, self.router, self.stop, HEAD).await;
        } else {
            framed::serve(stream, &self.tokens, self.tools, self.stop, stranger).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_leave_places_for_those_who_are_known() {
        let places = Places::new();
        let strangers: Vec<_> = (0..STRANGERS).map(|_| places.enter().unwrap()).collect();
        assert!(places.enter().is_none());
        assert_eq!(places.all.available_permits(), CONNECTIONS - STRANGERS);
        // Who has said who it is gives its place among them up.
        let known: Vec<_> = strangers.into_iter().map(|(place, _)| place).collect();
        assert!(places.enter().is_some());
        assert_eq!(places.all.available_permits(), CONNECTIONS - known.len());
    }
}
