//! Calls a model's service over HTTP and reads its answer as it comes; never runs a tool.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aion_core::budget::{Amount, Usage};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, Url};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, timeout};

use super::guard::Guard;
use super::limits::Gate;
use super::retry::{Patience, hide, no_answer, refusal, retry_after};
use super::wire::{self, Ask, Frame, Frames, Out, Reader, Shape};
use super::{Catalogue, Price, Secret, Service, ServiceConfig};
use crate::provider::{ModelEvent, ModelRequest, Provider, ProviderError, Window};

/// The most bytes of a whole answer.
const ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// The most bytes that are read of a refusal or of a list.
const SHORT_BYTES: usize = 1024 * 1024;

/// The most bytes of an answer that are kept until its first frame is read.
const BEGINNING_BYTES: usize = 64 * 1024;

/// How often a call is made again without something that was refused.
const AMENDED: u32 = 3;

/// The most models that a check names.
const LISTED: usize = 2000;

/// A client as the services are to be called with: it follows no redirect, so that a key goes
/// nowhere but to the service. TLS is what the builder brings.
pub fn calls(builder: reqwest::ClientBuilder) -> reqwest::Result<Client> {
    builder
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(20))
        .user_agent(concat!("aion/", env!("CARGO_PKG_VERSION")))
        .build()
}

/// Why a service cannot be called as it is configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableService {
    /// It has no usual place, and none was named.
    #[error("call {0}: no base URL is set")]
    NoBaseUrl(&'static str),
    /// The place is no http or https URL, or has more in it than a place.
    #[error("call {0}: the base URL has to be http or https, without a login, a query or a #")]
    BadBaseUrl(&'static str),
    /// The key cannot be sent.
    #[error("call {0}: the key holds characters that cannot be sent")]
    BadKey(&'static str),
}

/// A model at a service.
#[derive(Clone)]
pub struct ServiceProvider {
    config: ServiceConfig,
    model: String,
    catalogue: Arc<Catalogue>,
    http: Client,
    base: String,
    headers: HeaderMap,
    gate: Arc<Gate>,
    patience: Patience,
    thinking: Option<u32>,
}

impl fmt::Debug for ServiceProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceProvider")
            .field("service", &self.config.service.name())
            .field("model", &self.model)
            .field("base", &self.base)
            .finish_non_exhaustive()
    }
}

impl ServiceProvider {
    /// A model at a service, called with a client of [`calls`].
    pub fn new(
        config: ServiceConfig,
        model: String,
        catalogue: Arc<Catalogue>,
        http: Client,
    ) -> Result<Self, UnusableService> {
        let name = config.service.name();
        let base = config.base_url.as_deref().or_else(|| wire::home(config.service));
        let base = base.ok_or(UnusableService::NoBaseUrl(name))?.trim_end_matches('/').to_owned();
        let usable = Url::parse(&base).is_ok_and(|url| {
            matches!(url.scheme(), "http" | "https")
                && url.has_host()
                && url.username().is_empty()
                && url.password().is_none()
                && url.query().is_none()
                && url.fragment().is_none()
        });
        if !usable {
            return Err(UnusableService::BadBaseUrl(name));
        }
        let mut headers = HeaderMap::new();
        let key = config.key.as_ref().map(Secret::expose);
        for (header, value, secret) in wire::headers(config.service, key) {
            let mut value =
                HeaderValue::from_str(&value).map_err(|_| UnusableService::BadKey(name))?;
            value.set_sensitive(secret);
            headers.insert(header, value);
        }
        let gate = Gate::of(&base);
        let patience = Patience::default();
        Ok(Self { config, model, catalogue, http, base, headers, gate, patience, thinking: None })
    }

    /// With other waits.
    #[must_use]
    pub fn with_patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    /// With so many tokens for thinking before an answer, where the service lets one choose.
    #[must_use]
    pub fn with_thinking(mut self, tokens: Option<u32>) -> Self {
        self.thinking = tokens;
        self
    }

