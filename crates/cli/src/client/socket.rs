//! Follows a team over the daemon's WebSocket: every event after a point, in order, each once, over
//! any number of connections; it never gives up without saying why.

use std::time::Duration;

use aion_api::{Actor, Exit, SocketClose, SocketRequest, StreamFrame, TeamEvent};
use aion_core::command::Caller;
use aion_core::event::{EVENT_VERSION, Recorded};
use aion_core::id::{CommandId, Seq, SlotId};
use aion_core::time::Timestamp;
use futures::{SinkExt, StreamExt};
use reqwest::header::AUTHORIZATION;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{
    Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config,
};

use super::http::Client;
use super::problem::{silent, unreadable};
use crate::exit::Failure;

/// What waits for a slow reader; then the daemon is read no faster.
const QUEUE: usize = 256;
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// A daemon says something at least every 30 seconds.
const SILENCE: Duration = Duration::from_secs(90);
/// How long a daemon that is gone is looked for.
const PATIENCE: Duration = Duration::from_secs(30);
/// The wait between two looks; it doubles up to the longest.
const RETRY: Duration = Duration::from_millis(50);
const LONGEST_RETRY: Duration = Duration::from_secs(2);

/// What is heard of a team.
#[derive(Debug)]
pub(crate) enum Heard {
    /// Something happened.
    Event(Box<Recorded>),
    /// Somebody writes.
    Piece(StreamFrame),
    /// Something about the way to the daemon, for the person.
    Note(String),
    /// There is nothing more to hear.
    Over(Failure),
}

/// A team that is listened to.
#[derive(Debug)]
pub(crate) struct Listening {
    heard: mpsc::Receiver<Heard>,
    task: JoinHandle<()>,
}

impl Listening {
    /// To all events after one, and with `stream` to what members write while they write it.
    pub(crate) fn new(client: Client, team: String, after: Seq, stream: bool) -> Self {
        let (out, heard) = mpsc::channel(QUEUE);
        let listener = Listener { client, team, after: after.0, stream, out };
        Self { heard, task: tokio::spawn(listener.run()) }
    }

