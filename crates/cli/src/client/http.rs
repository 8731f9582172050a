//! Calls of the daemon's REST, typed by `aion-api`; what a call means is the daemon's business.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aion_api::{Exit, HealthResponse, Problem};
use aion_server::AccessToken;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};
use tokio_rustls::rustls::ClientConfig;

use super::place::{DaemonFile, Look, look};
use super::problem::{not_ours, refused, silent, unreadable};
use super::start::{Start, start};
use super::tls;
use super::version::of_our_version;
use crate::exit::Failure;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_mins(1);

/// How long a call that must not be lost is repeated, and how often.
const PATIENCE: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_millis(100);

/// Which daemon is meant.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// The one of a data directory of this machine; it is started where there is none.
    Local {
        /// The data directory.
        dir: PathBuf,
        /// How it is started.
        start: Start,
    },
    /// One that is reached by its address; it is never started.
    Remote {
        /// Its address.
        url: String,
        /// The value of the `Authorization` header.
        bearer: HeaderValue,
        /// An authority to trust beside those of this machine.
        authority: Option<PathBuf>,
    },
}

/// A daemon that can be called. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    tls: Arc<ClientConfig>,
    target: Arc<Target>,
    place: Arc<Mutex<Place>>,
}

/// Where it is at present, and what it wants to see.
#[derive(Clone, Debug)]
struct Place {
    url: String,
    bearer: HeaderValue,
}

impl Client {
    /// A daemon that is there, or is started.
    pub(crate) async fn reach(target: Target) -> Result<Self, Failure> {
        let place = match &target {
            Target::Local { dir, start: how } => {
                let file = match look(dir) {
                    Look::There(file) => of_our_version(dir, file, how).await?,
                    Look::Nobody | Look::Gone(_) => start(dir, how).await?,
                };
                local(dir, &file)?
            }
            Target::Remote { url, bearer, .. } => {
                Place { url: url.clone(), bearer: bearer.clone() }
            }
        };
        Self::at(target, place)
    }

    /// The daemon of a data directory, as it says of itself that it is there.
    pub(crate) fn of(dir: &Path, file: &DaemonFile) -> Result<Self, Failure> {
        let target = Target::Local { dir: dir.to_owned(), start: Start::default() };
        let place = local(dir, file)?;
        Self::at(target, place)
    }

    fn at(target: Target, place: Place) -> Result<Self, Failure> {
        let tls = match &target {
            Target::Local { .. } => tls::none()?,
            Target::Remote { authority, .. } => tls::with_authorities(authority.as_deref())?,
        };
        // A daemon sends nobody elsewhere, and what was said to it is nothing for others.
        let builder = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .timeout(ANSWER)
            .redirect(Policy::none());
        // Without TLS only this machine is called, and never through another one, which would read
        // the token.
        let builder = match place.url.strip_prefix("https://") {
            Some(_) => builder,
            // Nor is a connection kept: a daemon that was started again may have the port of the one
            // that died, and what is written to the old connection is lost.
            None => builder.no_proxy().pool_max_idle_per_host(0),
        };
        let builder = builder.tls_backend_preconfigured((*tls).clone());
        let http = builder.build().map_err(|error| silent(&place.url, &error))?;
        Ok(Self { http, tls, target: Arc::new(target), place: Arc::new(Mutex::new(place)) })
    }

    /// Looks for the daemon anew, and starts it where it is this machine's and died; says whether it
    /// did. One that was stopped is left so.
    pub(crate) async fn again(&self) -> Result<bool, Failure> {
        let Target::Local { dir, start: how } = &*self.target else { return Ok(false) };
        let (file, started) = match look(dir) {
            Look::There(file) => (file, false),
            Look::Gone(_) => (start(dir, how).await?, true),
            Look::Nobody => {
                let message = format!("the daemon of {} was stopped", dir.display());
                return Err(Failure::new(Exit::Unreachable, "daemon.stopped", message)
                    .with_hint("the team is kept: aion run --resume TEAM goes on with it"));
            }
        };
        *self.lock() = local(dir, &file)?;
        Ok(started)
    }

    /// Makes sure that the place that is called is still that of our daemon: the port of one that
    /// died may be another's by now, and a token is nothing for others.
    pub(super) fn still_there(&self) -> Result<(), Failure> {
        let Target::Local { dir, .. } = &*self.target else { return Ok(()) };
        match look(dir) {
            Look::There(file) => {
                *self.lock() = local(dir, &file)?;
                Ok(())
            }
            Look::Gone(_) | Look::Nobody => {
                let message = format!("no daemon serves {} any more", dir.display());
                Err(Failure::new(Exit::Unreachable, "daemon.unreachable", message))
            }
        }
    }

    /// Whether it serves a data directory of this machine, and which.
    pub(crate) fn local_dir(&self) -> Option<&Path> {
        match &*self.target {
            Target::Local { dir, .. } => Some(dir),
            Target::Remote { .. } => None,
        }
    }

    /// Where it is.
    pub(crate) fn url(&self) -> String {
        self.lock().url.clone()
    }

    /// What it wants to see.
    pub(crate) fn bearer(&self) -> HeaderValue {
        self.lock().bearer.clone()
    }

