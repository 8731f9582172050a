//! Services that are odd or mean harm, byte for byte: what they send costs one answer at most.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aion_agent::models::{
    Catalogue, Patience, Secret, Service, ServiceConfig, ServiceProvider, calls,
};
use aion_agent::provider::{Message, ModelEvent, ModelRequest, Provider, ProviderError};
use aion_core::id::{AgentName, TurnId};
use futures::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const KEY: &str = "sk-canary-7f3a";

/// A service that sends fixed bytes to everybody, and keeps what it was asked.
struct Raw {
    base: String,
    asked: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Raw {
    /// Sends `once`, and then `again` without an end where there is something.
    async fn start(once: Vec<u8>, again: &'static [u8]) -> Self {
        Self::in_turn(vec![once], again).await
    }

    /// The same with one answer after the other, the last of them to all who come after.
    async fn in_turn(answers: Vec<Vec<u8>>, again: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let request = read_request(&mut socket).await;
                let number = {
                    let mut kept = kept.lock().unwrap();
                    kept.push(request);
                    kept.len().min(answers.len())
                };
                // Whoever is called may have gone.
                let mut sent = socket.write_all(&answers[number - 1]).await;
                while sent.is_ok() && !again.is_empty() {
                    sent = socket.write_all(again).await;
                }
            }
        });
        Self { base, asked, task }
    }

    /// A status, headers and a body, ended by the end of the connection.
    async fn answering(status: u16, headers: &str, body: &str) -> Self {
        let answer = format!("HTTP/1.1 {status} Odd\r\n{headers}connection: close\r\n\r\n{body}");
        Self::start(answer.into_bytes(), b"").await
    }

    fn requests(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// Reads one request.
async fn read_request(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = socket.read(&mut buffer).await.unwrap_or(0);
        bytes.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return text;
            }
        }
        if read == 0 {
            return text;
        }
    }
}

fn provider(base: &str, service: Service, patience: Patience) -> ServiceProvider {
    let config =
        ServiceConfig { service, base_url: Some(base.to_owned()), key: Some(Secret::new(KEY)) };
    // The machine's own proxy is not asked.
    aion_testkit::model_server::allow_clients();
    let http = calls(reqwest::Client::builder().no_proxy()).unwrap();
    ServiceProvider::new(config, "stand-in".into(), Arc::new(Catalogue::built_in()), http)
        .unwrap()
        .with_patience(patience)
}

fn once() -> Patience {
    Patience { attempts: 0, ..Patience::default() }
}

fn request() -> ModelRequest {
    let turn = TurnId(1);
    ModelRequest {
        agent: AgentName::parse("bob").unwrap(),
        model: None,
        turn,
        step: 0,
        system: String::new(),
        messages: vec![Message::Given { turn, text: "hello".into() }],
        tools: Vec::new(),
        max_tokens: 100,
    }
}

/// What one call brings.
async fn call(provider: &ServiceProvider) -> Result<Vec<ModelEvent>, ProviderError> {
    let events: Vec<_> = provider.stream(request()).collect().await;
    events.into_iter().collect()
}

async fn answer(service: Service, body: &str) -> Result<Vec<ModelEvent>, ProviderError> {
    let raw = Raw::answering(200, "", body).await;
    call(&provider(&raw.base, service, once())).await
}

