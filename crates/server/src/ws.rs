//! The WebSocket: a client follows teams and the user's scope, in order and without gaps; it never
//! makes a team wait for a slow reader.

use std::collections::BTreeMap;
use std::time::Duration;

use aion_api::{ControlFrame, SocketClose, SocketFrame, SocketRequest};
use aion_core::id::{Seq, TeamId};
use aion_runtime::{DeltaSubscription, LiveDelta, SubscriptionEnd, TeamHandle};
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures::SinkExt;
use futures::stream::{SplitSink, StreamExt};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::app::App;
use crate::auth::{Principal, Via};
use crate::convert::{stream_end, stream_frame, team_event};
use crate::error::Failure;
use crate::http::Problems;

/// The largest frame of a client.
const FRAME_BYTES: usize = 16 * 1024;
/// Frames that wait for a client that reads; then its subscriptions wait, and fall behind.
const QUEUE: usize = 64;
/// What is kept for reading and for writing of each client: small, for there are many.
const BUFFER_BYTES: usize = 4 * 1024;
/// Clients at a time.
const CLIENTS: i64 = 4_096;
/// Subscriptions of one client.
const SUBSCRIPTIONS: usize = 1_024;
/// How long one frame may take.
const STALLED: Duration = Duration::from_secs(30);
/// How long a client has for the last frames and the close.
const FAREWELL: Duration = Duration::from_secs(5);
/// A sign of life, so that a peer that is gone is noticed.
const PING: Duration = Duration::from_secs(30);

/// Follow teams and the user's scope: frames are those of `SocketRequest` and `SocketFrame`.
#[utoipa::path(
    get,
    path = "/api/ws",
    tag = "events",
    responses((status = 101, description = "A WebSocket"), Problems)
)]
pub(crate) async fn upgrade(
    State(app): State<App>,
    principal: Principal,
    socket: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    if app.counts.sockets() >= CLIENTS {
        let detail = format!("at most {CLIENTS} clients are served at a time");
        return Failure::new(StatusCode::SERVICE_UNAVAILABLE, "limit.sockets", detail)
            .into_response();
    }
    match socket {
        Ok(socket) => socket
            .max_message_size(FRAME_BYTES)
            .max_frame_size(FRAME_BYTES)
            .read_buffer_size(BUFFER_BYTES)
            .write_buffer_size(BUFFER_BYTES)
            .on_upgrade(move |socket| {
                let sockets = app.sockets.clone();
                sockets.track_future(serve(app, principal, socket))
            }),
        Err(rejection) => {
            Failure::new(StatusCode::BAD_REQUEST, "websocket.invalid", rejection.body_text())
                .into_response()
        }
    }
}

/// What is followed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    User,
    Team(TeamId),
}

/// How following ended by itself.
enum Ended {
    /// The team is closed, or was erased.
    Closed(TeamId),
    /// The client read too slowly.
    TooSlow,
    /// The past could not be read.
    Failed(TeamId),
    /// Nobody takes frames any more.
    Gone,
}

/// One client.
struct Client {
    app: App,
    principal: Principal,
    out: mpsc::Sender<SocketFrame>,
    following: JoinSet<Ended>,
    scopes: BTreeMap<Scope, AbortHandle>,
}

