//! What happens in teams, as spans of OpenTelemetry: a message, the turn that it starts, the tools of
//! the turn, the messages that it sends; no text of anybody is in them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aion_core::event::{Event, Recorded};
use aion_core::id::{MessageId, SlotId, TurnId};
use aion_core::message::{Body, Recipient, Sender};
use aion_core::team::Team;
use aion_core::turn::{CallId, TurnOutcome};
use aion_runtime::TeamHandle;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::auth::hex;

/// Spans that may wait for the collector; what comes beyond that is left out.
const WAITING: usize = 8_192;
/// Spans of one request to the collector.
const BATCH: usize = 512;
/// How long a span waits for others.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the collector may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Messages of a team whose place is remembered.
const REMEMBERED: usize = 4_096;

/// Where requests to a collector go. Called with the body of a request of OTLP/HTTP in JSON.
pub trait SpanSink: fmt::Debug + Send + Sync {
    /// Hands a request over. A collector that does not take it is the sink's own affair.
    fn export(&self, request: Vec<u8>) -> BoxFuture<'static, ()>;
}

/// The way of spans to the collector. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Spans {
    out: mpsc::Sender<Value>,
}

impl Spans {
    /// Begins to hand spans over, until `stop` is cancelled and the last ones are gone.
    pub(crate) fn begin(
        sink: Arc<dyn SpanSink>,
        stop: CancellationToken,
    ) -> (Self, tokio::task::JoinHandle<()>) {
        let (out, spans) = mpsc::channel(WAITING);
        (Self { out }, tokio::spawn(hand_over(sink, spans, stop)))
    }

    /// The spans of one team.
    pub(crate) fn of(&self, team: &TeamHandle) -> Tracer {
        Tracer {
            out: self.out.clone(),
            team: team.clone(),
            messages: BTreeMap::new(),
            turns: BTreeMap::new(),
            tools: BTreeMap::new(),
        }
    }
}

async fn hand_over(
    sink: Arc<dyn SpanSink>,
    mut spans: mpsc::Receiver<Value>,
    stop: CancellationToken,
) {
    loop {
        let mut batch = Vec::new();
        tokio::select! {
            first = spans.recv() => match first {
                Some(first) => batch.push(first),
                None => return,
            },
            () = stop.cancelled() => {}
        }
        let until = Instant::now() + PAUSE;
        while batch.len() < BATCH && !stop.is_cancelled() {
            tokio::select! {
                next = spans.recv() => match next {
                    Some(next) => batch.push(next),
                    None => break,
                },
                () = sleep_until(until) => break,
                () = stop.cancelled() => {}
            }
        }
        while batch.len() < BATCH
            && let Ok(next) = spans.try_recv()
        {
            batch.push(next);
        }
        if batch.is_empty() {
            return;
        }
        if timeout(PATIENCE, sink.export(request(&batch))).await.is_err() {
            tracing::warn!("the collector of spans did not answer in time");
        }
    }
}

/// The body of a request.
fn request(spans: &[Value]) -> Vec<u8> {
    let attributes =
        [text("service.name", "aion"), text("service.version", env!("CARGO_PKG_VERSION"))];
    let request = json!({ "resourceSpans": [{
        "resource": { "attributes": attributes },
        "scopeSpans": [{ "scope": { "name": "aion" }, "spans": spans }],
    }] });
    serde_json::to_vec(&request).unwrap_or_default()
}

/// Where a span stands.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    trace: String,
    span: String,
}

struct OpenTurn {
    place: Place,
    parent: Option<String>,
    links: Vec<Value>,
    begun: u64,
    slot: SlotId,
    name: String,
    attributes: Vec<Value>,
}

struct OpenTool {
    begun: u64,
    tool: String,
    granted: Option<u64>,
}

/// Turns the events of one team into spans.
pub(crate) struct Tracer {
    out: mpsc::Sender<Value>,
    team: TeamHandle,
    messages: BTreeMap<MessageId, Place>,
    turns: BTreeMap<TurnId, OpenTurn>,
    tools: BTreeMap<(TurnId, CallId), OpenTool>,
}