#[tokio::test]
async fn a_key_follows_no_redirect() {
    let other = Raw::answering(200, "", "").await;
    for status in [301, 302, 303, 307, 308] {
        let to = format!("location: {}/v1/messages\r\n", other.base);
        let raw = Raw::answering(status, &to, "").await;
        let provider = provider(&raw.base, Service::Anthropic, once());
        let error = call(&provider).await.unwrap_err();
        assert_eq!(error, ProviderError::Fatal(format!("{status}: the service says no more")));
        assert_eq!(raw.requests().len(), 1);
        assert!(raw.requests()[0].contains(KEY));
        assert!(provider.check().await.is_err());
    }
    assert_eq!(other.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn what_is_no_answer_says_what_it_is() {
    let page = "<!doctype html>\n<html><body>Log in to the hotel's network</body></html>";
    let refused = r#"{"error": {"message": "no such model: ä", "type": "invalid_request_error"}}"#;
    let limited = "[{\"error\": {\n \"code\": 429, \"message\": \"slower\", \"details\": \
                   [{\"retryDelay\": \"36.2s\"}]}}]";
    let whole = r#"{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}"#;
    for service in Service::ALL {
        let error = answer(service, page).await.unwrap_err();
        let ProviderError::Fatal(said) = &error else { panic!("{service:?}: {error:?}") };
        assert!(said.contains("look at the base URL"), "{said}");
        if service == Service::Ollama {
            continue;
        }
        let error = answer(service, refused).await.unwrap_err();
        assert_eq!(error, ProviderError::Fatal("no such model: ä".into()), "{service:?}");
        let error = answer(service, limited).await.unwrap_err();
        let retry_after = Some(Duration::from_secs(37));
        assert_eq!(error, ProviderError::RateLimit { retry_after }, "{service:?}");
        let error = answer(service, whole).await.unwrap_err();
        let ProviderError::Fatal(said) = &error else { panic!("{service:?}: {error:?}") };
        assert!(said.contains("piece by piece"), "{said}");
        let error = answer(service, "").await.unwrap_err();
        assert!(matches!(error, ProviderError::Broken(_)), "{service:?}: {error:?}");
    }
}

#[tokio::test]
async fn what_is_refused_by_name_is_left_out_and_the_rest_is_asked_again() {
    let refusal = |words: &str| {
        format!(
            "HTTP/1.1 400 No\r\nconnection: close\r\n\r\n{{\"error\": {{\"message\": \"{words}\"}}}}"
        )
        .into_bytes()
    };
    let whole = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n\
                 data: {\"choices\": [{\"delta\": {}, \"finish_reason\": \"stop\"}]}\n\n\
                 data: [DONE]\n\n";
    let answers = vec![
        refusal("Use 'max_completion_tokens' instead of 'max_tokens'."),
        refusal("stream_options: extra fields not permitted"),
        whole.as_bytes().to_vec(),
    ];
    let raw = Raw::in_turn(answers, b"").await;
    let provider = provider(&raw.base, Service::Compatible, once());
    assert!(call(&provider).await.is_ok());
    let requests = raw.requests();
    assert_eq!(requests.len(), 3);
    assert!(requests[0].contains("stream_options") && requests[0].contains("\"max_tokens\""));
    let last = &requests[2];
    assert!(last.contains("\"max_completion_tokens\"") && !last.contains("stream_options"));
    assert!(last.contains("hello") && last.contains(KEY));
    // One that always finds something else is not asked for ever.
    let raw = Raw::in_turn(vec![refusal("max_tokens or max_completion_tokens?")], b"").await;
    let provider = self::provider(&raw.base, Service::Compatible, once());
    assert!(matches!(call(&provider).await, Err(ProviderError::Fatal(_))));
    assert_eq!(raw.requests().len(), 4);
}

#[tokio::test]
async fn a_refusal_means_the_same_whatever_its_status_is() {
    let refused = async |status: u16, body: &str| {
        let raw = Raw::answering(status, "", body).await;
        call(&provider(&raw.base, Service::Gemini, once())).await.unwrap_err()
    };
    let key = r#"{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT",
        "details": [{"reason": "API_KEY_INVALID"}]}}"#;
    assert_eq!(refused(400, key).await, ProviderError::Login("400: API key not valid.".into()));
    let money = r#"{"type": "error", "error": {"type": "invalid_request_error",
        "message": "Your credit balance is too low to access the API."}}"#;
    assert!(matches!(refused(400, money).await, ProviderError::Login(_)));
    let pause = r#"{"error": {"code": 429, "message": "Quota exceeded", "details": [
        {"@type": "x", "links": []}, {"retryDelay": "37s"}]}}"#;
    let retry_after = Some(Duration::from_secs(37));
    assert_eq!(refused(429, pause).await, ProviderError::RateLimit { retry_after });
    for absurd in ["-3s", "1e99s", "NaNs", "37", "s"] {
        let body = pause.replace("37s", absurd);
        let error = refused(429, &body).await;
        assert!(matches!(error, ProviderError::RateLimit { retry_after: None }), "{error:?}");
    }
    for words in [
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
        "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
        "the request exceeds the available context size. try increasing the context size",
    ] {
        let body = format!("{{\"error\": {{\"message\": \"{words}\"}}}}");
        assert!(matches!(refused(400, &body).await, ProviderError::TooLong(_)), "{words}");
        assert!(matches!(refused(500, &body).await, ProviderError::TooLong(_)), "{words}");
    }
}