    /// Whom it trusts.
    pub(super) fn tls(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.tls)
    }

    /// How it is.
    pub(crate) async fn health(&self) -> Result<HealthResponse, Failure> {
        self.get("/api/health").await
    }

    /// Reads something.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let response = self.call(self.request(Method::GET, path)).await?;
        read(response).await
    }

    /// Reads something, also from a daemon that dies meanwhile and is started again.
    pub(crate) async fn get_patiently<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<T, Failure> {
        self.patiently(|| self.request(Method::GET, path)).await
    }

    /// Asks for a change that is made once per key, also of a daemon that dies meanwhile and is
    /// started again.
    pub(crate) async fn persist<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        let key = key()?;
        let request = || self.request(Method::POST, path).header("idempotency-key", &key);
        self.patiently(|| request().json(body)).await
    }

    async fn patiently<T: DeserializeOwned>(
        &self,
        request: impl Fn() -> RequestBuilder,
    ) -> Result<T, Failure> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let called = match self.still_there() {
                Ok(()) => self.call(request()).await,
                Err(failure) => Err(failure),
            };
            let failure = match called {
                Ok(response) => return read(response).await,
                Err(failure) => failure,
            };
            if !failure.is_unavailable() || Instant::now() >= deadline {
                return Err(failure);
            }
            sleep(RETRY).await;
            self.again().await?;
        }
    }

    /// Asks for a change that does no harm twice.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        let response = self.call(self.request(Method::POST, path).json(body)).await?;
        read(response).await
    }

    /// Asks for a change that has no further words.
    pub(crate) async fn tell<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let response = self.call(self.request(Method::POST, path)).await?;
        read(response).await
    }

    /// Asks for something that may take so long.
    pub(crate) async fn tell_within<T: DeserializeOwned>(
        &self,
        path: &str,
        limit: Duration,
    ) -> Result<T, Failure> {
        let response = self.call(self.request(Method::POST, path).timeout(limit)).await?;
        read(response).await
    }

    /// Changes something; None where it is gone by that.
    pub(crate) async fn patch<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Option<T>, Failure> {
        let response = self.call(self.request(Method::PATCH, path).json(body)).await?;
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        read(response).await.map(Some)
    }

    /// Puts something in the place of what was there.
    pub(crate) async fn put(&self, path: &str, body: &impl Serialize) -> Result<(), Failure> {
        self.call(self.request(Method::PUT, path).json(body)).await.map(|_| ())
    }

    /// Hands a message of another language over as it is, and answers what comes back, if anything
    /// does. A daemon that ended by itself meanwhile is started again.
    pub(crate) async fn relay(&self, path: &str, body: &str) -> Result<Option<String>, Failure> {
        let request = || {
            self.request(Method::POST, path)
                .header(CONTENT_TYPE, "application/json")
                .header(ACCEPT, "application/json, text/event-stream")
                .body(body.to_owned())
        };
        if let (Err(_), Target::Local { dir, start: how }) = (self.still_there(), &*self.target) {
            let file = start(dir, how).await?;
            *self.lock() = local(dir, &file)?;
        }
        let response = request().send().await;
        let fail = |error: reqwest::Error| silent(&self.url(), &error.without_url());
        let response = response.map_err(fail)?;
        let status = response.status();
        let text = response.text().await.map_err(fail)?;
        if !status.is_success() && !text.contains("\"jsonrpc\"") {
            return Err(match serde_json::from_str::<Problem>(&text) {
                Ok(problem) => refused(&problem),
                Err(_) => not_ours(&self.url(), status.as_u16()),
            });
        }
        Ok(Some(text).filter(|text| !text.trim().is_empty()))
    }

    /// Takes something away.
    pub(crate) async fn delete(&self, path: &str) -> Result<(), Failure> {
        self.call(self.request(Method::DELETE, path)).await.map(|_| ())
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let place = self.lock();
        self.http
            .request(method, format!("{}{path}", place.url))
            .header(AUTHORIZATION, place.bearer.clone())
    }

    async fn call(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let response = request.send().await.map_err(|error| {
            let error = error.without_url();
            silent(&self.url(), &error)
        })?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let body = response.bytes().await.unwrap_or_default();
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => Err(refused(&problem)),
            Err(_) => Err(not_ours(&self.url(), status)),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Place> {
        // Nothing in here can be half-done: a poisoned lock holds valid data.
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read<T: DeserializeOwned>(response: Response) -> Result<T, Failure> {
    response.json().await.map_err(|error| unreadable(&error.without_url()))
}

fn local(dir: &Path, file: &DaemonFile) -> Result<Place, Failure> {
    let token = AccessToken::read(&dir.join("token"))
        .map_err(|error| Failure::new(Exit::Authentication, "daemon.token", error.to_string()))?;
    Ok(Place { url: file.url.clone(), bearer: secret(&token.bearer())? })
}

/// An idempotency key.
fn key() -> Result<String, Failure> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::new(Exit::Failure, "random", format!("draw a random number: {error}"))
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat())
}

/// The value of a header that is never shown.
pub(super) fn secret(text: &str) -> Result<HeaderValue, Failure> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| Failure::usage("the token holds characters that no token has"))?;
    value.set_sensitive(true);
    Ok(value)
}
