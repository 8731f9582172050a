//! One server as a task that owns its connection: started, asked for, started again where it has
//! ended; it knows nothing of turns.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rmcp::service::{Peer, RoleClient};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};

use super::config::ServerConfig;
use super::connect::{Connection, LastWords, connect};
use super::hub::Ground;
use super::offer::{Offered, list};

/// Questions for a connection that wait at a time.
const WAITING: usize = 64;
/// Starts in [`WITHIN`]; more are not tried until the time is over.
const STARTS: usize = 5;
/// See [`STARTS`].
const WITHIN: Duration = Duration::from_mins(10);

/// What is known of a server.
#[derive(Clone, Debug)]
pub(super) enum Status {
    /// It is not ready yet.
    Starting,
    /// It offers these.
    Ready(Arc<[Arc<Offered>]>),
    /// It is not there, and why.
    Down(String),
}

/// A server. When all of its holders are gone it is ended.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) config: ServerConfig,
    pub(super) fingerprint: u64,
    status: watch::Receiver<Status>,
    asks: mpsc::Sender<oneshot::Sender<Result<Peer<RoleClient>, String>>>,
}

impl Server {
    /// Begins a server.
    pub(super) fn begin(config: ServerConfig, ground: Arc<Ground>) -> Self {
        let (told, status) = watch::channel(Status::Starting);
        let (asks, asked) = mpsc::channel(WAITING);
        let fingerprint = config.fingerprint();
        let task = Task {
            config: config.clone(),
            ground,
            told,
            starts: VecDeque::new(),
            changed: Arc::new(Notify::new()),
        };
        // It belongs to a team and not to the member whose turn began it.
        drop(tokio::spawn(task.run(asked)));
        Self { config, fingerprint, status, asks }
    }

    pub(super) fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// Waits until it is ready, or is known not to be.
    pub(super) async fn settled(&self) {
        let mut status = self.status.clone();
        // A task that is gone tells nothing more.
        let _ = status.wait_for(|status| !matches!(status, Status::Starting)).await;
    }

    /// The connection, which is begun again where it has ended.
    pub(super) async fn peer(&self) -> Result<Peer<RoleClient>, String> {
        let (answer, answered) = oneshot::channel();
        self.asks.try_send(answer).map_err(|_| "too many calls wait for it".to_owned())?;
        let patience = self.config.start + Duration::from_secs(5);
        let gone = || "it was ended".to_owned();
        timeout(patience, answered)
            .await
            .map_err(|_| "it is not ready".to_owned())?
            .unwrap_or_else(|_| Err(gone()))
    }
}

struct Task {
    config: ServerConfig,
    ground: Arc<Ground>,
    told: watch::Sender<Status>,
    /// When it was started, the oldest first.
    starts: VecDeque<Instant>,
    changed: Arc<Notify>,
}

impl Task {
    async fn run(
        mut self,
        mut asked: mpsc::Receiver<oneshot::Sender<Result<Peer<RoleClient>, String>>>,
    ) {
        let told = self.told.clone();
        // Who waits for the start of a server that nobody needs any more goes on in vain.
        tokio::select! {
            () = told.closed() => {}
            () = self.serve(&mut asked) => {}
        }
    }

    async fn serve(
        &mut self,
        asked: &mut mpsc::Receiver<oneshot::Sender<Result<Peer<RoleClient>, String>>>,
    ) {
        let mut connection = self.start().await;
        loop {
            let happened = match &mut connection {
                Some(live) => tokio::select! {
                    ask = asked.recv() => Happened::Asked(ask),
                    () = &mut live.ended => Happened::Ended,
                    () = self.changed.notified() => Happened::Changed,
                },
                None => Happened::Asked(asked.recv().await),
            };
            match happened {
                Happened::Asked(None) => return,
                Happened::Asked(Some(answer)) => {
                    if connection.is_none() {
                        connection = self.start().await;
                    }
                    let peer = match &connection {
                        Some(live) => Ok(live.peer.clone()),
                        None => Err(self.why()),
                    };
                    // Whoever does not wait any more hears nothing.
                    let _ = answer.send(peer);
                }
                Happened::Ended => {
                    let words = connection.take().map(|live| live.words.told());
                    let why = format!("it has ended{}", words.unwrap_or_default());
                    tracing::info!(server = %self.config.name, "an MCP server is down: {why}");
                    self.told.send_replace(Status::Down(why));
                }
                Happened::Changed => {
                    let Some((peer, words)) =
                        connection.as_ref().map(|live| (live.peer.clone(), live.words.clone()))
                    else {
                        continue;
                    };
                    if let Ok(offered) = self.list(peer, words).await {
                        self.told.send_replace(Status::Ready(offered));
                    }
                }
            }
        }
    }

    /// Starts the server, unless it was started too often.
    async fn start(&mut self) -> Option<Connection> {
        let now = Instant::now();
        while self.starts.front().is_some_and(|start| now - *start > WITHIN) {
            self.starts.pop_front();
        }
        if self.starts.len() == STARTS {
            let why = self.why();
            let note = "it is not started again for some minutes";
            if !why.ends_with(note) {
                self.told.send_replace(Status::Down(format!("{why}; {note}")));
            }
            return None;
        }
        self.starts.push_back(now);
        let connected = async {
            let changed = Arc::clone(&self.changed);
            let live = connect(&self.config, &self.ground, changed).await?;
            let offered = self.list(live.peer.clone(), live.words.clone()).await?;
            Ok::<_, String>((live, offered))
        };
        match connected.await {
            Ok((live, offered)) => {
                self.told.send_replace(Status::Ready(offered));
                Some(live)
            }
            Err(why) => {
                tracing::info!(server = %self.config.name, "an MCP server did not start: {why}");
                self.told.send_replace(Status::Down(why));
                None
            }
        }
    }

    async fn list(
        &self,
        peer: Peer<RoleClient>,
        words: LastWords,
    ) -> Result<Arc<[Arc<Offered>]>, String> {
        timeout(self.config.start, list(&self.config.name, &peer))
            .await
            .unwrap_or_else(|_| Err("it does not say what it offers".to_owned()))
            .map_err(|why| why + &words.told())
    }

    fn why(&self) -> String {
        match &*self.told.borrow() {
            Status::Down(why) => why.clone(),
            Status::Starting | Status::Ready(_) => "it is not ready".to_owned(),
        }
    }
}

enum Happened {
    Asked(Option<oneshot::Sender<Result<Peer<RoleClient>, String>>>),
    Ended,
    Changed,
}