    /// Proves the key with one cheap call, and names the models that the service has.
    pub async fn check(&self) -> Result<Vec<String>, ProviderError> {
        let (path, list, id) = wire::listing(self.config.service);
        let call = self.http.get(format!("{}{path}", self.base)).headers(self.headers.clone());
        let response = self.send(call).await?;
        let text = timeout(self.patience.quiet, short(response))
            .await
            .map_err(|_| self.unavailable("it began to answer and stopped"))?;
        let body: Value = serde_json::from_str(&text)
            .map_err(|_| ProviderError::Fatal("the list of models is not JSON".into()))?;
        let models = body[list].as_array().into_iter().flatten();
        let ids = models.filter_map(|model| model[id].as_str());
        let ids = ids.map(|id| hide(id.trim_start_matches("models/"), self.key()));
        Ok(ids.take(LISTED).collect())
    }

    /// Calls until there is an answer, or an error that waiting a little does not help.
    async fn open(self, request: ModelRequest) -> Result<Answer, ProviderError> {
        let model = request.model.as_deref().unwrap_or(&self.model);
        let service = wire::speaks(self.config.service, &self.base, model);
        let info = self.catalogue.find(service, model);
        let ask = Ask {
            request: &request,
            model,
            max_tokens: self.most(model, request.max_tokens),
            thinking: self.thinking,
            window: wire::window(service, info.map(|info| info.context_window)),
        };
        let body = reqwest::Body::from(wire::body(service, &ask).to_string());
        let url = format!("{}{}", self.base, wire::path(service, model));
        let price = info.and_then(|info| info.price);
        let call = self
            .http
            .post(&url)
            .headers(self.headers.clone())
            .header("content-type", "application/json")
            .body(body);
        let beta = wire::beta(service, model);
        let mut call = beta.into_iter().fold(call, |call, (name, value)| call.header(name, value));
        let model = model.to_owned();
        // The conversation is in the body: it need not be held twice.
        drop(request);
        let mut attempt = 0;
        let mut amended = 0;
        loop {
            let permit = self.gate.enter(&self.patience).await?;
            let Some(copy) = call.try_clone() else {
                return Err(ProviderError::Fatal("the request cannot be made".into()));
            };
            let error = match self.send(copy).await {
                Ok(response) => {
                    return Ok(self.answer(
                        response,
                        permit,
                        price,
                        wire::reader(service, &model),
                        wire::shape(service),
                    ));
                }
                Err(error) => error,
            };
            drop(permit);
            if let ProviderError::Fatal(refused) = &error
                && amended < AMENDED
                && let Some(other) = amend(&call, service, refused)
            {
                amended += 1;
                call = other;
                continue;
            }
            let Some(wait) = self.patience.wait(attempt, &error) else { return Err(error) };
            attempt += 1;
            sleep(wait).await;
        }
    }