    /// The next thing. Dropping the wait loses nothing.
    pub(crate) async fn next(&mut self) -> Heard {
        match self.heard.recv().await {
            Some(heard) => heard,
            None => Heard::Over(closed()),
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

struct Listener {
    client: Client,
    team: String,
    after: u64,
    stream: bool,
    out: mpsc::Sender<Heard>,
}

/// How one connection ended.
enum Ended {
    /// It broke off; the daemon may be gone.
    Broken,
    /// The daemon closed it, and can be called again at once.
    Again,
    /// For good.
    Over(Failure),
    /// Nobody listens any more.
    Unheard,
}

impl Listener {
    async fn run(mut self) {
        let mut first = true;
        loop {
            let ended = match self.connect().await {
                Ok(socket) => self.listen(socket).await,
                Err(failure) if first && !failure.is_unavailable() => Ended::Over(failure),
                Err(_) => Ended::Broken,
            };
            first = false;
            match ended {
                Ended::Again => {}
                Ended::Broken => {
                    if let Err(failure) = self.come_back().await {
                        return self.say(Heard::Over(failure)).await.unwrap_or_default();
                    }
                }
                Ended::Over(failure) => {
                    return self.say(Heard::Over(failure)).await.unwrap_or_default();
                }
                Ended::Unheard => return,
            }
        }
    }

    async fn connect(&self) -> Result<Socket, Failure> {
        self.client.still_there()?;
        let url = self.client.url();
        let address = match url.strip_prefix("http") {
            Some(rest) => format!("ws{rest}/api/ws"),
            None => return Err(Failure::usage(format!("{url:?} is no address of a daemon"))),
        };
        let mut request = address.into_client_request().map_err(|error| silent(&url, &error))?;
        request.headers_mut().insert(AUTHORIZATION, self.client.bearer());
        let tls = Connector::Rustls(self.client.tls());
        let connected =
            timeout(CONNECT, connect_async_tls_with_config(request, None, true, Some(tls))).await;
        let mut socket = match connected {
            Ok(Ok((socket, _))) => socket,
            Ok(Err(Error::Http(response))) if response.status() == 401 => {
                let message = "the daemon does not take our token";
                return Err(Failure::new(Exit::Authentication, "auth.required", message));
            }
            Ok(Err(error)) => return Err(silent(&url, &error)),
            Err(elapsed) => return Err(silent(&url, &elapsed)),
        };
        let subscribe = SocketRequest::Subscribe {
            team_id: self.team.clone(),
            after: self.after,
            stream: self.stream,
        };
        let text = serde_json::to_string(&subscribe).unwrap_or_default();
        socket.send(Message::text(text)).await.map_err(|error| silent(&url, &error))?;
        Ok(socket)
    }

    async fn listen(&mut self, mut socket: Socket) -> Ended {
        loop {
            let next = tokio::select! {
                next = timeout(SILENCE, socket.next()) => next,
                () = self.out.closed() => return Ended::Unheard,
            };
            let text = match next {
                Ok(Some(Ok(Message::Text(text)))) => text,
                Ok(Some(Ok(Message::Close(frame)))) => {
                    let code = frame.map_or(0, |frame| u16::from(frame.code));
                    return closed_by(code);
                }
                Ok(Some(Ok(_))) => continue,
                Ok(Some(Err(_)) | None) | Err(_) => return Ended::Broken,
            };
            match self.take(&text).await {
                Ok(()) => {}
                Err(ended) => return ended,
            }
        }
    }

    async fn take(&mut self, text: &str) -> Result<(), Ended> {
        let bad = |error: &serde_json::Error| Ended::Over(unreadable(error));
        let frame: Value = serde_json::from_str(text).map_err(|error| bad(&error))?;
        let heard = match frame["type"].as_str().unwrap_or_default() {
            "message.stream" => {
                Heard::Piece(serde_json::from_value(frame).map_err(|error| bad(&error))?)
            }
            "subscribed" => return Ok(()),
            "unsubscribed" => return Err(Ended::Over(closed())),
            "error" => {
                let text = |name: &str| frame[name].as_str().unwrap_or_default().to_owned();
                let code = text("code");
                let exit = if code == "team.not_found" { Exit::NotFound } else { Exit::Failure };
                return Err(Ended::Over(Failure::new(exit, &code, text("detail"))));
            }
            _ => {
                let event: TeamEvent =
                    serde_json::from_value(frame).map_err(|error| bad(&error))?;
                let recorded = recorded(event).map_err(|error| bad(&error))?;
                self.after = recorded.seq.0;
                Heard::Event(Box::new(recorded))
            }
        };
        self.say(heard).await
    }

    /// Waits for the daemon, and starts it where it died. One that was stopped stays so.
    async fn come_back(&mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + PATIENCE;
        let mut wait = RETRY;
        let mut said = false;
        loop {
            let failure = match self.client.again().await {
                Ok(true) => {
                    let note = "The daemon had died and is started again; the team goes on.";
                    // Whether anybody listens shows with the next event.
                    let _ = self.say(Heard::Note(note.to_owned())).await;
                    return Ok(());
                }
                Ok(false) => match self.client.health().await {
                    Ok(_) => return Ok(()),
                    Err(failure) => failure,
                },
                Err(failure) => failure,
            };
            if Instant::now() >= deadline {
                return Err(failure);
            }
            if !said {
                said = true;
                let note = "The daemon does not answer; it is called again.".to_owned();
                let _ = self.say(Heard::Note(note)).await;
            }
            sleep(wait).await;
            wait = (wait * 2).min(LONGEST_RETRY);
        }
    }

    async fn say(&self, heard: Heard) -> Result<(), Ended> {
        self.out.send(heard).await.map_err(|_| Ended::Unheard)
    }
}

fn closed_by(code: u16) -> Ended {
    if code == SocketClose::TooSlow.code() {
        Ended::Again
    } else if code == SocketClose::SignedOut.code() {
        let message = "the daemon does not take our token any more";
        Ended::Over(Failure::new(Exit::Authentication, "auth.required", message))
    } else {
        // It stops, or says nothing about why: whether it is gone shows when it is looked for.
        Ended::Broken
    }
}

fn closed() -> Failure {
    Failure::new(Exit::Failure, "team.closed", "the team's session has ended")
}

/// An event of the wire as the log has it. What is not on the wire (the credential, the command) is
/// nobody's business here.
pub(crate) fn recorded(event: TeamEvent) -> Result<Recorded, serde_json::Error> {
    let command_id = CommandId::new("wire").map_err(serde::de::Error::custom)?;
    Ok(Recorded {
        seq: Seq(event.seq),
        at: Timestamp(event.at),
        version: EVENT_VERSION,
        actor: match event.actor {
            Actor::User => Caller::User,
            Actor::Agent(slot) => Caller::Agent(SlotId(u32::try_from(slot).unwrap_or(u32::MAX))),
            Actor::System => Caller::System,
        },
        credential: None,
        command_id,
        event: serde_json::from_value(event.data)?,
    })
}