impl Tracer {
    /// Takes the next event in, at a time of the wall.
    pub(crate) async fn take(&mut self, recorded: &Recorded, wall_ms: u64) {
        let now = wall_ms.saturating_mul(1_000_000);
        match &recorded.event {
            Event::MessageSent { message, .. } => {
                let to = match message.to {
                    Recipient::Agent(slot) => slot.to_string(),
                    Recipient::Lead => "lead".to_owned(),
                    Recipient::Everyone => "everyone".to_owned(),
                    Recipient::User => "user".to_owned(),
                };
                self.sent(message.id, message.from, &message.body, &to, now);
            }
            Event::TurnStarted { turn, slot, batch, .. } => {
                self.started(*turn, *slot, batch, now).await;
            }
            Event::ToolProposed { turn, call, tool, .. } => {
                let open = OpenTool { begun: now, tool: tool.clone(), granted: None };
                self.tools.insert((*turn, call.clone()), open);
            }
            Event::ToolStarted { turn, call, .. } => {
                if let Some(tool) = self.tools.get_mut(&(*turn, call.clone())) {
                    tool.granted = Some(now);
                }
            }
            Event::ToolRefused { turn, call, .. } => {
                self.tool_ended(*turn, call, Some("refused"), now);
            }
            Event::ToolFinished { turn, call, ok, .. } => {
                self.tool_ended(*turn, call, (!ok).then_some("failed"), now);
            }
            Event::TurnEnded { turn, outcome, usage, .. } => {
                let used = usage.map(|usage| (usage.input, usage.output));
                self.ended(*turn, outcome, used, now);
            }
            _ => {}
        }
    }

    /// A message is a span of its own, in the trace of the turn that sent it.
    fn sent(&mut self, id: MessageId, from: Sender, body: &Body, to: &str, now: u64) {
        let (sender, turn) = match from {
            Sender::User => ("user".to_owned(), None),
            Sender::System => ("system".to_owned(), None),
            Sender::Agent(slot) => {
                let turn = self.turns.values().find(|turn| turn.slot == slot);
                (slot.to_string(), turn.map(|turn| turn.place.clone()))
            }
        };
        let message = id.to_string();
        let trace =
            turn.as_ref().map_or_else(|| self.id("trace", &message, 16), |t| t.trace.clone());
        let place = Place { trace, span: self.id("message", &message, 8) };
        let kind = match body {
            Body::Text(_) => "text",
            Body::Protocol(protocol) => protocol.kind(),
        };
        let attributes = vec![
            text("messaging.system", "aion"),
            text("messaging.operation.name", "send"),
            text("messaging.operation.type", "send"),
            text("messaging.message.id", &message),
            text("messaging.destination.name", to),
            text("aion.message.from", &sender),
            text("aion.message.kind", kind),
            text("aion.team.id", self.team.team().as_str()),
        ];
        let parent = turn.map(|turn| turn.span);
        self.out(
            &place,
            parent.as_deref(),
            &format!("send {to}"),
            4,
            (now, now),
            attributes,
            &[],
            None,
        );
        self.messages.insert(id, place);
        while self.messages.len() > REMEMBERED {
            self.messages.pop_first();
        }
    }

    /// A turn goes on in the trace of the first message that it reads, and is linked to the others.
    async fn started(&mut self, turn: TurnId, slot: SlotId, batch: &[MessageId], now: u64) {
        let mut read = batch.iter().filter_map(|id| self.messages.get(id).cloned());
        let first = read.next();
        let links = read.map(|p| json!({ "traceId": p.trace, "spanId": p.span })).collect();
        let number = turn.to_string();
        let trace = match &first {
            Some(first) => first.trace.clone(),
            None => self.id("trace", &number, 16),
        };
        let place = Place { trace, span: self.id("turn", &number, 8) };
        let asked = self.team.query(move |team| describe(team, slot)).await;
        // Without a word of the team the span says less.
        let (name, mut attributes) = asked.ok().flatten().unwrap_or_default();
        attributes.push(text("gen_ai.operation.name", "invoke_agent"));
        attributes.push(text("aion.team.id", self.team.team().as_str()));
        attributes.push(text("aion.turn.id", &number));
        let parent = first.map(|first| first.span);
        let open = OpenTurn { place, parent, links, begun: now, slot, name, attributes };
        self.turns.insert(turn, open);
    }