#[tokio::test]
async fn no_error_shows_a_key_not_even_its_beginning() {
    // It is where the words are cut.
    let said = format!("{}{KEY}", "x".repeat(295));
    let error = format!("{{\"error\": {{\"message\": \"{said}\", \"code\": 500}}}}");
    let bodies = [
        (200, error.clone()),
        (200, format!("data: {error}\n\n")),
        (200, format!("data: {{\"type\": \"error\", \"error\": {{\"message\": \"{said}\"}}}}\n\n")),
        (500, error.clone()),
        (500, said.clone()),
    ];
    for service in Service::ALL {
        for (status, body) in &bodies {
            let raw = Raw::answering(*status, "", body).await;
            let error = call(&provider(&raw.base, service, once())).await.unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("sk-c"), "{service:?}: {shown}");
        }
        let names =
            format!("{{\"data\": [{{\"id\": \"{KEY}\"}}], \"models\": [{{\"name\": \"{KEY}\"}}]}}");
        let raw = Raw::answering(200, "", &names).await;
        let named = provider(&raw.base, service, once()).check().await.unwrap();
        assert_eq!(named, ["[key]"], "{service:?}");
    }
}

#[tokio::test]
async fn an_answer_without_an_end_is_given_up() {
    static LINE: [u8; 64 * 1024] = [b'x'; 64 * 1024];
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n".to_vec();
    for service in Service::ALL {
        let raw = Raw::start(head.clone(), &LINE).await;
        let error = call(&provider(&raw.base, service, once())).await.unwrap_err();
        let ProviderError::Broken(said) = &error else { panic!("{service:?}: {error:?}") };
        assert!(said.contains("over the limit"), "{said}");
        let raw = Raw::start(head.clone(), b"\n\n: ping\n\n\r\n\r\n").await;
        let patience = Patience { whole: Duration::ZERO, ..once() };
        let error = call(&provider(&raw.base, service, patience)).await.unwrap_err();
        let ProviderError::Unavailable { text, .. } = &error else { panic!("{error:?}") };
        assert!(text.contains("took too long"), "{text}");
    }
    // Headers end, too.
    let raw = Raw::start(b"HTTP/1.1 200 OK\r\n".to_vec(), b"x-more: and more\r\n").await;
    let error = call(&provider(&raw.base, Service::Anthropic, once())).await.unwrap_err();
    assert!(matches!(error, ProviderError::Unavailable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_small_body_that_unpacks_to_a_huge_one_is_given_up() {
    // Sixteen megabytes and more of one line, a hundred times as long as what is sent.
    let packed = packed_line(17 * 1024 * 1024);
    let head = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n";
    let raw = Raw::start([head.as_bytes(), &packed].concat(), b"").await;
    let error = call(&provider(&raw.base, Service::Anthropic, once())).await.unwrap_err();
    let ProviderError::Broken(said) = &error else { panic!("{error:?}") };
    assert!(said.contains("over the limit"), "{said}");
}

/// A line of `x` without an end, packed with gzip: one letter, and 258 more of it for every 13 bits.
fn packed_line(bytes: usize) -> Vec<u8> {
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let letter = [true, false, true, false, true, false, false, false];
    let more =
        [true, true, false, false, false, true, false, true, false, false, false, false, false];
    // The last block, with the codes that everybody knows.
    let mut bits = vec![true, true, false];
    bits.extend(letter);
    for _ in 0..bytes / 258 {
        bits.extend(more);
    }
    bits.extend([false; 7]);
    let byte = |bits: &[bool]| {
        bits.iter().enumerate().fold(0, |byte, (at, bit)| byte | (u8::from(*bit) << at))
    };
    packed.extend(bits.chunks(8).map(byte));
    packed.extend([0; 8]);
    packed
}
