//! A service that answers at once, at a pace, or when enough are there; it runs in a process of its
//! own, and speaks Anthropic's Messages.

use std::convert::Infallible;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::sync::watch;

/// Tokens of an answer that comes at a pace.
pub(super) const TOKENS: usize = 200;
/// The pace.
const PACE: Duration = Duration::from_millis(5);
/// Tokens of one of many answers at once, and their pace.
const MANY_TOKENS: usize = 60;
const MANY_PACE: Duration = Duration::from_millis(50);
/// How many have to be there before one of many answers begins.
pub(super) const MANY: usize = 200;

struct Shared {
    last: Mutex<Bytes>,
    waiting: watch::Sender<usize>,
}

/// Serves on a free port until the process is killed, and says where.
pub(crate) async fn serve() -> Result<()> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    let shared = Arc::new(Shared { last: Mutex::default(), waiting: watch::Sender::new(0) });
    let router = Router::new()
        .route("/v1/messages", post(answer))
        .route("/last", get(last))
        .layer(DefaultBodyLimit::disable())
        .with_state(shared);
    let mut out = std::io::stdout();
    writeln!(out, "http://{}", listener.local_addr()?)?;
    out.flush()?;
    // A token goes out by itself.
    let listener = listener.tap_io(|connection| {
        let _ = connection.set_nodelay(true);
    });
    axum::serve(listener, router).await.context("serve")
}

/// The body of the last request.
async fn last(State(shared): State<Arc<Shared>>) -> Bytes {
    shared.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

async fn answer(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    *shared.last.lock().unwrap_or_else(PoisonError::into_inner) = body.clone();
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (tokens, pace) = match asked["model"].as_str().and_then(|model| model.split('-').next()) {
        Some("paced") => (TOKENS, PACE),
        Some("many") => {
            let mut waiting = shared.waiting.subscribe();
            shared.waiting.send_modify(|waiting| *waiting += 1);
            // It ends with the process at the latest.
            let _ = waiting.wait_for(|waiting| *waiting >= MANY).await;
            (MANY_TOKENS, MANY_PACE)
        }
        _ => (20, Duration::ZERO),
    };
    let start = json!({"type": "message_start", "message": {"usage": {"input_tokens": 1}}});
    let block = json!({"type": "content_block_start", "index": 0,
        "content_block": {"type": "text", "text": ""}});
    let end = [
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": tokens}}),
        json!({"type": "message_stop"}),
    ];
    let head = Bytes::from([event(&start), event(&block)].concat());
    let tail = Bytes::from(end.map(|data| event(&data)).concat());
    let answer = if pace.is_zero() {
        let all: Vec<u8> = (0..tokens).flat_map(|_| token().to_vec()).collect();
        Body::from([head.as_ref(), &all, tail.as_ref()].concat())
    } else {
        let tokens = stream::unfold(0, move |sent| async move {
            if sent == tokens {
                return None;
            }
            tokio::time::sleep(pace).await;
            Some((token(), sent + 1))
        });
        let whole = stream::iter([head]).chain(tokens).chain(stream::iter([tail]));
        Body::from_stream(whole.map(Ok::<_, Infallible>))
    };
    ([(header::CONTENT_TYPE, "text/event-stream")], answer).into_response()
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default())
}

/// A token that says when it was sent.
fn token() -> Bytes {
    let text = format!("{} ", now());
    Bytes::from(event(&json!({"type": "content_block_delta", "index": 0,
        "delta": {"type": "text_delta", "text": text}})))
}

/// Nanoseconds by the clock that all processes of the machine share.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