    fn tool_ended(&mut self, turn: TurnId, call: &CallId, error: Option<&str>, now: u64) {
        let Some(tool) = self.tools.remove(&(turn, call.clone())) else { return };
        let Some(of) = self.turns.get(&turn) else { return };
        let span = self.id("tool", &format!("{turn}/{call}"), 8);
        let place = Place { trace: of.place.trace.clone(), span };
        let mut attributes = vec![
            text("gen_ai.operation.name", "execute_tool"),
            text("gen_ai.tool.name", &tool.tool),
            text("gen_ai.tool.call.id", call.as_str()),
            text("aion.team.id", self.team.team().as_str()),
        ];
        if let Some(granted) = tool.granted {
            let waited = granted.saturating_sub(tool.begun) / 1_000_000;
            attributes.push(number("aion.tool.waited_ms", waited));
        }
        let parent = of.place.span.clone();
        let name = format!("execute_tool {}", tool.tool);
        self.out(&place, Some(&parent), &name, 1, (tool.begun, now), attributes, &[], error);
    }

    fn ended(&mut self, turn: TurnId, outcome: &TurnOutcome, used: Option<(u64, u64)>, now: u64) {
        // A tool that did not come back ends with its turn.
        let left: Vec<CallId> =
            self.tools.keys().filter(|(of, _)| *of == turn).map(|(_, call)| call.clone()).collect();
        for call in left {
            self.tool_ended(turn, &call, Some("lost"), now);
        }
        let Some(open) = self.turns.remove(&turn) else { return };
        let (word, error) = match outcome {
            TurnOutcome::Done { .. } => ("done", None),
            TurnOutcome::Interrupted => ("interrupted", None),
            TurnOutcome::Unavailable { .. } => ("unavailable", Some("unavailable")),
            TurnOutcome::Lost => ("lost", Some("lost")),
            TurnOutcome::AgentFault { .. } => ("agent_fault", Some("agent_fault")),
        };
        let mut attributes = open.attributes;
        attributes.push(text("aion.turn.outcome", word));
        if let Some((input, output)) = used {
            attributes.push(number("gen_ai.usage.input_tokens", input));
            attributes.push(number("gen_ai.usage.output_tokens", output));
        }
        let name = format!("invoke_agent {}", open.name);
        let parent = open.parent.as_deref();
        let times = (open.begun, now);
        self.out(&open.place, parent, &name, 1, times, attributes, &open.links, error);
    }

    #[expect(clippy::too_many_arguments, reason = "they are the fields of a span")]
    fn out(
        &self,
        place: &Place,
        parent: Option<&str>,
        name: &str,
        kind: u8,
        (begun, ended): (u64, u64),
        mut attributes: Vec<Value>,
        links: &[Value],
        error: Option<&str>,
    ) {
        if let Some(error) = error {
            attributes.push(text("error.type", error));
        }
        let mut span = json!({
            "traceId": place.trace,
            "spanId": place.span,
            "name": name,
            "kind": kind,
            "startTimeUnixNano": begun.to_string(),
            "endTimeUnixNano": ended.to_string(),
            "attributes": attributes,
            "links": links,
            "status": { "code": if error.is_some() { 2 } else { 0 } },
        });
        if let Some(parent) = parent {
            span["parentSpanId"] = json!(parent);
        }
        // A collector that is too slow misses some; no team waits for it.
        if self.out.try_send(span).is_err() {
            tracing::debug!("a span was left out: the collector is too slow");
        }
    }

    /// The same thing has the same id whoever tells of it.
    fn id(&self, what: &str, which: &str, bytes: usize) -> String {
        let digest = Sha256::new()
            .chain_update(what)
            .chain_update([0])
            .chain_update(self.team.team().as_str())
            .chain_update([0])
            .chain_update(which)
            .finalize();
        hex(&digest[..bytes])
    }
}

/// What the conventions for generative models say of an agent.
fn describe(team: &Team, slot: SlotId) -> Option<(String, Vec<Value>)> {
    let agent = team.agent(slot)?;
    let id = team.id().map_or_else(String::new, ToString::to_string);
    let mut attributes = vec![
        text("gen_ai.agent.name", agent.name().as_str()),
        text("gen_ai.agent.id", &format!("{}@{id}", agent.name())),
        text("gen_ai.conversation.id", agent.conversation().as_str()),
        text("gen_ai.provider.name", agent.agent_type()),
    ];
    attributes.extend(agent.model().map(|model| text("gen_ai.request.model", model)));
    Some((agent.name().to_string(), attributes))
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn number(key: &str, value: u64) -> Value {
    // Integers of 64 bits are strings in the JSON of protocol buffers.
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}