    /// One call, up to the head of its answer.
    async fn send(&self, call: RequestBuilder) -> Result<Response, ProviderError> {
        let sent = timeout(self.patience.quiet, call.send())
            .await
            .map_err(|_| self.unavailable("it does not answer"))?;
        let response = sent.map_err(|error| self.failed(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let wait = retry_after(header("retry-after"), header("retry-after-ms"), SystemTime::now());
        let body = timeout(self.patience.quiet, short(response)).await.unwrap_or_default();
        let error = refusal(status.as_u16(), wait, &body, self.key());
        if matches!(error, ProviderError::RateLimit { .. }) {
            // Everybody who calls there would be refused.
            self.gate.pause(wait.unwrap_or(self.patience.first_wait));
        }
        Err(error)
    }

    fn answer(
        self,
        response: Response,
        permit: OwnedSemaphorePermit,
        price: Option<Price>,
        reader: Box<dyn Reader>,
        shape: Shape,
    ) -> Answer {
        Answer {
            frames: Frames::new(shape),
            beginning: Some(Vec::new()),
            reader,
            guard: Guard::default(),
            out: Out::new(),
            read: 0,
            until: Instant::now() + self.patience.whole,
            done: false,
            response,
            price,
            _permit: permit,
            provider: self,
        }
    }

    /// The most tokens that a model is asked to write.
    fn most(&self, model: &str, wanted: u32) -> u32 {
        self.window(Some(model)).map_or(wanted, |window| window.most(wanted))
    }

    fn key(&self) -> Option<&str> {
        self.config.key.as_ref().map(Secret::expose)
    }

    fn unavailable(&self, what: &str) -> ProviderError {
        let text = format!("{}: {what}", self.config.service.name());
        ProviderError::Unavailable { text, retry_after: None }
    }

    /// A call that the network did not carry.
    fn failed(&self, error: &reqwest::Error) -> ProviderError {
        let what = if error.is_connect() {
            format!("no connection to {}: {}", self.base, cause(error))
        } else if error.is_builder() {
            return ProviderError::Fatal("the request cannot be made".into());
        } else {
            format!("the connection broke: {}", cause(error))
        };
        self.unavailable(&hide(&what, self.key()))
    }
}

impl Provider for ServiceProvider {
    fn stream(
        &self,
        request: ModelRequest,
    ) -> BoxStream<'static, Result<ModelEvent, ProviderError>> {
        let opened = self.clone().open(request);
        stream::once(opened).map_ok(Answer::events).try_flatten().boxed()
    }

    fn window(&self, model: Option<&str>) -> Option<Window> {
        let model = model.unwrap_or(&self.model);
        let info = self.catalogue.find(self.config.service, model);
        let whole = wire::window(self.config.service, info.map(|info| info.context_window));
        let answer = info.map(|info| info.max_output).filter(|most| *most > 0);
        Some(Window { whole, answer: answer.unwrap_or(whole / 4) })
    }

    fn worst_case(&self, request: &ModelRequest) -> Amount {
        let model = request.model.as_deref().unwrap_or(&self.model);
        let info = self.catalogue.find(self.config.service, model);
        let read = request.bytes() as u64 / 2;
        let written = u64::from(self.most(model, request.max_tokens));
        let micro_usd = info.and_then(|info| info.price).map_or(0, |price| {
            let dearest = price.input.max(price.cache_write);
            millionths(&[(read, dearest), (written, price.output)])
        });
        Amount { tokens: read.saturating_add(written), micro_usd }
    }
}

/// The same call without what its refusal names, where there is such a thing.
fn amend(call: &RequestBuilder, service: Service, refused: &str) -> Option<RequestBuilder> {
    let request = call.try_clone()?.build().ok()?;
    let mut body: Value = serde_json::from_slice(request.body()?.as_bytes()?).ok()?;
    wire::amend(service, refused, &mut body).then_some(())?;
    Some(call.try_clone()?.body(body.to_string()))
}

/// What tokens cost, each kind at its price for a million, rounded up.
fn millionths(kinds: &[(u64, u64)]) -> u64 {
    let sum = kinds.iter().fold(0_u128, |sum, (tokens, price)| {
        sum.saturating_add(u128::from(*tokens) * u128::from(*price))
    });
    u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// What a call cost.
fn cost(price: Option<Price>, usage: Usage) -> u64 {
    price.map_or(0, |price| {
        millionths(&[
            (usage.input, price.input),
            (usage.output, price.output),
            (usage.cache_read, price.cache_read),
            (usage.cache_write, price.cache_write),
        ])
    })
}

/// The innermost reason of a failed call; the outer ones name the URL.
fn cause(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

/// The beginning of a short answer.
async fn short(mut response: Response) -> String {
    let mut bytes = Vec::new();
    while let Ok(Some(piece)) = response.chunk().await {
        bytes.extend_from_slice(&piece);
        if bytes.len() > SHORT_BYTES {
            bytes.truncate(SHORT_BYTES);
            break;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An answer that is being read. Dropping it ends the call.
struct Answer {
    provider: ServiceProvider,
    response: Response,
    frames: Frames,
    /// What came before the first frame that was read: it may say why there is none.
    beginning: Option<Vec<u8>>,
    reader: Box<dyn Reader>,
    guard: Guard,
    out: Out,
    read: usize,
    until: Instant,
    price: Option<Price>,
    done: bool,
    _permit: OwnedSemaphorePermit,
}

impl Answer {
    fn events(self) -> BoxStream<'static, Result<ModelEvent, ProviderError>> {
        stream::try_unfold(self, |mut answer| async move {
            Ok(answer.next().await?.map(|event| (event, answer)))
        })
        .boxed()
    }

    async fn next(&mut self) -> Result<Option<ModelEvent>, ProviderError> {
        loop {
            if let Some(event) = self.out.pop_front() {
                let mut event = self.guard.pass(event)?;
                if let ModelEvent::Usage(usage) = &mut event {
                    usage.micro_usd = cost(self.price, *usage);
                }
                self.done |= matches!(event, ModelEvent::Stop(_));
                return Ok(Some(event));
            }
            if self.done {
                return Ok(None);
            }
            self.more().await?;
        }
    }

    /// Reads the next bytes.
    async fn more(&mut self) -> Result<(), ProviderError> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(self.provider.unavailable("its answer took too long and was given up"));
        }
        let quiet = self.provider.patience.quiet.min(left);
        let Ok(piece) = timeout(quiet, self.response.chunk()).await else {
            if quiet == left {
                // The next round says it.
                return Ok(());
            }
            return Err(ProviderError::Broken("the service went silent in its answer".into()));
        };
        let piece = piece.map_err(|error| {
            let what = format!("the connection broke in the answer: {}", cause(&error));
            ProviderError::Broken(hide(&what, self.provider.key()))
        })?;
        let mut frames: Vec<Frame> = Vec::new();
        let ended = piece.is_none();
        if let Some(piece) = piece {
            self.read = self.read.saturating_add(piece.len());
            if self.read > ANSWER_BYTES {
                let what = format!("the answer is over the limit of {ANSWER_BYTES} bytes");
                return Err(ProviderError::Fatal(what));
            }
            if let Some(beginning) = &mut self.beginning {
                let room = BEGINNING_BYTES.saturating_sub(beginning.len());
                beginning.extend_from_slice(&piece[..piece.len().min(room)]);
            }
            self.frames.feed(&piece, &mut frames)?;
        } else {
            self.frames.finish(&mut frames)?;
        }
        for frame in frames {
            if let Err(error) = self.reader.read(frame, &mut self.out) {
                return Err(self.told(self.why_none().unwrap_or(error)));
            }
            self.beginning = None;
            if matches!(self.out.back(), Some(ModelEvent::Stop(_))) {
                return Ok(());
            }
        }
        if ended {
            let ended = self.reader.end(&mut self.out);
            ended.map_err(|error| self.told(self.why_none().unwrap_or(error)))?;
        }
        Ok(())
    }

    /// Why nothing of the answer could be read, as far as it can be told.
    fn why_none(&self) -> Option<ProviderError> {
        no_answer(&String::from_utf8_lossy(self.beginning.as_ref()?))
    }

    /// An error that the service wrote into its answer.
    fn told(&self, error: ProviderError) -> ProviderError {
        let key = self.provider.key();
        match error {
            ProviderError::RateLimit { retry_after } => {
                self.provider.gate.pause(retry_after.unwrap_or(self.provider.patience.first_wait));
                ProviderError::RateLimit { retry_after }
            }
            ProviderError::Unavailable { text, retry_after } => {
                ProviderError::Unavailable { text: hide(&text, key), retry_after }
            }
            ProviderError::Login(text) => ProviderError::Login(hide(&text, key)),
            ProviderError::Broken(text) => ProviderError::Broken(hide(&text, key)),
            ProviderError::TooLong(text) => ProviderError::TooLong(hide(&text, key)),
            ProviderError::Fatal(text) => ProviderError::Fatal(hide(&text, key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_rounded_up_in_integers() {
        let price = Price {
            input: 3_000_000,
            output: 15_000_000,
            cache_read: 300_000,
            cache_write: 3_750_000,
        };
        let usage = Usage { input: 1000, output: 10, cache_read: 1, ..Usage::default() };
        // 3000 + 150 + 0.3
        assert_eq!(cost(Some(price), usage), 3151);
        assert_eq!(cost(None, usage), 0);
        let most = Price { input: u64::MAX, ..price };
        assert_eq!(cost(Some(most), Usage { input: u64::MAX, ..usage }), u64::MAX);
    }
}