async fn serve(app: App, principal: Principal, socket: WebSocket) {
    app.counts.socket_opened();
    let (sink, mut stream) = socket.split();
    let (out, queue) = mpsc::channel(QUEUE);
    let (close, closing) = tokio::sync::oneshot::channel();
    let writer = tokio::spawn(write(sink, queue, closing));
    let mut ended_sessions = app.access.ended_sessions();
    let stop = app.stop.clone();
    let mut client = Client {
        app: app.clone(),
        principal,
        out,
        following: JoinSet::new(),
        scopes: BTreeMap::new(),
    };
    let reason = loop {
        tokio::select! {
            frame = stream.next() => match frame {
                Some(Ok(Message::Text(text))) => {
                    if client.take(text.as_str()).await.is_none() {
                        break None;
                    }
                }
                Some(Ok(Message::Binary(_))) => {
                    if client.refuse("frame.invalid", "frames are text", None).await.is_none() {
                        break None;
                    }
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => break None,
            },
            Some(ended) = client.following.join_next() => match ended {
                Ok(Ended::TooSlow) => {
                    app.counts.too_slow();
                    break Some(SocketClose::TooSlow);
                }
                Ok(Ended::Gone) => break Some(SocketClose::TooSlow),
                Ok(Ended::Closed(team)) => {
                    client.scopes.remove(&Scope::Team(team.clone()));
                    let frame = ControlFrame::Unsubscribed { team_id: team.to_string() };
                    if client.say(frame).await.is_none() {
                        break None;
                    }
                }
                Ok(Ended::Failed(team)) => {
                    client.scopes.remove(&Scope::Team(team.clone()));
                    let detail = "the team's log could not be read; subscribe again";
                    let said = client.refuse("store.unavailable", detail, Some(team.to_string()));
                    if said.await.is_none() {
                        break None;
                    }
                }
                // It was told to end.
                Err(_) => {}
            },
            Ok(()) = ended_sessions.changed() => {
                if let Via::Session { id } = &client.principal.via
                    && app.access.csrf(id).is_none()
                {
                    break Some(SocketClose::SignedOut);
                }
            },
            () = stop.cancelled() => break Some(SocketClose::Stopping),
        }
    };
    client.following.shutdown().await;
    drop(client);
    // A writer that is gone needs no word.
    let _ = close.send(reason);
    let _ = writer.await;
    app.counts.socket_closed();
}

impl Client {
    /// Does what the client says. None when it is gone.
    async fn take(&mut self, text: &str) -> Option<()> {
        match serde_json::from_str(text) {
            Ok(SocketRequest::Subscribe { team_id, after, stream }) => {
                self.subscribe(team_id, after, stream).await
            }
            Ok(SocketRequest::SubscribeUser { after }) => {
                let feed = follow_user(self.app.clone(), after, self.out.clone());
                let task = self.following.spawn(feed);
                self.replace(Scope::User, task);
                Some(())
            }
            Ok(SocketRequest::Unsubscribe { team_id }) => {
                if let Ok(id) = TeamId::new(team_id.as_str())
                    && let Some(task) = self.scopes.remove(&Scope::Team(id))
                {
                    task.abort();
                }
                self.say(ControlFrame::Unsubscribed { team_id }).await
            }
            Err(error) => self.refuse("frame.invalid", &error.to_string(), None).await,
        }
    }

    async fn subscribe(&mut self, team_id: String, after: u64, stream: bool) -> Option<()> {
        let team = match self.app.team(&self.principal, &team_id).await {
            Ok(team) => team,
            Err(failure) => {
                return self.refuse(failure.code(), failure.detail(), Some(team_id)).await;
            }
        };
        let scope = Scope::Team(team.team().clone());
        if self.scopes.len() >= SUBSCRIPTIONS && !self.scopes.contains_key(&scope) {
            let detail = format!("a client follows {SUBSCRIPTIONS} teams at most");
            return self.refuse("limit.subscriptions", &detail, Some(team_id)).await;
        }
        if let Some(before) = self.scopes.remove(&scope) {
            before.abort();
        }
        self.say(ControlFrame::Subscribed { team_id, after }).await?;
        let following = follow_team(team, Seq(after), stream, self.out.clone());
        let task = self.following.spawn(following);
        self.replace(scope, task);
        Some(())
    }

    fn replace(&mut self, scope: Scope, task: AbortHandle) {
        if let Some(before) = self.scopes.insert(scope, task) {
            before.abort();
        }
    }

    async fn refuse(&self, code: &str, detail: &str, team_id: Option<String>) -> Option<()> {
        let (code, detail) = (code.to_owned(), detail.to_owned());
        self.say(ControlFrame::Error { code, detail, team_id }).await
    }

    async fn say(&self, frame: ControlFrame) -> Option<()> {
        self.out.send(SocketFrame::Control(frame)).await.ok()
    }
}

/// Sends a team's events after a point, in order, each once, and what its members write.
async fn follow_team(
    team: TeamHandle,
    after: Seq,
    stream: bool,
    out: mpsc::Sender<SocketFrame>,
) -> Ended {
    let id = team.team().clone();
    let mut events = team.subscribe(after);
    let mut deltas = stream.then(|| team.subscribe_deltas());
    loop {
        let frames = tokio::select! {
            biased;
            event = events.next() => match event {
                Ok(Some(recorded)) => {
                    let end = if stream { stream_end(&id, &recorded.event) } else { None };
                    let event = SocketFrame::Event(team_event(&id, &recorded));
                    [Some(event), end.map(SocketFrame::Stream)]
                }
                Ok(None) => return Ended::Closed(id),
                Err(SubscriptionEnd::TooSlow { .. }) => return Ended::TooSlow,
                Err(SubscriptionEnd::Store(_)) => return Ended::Failed(id),
            },
            piece = next_piece(&mut deltas) => {
                if piece.is_none() {
                    // Pieces were missed; the transcript has them.
                    deltas = Some(team.subscribe_deltas());
                }
                [piece.map(|piece| SocketFrame::Stream(stream_frame(&id, &piece))), None]
            }
        };
        for frame in frames.into_iter().flatten() {
            if out.send(frame).await.is_err() {
                return Ended::Gone;
            }
        }
    }
}

async fn next_piece(deltas: &mut Option<DeltaSubscription>) -> Option<LiveDelta> {
    match deltas {
        Some(deltas) => deltas.next().await,
        None => std::future::pending().await,
    }
}

/// Sends what concerns all teams of the user after a point.
async fn follow_user(app: App, after: Option<u64>, out: mpsc::Sender<SocketFrame>) -> Ended {
    let mut last = app.feed.last();
    last.mark_unchanged();
    let mut since = app.feed.since(after);
    let begin = match after {
        Some(after) if !since.reset => after,
        Some(_) | None => since.last,
    };
    let hello = ControlFrame::SubscribedUser { after: begin, reset: since.reset };
    if out.send(SocketFrame::Control(hello)).await.is_err() {
        return Ended::Gone;
    }
    loop {
        let seen = since.last;
        for frame in since.frames {
            if out.send(SocketFrame::User((*frame).clone())).await.is_err() {
                return Ended::Gone;
            }
        }
        if last.changed().await.is_err() {
            return Ended::Gone;
        }
        since = app.feed.since(Some(seen));
        if since.reset {
            return Ended::TooSlow;
        }
    }
}

type Closing = tokio::sync::oneshot::Receiver<Option<SocketClose>>;

/// Writes frames until it is told to close, or the client takes none.
async fn write(
    mut sink: SplitSink<WebSocket, Message>,
    mut queue: mpsc::Receiver<SocketFrame>,
    mut closing: Closing,
) {
    let mut ping = interval(PING);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ping.reset();
    let reason = loop {
        let message = tokio::select! {
            biased;
            reason = &mut closing => break reason.ok().flatten(),
            Some(frame) = queue.recv() => text(&frame),
            _ = ping.tick() => Message::Ping(Vec::new().into()),
        };
        tokio::select! {
            biased;
            reason = &mut closing => break reason.ok().flatten(),
            sent = timeout(STALLED, sink.send(message)) => match sent {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return,
                Err(_) => break Some(SocketClose::TooSlow),
            },
        }
    };
    // From here on nothing is promised: whoever does not read learns it from the end of the
    // connection.
    queue.close();
    let farewell = async {
        if let Some(reason) = reason {
            let close = CloseFrame { code: reason.code(), reason: "".into() };
            sink.send(Message::Close(Some(close))).await?;
        }
        sink.close().await
    };
    let _ = timeout(FAREWELL, farewell).await;
}

fn text(frame: &SocketFrame) -> Message {
    Message::Text(serde_json::to_string(frame).unwrap_or_default().into())
}
